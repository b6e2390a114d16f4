"""The public line: which names may be relied on, where each is defined, and what it says of itself."""

import ast
import inspect
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1] / "src" / "looprop"


def names_of(module: str) -> set[str]:
    """What a module makes public."""
    found = import_module(module)
    if module == "looprop.errors":  # all that it defines, as drawn at its head
        return {name for name, value in vars(found).items() if getattr(value, "__module__", "") == module}
    return set(getattr(found, "__all__", ()))


@cache
def public_modules() -> dict[str, set[str]]:
    """looprop, its rooms and its single files that have a public line; nothing deeper has one."""
    found = {"looprop": names_of("looprop")}
    for path in sorted(PACKAGE.iterdir()):
        is_room = (path / "__init__.py").is_file()
        if (is_room or path.suffix == ".py") and not path.name.startswith("_"):
            module = f"looprop.{path.stem}"
            if module != "looprop.__main__" and (names := names_of(module)):
                found[module] = names
    return found


def source_of(module: str) -> Path:
    """The file of one of our modules."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def home_of(module: str, name: str) -> str:
    """The module that defines a name which another one passes on."""
    for node in ast.walk(ast.parse(source_of(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("looprop"):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return home_of(node.module, alias.name)
    return module


def constant_docstring(module: str, name: str) -> str:
    """The string below the assignment of a constant or an alias, as Sphinx reads it; empty where there is none."""
    body = ast.parse(source_of(home_of(module, name)).read_text(encoding="utf-8")).body
    for statement, below in pairwise(body):
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        assigned = any(isinstance(target, ast.Name) and target.id == name for target in targets)
        if assigned and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            return inspect.cleandoc(str(below.value.value))
    return ""


def is_described(value: Any) -> bool:
    """Classes and functions have docstrings of their own; of constants and aliases, `__doc__` is that of their type."""
    return inspect.isclass(value) or inspect.isroutine(value)


def docstring_of(module: str, name: str) -> str:
    """What a public name says of itself."""
    value = getattr(import_module(module), name)
    return (inspect.getdoc(value) or "") if is_described(value) else constant_docstring(module, name)


def first_sentence(text: str) -> str:
    """The first sentence of a docstring.

    >>> first_sentence("Load a model: a hub id, e.g. one, or a folder. Weights come later.")
    'Load a model: a hub id, e.g. one, or a folder.'
    """
    paragraph = " ".join(text.split("\n\n")[0].split())
    for place, sign in enumerate(paragraph):
        if sign == "." and paragraph[place + 1 : place + 3].strip()[:1].isupper() and paragraph[place + 1] == " ":
            return paragraph[: place + 1]
    return paragraph
