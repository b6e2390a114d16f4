"""What every metric owes its reader, drawn from the registry: a new metric is held to it without a line here.

`LOOPROP_CONTRACT_METRICS="loo-top" pytest tests/metrics/test_contract.py` holds only these to it.
"""

import math
import os
from dataclasses import fields
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

import looprop
import tiny
from looprop.errors import InputError
from looprop.games.orders import exact_limits
from looprop.games.values import all_sets
from looprop.metrics import REFERENCES, Case, get_metric, metric_names, required_states
from looprop.metrics.base import CaseField

METRICS = os.environ.get("LOOPROP_CONTRACT_METRICS", "").split() or list(metric_names())
each = pytest.mark.parametrize("name", METRICS)

Vector = NDArray[np.float64]
# What leaving each feature out takes away from an additive model; no two alike, so that there is one order.
EFFECTS = np.array([3.0, -1.0, 4.0, 1.5, -5.0, 9.0, 0.25])
SPECIAL = np.array([True, False, False, False, False, False, True])


def case_of(name: str, scores: Vector, effects: Vector = EFFECTS, special: Any = SPECIAL) -> Case:
    """An additive model explained by these scores, with nothing in the case but what the metric needs."""
    needs, states = get_metric(name).needs, required_states([name], scores)
    limits = exact_limits(all_sets(len(effects)) @ effects)
    # Of an additive model the two references are the same.
    everything: dict[CaseField, Any] = {"loo": effects, "shapley": effects, "aopc_limits": (limits.worst, limits.best)}
    everything |= {"removed_drops": all_sets(len(effects)) @ effects}
    given: Any = {field: value for field, value in everything.items() if field in needs}
    case = Case(scores, special=special, removed=all_sets(len(effects)), **given)
    return states.fill(case, 1.0 + states.keep @ effects)


def value(name: str, scores: Vector, **more: Any) -> float:
    return get_metric(name)(case_of(name, scores, **more))


@each
def test_says_what_it_is(name: str) -> None:
    metric = get_metric(name)
    assert metric.name == name
    assert metric.label
    assert metric.description
    assert "\n" not in metric.description
    assert isinstance(metric.higher_is_better, bool)
    assert metric.version >= 1
    assert metric.needs <= set(get_args(CaseField)), "it can need only what a case has"


@each
def test_the_better_direction_is_the_stated_one(name: str) -> None:
    metric, reverse = get_metric(name), case_of(name, -EFFECTS)
    perfect, reversed_ = value(name, EFFECTS), metric(reverse)
    if metric.flipped(reverse):
        assert perfect == pytest.approx(
            reversed_
        )  # a normalisation that takes the sign of the whole map away, and says so
    else:
        assert perfect != reversed_
        assert (perfect > reversed_) == metric.higher_is_better


@each
def test_is_a_pure_function(name: str) -> None:
    case = case_of(name, np.cos(EFFECTS))
    before = {f.name: np.array(getattr(case, f.name), copy=True) for f in fields(Case)}
    once, again = get_metric(name)(case), get_metric(name)(case)
    assert isinstance(once, float)
    assert once == again
    for field, kept in before.items():
        np.testing.assert_array_equal(np.array(getattr(case, field)), kept)


@each
def test_the_order_of_the_features_does_not_matter(name: str) -> None:
    scores, order = np.cos(EFFECTS), np.random.default_rng(0).permutation(len(EFFECTS))
    shuffled = value(name, scores[order], effects=EFFECTS[order], special=SPECIAL[order])
    assert shuffled == pytest.approx(value(name, scores))


@each
def test_the_scale_of_the_scores_does_not_matter(name: str) -> None:
    """Effects, shares and weights are compared with each other, and have no common unit."""
    scores = np.cos(EFFECTS)
    assert value(name, 1000 * scores) == pytest.approx(value(name, scores))


@each
def test_undefined_is_nan_and_never_an_error(name: str) -> None:
    nothing = np.zeros(len(EFFECTS))
    metric = get_metric(name)
    degenerate = {
        "one feature": value(name, EFFECTS[:1], effects=EFFECTS[:1], special=None),
        "two features": value(name, EFFECTS[:2], effects=EFFECTS[:2], special=None),
        "constant scores": value(name, nothing + 1),
        "scores of zero": value(name, nothing),
        "no feature has an effect": value(name, EFFECTS, effects=nothing),
        "special tokens only": value(name, EFFECTS, special=nothing == 0),
    }
    assert not any(math.isinf(found) for found in degenerate.values())
    if metric.needs & set(REFERENCES):
        assert math.isnan(degenerate["no feature has an effect"]), "there is nothing to agree with"
    if metric.needs & {"morf_curve", "lerf_curve", "player_curve"}:
        assert math.isnan(degenerate["one feature"]), "there is no step to take"


@each
def test_what_it_needs_and_does_not_get_is_named(name: str) -> None:
    for need in sorted(get_metric(name).needs):
        lacking = {f.name: getattr(case_of(name, EFFECTS), f.name) for f in fields(Case)} | {need: None}
        with pytest.raises(InputError, match=f"metric '{name}' needs {need}"):
            get_metric(name)(Case(**lacking))


@each
def test_in_an_evaluation(name: str) -> None:
    bench = looprop.load(tiny.tiny_classifier())
    texts = ["the film is not good", "a very bad movie, isn't it?"]
    found = looprop.evaluate(bench, texts, methods=["loo", "random"], metrics=[name])
    estimate = found["random"].metrics[name]
    assert estimate.count + estimate.undefined == len(texts)
    assert not found.failed
