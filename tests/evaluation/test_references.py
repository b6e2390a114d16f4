"""The second reference in an evaluation: Shapley values where a metric asks for them, limits, random sets."""

import math
from html import unescape
from itertools import permutations

import numpy as np
import pytest

import looprop
from looprop.errors import DataError, InputError, UnknownNameError
from looprop.evaluation import Evaluation, known_shapley
from looprop.evaluation.setup import make_setup
from looprop.methods.shapley import Shapley
from looprop.metrics import matters, pearson
from looprop.workbench import Workbench

TEXTS = ["the film is good", "a bad movie"]


def value_of(bench: Workbench, text: str, kept: set[int], count: int) -> float:
    keep = np.array([[i in kept for i in range(count)]])
    return float(bench.set_function(text)(keep)[0])


def test_shapley_values_are_a_literal_mean_over_orders(tiny: Workbench) -> None:
    found = looprop.evaluate(tiny, TEXTS, ["cp-lrp", "shapley"], references=["shapley"])
    assert found.metrics == ("shapley-r-no-special", "shapley-r", "morf", "lerf", "delta")
    for text, row in zip(TEXTS, found.rows[::2], strict=True):
        count = len(row["scores"])
        words = range(1, count - 1)  # [CLS] and [SEP] always stay
        shares, orders = np.zeros(count), list(permutations(words))
        for order in orders:
            kept, before = {0, count - 1}, value_of(tiny, text, {0, count - 1}, count)
            for word in order:
                kept.add(word)
                after = value_of(tiny, text, kept, count)
                shares[word] += (after - before) / len(orders)
                before = after
        np.testing.assert_allclose(row["shapley"], shares, atol=1e-4)
        assert row["shapley-r-no-special"] == pytest.approx(pearson(row["scores"][1:-1], shares[1:-1]), abs=1e-3)
        assert row["shapley_error"] == 0
        nothing = value_of(tiny, text, {0, count - 1}, count)
        special = [True, *[False] * len(words), True]
        for reference in ("loo", "shapley"):
            expected = matters(row[reference], whole=row["output"], nothing=nothing, special=special)
            assert row[f"{reference}_matters"] == expected
    assert all(row["shapley-r"] == pytest.approx(1) for row in found.rows[1::2])


def test_shapley_is_never_computed_unless_asked_for(tiny: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object) -> None:
        raise AssertionError("nobody asked for Shapley values")

    monkeypatch.setattr(Shapley, "attribute", forbidden)
    found = looprop.evaluate(tiny, TEXTS, ["cp-lrp"])
    assert not found.failed
    assert "shapley" not in found.rows[0]


def test_normalised_aopc_is_the_place_among_all_orders(tiny: Workbench) -> None:
    found = looprop.evaluate(tiny, TEXTS[:1], ["cp-lrp", "random"], ["naopc"])
    count = len(found.rows[0]["scores"])
    words = range(1, count - 1)

    def area(order: tuple[int, ...]) -> float:
        kept, drops = set(range(count)), []
        for word in order:
            kept -= {word}
            drops.append(found.rows[0]["output"] - value_of(tiny, TEXTS[0], kept, count))
        return sum(drops) / len(drops)

    areas = {order: area(order) for order in permutations(words)}
    low, high = min(areas.values()), max(areas.values())
    for row in found.rows:
        order = tuple(sorted(words, key=lambda i, scores=row["scores"]: -scores[i]))
        assert row["naopc"] == pytest.approx((areas[order] - low) / (high - low), abs=1e-3)
        assert (row["aopc_worst"], row["aopc_best"]) == pytest.approx((low, high), abs=1e-5)
        assert row["limits_exact"]


