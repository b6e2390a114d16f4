"""What can be read of the methods without torch, and how a class comes to be known by its name."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

import looprop
import tiny
from looprop.errors import InputError, UnknownNameError
from looprop.methods import registry
from looprop.methods.base import Attribution, Method
from looprop.methods.names import CATALOGUE, About, _written, check_name, method_names
from looprop.methods.registry import make_method, method_class, register
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
def own_catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(registry, "_REGISTERED", {})
    before = dict(CATALOGUE)
    yield
    CATALOGUE.clear()
    CATALOGUE.update(before)


def written(folder: Path, source: str) -> list[About]:
    (folder / "method.py").write_text(source, encoding="utf-8")
    return list(_written(folder, "own"))


def source_of(said: dict[str, object], *, bases: str = "Method") -> str:
    return f"class Ones({bases}):\n" + "".join(f"    {key} = {value!r}\n" for key, value in said.items())


def test_the_order_is_the_one_of_the_readers() -> None:
    kept = "loo looprop cp-lrp attnlrp lrp grad-x-input ig rollout random".split()
    assert [name for name in method_names() if name in kept] == kept


@pytest.mark.parametrize("name", ["atnlrp", "", "lrp[cp=4", "lrp]", "loo loo"])
def test_unknown_names_raise(name: str) -> None:
    with pytest.raises(UnknownNameError, match="unknown method"):
        check_name(name)


def test_a_file_is_read_and_not_run(tmp_path: Path) -> None:
    (about,) = written(tmp_path, "raise SystemExit\n" + source_of({"name": "ones", **SAID}))
    assert about == About(name="ones", **SAID, home="own.method:Ones")  # type: ignore[arg-type]
    assert about.label == "Ones"


def test_what_a_class_inherits_it_does_not_say(tmp_path: Path) -> None:
    both = source_of({"name": "ones", **SAID, "example": "ones[size=2]"}) + "class Twos(Ones):\n    name = 'twos'\n"
    with pytest.raises(InputError, match=r"own.method:Twos does not say its title, summary, cost, kind, limits"):
        written(tmp_path, both)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"title": ""}, "own.method:Ones does not say its title"),
        ({"kind": "effects"}, "unknown kind of score of method ones 'effects'; did you mean 'effect'"),
        ({"name": "Ones!"}, "small letters, digits and hyphens, got 'Ones!'"),
        ({"example": "twos[size=2]"}, r"'twos\[size=2\]' is no form of method ones"),
    ],
)
def test_a_class_that_says_too_little_or_nonsense(tmp_path: Path, change: dict[str, object], message: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=message):
        written(tmp_path, source_of({"name": "ones", **SAID, **change}))


def test_what_must_be_computed_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cost of method own.method:Ones is read without running .* literal"):
        written(tmp_path, source_of({"name": "ones", **SAID}) + "    cost = str(1)\n")


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
