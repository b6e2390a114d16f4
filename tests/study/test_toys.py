"""The cases of section 3.2 against answers worked out by hand."""

import math
from pathlib import Path

import numpy as np
import pytest

from looprop.errors import DataError
from looprop.evaluation.example import Task
from looprop.study import load_spec, parse_spec, reproduce
from looprop.study.kinds.toys import Toy, measure_toy


def by_hand(toy: Toy) -> dict[str, np.ndarray]:
    """Every method's scores from its definition, in numpy."""
    x, w, n = np.array(toy.inputs), np.array(toy.value), len(toy.inputs)

    def f(x: np.ndarray, kept: list[int]) -> float:
        weights = np.exp(toy.key * x[kept] - max(toy.key * x[kept]))
        return float(weights / weights.sum() @ (w[kept] * x[kept] + toy.bias))

    every = list(range(n))
    whole = f(x, every)
    weights = np.exp(toy.key * x - max(toy.key * x))
    A, v = weights / weights.sum(), w * x + toy.bias
    by_mask = np.array([whole - f(x, [j for j in every if j != i]) for i in every])
    by_zero = np.array([whole - f(np.where(np.arange(n) == i, 0.0, x), every) for i in every])
    through_keys = toy.key * x * A * (v - whole)  # x times the gradient through softmax
    # AttnLRP: half of the relevance goes to A and half to V. The query is a constant, so Z is linear in the keys and
    # passes on all it gets.
    return {
        "loo[removal=attention-mask]": by_mask,
        "loo[removal=zero]": by_zero,
        "attnlrp": A * w * x / 2 + through_keys / 2,
        "attnlrp[bias=printed]": A * v / 2 + through_keys / 2,
        "cp-lrp": A * w * x,
        "cp-lrp[bias=printed]": A * v,
    }


TOYS = [*load_spec("softmax").cases.values(), Toy((0.5, -1.0, 2.0), (1.0, 3.0, -2.0), key=0.7, bias=0.3)]


@pytest.mark.parametrize("toy", TOYS)
def test_scores_are_those_worked_out_by_hand(toy: Toy) -> None:
    rows = {row["method"]: row for row in measure_toy(load_spec("softmax"), Task("case", toy))}
    for method, expected in by_hand(toy).items():
        np.testing.assert_allclose(
            rows[method]["scores"], expected, atol=1e-7, err_msg=method
        )  # barring a key is done in float32
    start = toy.bias  # f at zero
    assert rows["ig"]["sum"] == pytest.approx(rows["ig"]["output"] - start, abs=1e-3)


def test_uniform_logits_spread_the_bias_evenly_where_nothing_depends_on_the_inputs() -> None:
    toy = next(iter(load_spec("softmax").cases.values()))
    rows = {row["method"]: row for row in measure_toy(load_spec("softmax"), Task("case", toy))}
    np.testing.assert_allclose(rows["loo[removal=attention-mask]"]["scores"], 0.0, atol=1e-7)
    np.testing.assert_allclose(rows["cp-lrp[bias=printed]"]["scores"], rows["cp-lrp"]["output"] / 4)
    assert math.isnan(rows["cp-lrp"]["r to loo[removal=attention-mask]"])


def test_large_similar_logits_make_the_softmax_rule_overshoot_in_proportion_to_the_logits() -> None:
    rows = {}
    for key in (10.0, 20.0):
        toy = Toy((1.0,) * 4, (4.0, 1.0, -1.0, -3.0), key=key)
        rows[key] = {
            row["method"]: np.array(row["scores"]) for row in measure_toy(load_spec("softmax"), Task("case", toy))
        }
    for method in ("loo[removal=attention-mask]", "cp-lrp"):
        np.testing.assert_allclose(rows[10.0][method], rows[20.0][method], atol=1e-6)
    values = np.array([4.0, 1.0, -1.0, -3.0])
    through_keys = {key: rows[key]["attnlrp"] - values / 8 for key in rows}
    np.testing.assert_allclose(through_keys[20.0], 2 * through_keys[10.0])


@pytest.mark.parametrize("values", ["[1.0, 2.0, 3.0]", "[1.0]"])
def test_every_token_has_a_value(values: str) -> None:
    case = f"{{inputs: [1.0, 2.0], value: {values}}}"
    with pytest.raises(DataError, match="inputs and value must have the same length, at least 2, got 2"):
        parse_spec(f"{{name: x, kind: toys, question: q, methods: [loo], cases: {{odd: {case}}}}}", where="x")


def test_the_run_says_that_the_softmax_rule_does_not_conserve(tmp_path: Path) -> None:
    run = reproduce("softmax", out=tmp_path / "run", progress=False)
    assert [judged.holds for judged in run.claims()] == [False]
    with pytest.raises(DataError, match="takes no limit"):
        reproduce("softmax", limit=3, out=tmp_path / "other", progress=False)
