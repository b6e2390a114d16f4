"""Data flow one way: no folder imports one above it, not even inside a function."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "looprop"
# From the bottom up. A folder may import itself and everything before it.
ORDER = [
    "lazily",
    "errors",
    "limits",
    "naming",
    "files",
    "games",
    "metrics",
    "display",
    "progress",
    "inputs",
    "result",
    "intercept",
    "propagation",
    "models",
    "removal",
    "methods",
    "tensors",
    "measure",
    "checking",
    "explained",
    "interacting",
    "coarse_to_fine",
    "workbench",
    "running",
    "evaluation",
    "auditing",
    "study",
    "captum",
    "serving",
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


def parts_of(path: Path) -> tuple[str, ...]:
    """Folders and name of a file of the package."""
    return path.relative_to(PACKAGE).with_suffix("").parts


def test_every_room_has_a_place_in_the_order() -> None:
    assert {parts_of(path)[0] for path in FILES} <= set(ORDER), f"give new rooms a place in {Path(__file__).name}"


def test_no_upward_import() -> None:
    found = [
        f"{'/'.join(parts_of(path))}, {wrong}"
        for path in FILES
        for wrong in upward(
            path.read_text(encoding="utf-8"), where=parts_of(path)[0], package=["looprop", *parts_of(path)[:-1]]
        )
    ]
    assert not found, "imports from a layer above"


# Who may derive from torch's own mode: the base of all others, and the mode that propagates relevance.
MODES = {"intercept", "propagation"}


def adapters() -> set[str]:
    """The names of all adapters for kinds of models."""
    from looprop.models import loading
    from looprop.models.adapter import Adapter

    def below(kind: type) -> set[type]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    assert loading  # which imports all of them
    return {kind.__name__ for kind in below(Adapter) - {Adapter} if kind.__module__.startswith("looprop.")}


def names_in(source: str) -> set[str]:
    """Every name that a file uses, imports or asks for by attribute."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name.rpartition(".")[2])
    return found


def own_modes(source: str) -> list[str]:
    """The classes of a file that derive from torch's modes themselves."""
    classes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef))
    modes = {"TorchFunctionMode", "TorchDispatchMode"}
    return [of.name for of in classes if any(names_in(ast.unparse(base)) & modes for base in of.bases)]


def test_the_adapter_owns_its_model() -> None:
    kinds, outside = adapters(), [path for path in FILES if parts_of(path)[0] != "models"]
    found = {"/".join(parts_of(path)): names_in(path.read_text(encoding="utf-8")) & kinds for path in outside}
    assert not {name: named for name, named in found.items() if named}, "outside models/ nobody asks for the kind"


def test_modes_have_one_base() -> None:
    outside = [path for path in FILES if parts_of(path)[0] not in MODES]
    found = {"/".join(parts_of(path)): own_modes(path.read_text(encoding="utf-8")) for path in outside}
    assert not {name: own for name, own in found.items() if own}, "derive from looprop.intercept.mode.InterceptMode"


def test_the_check_sees_adapters_and_modes() -> None:
    assert adapters() >= {"CausalLanguageModel", "TensorModule", "TextAdapter"}
    assert names_in("from looprop.models.text import TextAdapter as T") & adapters()
    assert names_in("isinstance(a, models.text.TextAdapter)") & adapters()
    assert own_modes("class Own(torch.overrides.TorchFunctionMode): pass") == ["Own"]
    assert not own_modes("class Own(InterceptMode): pass")


def test_no_room_is_named_like_a_public_function() -> None:
    rooms = {parts_of(path)[0] for path in FILES}
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
