"""The public line: what may be relied on is named in the `__all__` of looprop or of one of its rooms, and the pages use
nothing else. Everything that is not named there may move.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from website.public import public_modules

import looprop

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "looprop"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SCRIPTS = sorted((ROOT / "examples").rglob("*.py"))


PUBLIC = public_modules()


def private_uses(code: str) -> Iterator[str]:
    """What a piece of code takes from looprop that is not public."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "looprop":
            known = PUBLIC.get(node.module, set())
            yield from (f"from {node.module} import {a.name}" for a in node.names if a.name not in known)
        elif isinstance(node, ast.Import):
            yield from (
                f"import {a.name}" for a in node.names if a.name.startswith("looprop.") and a.name not in PUBLIC
            )
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "looprop"
            and node.attr not in PUBLIC["looprop"] | {"__version__"}
        ):
            yield f"looprop.{node.attr}"


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_there(module: str) -> None:
    found = import_module(module)
    names = sorted(PUBLIC[module])
    assert all(getattr(found, name) is not None for name in names)
    assert set(names) <= set(dir(found))
    if module != "looprop.errors":
        assert len(found.__all__) == len(names), "a name stands twice in __all__"
    with pytest.raises(AttributeError):
        found.no_such_name  # noqa: B018


@pytest.mark.parametrize("module", [name for name in PUBLIC if name != "looprop"])
def test_a_public_name_is_no_file_of_its_room(module: str) -> None:
    """A file of that name would take the name's place as soon as it is imported."""
    room = PACKAGE.joinpath(*module.split(".")[1:])
    files = {path.stem for path in room.iterdir()} if room.is_dir() else set()
    assert not files & PUBLIC[module]


def test_the_rooms_that_pages_speak_of_have_a_public_line() -> None:
    assert PUBLIC.keys() >= {
        f"looprop.{room}" for room in ("errors", "methods", "metrics", "models", "propagation", "removal")
    }
    assert "looprop.intercept" not in PUBLIC


def test_pages_and_examples_use_public_names_only() -> None:
    found = []
    for page in [*PAGES, *SCRIPTS]:
        text = page.read_text(encoding="utf-8")
        pieces = [text] if page.suffix == ".py" else BLOCK.findall(text)
        found += [f"{page.relative_to(ROOT)}: {use}" for piece in pieces for use in private_uses(piece)]
    assert not found


def test_the_check_sees_what_is_private() -> None:
    code = """
import looprop, looprop.methods, looprop.methods.base
from looprop.methods import Method, CATALOGUE
from looprop.methods.base import Method
from looprop import Plan, workbench
def late():
    from looprop.cli.main import app
    return looprop.load, looprop.workbench
"""
    assert sorted(private_uses(code)) == sorted(
        [
            "import looprop.methods.base",
            "from looprop.methods import CATALOGUE",
            "from looprop.methods.base import Method",
            "from looprop import workbench",
            "from looprop.cli.main import app",
            "looprop.workbench",
        ]
    )


def test_public_rooms_are_imported_without_torch() -> None:
    """Except for those whose numbers need numpy, they wait until a name is asked for."""
    script = f"import sys, {', '.join(sorted(PUBLIC.keys() - {'looprop.captum'}))}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_top_has_what_most_need() -> None:
    assert set(looprop.__all__) >= {"Explanation", "Plan", "attribute", "audit", "evaluate", "load", "relevance"}
