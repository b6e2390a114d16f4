"""What can be read of the methods without torch, and how a class comes to be known by its name."""

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

import looprop
import tiny
from looprop.errors import InputError, UnknownNameError
from looprop.methods import names, registry
from looprop.methods.base import Attribution, Method
from looprop.methods.names import FIRST, check_name, method_names
from looprop.methods.registry import check_described, make_method, method_class, register
from looprop.models.subject import Subject

SAID = {
    "title": "Ones",
    "summary": "the same for all",
    "cost": "0",
    "kind": "none",
    "limits": "Nothing is claimed.",
}


class Ones(Method):
    """A method that a user wrote."""

    name = "ones"
    title = "Ones"
    summary = "the same for all"
    cost = "0"
    kind = "none"
    limits = "Nothing is claimed."

    def __init__(self, *, size: float = 1.0) -> None:
        self.size = size

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        return [Attribution(np.full(len(s.features), self.size), cost=0.0) for s in subjects]


@pytest.fixture
def own_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "REGISTERED", {})
    monkeypatch.setattr(registry, "REGISTERED", names.REGISTERED)


def own(said: dict[str, object], base: type[Method] = Method) -> type[Method]:
    return type("Ones", (base,), {"__module__": "own", **said})


def test_the_order_is_the_one_of_the_readers() -> None:
    kept = "loo looprop cp-lrp attnlrp lrp grad-x-input ig rollout random".split()
    assert [name for name in method_names() if name in kept] == kept


@pytest.mark.parametrize("name", ["atnlrp", "", "lrp[cp=4", "lrp]", "loo loo"])
def test_unknown_names_raise(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown method"):
        check_name(name)


def test_what_a_class_inherits_it_does_not_say() -> None:
    one = own({"name": "ones", **SAID, "example": "ones[size=2]"})
    with pytest.raises(InputError, match=r"own:Ones does not say its title, summary, cost, kind"):
        check_described(own({"name": "twos"}, one))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": ""}, "own:Ones does not say its title"),
        ({"kind": "effects"}, "unknown kind of score of method ones 'effects'; did you mean 'effect'"),
        ({"name": "Ones!"}, "small letters, digits and hyphens, got 'Ones!'"),
        ({"example": "twos[size=2]"}, r"'twos\[size=2\]' is no form of method ones"),
    ],
)
def test_a_class_that_says_too_little_or_nonsense(change: dict[str, object], message: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=message):
        check_described(own({"name": "ones", **SAID, **change}))


def test_every_file_holds_the_method_that_it_is_called_after() -> None:
    for name in method_names():
        check_described(method_class(name))
        assert method_class(name).name == name
    assert [name for name in FIRST if name not in method_names()] == []


@pytest.mark.usefixtures("own_catalogue")
def test_a_class_of_ones_own_is_known_by_its_name_once_registered() -> None:
    bench = looprop.load(tiny.tiny_classifier())
    with pytest.raises(UnknownNameError, match="unknown method 'ones'"):
        bench.explain("good", "ones")
    assert register(Ones) is Ones
    assert bench.explain("good", "ones[size=2]").scores.tolist() == [2.0, 2.0, 2.0]
    assert looprop.evaluate(bench, ["the film is good"], methods=["loo", "ones"])["ones"].cost == 0.0
    assert check_name("ones[size=2]") == "ones"
    assert method_class("ones") is Ones
    assert method_names().index("rollout") < method_names().index("ones") < method_names().index("random")
    with pytest.raises(InputError, match=r"a method named 'ones' exists already: .*:Ones"):
        register(Ones)


@pytest.mark.usefixtures("own_catalogue")
def test_registering_asks_for_what_a_method_says_about_itself() -> None:
    class Silent(Ones):
        name = "silent"

    with pytest.raises(InputError, match=r"Silent does not say its title"):
        register(Silent)
    assert "silent" not in method_names()


def test_options_that_stay_text() -> None:
    assert make_method("lrp[cp=2]").options["cp"] == "2"
    assert make_method("ig[steps=2]").options["steps"] == 2


def test_no_torch_is_needed() -> None:
    script = (
        "import sys, looprop.cli.main, looprop.methods.names; print({'torch', 'transformers', 'numpy'} & "
        "set(sys.modules))"
    )
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
        == "set()"
    )
