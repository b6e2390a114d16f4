"""The options of a method with their defaults and choices, read from its constructor without running its file."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True)
class Option:
    """An option as one writes it in brackets: what it is if nothing is said, None for nothing, and what it may be where
    that is a list.

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


def as_written(value: object) -> str:
    """A value as it stands in brackets.

    >>> as_written(True), as_written(0.25), as_written("zero")
    ('true', '0.25', 'zero')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)


def options_of(written: ast.ClassDef, file: Path) -> tuple[Option, ...]:
    """The keyword options of the constructor that a class of a file has."""
    found: list[Option] = []
    for node in written.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            given = [*zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
            plain = [argument for argument in node.args.args if argument.arg != "self"]
            given += [*zip(plain, node.args.defaults, strict=False)] if len(plain) == len(node.args.defaults) else []
            for argument, default in given:
                if default is not None:
                    found.append(Option(argument.arg, _shown(default, file), _choices(argument.annotation, file)))
    return tuple(found)


def _shown(default: ast.expr, file: Path) -> str | None:
    """A default as it is written in brackets: `true`, `zero`; a name stands for what it is set to."""
    if isinstance(default, ast.Name) and (value := _assigned(file).get(default.id)) is not None:
        return _shown(value, file)
    if isinstance(default, ast.Constant):
        return None if default.value is None else as_written(default.value)
    return ast.unparse(default)


def _choices(annotation: ast.expr | None, file: Path) -> tuple[str, ...]:
    """What a type written as Literal[...] allows, also where it is one of several, or named here or in the package."""
    if isinstance(annotation, ast.BinOp):
        return (*_choices(annotation.left, file), *_choices(annotation.right, file))
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal":
        inside = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        return tuple(str(part.value) for part in inside if isinstance(part, ast.Constant))
    if isinstance(annotation, ast.Name):
        if (value := _assigned(file).get(annotation.id)) is not None:
            return _choices(value, file)
        if (home := _imported(file).get(annotation.id)) is not None:
            return _choices(annotation, home)
    return ()


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


@cache
def _assigned(file: Path) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in _tree(file).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


@cache
def _imported(file: Path) -> dict[str, Path]:
    """Where in the package names come from that a file imports."""
    found: dict[str, Path] = {}
    for node in _tree(file).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("looprop."):
            home = PACKAGE.joinpath(*(node.module or "").split(".")[1:]).with_suffix(".py")
            found |= {alias.name: home for alias in node.names if home.is_file()}
    return found
