"""Sanity checks of the field, as changes to the model or to the way it is asked.

Randomised parameters: Adebayo et al. 2018. Input shift: Kindermans et al. 2019. Completeness: Bach et al. 2015,
Sundararajan et al. 2017. Slopes: are the scores of a method by rules the slopes of what its rules say? R_i is claimed
to be the change of the surrogate (`propagation/surrogate.py`) per share by which feature i is scaled:

    d/dt g((1 + t s_1) x_1, ..., (1 + t s_n) x_n) = sum_i s_i R_i        for every s, at t = 0

Both sides are computed without each other: the right one from the scores, the left one from two forward passes of the
surrogate. An influence that the rules did not see, or a gradient that something changed on its way back, tells them
apart. Of a method without rules (gradient times input) the surrogate is the model itself.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from looprop.auditing.rewrites.base import Changes
from looprop.auditing.rewrites.observing import Observation
from looprop.errors import InputError
from looprop.intercept.mode import InterceptMode
from looprop.measure import Outcome
from looprop.methods.base import Method
from looprop.models.adapter import Adapter
from looprop.models.subject import Subject
from looprop.propagation.plan import Plan
from looprop.propagation.surrogate import Surrogate


def layers_from_the_end(observed: Observation) -> list[nn.Module]:
    """Modules with parameters of their own, the last that was called first.

    One that is never called goes with the module around it.
    """
    place = {module: float(i) for i, module in enumerate(observed.order)}
    modules = {name: module for module, name in observed.names.items()}
    placed: list[tuple[float, nn.Module]] = []
    for name, module in modules.items():
        if any(parameter is not None for parameter in module._parameters.values()):
            around = name
            while around and modules[around] not in place:
                around = around.rpartition(".")[0]
            placed.append((place.get(module, place.get(modules[around], 0.0) + 0.5), module))
    return [module for _, module in sorted(placed, key=lambda item: -item[0])]


def shuffle(modules: Sequence[nn.Module], changes: Changes, *, seed: int = 0) -> None:
    """Shuffle the entries of every parameter: the same numbers, in places that mean nothing."""
    generator = torch.Generator().manual_seed(seed)
    for module in modules:
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
                data = changes.edit(module, name)
                data.copy_(data.flatten()[order].view_as(data))


def shift_input(adapter: Adapter, subjects: Sequence[Subject], changes: Changes, *, seed: int = 0) -> list[Subject]:
    """Move the zero of the explained tensor, and let the model move it back: x' = x + c, f'(x') = f(x' - c).

    The constant c is drawn per dimension of the embedding (texts) or is one for the whole input, as large as the input
    itself.
    """
    weight = adapter.explained_weight
    if weight is None:
        return _shift_tensor(adapter, subjects, changes)
    embedding: nn.Module = adapter.model.get_input_embeddings()  # type: ignore[operator]
    generator = torch.Generator().manual_seed(seed)
    draws = torch.randn(weight.shape[1], generator=generator, dtype=torch.float64).to(weight)
    constant = draws * weight.detach().std()
    changes.edit(embedding, "weight").add_(constant)
    moved = embedding.get_parameter("weight")
    changes.run_under(adapter.model, lambda: _MovedBack(moved, constant))
    return [subject.of(adapter) for subject in subjects]


class _MovedBack(InterceptMode):
    """Takes a constant off wherever a table is looked up.

    Not `LookUpMode`, which wants one look-up for each pass: encoder and decoder may look up the same table, and each
    has to move its own back.
    """

    def __init__(self, weight: Tensor, constant: Tensor) -> None:
        super().__init__()
        self.weight, self.constant = weight, constant

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = function(*args, **kwargs)
        looked_up = name == "embedding" and len(args) > 1 and args[1] is self.weight
        return out - self.constant if looked_up else out


def _shift_tensor(adapter: Adapter, subjects: Sequence[Subject], changes: Changes) -> list[Subject]:
    name = next(iter(subjects[0].encoded.inputs))
    size = float(torch.cat([s.encoded.inputs[name].flatten() for s in subjects]).std())
    constant = size if size > 0 else 1.0
    forward = adapter.model.forward

    def moved_back(*args: Any, **kwargs: Any) -> Any:
        if args:
            return forward(args[0] - constant, *args[1:], **kwargs)
        return forward(**{**kwargs, name: kwargs[name] - constant})

    changes.set_forward(adapter.model, moved_back)
    moved = [replace(s.encoded, inputs={**s.encoded.inputs, name: s.encoded.inputs[name] + constant}) for s in subjects]
    return [replace(s, encoded=encoded).of(adapter) for s, encoded in zip(subjects, moved, strict=True)]


def residual(subjects: Sequence[Subject], found: Sequence[Outcome]) -> float:
    """Median over inputs of |f - sum of scores| / |f|.

    A method that states its own residual (from a baseline) is taken at its word.
    """
    shares = []
    for subject, own in zip(subjects, found, strict=True):
        left = own.residual
        if left is None:
            left = subject.output - (float("nan") if own.scores is None else float(own.scores.sum()))
        shares.append(abs(left) / abs(subject.output) if subject.output else float("nan"))
    return float(np.median(shares))


# Steps of central differences: the first for float64; where a part of the model computes in less, rounding drowns it,
# and a longer one serves. A true gap shows at every step.
STEPS = (1e-5, 1e-3, 1e-2)
AGREES = 1e-6
# Scores that are all zero are right where the surrogate does not move either.
TINY = 1e-12


def slope_gap(method: Method, subject: Subject, found: Outcome, *, directions: int = 3) -> float:
    """The largest difference of the two sides over some random s, relative to sum_i |s_i R_i|.

    NaN where there is nothing to compare: a method without a backward pass, or one whose model goes another way nearby.
    """
    plan = method.plan_for(subject.adapter, subject.encoded)
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
