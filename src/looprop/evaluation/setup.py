"""What is measured, and how: the part of an evaluation that does not depend on model or data."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from looprop.errors import InputError, UnknownNameError
from looprop.games.orders import EXACT, WIDTH
from looprop.methods.base import Attribution, Method
from looprop.methods.loo import LeaveOneOut
from looprop.methods.registry import make_method
from looprop.methods.shapley import Shapley
from looprop.metrics import REFERENCES, YARDSTICKS, Metric, get_metric, yardstick
from looprop.metrics.base import CaseField
from looprop.metrics.correlation import PROTOCOLS, Protocol
from looprop.metrics.subset_removal import LADDER, SETS
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.models.target import TargetLike
from looprop.naming import split_name

SHAPLEY = "shapley"
CURVE_FEATURES = r"token|word|patch|chunk:0*[1-9]\d*"
CURVES = ("morf", "lerf", "delta")
METRICS = ("loo-r-no-special", "loo-r", *CURVES)
"""The paper's metrics: correlation with leave-one-out, without and with special tokens, and the removal curves."""


class Yardstick(Method):
    """Scores that need no model: position or length of the tokens. Cost 0."""

    name = "yardstick"
    cost = "0"
    summary = "position or length of the tokens"

    def __init__(self, yardstick: str) -> None:
        self.yardstick = yardstick

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """Independent of the model."""
        found = []
        for subject in subjects:
            encoded, firsts = subject.encoded, [group[0] for group in subject.features]
            names, special = [encoded.names[i] for i in firsts], [encoded.special[i] for i in firsts]
            found.append(Attribution(yardstick(self.yardstick, features=names, special=special), cost=0.0))
        return found


@dataclass(frozen=True)
class Setup:
    """Methods, metrics and the choices that the numbers depend on.

    methods: names, with options in brackets: "loo", "ig[steps=20]", "lrp[cp=4-6]"; the yardsticks "position" and
        "length"; or `Method` objects.
    given: names of score maps that were computed elsewhere.
    metrics: names; see `looprop.metrics.metric_names()`. The first one sorts tables.
    shapley: how Shapley values are computed where a metric needs them as its reference: "shapley[samples=64]".
    protocol: "paper" correlates maps that are normalised to sum to one, and counts the examples whose sign that turns.
    curve_features: what the curves remove step by step: "token", "word", "chunk:16"; a feature's score is the sum of
        its tokens'.
    removal: how features are removed; None is the default of the kind of input (attention mask for texts, zero for
        tensors).
    keep_curves: rows hold the removal curves that their metrics were computed from; no number depends on it.
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
    shapley: str = SHAPLEY
    keep_curves: bool = False

    def __post_init__(self) -> None:
        for kind, names in (("method", self.labels), ("metric", self.metrics)):
            twice = sorted({name for name in names if list(names).count(name) > 1})
            if twice:
                raise InputError(f"{kind} {twice[0]!r} is named twice")
        _ = self.measures  # raises for an unknown name
        if self.protocol not in PROTOCOLS:
            raise InputError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {self.protocol!r}")
        if not isinstance(self.curve_features, str) or not re.fullmatch(CURVE_FEATURES, self.curve_features):
            raise InputError(
                "curve_features must be 'token', 'word', 'chunk:N' with N >= 1, or 'patch', got "
                f"{self.curve_features!r}"
            )
        if "shapley" in self.needs:
            _ = self.shapley_reference  # raises for what gives no Shapley values
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
    def measures(self) -> list[Metric]:
        """These metrics themselves."""
        return [get_metric(name) for name in self.columns]

    @cached_property
    def reference(self) -> LeaveOneOut:
        """The leave-one-out that all others are compared with."""
        return LeaveOneOut(removal=self.removal)

    @cached_property
    def needs(self) -> frozenset[CaseField]:
        """What the metrics are computed from."""
        return frozenset[CaseField]().union(*(metric.needs for metric in self.measures))

    @cached_property
    def shapley_reference(self) -> Shapley:
        """The Shapley values that others are compared with, under the same removal as everything else."""
        made = make_method(self.shapley)
        if not isinstance(made, Shapley):
            raise InputError(f"the reference must be 'shapley', with its options in brackets, got {self.shapley!r}")
        return made if made.removal or not self.removal else Shapley(**{**made.options, "removal": self.removal})

    @property
    def dear(self) -> list[str]:
        """What the metrics ask for beside leave-one-out and the methods' own cost, in words."""
        said = []
        if "shapley" in self.needs:
            most = self.shapley_reference.samples
            said.append(f"Shapley values ({self.shapley}): up to {most} forward passes a feature, for every text")
        if "aopc_limits" in self.needs:
            said.append(f"limits of AOPC: all sets of up to {EXACT} features, else a beam of about {WIDTH} F^2 passes")
        if "removed_drops" in self.needs:
            said.append(f"random sets of features: up to {len(LADDER) * SETS} forward passes a text")
        return said

    @cached_property
    def made(self) -> dict[str, Method]:
        """The methods by label, each made once; one that is the same as a reference is the reference itself."""
        found: dict[str, Method] = {}
        references = (self.reference, *([self.shapley_reference] if "shapley" in self.needs else []))
        for label, method in zip(self.labels, self.methods, strict=False):  # labels go on with those of given maps
            made = Yardstick(method) if isinstance(method, str) and method in YARDSTICKS else make_method(method)
            same = (r for r in references if type(made) is type(r) and made.options == r.options)
            found[label] = next(same, made)
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain data for manifests, with the version of every metric."""
        reference = {"shapley": self.shapley} if "shapley" in self.needs else {}
        return {
            **reference,
            "methods": list(self.made),
            "given": list(self.given),
            "metrics": {metric.name: metric.version for metric in self.measures},
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
    references: Sequence[str] | None = None,
    scores: Mapping[str, Any] | None = None,
    yardsticks: bool = False,
    **more: Any,
) -> Setup:
    """A setup from lists; `yardsticks` adds random scores, position and length where they are missing, `references` the
    correlations with each of them before all other metrics.
    """
    extra = tuple(name for name in ("random", *YARDSTICKS) if yardsticks and name not in methods)
    if references is not None:
        own = [name.strip() for name in references if split_name(name)[0] == SHAPLEY]
        more |= {"shapley": own[0]} if own else {}
        asked = CURVES if metrics is None else metrics
        metrics = tuple(dict.fromkeys((*reference_metrics(references), *asked)))
    chosen = METRICS if metrics is None else tuple(metrics)
    return Setup((*methods, *extra), chosen, given=tuple(scores or ()), keep_curves=True, **more)


def reference_metrics(references: Sequence[str]) -> list[str]:
    """The correlations with each reference, without special tokens first.

    >>> reference_metrics(["loo", "shapley[samples=64]"])
    ['loo-r-no-special', 'loo-r', 'shapley-r-no-special', 'shapley-r']
    """
    if isinstance(references, str):
        raise InputError(f"references must be a list of names, got the text {references!r}")
    names = [split_name(reference)[0] for reference in references]
    for name, full in zip(names, references, strict=True):
        if name not in REFERENCES:
            raise UnknownNameError("reference", name, REFERENCES)
        if name == "loo" and full.strip() != "loo":
            raise InputError(f"leave-one-out as the reference takes its removal from removal=, got {full!r}")
    return [f"{name}-r{ending}" for name in names for ending in ("-no-special", "")]