def test_known_shapley_values_are_taken_over_and_checked(tiny: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = ["shapley-r"]
    before = looprop.evaluate(tiny, TEXTS, ["cp-lrp"], metrics)
    known = known_shapley(before.rows)
    monkeypatch.setattr(Shapley, "attribute", lambda *_: pytest.fail("they are known"))
    again = looprop.evaluate(tiny, TEXTS, ["cp-lrp"], metrics, shapley=known)
    assert [row["shapley-r"] for row in again.rows] == [row["shapley-r"] for row in before.rows]
    with pytest.raises(InputError, match="known Shapley values"):
        looprop.evaluate(tiny, TEXTS[::-1], ["cp-lrp"], metrics, shapley=known)
    known["0"].scores[2] += 1
    with pytest.raises(InputError, match="the known Shapley values are not of this model"):
        looprop.evaluate(tiny, TEXTS, ["cp-lrp"], metrics, shapley=known)


def test_how_shapley_values_are_computed_is_part_of_the_setup() -> None:
    setup = make_setup(["cp-lrp"], references=["loo", "shapley[samples=8]"])
    assert setup.shapley_reference.samples == 8
    assert setup.to_dict()["shapley"] == "shapley[samples=8]"
    assert "up to 8 forward passes a feature" in setup.dear[0]
    assert "shapley" not in make_setup(["cp-lrp"]).to_dict()
    assert make_setup(["cp-lrp"], ["naopc", "infidelity"]).dear[0].startswith("limits of AOPC")
    assert make_setup(["cp-lrp"], ["shapley-r"], removal="delete").shapley_reference.removal == "delete"


@pytest.mark.parametrize(
    ("references", "error", "said"),
    [
        (["shap"], UnknownNameError, "did you mean 'shapley'"),
        (["loo[removal=delete]"], InputError, "takes its removal from removal="),
        ("shapley", InputError, "a list of names"),
    ],
)
def test_a_reference_that_does_not_exist_is_named(references: list[str], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        make_setup(["cp-lrp"], references=references)


def rows(matters: list[bool | None]) -> list[dict[str, object]]:
    own = {"method": "cp-lrp", "error": "", "note": "", "flipped": None, "cost": 3.0, "seconds": 0.1, "loo-r": 0.5}
    return [{**own, "example": str(i), "loo_matters": found} for i, found in enumerate(matters)]


def test_texts_on_which_nothing_matters_are_counted_and_can_be_left_out() -> None:
    found = Evaluation(rows([True, False, None, True]), ("loo-r",), "four texts")
    assert found.to_dict()["no_feature_matters"] == {"loo": {"examples": 1, "of": 3}}
    assert found.notes[0].startswith("On 1 of 3 examples no feature matters by itself to leave-one-out")
    assert found.notes[0] in unescape(found._repr_html_())
    assert found.summary[0].metrics["loo-r"].count == 4, "no text is left out of a mean silently"
    left = found.mattering("loo")
    assert [row["example"] for row in left.rows] == ["0", "3"]
    assert left.title.startswith("four texts: 2 of 4 examples")
    with pytest.raises(DataError, match="no example"):
        Evaluation(rows([None, False]), ("loo-r",)).mattering()


def test_where_everything_matters_there_is_nothing_to_say() -> None:
    assert Evaluation(rows([True, True]), ("loo-r",)).notes == []


def test_what_the_references_cost_is_said(tiny: Workbench) -> None:
    found = looprop.evaluate(tiny, TEXTS[:1], ["random"], ["shapley-r"])
    spent = found.rows[0]["reference_cost"]
    assert spent >= 2 ** (len(found.rows[0]["scores"]) - 2), "every set of words"
    assert f"cost {spent:.0f} forward passes an example" in found.notes[-1]


def test_one_word_has_no_order(tiny: Workbench) -> None:
    found = looprop.evaluate(tiny, ["film"], ["random"], ["naopc", "sensitivity", "infidelity", "shapley-r"])
    assert not found.failed
    assert all(math.isnan(found.rows[0][name]) for name in ("naopc", "sensitivity", "infidelity"))
