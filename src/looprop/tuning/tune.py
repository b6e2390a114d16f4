"""`looprop.tune`: a plan for one model, by greedy search on training texts."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError, LoopropError, UnknownNameError
from looprop.inputs.examples import Dataset
from looprop.methods.base import Attribution
from looprop.methods.propagating import propagate
from looprop.methods.registry import make_method
from looprop.metrics.correlation import correlate
from looprop.metrics.statistics import bootstrap_mean
from looprop.models.cutting import cut_of
from looprop.models.subject import Subject
from looprop.models.target import TargetLike
from looprop.running.progress import Advance, shown_by
from looprop.tuning.candidates import STARTS, Candidate, neighbours
from looprop.tuning.result import Trial, Tuning
from looprop.workbench import Workbench

STANDARDS = ("attnlrp", "cp-lrp", "gim", "pa-lrp", "libragrad", "grad-x-input")
"""What a plan has to beat: methods of one forward and one backward pass."""
REFERENCES = ("loo", "shapley")
LEAST_TEXTS = 8
# A step has to raise the mean r by this much: less is not worth a longer plan.
LEAST_STEP = 0.001

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Half:
    """Some texts with their reference."""

    subjects: tuple[Subject, ...]
    references: tuple[Floats, ...]
    with_special: bool

    def propagated(self, candidate: Candidate) -> Floats:
        """r of each text under a candidate."""
        return self._correlations(propagate(self.subjects, candidate.plan, readout=candidate.readout))

    def explained(self, method: str) -> Floats:
        """r of each text under a standard method."""
        return self._correlations(make_method(method).attribute(self.subjects))

    def _correlations(self, found: Sequence[Attribution]) -> Floats:
        """r of each text; NaN where it is undefined."""
        values = []
        for subject, reference, attribution in zip(self.subjects, self.references, found, strict=True):
            special = np.array([all(subject.encoded.special[i] for i in group) for group in subject.features])
            mask = np.ones(len(special), bool) if self.with_special else ~special
            values.append(correlate(attribution.scores, reference, mask=mask).value if mask.any() else math.nan)
        return np.array(values)


def tune(
    m: Workbench,
    data: Dataset | Sequence[Any],
    *,
    reference: str = "loo",
    budget: int = 80,
    with_special: bool = False,
    target: TargetLike = None,
    seed: int = 0,
    confidence: float = 0.95,
    progress: bool | Advance = False,
) -> Tuning:
    """Search a plan whose scores are close to a reference: one rule per layer, and the options of `Plan`.

    The texts are split in two by the seed. On one half candidates are compared: five plans to begin with, then, one
    respect after the other, plans that differ from the best so far, until none is better or `budget` is spent. On the
    other half the plan is compared with the best standard method: `Tuning.gain`, with its interval.

    data: texts of the training set; what is reported elsewhere must not be among them.
    reference: "loo", or "shapley" (which costs much more). budget: how many candidates are tried at most.
    with_special: special tokens count as well. confidence: of the interval of the gain.
    progress: True shows a bar; a function is called after every step.
    """
    _check(budget, reference)
    texts = list(data.texts) if isinstance(data, Dataset) else list(data)
    if isinstance(data, str) or len(texts) < LEAST_TEXTS:
        raise InputError(f"tuning needs a list of at least {LEAST_TEXTS} texts, half of which choose, got {len(texts)}")
    title = data.title if isinstance(data, Dataset) else f"{len(texts)} texts"
    with shown_by(progress, f"tuning on {title}", len(texts) + budget + len(STANDARDS)) as advance:
        first, second, passes = _halves(m, texts, reference, with_special, target, seed, advance)
        search = _Search(first, budget, advance)
        standards, standard = _standards(first, advance)
        chosen, stopped = search.run(first.subjects[0].adapter.attention_layers(first.subjects[0].encoded))
    tuned, usual = second.propagated(chosen), second.explained(standard)
    about: dict[str, Any] = {
        "model": m.adapter.name,
        "data": title,
        "reference": reference,
        "special_tokens": with_special,
        "chosen_on": len(first.subjects),
        "reported": len(second.subjects),
        "seed": seed,
        "budget": budget,
    }
    if cut := cut_of([subject.encoded.cut for subject in (*first.subjects, *second.subjects)]):
        about["truncated"] = str(cut)
    passes += 3.0 * (len(search.trials) + len(standards)) * len(first.subjects) + 6.0 * len(second.subjects)
    mean = partial(bootstrap_mean, confidence=confidence, seed=seed)
    return Tuning(
        chosen,
        standard,
        mean(tuned),
        mean(usual),
        mean(tuned - usual),
        standards,
        tuple(search.trials),
        stopped,
        about,
        passes,
    )


def most_passes(m: Workbench, texts: Sequence[Any], *, reference: str = "loo", budget: int = 80) -> float:
    """What a search on these texts costs at most, in forward passes: known before it begins."""
    _check(budget, reference)
    features = sum(len(m.adapter.encode(text, truncation=True)) for text in texts)
    of_reference: float = features * make_method(reference).options.get("samples", 1)
    half = len(texts) // 2
    return of_reference + 3.0 * half * (budget + len(STANDARDS)) + 6.0 * (len(texts) - half)


def _check(budget: int, reference: str) -> None:
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < len(STARTS):
        raise InputError(f"budget must be an integer >= {len(STARTS)}, got {budget!r}")
    if reference.partition("[")[0] not in REFERENCES:
        raise UnknownNameError("reference", reference, REFERENCES)


def _halves(
    m: Workbench,
    texts: list[Any],
    reference: str,
    with_special: bool,
    target: TargetLike,
    seed: int,
    advance: Callable[[str], None],
) -> tuple[_Half, _Half, float]:
    """The texts that choose, those that are reported, and what their reference cost."""
    order = np.random.default_rng(seed).permutation(len(texts))
    method, passes, halves = make_method(reference), 0.0, []
    for places in (order[: len(texts) // 2], order[len(texts) // 2 :]):
        subjects, references = [], []
        for place in sorted(places):
            subject = m.subject(texts[place], target=target, truncation=True)
            (found,) = method.attribute([subject])
            passes += found.cost
            subjects.append(subject)
            references.append(found.scores)
            advance(reference)
        halves.append(_Half(tuple(subjects), tuple(references), with_special))
    return halves[0], halves[1], passes


def _standards(half: _Half, advance: Callable[[str], None]) -> tuple[tuple[Trial, ...], str]:
    """Standard methods on the half that chooses, and the best of them."""
    found = []
    for method in STANDARDS:
        found.append(_tried(method, partial(half.explained, method)))
        advance(method)
    best = max(found, key=_rank)
    if math.isnan(best.r):
        raise InputError(f"no standard method works on this model; the first error: {found[0].error}")
    return tuple(found), best.what


def _tried(what: str, measured: Callable[[], Floats]) -> Trial:
    """The mean r, or why there is none."""
    try:
        values = measured()
    except LoopropError as error:  # a rule that refuses this model, or relevance that is not finite
        return Trial(what, math.nan, str(error))
    defined = values[~np.isnan(values)]
    return Trial(what, float(defined.mean()) if len(defined) else math.nan)


def _rank(trial: Trial) -> float:
    return -math.inf if math.isnan(trial.r) else trial.r


class _Search:
    """Greedy search: one respect after the other, the best of each is taken; every candidate is tried once."""

    def __init__(self, half: _Half, budget: int, advance: Callable[[str], None]) -> None:
        self.half, self.budget, self.advance = half, budget, advance
        self.trials: list[Trial] = []
        self._known: dict[str, Trial] = {}

    def run(self, layers: int) -> tuple[Candidate, str]:
        """The best candidate, and why the search ended."""
        best = max(STARTS, key=lambda candidate: _rank(self._measure(candidate)))
        moved = True
        while moved:
            moved = False
            for step in neighbours(layers):
                others = [other for other in step(best) if other.key not in self._known]
                left = self.budget - len(self.trials)
                found = max(others[:left], key=lambda other: _rank(self._measure(other)), default=best)
                if _rank(self._measure(found)) > _rank(self._measure(best)) + LEAST_STEP:
                    best, moved = found, True
                if len(others) > left:
                    return best, f"the budget of {self.budget} plans is spent"
        return best, "no plan that differs in one respect is better"

    def _measure(self, candidate: Candidate) -> Trial:
        if candidate.key not in self._known:
            trial = _tried(str(candidate), partial(self.half.propagated, candidate))
            self._known[candidate.key] = trial
            self.trials.append(trial)
            self.advance(trial.what)
        return self._known[candidate.key]
