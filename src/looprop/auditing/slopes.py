"""Are the scores of a method by rules the slopes of what its rules say?

R_i is claimed to be the change of the surrogate (`propagation/surrogate.py`) per share by which feature i is scaled:

    d/dt g((1 + t s_1) x_1, ..., (1 + t s_n) x_n) = sum_i s_i R_i        for every s, at t = 0

Both sides are computed without each other: the right one from the scores, the left one from two forward passes of the
surrogate. An influence that the rules did not see, or a gradient that something changed on its way back, tells them
apart. Of a method without rules (gradient times input) the surrogate is the model itself.
"""

import math

import torch
from torch import Tensor

from looprop.errors import InputError
from looprop.measure import Measured
from looprop.methods.base import Method
from looprop.models.subject import Subject
from looprop.propagation.plan import Plan
from looprop.propagation.surrogate import Surrogate

# Steps of central differences: the first for float64; where a part of the model computes in less, rounding drowns it,
# and a longer one serves. A true gap shows at every step.
STEPS = (1e-5, 1e-3, 1e-2)
AGREES = 1e-6
# Scores that are all zero are right where the surrogate does not move either.
TINY = 1e-12


def slope_gap(method: Method, subject: Subject, found: Measured, *, directions: int = 3) -> float:
    """The largest difference of the two sides over some random s, relative to sum_i |s_i R_i|.

    NaN where there is nothing to compare: a method without a backward pass, or one whose model goes another way nearby.
    """
    plan = method.plan_for(subject)
    if plan is None:
        return math.nan
    try:
        return _gap(plan, subject, torch.as_tensor(found.scores), directions)
    except InputError:
        return math.nan


def _gap(plan: Plan, subject: Subject, scores: Tensor, directions: int) -> float:
    surrogate, generator, worst = Surrogate(), torch.Generator().manual_seed(0), 0.0
    _value(surrogate, plan, subject)
    x = surrogate.explained
    for _ in range(directions):
        draws = torch.randn(len(scores), generator=generator, dtype=torch.float64)
        direction, shares = x * _by_entry(subject, draws, x), draws * scores
        smallest = math.inf
        for step in STEPS:
            high, low = (_value(surrogate, plan, subject, direction, t) for t in (step, -step))
            gap = abs((high - low) / (2 * step) - float(shares.sum()))
            smallest = min(smallest, gap / max(float(shares.abs().sum()), TINY))
            if smallest < AGREES:
                break
        worst = max(worst, smallest)
    return worst


def _value(
    surrogate: Surrogate, plan: Plan, subject: Subject, direction: Tensor | None = None, step: float = 0.0
) -> float:
    inputs, _ = subject.adapter.collate([subject.encoded])
    with (
        surrogate.at(direction, step),
        subject.adapter.traced(inputs, plan, positions=subject.target.positions) as traced,
    ):
        value = traced.value(subject.target)
    return float(value[0].detach())


def _by_entry(subject: Subject, draws: Tensor, x: Tensor) -> Tensor:
    """One number per feature, spread over the entries of the explained tensor that belong to it."""
    entries = torch.zeros_like(x).requires_grad_()
    by_position = subject.adapter.token_scores(entries)  # (1, positions), linear in the entries
    weights = torch.zeros_like(by_position[0])
    for number, group in zip(draws, subject.features, strict=True):
        weights[list(group)] = number.to(weights)
    (spread,) = torch.autograd.grad((by_position[0] * weights).sum(), entries)
    return spread
