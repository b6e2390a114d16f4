"""Methods by name: the classes, what they say of themselves, and their options."""

import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from looprop.errors import InputError, UnknownNameError
from looprop.methods.base import Method
from looprop.methods.names import REGISTERED, SCORE_KINDS, method_names
from looprop.naming import one_of, split_name

MethodClass = TypeVar("MethodClass", bound=type[Method])


@dataclass(frozen=True)
class Option:
    """An option as one writes it in brackets: its default, None for nothing, and its choices if they are a list.

    >>> str(Option("baseline", "zero", ("zero", "pad"))), str(Option("cp", None))
    ('baseline=zero (or pad)', 'cp (unset)')
    """

    name: str
    default: str | None
    choices: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.default is None:
            return f"{self.name} ({'; '.join(('unset', *filter(None, [', '.join(self.choices)])))})"
        others = [choice for choice in self.choices if choice != self.default]
        return f"{self.name}={self.default}" + (f" (or {', '.join(others)})" if others else "")


def options_of(method: type[Method]) -> tuple[Option, ...]:
    """The options of a method, as its constructor has them."""
    hints, given = get_type_hints(method.__init__), inspect.signature(method).parameters.values()
    return tuple(
        Option(p.name, None if p.default is None else as_written(p.default), _choices(hints.get(p.name)))
        for p in given
        if p.name not in method.fixed and p.default is not p.empty
    )


def _choices(hint: Any) -> tuple[str, ...]:
    """What a type allows that is a Literal, or several types of which one is."""
    if get_origin(hint) is Literal:
        return tuple(map(str, get_args(hint)))
    return tuple(choice for part in get_args(hint) for choice in _choices(part)) if get_origin(hint) else ()


def as_written(value: object) -> str:
    """A value as it stands in brackets.

    >>> as_written(True), as_written(0.25), as_written("zero")
    ('true', '0.25', 'zero')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def register(method: MethodClass) -> MethodClass:
    """Makes a class of one's own known by its name, wherever methods are named; also as a decorator.

    It is known to this process only: workers on other machines must be given the method itself.
    """
    check_described(method)
    if method.name in method_names():
        other = method_class(method.name)
        raise InputError(f"a method named {method.name!r} exists already: {other.__module__}:{other.__qualname__}")
    REGISTERED[method.name] = method
    return method


def check_described(method: type[Method]) -> None:
    """Raise for a class that does not say what it is. What it inherits does not count."""
    home, said = f"{method.__module__}:{method.__qualname__}", vars(method)
    if missing := [field for field in ("name", "title", "summary", "cost", "kind") if not said.get(field)]:
        raise InputError(f"method {home} does not say its {', '.join(missing)}")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", method.name):
        raise InputError(f"a method is named in small letters, digits and hyphens, got {method.name!r}")
    one_of(f"kind of score of method {method.name}", method.kind, SCORE_KINDS)
    for form in (said.get("example"), said.get("coarse"), said.get("demo")):
        if form and split_name(form)[0] != method.name:
            raise InputError(f"{form!r} is no form of method {method.name}")


def method_class(name: str) -> type[Method]:
    """The class of a method: its file is named after it, and imported when it is asked for."""
    return REGISTERED[name] if name in REGISTERED else _class_in_file(name)


@cache
def _class_in_file(name: str) -> type[Method]:
    module = import_module(f"looprop.methods.{one_of('method', name, method_names()).replace('-', '_')}")
    found = [one for one in vars(module).values() if isinstance(one, type) and vars(one).get("name") == name]
    if len(found) != 1:
        raise InputError(f"{module.__name__} must hold one class with name = {name!r}, got {len(found)}")
    return found[0]


class Catalogue(Mapping[str, type[Method]]):
    """All methods by name, in the order in which they are shown: files of this folder, and those registered."""

    def __getitem__(self, name: str) -> type[Method]:
        try:
            return method_class(name)
        except UnknownNameError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(method_names())

    def __len__(self) -> int:
        return len(method_names())


CATALOGUE = Catalogue()


def make_method(method: str | Method, **options: Any) -> Method:
    """A method from its name and options; options may stand in brackets after the name: `lrp[cp=4-6]`, `ig[steps=20]`.

    >>> make_method("lrp[cp=2,5]").cp
    '2,5'
    """
    if isinstance(method, Method):
        if options:
            raise InputError(f"options {sorted(options)} cannot be given to a method that is made already")
        return method
    name, bracket = split_name(method)
    chosen = method_class(name)
    options = {**_parse_options(name, bracket, chosen.text_options), **options}
    known = [p for p in inspect.signature(chosen).parameters if p not in chosen.fixed]
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of {name}", option, known)
    return chosen(**options)


def _parse_options(name: str, bracket: str, texts: frozenset[str]) -> dict[str, Any]:
    """`cp=2,5;epsilon=0.1` -> {"cp": "2,5", "epsilon": 0.1}; parted by semicolons, or by commas before a key."""
    options: dict[str, Any] = {}
    for part in re.split(r";|,(?=\s*\w+\s*=)", bracket) if bracket else ():
        key, sign, value = part.partition("=")
        if not sign:
            raise InputError(f"options of {name} look like {name}[key=value], got {part!r}")
        options[key.strip()] = value.strip() if key.strip() in texts else _value(value.strip())
    return options


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text
