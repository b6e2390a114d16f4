"""Methods by name."""

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from looprop.errors import InputError, UnknownNameError
from looprop.methods.base import Method
from looprop.methods.names import CATALOGUE, describe, enter
from looprop.methods.options import Option, as_written
from looprop.naming import split_name

MethodClass = TypeVar("MethodClass", bound=type[Method])

_REGISTERED: dict[str, type[Method]] = {}


def register(method: MethodClass) -> MethodClass:
    """Makes a class of one's own known by its name, wherever methods are named; also as a decorator.

    It is known to this process only: workers on other machines must be given the method itself.
    """
    given = inspect.signature(method).parameters.values()
    known = {p.name: p.default for p in given if p.default is not p.empty}
    options = tuple(Option(name, None if value is None else as_written(value)) for name, value in known.items())
    enter(describe(vars(method), f"{method.__module__}:{method.__qualname__}", options))
    _REGISTERED[method.name] = method
    return method


def method_class(name: str) -> type[Method]:
    """The class of a method, imported when it is asked for."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name not in CATALOGUE:
        raise UnknownNameError("method", name, CATALOGUE)
    module, _, attribute = CATALOGUE[name].home.partition(":")
    found: type[Method] = getattr(import_module(module), attribute)
    return found


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
    return _build(name, chosen, {**_parse_options(name, bracket, chosen.text_options), **options})


def _parse_options(name: str, bracket: str, texts: frozenset[str]) -> dict[str, Any]:
    """`cp=2,5;epsilon=0.1` -> {"cp": "2,5", "epsilon": 0.1}. Options are parted by semicolons, or by commas before a
    key.
    """
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
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _build(name: str, build: Callable[..., Method], options: dict[str, Any]) -> Method:
    known = [p for p in inspect.signature(build).parameters if p != "self"]
    for option in options:
        if option not in known:
            raise UnknownNameError(f"option of {name}", option, known)
    return build(**options)
