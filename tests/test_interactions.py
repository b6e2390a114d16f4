"""Interactions of pairs: four literal evaluations each, chosen candidates, files, pages and the command."""

import json
import math
from dataclasses import fields
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import looprop
from evaluation.tiny import TEXTS, tiny_model, tiny_tokenizer
from looprop import Interactions
from looprop.cli.main import app
from looprop.errors import DataError, InputError
from looprop.interacting import planned
from looprop.workbench import Workbench

PUBLISHED = json.loads((Path(__file__).parents[1] / "docs" / "schema" / "interactions.schema.json").read_text())


@pytest.fixture(scope="module")
def bench() -> Workbench:
    return looprop.load((tiny_model(), tiny_tokenizer()))


def made(joint: float, effects: tuple[float, float]) -> Interactions:
    """Two features of which both together do `joint`."""
    value = sum(effects) - joint
    return Interactions(["a", "b"], [(0, 1)], np.array([value]), np.array(effects), 1.0, 1, "positive")


@pytest.mark.parametrize("features", ["token", [[0], [1, 2], [3], [4, 5, 6], [7]]])
def test_equals_four_literal_evaluations(bench: Workbench, features: Any) -> None:
    text = TEXTS[0]
    value = bench.set_function(text, features=features)
    found = bench.interactions(text, features=features)
    count = len(found.features)

    def f(*gone: int) -> float:
        return float(value(np.array([[i not in gone for i in range(count)]]))[0])

    players = range(1, count - 1)  # [CLS] and [SEP] always stay
    assert found.pairs == list(combinations(players, 2))
    for (i, j), joint in zip(found.pairs, found.values, strict=True):
        assert joint == pytest.approx(f() - f(i) - f(j) + f(i, j), abs=2e-6)
        assert found.together(i, j) == pytest.approx(f() - f(i, j), abs=2e-6)
    assert found.possible == len(found)
    assert found.cost == len(players) + len(found), "the pairs, each feature, and nothing twice"
    assert found.stays == ["[CLS]", "[SEP]"]


def test_a_long_text_asks_for_the_strongest_and_says_so(bench: Workbench) -> None:
    found = bench.interactions(TEXTS[4], most=6)
    value = bench.set_function(TEXTS[4])
    count = len(found.features)
    players = list(range(1, count - 1))
    lost, alone = {}, {}
    for i in players:
        keep = np.array([[k != i for k in range(count)], [True] * count])
        lost[i] = abs(float(np.diff(value(keep))[0]))
        keep = np.array([[k in (0, count - 1) for k in range(count)], [k in (0, i, count - 1) for k in range(count)]])
        alone[i] = abs(float(np.diff(value(keep))[0]))
    strongest = sorted(sorted(players, key=lambda i: -max(lost[i], alone[i]))[:4])
    assert found.pairs == list(combinations(strongest, 2))
    assert found.possible == math.comb(len(players), 2)
    assert found.asked == f"6 of {found.possible} pairs"
    assert "among the 4 features with the largest effects" in found.note
    everything = bench.interactions(TEXTS[4], most=1000)
    for pair in found.pairs:
        assert found[pair] == pytest.approx(everything[pair], abs=2e-6)
    with pytest.raises(InputError, match="was not asked for"):
        found[next(pair for pair in everything.pairs if pair not in found.pairs)]


def test_the_cost_is_said_before(bench: Workbench) -> None:
    subject = bench.subject(TEXTS[0])
    spent = bench.interactions(TEXTS[0]).cost
    assert planned(subject) == f"15 of 15 pairs: about {spent:g} forward passes"
    assert planned(subject, most=3).startswith("3 of 15 pairs")
    assert planned(subject, most=3).endswith("each feature alone")


@pytest.mark.parametrize(
    ("joint", "effects", "said"),
    [
        (1.0, (1.0, 1.0), "need each other"),  # AND: without either all is lost
        (1.0, (0.0, 0.0), "replace each other"),  # OR: lost only without both
        (-1.0, (-1.0, -1.0), "need each other"),  # the same against the target
        (-1.0, (0.0, 0.0), "replace each other"),
    ],
)
def test_what_a_pair_says(joint: float, effects: tuple[float, float], said: str) -> None:
    assert made(joint, effects).says(0, 1) == said


def test_weak_pairs_are_not_shown() -> None:
    found = Interactions(["a", "b", "c"], [(0, 1), (0, 2), (1, 2)], [0.01, -2.0, 1.0], [0.0] * 3, 1.0, 1, "x")
    assert found.strongest() == [(0, 2), (1, 2)]
    assert Interactions(["a", "b"], [(0, 1)], [0.0], [0.0, 0.0], 1.0, 1, "x").strongest() == []


def test_not_with_bad_on_the_embedded_model() -> None:
    """The sentence that everybody tries: the two words decide together."""
    found = looprop.load().interactions("The film is not bad.")
    i, j = found.strongest(1)[0]
    assert (found.features[i], found.features[j]) == ("not", "bad")
    assert found.says(i, j) == "need each other"


def test_files_and_pages(bench: Workbench, tmp_path: Path) -> None:
    found = bench.interactions(TEXTS[0])
    again = Interactions.load(found.save(tmp_path / "pairs.json"))
    for f in fields(Interactions):
        np.testing.assert_array_equal(getattr(again, f.name), getattr(found, f.name))
    shown = found.save(tmp_path / "pairs.html").read_text()
    i, j = found.strongest(1)[0]
    assert f"{found.features[i]} … {found.features[j]}" in shown
    assert "15 of 15 pairs were asked for: 21 forward passes" in shown
    assert "15 of 15 pairs" in found._repr_html_()


def test_the_schema_is_that_of_the_data(bench: Workbench) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)
    data = bench.interactions(TEXTS[0]).to_dict()
    assert set(data) == set(PUBLISHED["properties"])
    jsonschema.Draft202012Validator(PUBLISHED).validate(json.loads(json.dumps(data)))


@pytest.mark.parametrize("change", [{"pairs": [[0, 9]]}, {"values": []}, {"more": 1}, {"pairs": 3}, {"version": 2}])
def test_a_file_that_does_not_fit_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(DataError):
        Interactions.from_dict({**made(1.0, (1.0, 1.0)).to_dict(), **change})


def test_the_command_says_its_cost_and_shows_pairs(tmp_path: Path) -> None:
    page = tmp_path / "pairs.html"
    asked = ["explain", "The film is not bad.", "--interactions"]
    done = CliRunner().invoke(app, [*asked, "--html", str(page), "--no-color"])
    assert done.exit_code == 0
    assert "interactions of 15 of 15 pairs: about 21 forward passes" in done.stderr
    assert "not … bad" in done.stdout
    assert "not … bad" in page.read_text()
    data = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert Interactions.from_dict(data["details"]["interactions"]).asked == "15 of 15 pairs"


def test_one_word_has_no_partner(bench: Workbench) -> None:
    with pytest.raises(InputError, match="at least 2 features"):
        bench.interactions("film")
    with pytest.raises(InputError, match="most must be"):
        bench.interactions(TEXTS[0], most=0)
