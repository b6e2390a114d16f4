"""What there is to choose from, without importing torch.

A method is a class in a file of this folder that says what it is in plain class attributes (`base.py` explains them).
They are read here without running the file, so that `looprop methods` and `--help` do not wait for torch. What a class
says is its own: nothing is inherited, so that a variant cannot pass for the method that it derives from.
"""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from looprop.errors import InputError, UnknownNameError
from looprop.methods.options import Option, options_of
from looprop.naming import split_name

DEFAULT = "looprop"
"""What explains where no method is named."""
COMPARED = ("loo", "looprop", "attnlrp", "cp-lrp", "random")
"""What an evaluation measures where no methods are named."""

SCORE_KINDS = {
    "effect": "what happens to the target when the feature goes",
    "share": "the feature's part of the output",
    "weight": "how much the feature matters, not which way; never negative",
    "none": "nothing about the model",
}
"""What a score says. Effects and shares have a sign and the unit of the target."""


@dataclass(frozen=True)
class About:
    """What a method says about itself; the fields are those of `Method`. home: where its class is, `module:Class`;
    options: those of its constructor.
    """

    name: str
    title: str
    summary: str
    cost: str
    kind: str
    limits: str
    short: str = ""
    example: str = ""
    coarse: str = ""
    demo: str = ""
    order: int = 50
    home: str = ""
    options: tuple[Option, ...] = ()

    @property
    def label(self) -> str:
        """What tables and figures call it."""
        return self.short or self.title

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.name):
            raise InputError(f"a method is named in small letters, digits and hyphens, got {self.name!r}")
        if self.kind not in SCORE_KINDS:
            raise UnknownNameError(f"kind of score of method {self.name}", self.kind, SCORE_KINDS)
        for form in (self.example, self.coarse, self.demo):
            if form and split_name(form)[0] != self.name:
                raise InputError(f"{form!r} is no form of method {self.name}")


CATALOGUE: dict[str, About] = {}
"""All methods by name, in the order in which they are shown: those of this folder, and those that were registered."""

OWN = tuple(field.name for field in fields(About) if field.name not in ("home", "options"))


def check_name(method: str) -> str:
    """The name of a method without its options, `ig[steps=20]` -> `ig`; an unknown one raises.

    >>> check_name("lrp[cp=4-6]")
    'lrp'
    """
    name, _ = split_name(method)
    if name not in CATALOGUE:
        raise UnknownNameError("method", method, CATALOGUE)
    return name


def method_names() -> list[str]:
    """The names of all methods."""
    return list(CATALOGUE)


def describe(said: Mapping[str, Any], home: str, options: tuple[Option, ...] = ()) -> About:
    """What a class says about itself, from its own attributes; what it fails to say raises."""
    missing = [field for field in ("name", "title", "summary", "cost", "kind", "limits") if not said.get(field)]
    if missing:
        raise InputError(f"method {home} does not say its {', '.join(missing)}")
    own = {field: said[field] for field in OWN if field in said}
    return About(**{**own, "limits": inspect.cleandoc(own["limits"])}, home=home, options=options)


def enter(about: About) -> None:
    """Puts a method into the catalogue, at its place; a name can be taken only once."""
    if about.name in CATALOGUE:
        raise InputError(f"a method named {about.name!r} exists already: {CATALOGUE[about.name].home}")
    everything = sorted([*CATALOGUE.values(), about], key=lambda a: (a.order, a.name))
    CATALOGUE.clear()
    CATALOGUE.update({a.name: a for a in everything})


def _written(folder: Path, package: str) -> Iterator[About]:
    """The methods whose classes are written in the files of a folder and those below it."""
    for path in sorted(folder.rglob("*.py")):
        module = ".".join((package, *path.relative_to(folder).with_suffix("").parts))
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                home, written = f"{module}:{node.name}", dict(_assigned(node))
                if "name" in written:
                    said = {key: _literal(written[key], key, home) for key in OWN if key in written}
                    yield describe(said, home, options_of(node, path))


def _assigned(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for line in node.body:
        if isinstance(line, ast.Assign):
            yield from ((target.id, line.value) for target in line.targets if isinstance(target, ast.Name))
        elif isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.value is not None:
            yield line.target.id, line.value


def _literal(value: ast.expr, key: str, home: str) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError:
        raise InputError(f"{key} of method {home} is read without running its file: write it as a literal") from None


for _about in _written(Path(__file__).parent, "looprop.methods"):
    enter(_about)
