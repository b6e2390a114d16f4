"""The model as it is, with its behaviour and every method's answers: the reference for all rewrites.

By default it is a copy that computes in float64 throughout, so that what differs differs because of the method and not
because of rounding. Methods are asked about a changed model through an adapter with an empty ledger, and every change
is undone before the next.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from looprop.auditing.asking import SAME_FUNCTION, MethodAnswer, agreement, ask_all, behaviour, deviations
from looprop.auditing.catalogue import CHECKED, STAGES
from looprop.auditing.checks import layers_from_the_end, residual, shift_input, shuffle, slope_gap
from looprop.auditing.result import Attempt, Checks, RewriteEffect
from looprop.auditing.rewrites.base import Changes, Model, Rewrite, undone
from looprop.auditing.rewrites.observing import observe
from looprop.errors import LoopropError, ModelError
from looprop.intercept.mode import InterceptMode
from looprop.methods.base import Method
from looprop.methods.registry import make_method
from looprop.models.adapter import Adapter
from looprop.models.features import FeaturesLike
from looprop.models.subject import Subject, bind
from looprop.models.target import TargetLike

AuditPrecision = Literal["float64", "model"]
"""The model of an audit: a copy that computes in float64, or the model itself, as it is."""

# These take a dtype by position; everything else by name.
_CASTS = frozenset({"to", "type"})


class FullPrecision(InterceptMode):
    """Models cast to float32 in places (norms, softmax, rotary tables): here those casts are to float64."""

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "float":
            function = Tensor.double
        elif name in _CASTS:
            args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        if kwargs.get("dtype") is torch.float32:
            kwargs = {**kwargs, "dtype": torch.float64}
        return function(*args, **kwargs)


def in_float64(adapter: Adapter) -> Adapter:
    """An adapter of a copy of the model that computes in float64. The model itself is not touched."""
    try:
        model = deepcopy(adapter.model).double()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise ModelError(f"{adapter.name} cannot be copied ({error}): use precision='model'") from error
    Changes().run_under(model, FullPrecision)
    return adapter.renewed(model)


def doubled(value: Any) -> Any:
    """Floating-point inputs in float64, everything else as it is."""
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


SANITY_CHECKS = "sanity checks"

# What counts as the same explanation: the largest change, relative to the largest score, by the precision of the model.
SAME_EXPLANATION = {torch.float64: 1e-6, torch.float32: 1e-3}

Step = Callable[[str], None]
"""Called when a part of an audit is done, with what comes next."""


@dataclass(frozen=True, eq=False)
class AuditSetup:
    """All that is needed to make an `Original`, here or in another process."""

    adapter: Adapter
    items: Sequence[Any]
    methods: Sequence[str | Method]
    precision: AuditPrecision
    target: TargetLike
    features: FeaturesLike
    truncation: bool

    def original(self) -> "Original":
        """The model, in the precision of the audit, bound to its inputs."""
        wide = self.precision == "float64"
        adapter = in_float64(self.adapter) if wide else self.adapter
        subjects = [
            bind(adapter, item, target=self.target, features=self.features, truncation=self.truncation)
            for item in (map(doubled, self.items) if wide else self.items)
        ]
        return Original(adapter, subjects, make_methods(self.methods))


def make_methods(methods: Sequence[str | Method]) -> dict[str, Method]:
    """Make methods, by the names under which they were given."""
    return {method if isinstance(method, str) else method.name: make_method(method) for method in methods}


@dataclass(frozen=True)
class Trial:
    """One rewrite and its effect on every method; no effects where it was not carried out."""

    attempt: Attempt
    effects: tuple[RewriteEffect, ...] = ()


def _for(dtype: torch.dtype, tolerances: Mapping[torch.dtype, float]) -> float:
    return tolerances.get(dtype, tolerances[torch.float32])


class Original:
    """The model as it is, ready to be rewritten and checked."""

    def __init__(self, adapter: Adapter, subjects: list[Subject], methods: dict[str, Method]) -> None:
        self.adapter, self.subjects, self.methods = adapter, subjects, methods
        self.behaviour = behaviour(subjects)
        self.dtype = self.behaviour[0].logits.dtype
        self.tolerance = _for(self.dtype, SAME_EXPLANATION)
        self.observed = observe(adapter.model, self._run)
        try:
            sites: int | None = adapter.attention_sites(subjects[0].encoded)
        except LoopropError:
            sites = None
        self.model = Model(adapter.model, self._run, self.observed, sites)
        self.answers = ask_all(methods, subjects)

    def _run(self) -> None:
        with self.adapter.evaluating(), torch.enable_grad():
            subject = self.subjects[0]
            self.adapter.logits(subject.encoded.inputs, positions=subject.target.positions)

    def _again(self) -> list[Subject]:
        renewed = self.adapter.renewed()
        return [subject.of(renewed) for subject in self.subjects]

    def attempt(self, rewrite: Rewrite) -> Trial:
        """Carry out one rewrite, prove it, and compare the explanations."""
        with undone() as changes:
            attempt = self._carry_out(rewrite, changes)
            if attempt.status != "applied":
                return Trial(attempt)
            answers = ask_all(self.methods, self._again())
        effects = (self._compared(name, after, rewrite=rewrite.name) for name, after in answers.items())
        found = zip(effects, answers.values(), strict=True)
        return Trial(attempt, tuple(own if own.refused else replace(own, loo_r=self._loo_r(a)) for own, a in found))

    def _carry_out(self, rewrite: Rewrite, changes: Changes) -> Attempt:
        attempt = Attempt(rewrite.name, rewrite.summary, status="refused")
        try:
            places = rewrite.apply(self.model, changes)
            attempt = replace(attempt, places=tuple(places.changed), unsupported=tuple(places.unsupported))
            if not places.changed:
                return replace(attempt, status="nothing to change")
            logits, gradient = deviations(self.behaviour, behaviour(self._again()))
        except Exception as error:  # models and own rewrites raise what they like
            return replace(attempt, reason=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        attempt, tolerance = replace(attempt, logits=logits, gradient=gradient), _for(self.dtype, SAME_FUNCTION)
        if logits <= tolerance and gradient <= tolerance:  # NaN is no small deviation
            return replace(attempt, status="applied")
        differ = f"logits differ by {logits:.1e}, gradients by {gradient:.1e}"
        return replace(attempt, reason=f"it computes another function: {differ}, {tolerance:.0e} is allowed")

    def _compared(
        self, method: str, after: MethodAnswer, *, first: int | None = None, rewrite: str = ""
    ) -> RewriteEffect:
        """The agreement of a method with itself, if there is no error. first: on so many of the inputs."""
        before = self.answers[method].first(first)
        if error := before.error or after.error:
            return RewriteEffect(method, rewrite, refused=error)
        return agreement(before.scores, after.scores, self.tolerance, method, rewrite)

    def _loo_r(self, answer: MethodAnswer) -> float:
        return self._compared("loo", answer).r if "loo" in self.answers else math.nan

    def base_checks(self) -> tuple[Checks, ...]:
        """The checks that need no further answers."""
        checks = []
        for name, answer in self.answers.items():
            check = Checks(name, refused=answer.error, complete=not answer.error and self.methods[name].complete)
            if not answer.error:
                check = replace(check, residual=residual(self.subjects, answer.found), loo_r=self._loo_r(answer))
            checks.append(check)
        return tuple(checks)

    def checks(self, step: Step) -> tuple[Checks, ...]:
        """The sanity checks of every method without an error, on the first inputs."""
        asked = {name: method for name, method in self.methods.items() if not self.answers[name].error}
        randomised = self._randomised(asked, step)
        with undone() as changes:
            shifted = ask_all(asked, shift_input(self.adapter.renewed(), self.subjects[:CHECKED], changes))
        step(SANITY_CHECKS)
        alone = ask_all(asked, self._again()[:CHECKED], batch=False)
        step("")
        checks = []
        for check in self.base_checks():
            if (name := check.method) in asked:
                shift, single = (self._compared(name, after[name], first=CHECKED) for after in (shifted, alone))
                pairs = zip(self.subjects[:CHECKED], self.answers[name].first(CHECKED).found, strict=True)
                gaps = [slope_gap(asked[name], subject, measured) for subject, measured in pairs]
                check = replace(
                    check,
                    randomised=tuple(randomised[name]),
                    shifted=shift.change,
                    shifted_r=shift.r,
                    batched=single.change,
                    slopes=max((gap for gap in gaps if not math.isnan(gap)), default=math.nan),
                )
            checks.append(check)
        return tuple(checks)

    def _randomised(self, methods: Mapping[str, Method], step: Step) -> dict[str, list[float]]:
        """Mean r of every method with itself, the more of the last layers are shuffled."""
        agreeing: dict[str, list[float]] = {name: [] for name in methods}
        layers = layers_from_the_end(self.observed)
        for stage in range(1, STAGES + 1):
            if layers:
                with undone() as changes:
                    shuffle(layers[: -(-len(layers) * stage // STAGES)], changes)  # the share, rounded up
                    shuffled = ask_all(methods, self._again()[:CHECKED])
                for name in methods:
                    agreeing[name].append(self._compared(name, shuffled[name], first=CHECKED).r)
            step(SANITY_CHECKS)
        return agreeing
