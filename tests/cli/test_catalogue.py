"""The table of methods that can be read without torch agrees with the methods themselves."""

import subprocess
import sys
from dataclasses import fields

import pytest

from looprop.errors import UnknownNameError
from looprop.methods.base import Method
from looprop.methods.names import CATALOGUE, Entry, check_name
from looprop.methods.registry import make_method, method_class
from looprop.models.loading import adapt
from looprop.workbench import Workbench
from tiny import tiny_classifier

TEXT = "the film is not very good and this movie was a very bad movie"


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return Workbench(adapt(*tiny_classifier()))


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))
def test_an_entry_says_what_its_class_says(entry: Entry) -> None:
    found = method_class(entry.name)
    assert issubclass(found, Method)
    assert (found.name, found.summary, found.__name__) == (entry.name, entry.summary, entry.attribute)
    assert found.__module__ == f"looprop.methods.{entry.module}"


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))
def test_the_cost_is_what_the_method_reports(entry: Entry, bench: Workbench) -> None:
    method = make_method(entry.example or entry.name)
    explanation = bench.explain(TEXT, method)
    count = len(explanation)  # every token is a feature, and there are more of them than rows
    names = {"F": count, "T": count, **method.options}
    assert explanation.cost == pytest.approx(eval(entry.cost, {"__builtins__": {}}, names))


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=list(CATALOGUE))
def test_the_example_is_of_the_method(entry: Entry) -> None:
    assert check_name(entry.example or entry.name) == entry.name
    assert all(getattr(entry, field.name) for field in fields(entry) if field.name != "example")


@pytest.mark.parametrize("name", ["atnlrp", "", "lrp[cp=4", "lrp]", "loo loo"])
def test_unknown_names_raise(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown method"):
        check_name(name)


def test_no_torch_is_needed() -> None:
    script = (
        "import sys, looprop.cli.main, looprop.methods.names; print({'torch', 'transformers', 'numpy'} & "
        "set(sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
        == "set()"
    )
