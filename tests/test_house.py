"""The house stays as docs/design.md draws it: who reads the ledger, what frozen objects do, how long a way is."""

import ast
from collections.abc import Iterator
from pathlib import Path

from benchmarks.walks import Walk, command_line

import looprop
from test_layers_of_imports import FILES, PACKAGE

TEXT = "This is not a bad film at all."
READERS = ("models/", "removal/trust.py")


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def reads_of_the_ledger(tree: ast.AST) -> Iterator[int]:
    """Lines that read an adapter's `.facts`, or an attribute of something called ledger."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            of = node.value
            named = of.attr if isinstance(of, ast.Attribute) else of.id if isinstance(of, ast.Name) else ""
            if (node.attr, named) == ("facts", "adapter") or named == "ledger":
                yield node.lineno


def test_what_was_found_out_of_a_model_is_read_in_one_place() -> None:
    readers = [path for path in FILES if not place(path).startswith(READERS)]
    assert len(readers) > 200
    found = [f"{place(p)}:{line}" for p in readers for line in reads_of_the_ledger(ast.parse(p.read_text("utf-8")))]
    assert not found, "ask removal/trust.py instead"
    trust = PACKAGE / "removal" / "trust.py"
    assert list(reads_of_the_ledger(ast.parse(trust.read_text("utf-8")))), "else this test sees nothing"


def writing_properties(tree: ast.AST) -> Iterator[str]:
    """Properties of frozen dataclasses that assign to an attribute or an item of anything."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef) or not any("frozen=True" in ast.unparse(d) for d in node.decorator_list):
            continue
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
        for method in methods:
            if "property" not in {ast.unparse(decorator) for decorator in method.decorator_list}:
                continue
            for inner in ast.walk(method):
                targets = inner.targets if isinstance(inner, ast.Assign) else []
                targets += [inner.target] if isinstance(inner, ast.AugAssign | ast.AnnAssign) else []
                if any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
                    yield f"{node.name}.{method.name}"


def test_no_property_of_a_frozen_object_writes() -> None:
    found = [f"{place(p)}: {name}" for p in FILES for name in writing_properties(ast.parse(p.read_text("utf-8")))]
    assert not found
    bad = "@dataclass(frozen=True)\nclass A:\n    @property\n    def b(self):\n        self.known.c = 1\n"
    assert list(writing_properties(ast.parse(bad))) == ["A.b"]


def test_the_way_of_one_explanation_stays_short() -> None:
    """Changes of file from call to call, as `python -m benchmarks.walks` counts them; 124 and 172 before the house was
    rebuilt.
    """
    bench = looprop.load()
    for method, most in (("cp-lrp", 60), (None, 90)):
        for _ in range(2):
            bench.explain(TEXT, method)  # what is found out or imported once is no part of it
        walk = Walk(lambda method=method: bench.explain(TEXT, method))  # type: ignore[misc]
        assert sum(walk.by_file.values()) <= most, method


def test_the_way_of_one_evaluation_stays_short() -> None:
    """`looprop evaluate` of one text, the model loaded anew; 1,318 changes of file before the house was
    rebuilt. The goal was 450: 230 of these are the proofs on a model that was never met.
    """
    run = command_line()
    run()
    assert sum(Walk(run).by_file.values()) <= 654


def test_the_page_of_checks_stays_short() -> None:
    page = (PACKAGE.parents[1] / "docs" / "what-is-checked.md").read_text("utf-8")
    assert len(page.split()) <= 900
    assert page.count("\n| --- |") == 1


def test_no_class_name_stands_twice() -> None:
    """But for `looprop.captum`, whose classes are called as captum calls its own."""
    found: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and place(path) != "captum.py":
                found.setdefault(node.name, []).append(place(path))
    assert len(found) > 200
    assert not {name: places for name, places in found.items() if len(places) > 1}


def test_no_file_is_longer_than_350_lines() -> None:
    assert not [place(path) for path in FILES if path.read_text("utf-8").count("\n") > 350]
