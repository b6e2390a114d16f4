"""What is measured, and how: the part of an evaluation that does not depend on model or data."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from looprop.errors import InputError
from looprop.evaluation.yardstick import Yardstick
from looprop.methods.base import Method
from looprop.methods.loo import LeaveOneOut
from looprop.methods.registry import make_method
from looprop.metrics import YARDSTICKS, get_metric
from looprop.metrics.correlation import PROTOCOLS, Protocol
from looprop.models.adapter import Removal
from looprop.models.target import TargetLike

CURVE_FEATURES = r"token|word|patch|chunk:0*[1-9]\d*"
METRICS = ("loo-r", "loo-r-no-special", "morf", "lerf", "delta")
"""The paper's metrics: correlation with leave-one-out, with and without special tokens, and the removal curves."""


@dataclass(frozen=True)
class Setup:
    """Methods, metrics and the choices that the numbers depend on.

    methods: names, with options in brackets: "loo", "ig[steps=20]", "lrp[cp=4-6]"; the yardsticks "position" and
        "length"; or `Method` objects.
    given: names of score maps that were computed elsewhere.
    metrics: names; see `looprop.metrics.metric_names()`.
    protocol: "paper" correlates maps that are normalised to sum to one, and counts the examples whose sign that turns.
    curve_features: what the curves remove step by step: "token", "word", "chunk:16"; a feature's score is the sum of
        its tokens'.
    removal: how features are removed; None is the default of the kind of input (attention mask for texts, zero for
        tensors).
    """

    methods: tuple[str | Method, ...]
    metrics: tuple[str, ...] = METRICS
    given: tuple[str, ...] = ()
    protocol: Protocol = "raw"
    curve_features: str = "token"
    removal: Removal | None = None
    target: TargetLike = None
    truncation: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        for kind, names in (("method", self.labels), ("metric", self.metrics)):
            twice = sorted({name for name in names if list(names).count(name) > 1})
            if twice:
                raise InputError(f"{kind} {twice[0]!r} is named twice")
        for metric in self.metrics:
            get_metric(metric)
        if self.protocol not in PROTOCOLS:
            raise InputError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {self.protocol!r}")
        if not isinstance(self.curve_features, str) or not re.fullmatch(CURVE_FEATURES, self.curve_features):
            raise InputError(
                "curve_features must be 'token', 'word', 'chunk:N' with N >= 1, or 'patch', got "
                f"{self.curve_features!r}"
            )
        # The methods are made here, so that a wrong option is named before anything is computed.
        if not self.made and not self.given:
            raise InputError("no methods were given; expected at least one")

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of all rows of one example."""
        own = (method.strip() if isinstance(method, str) else method.name for method in self.methods)
        return (*own, *self.given)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The metrics that are computed: under protocol "paper" r is the one of normalised maps."""
        if self.protocol == "raw":
            return self.metrics
        return tuple(dict.fromkeys(re.sub(r"^loo-r(?=$|-no-special$)", "loo-r-paper", name) for name in self.metrics))

    @cached_property
    def reference(self) -> LeaveOneOut:
        """The leave-one-out that all others are compared with."""
        return LeaveOneOut(removal=self.removal)

    @cached_property
    def made(self) -> dict[str, Method]:
        """The methods by label, each made once; one that is the same as the reference is the reference itself."""
        found: dict[str, Method] = {}
        reference = self.reference
        for label, method in zip(self.labels, self.methods, strict=False):  # labels go on with those of given maps
            made = Yardstick(method) if isinstance(method, str) and method in YARDSTICKS else make_method(method)
            same = isinstance(made, LeaveOneOut) and made.options == reference.options
            found[label] = reference if same else made
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data for manifests, with the version of every metric."""
        return {
            "methods": list(self.made),
            "given": list(self.given),
            "metrics": {name: get_metric(name).version for name in self.columns},
            "protocol": self.protocol,
            "curve_features": self.curve_features,
            "removal": self.removal,
            "target": list(self.target) if isinstance(self.target, tuple) else self.target,
            "truncation": self.truncation,
            "seed": self.seed,
        }


def make_setup(
    methods: Sequence[str | Method],
    metrics: Sequence[str] | None = None,
    *,
    scores: Mapping[str, Any] | None = None,
    yardsticks: bool = False,
    **more: Any,
) -> Setup:
    """A setup from lists; `yardsticks` adds random scores, position and length where they are missing."""
    extra = tuple(name for name in ("random", *YARDSTICKS) if yardsticks and name not in methods)
    return Setup((*methods, *extra), METRICS if metrics is None else tuple(metrics), given=tuple(scores or ()), **more)
