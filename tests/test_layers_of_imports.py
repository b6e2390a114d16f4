"""Data flow one way: no folder imports one above it, not even inside a function."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "looprop"
# From the bottom up. A folder may import itself and everything before it.
ORDER = [
    "errors",
    "naming",
    "files",
    "display",
    "explanation",
    "inputs",
    "intercept",
    "propagation",
    "models",
    "removal",
    "methods",
    "tensors",
    "workbench",
    "metrics",
    "running",
    "evaluation",
    "auditing",
    "study",
    "captum",
    "cli",
    "__main__",
    "__init__",
]
PUBLIC_FUNCTIONS = {"load", "attribute", "evaluate", "audit", "relevance", "explain"}
FILES = sorted(PACKAGE.rglob("*.py"))


def imported(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything imported anywhere in the tree; `package` resolves relative imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)


def layer(dotted: str) -> str | None:
    """The layer that a dotted name belongs to; None outside the package."""
    parts = dotted.split(".")
    if parts[0] != "looprop":
        return None
    # `import looprop` and `from looprop import load` need the finished package: that is the top.
    return parts[1] if len(parts) > 1 and parts[1] in ORDER else "__init__"


def upward(source: str, *, where: str, package: list[str]) -> list[str]:
    """What the source of one file in layer `where` imports from above it."""
    found = ((line, name, layer(name)) for line, name in imported(ast.parse(source), package))
    return [
        f"line {line}: {name}" for line, name, of in found if of is not None and ORDER.index(of) > ORDER.index(where)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_upward_import(path: Path) -> None:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    assert parts[0] in ORDER, f"{parts[0]} is new: give it a place in ORDER of {Path(__file__).name}"
    found = upward(path.read_text(encoding="utf-8"), where=parts[0], package=["looprop", *parts[:-1]])
    assert not found, f"{'/'.join(parts)} imports from a layer above it: {'; '.join(found)}"


def test_no_room_is_named_like_a_public_function() -> None:
    rooms = {path.relative_to(PACKAGE).with_suffix("").parts[0] for path in FILES}
    assert not rooms & PUBLIC_FUNCTIONS, "a room of that name would hide the function of looprop once it is imported"


@pytest.mark.parametrize(
    "source",
    [
        "from looprop.methods import registry",
        "import looprop.cli.main",
        "from looprop import load",
        "from looprop import evaluation",
        "import looprop",
        "def late():\n    from looprop.running.store import Store",
        "from ..methods import registry",
        "from .. import study",
    ],
)
def test_the_check_sees_upward_imports(source: str) -> None:
    assert upward(source, where="propagation", package=["looprop", "propagation"])


@pytest.mark.parametrize(
    "source",
    ["from looprop.errors import InputError", "from .plan import Plan", "import torch", "from ..inputs import text"],
)
def test_the_check_lets_downward_imports_pass(source: str) -> None:
    assert not upward(source, where="propagation", package=["looprop", "propagation"])
