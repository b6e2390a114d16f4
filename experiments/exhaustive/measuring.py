"""One sentence under one model: exact references, curves and limits from the values of all 2^n maskings, and every
method held against them.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from looprop.games.orders import exact_limits
from looprop.games.values import Floats, exact_shapley, first_marginals, last_marginals
from looprop.metrics import (
    area_over_curve,
    correlate,
    infidelity,
    matters,
    normalised_aopc,
    pearson,
    removal_sets,
    required_states,
    sensitivity_n,
    spearman,
)
from looprop.running.parts import Row
from looprop.study import Task

from .maskings import MaskedSentence

OWN = ("loo", "alone", "both-ends", "shapley")
"""What is computed here; the others are the scores that were published with the data."""
OF_POSITIVE = frozenset({"decompx"})
"""The published scores of these are of the positive class, also where the model says negative; all others explain the
class that the model predicts (see the claims).
"""


def measure_sentence(methods: Sequence[str], task: Task) -> list[Row]:
    """One row per method."""
    sentence: MaskedSentence = task.item
    predicted = int(sentence.logits[-1].argmax())
    by_class = {target: Exact(sentence.logits, target) for target in (0, 1)}
    own = by_class[predicted]
    # The published limits are of the positive class.
    positive: Floats = softmax(sentence.logits, axis=1)[:, 1]
    limits = exact_limits(positive)
    common = {
        "example": task.id,
        "model": sentence.model,
        "sentence": sentence.id,
        "words": sentence.words,
        "predicted": predicted,
        "output": float(own.values[-1]),
        "nothing": float(own.values[0]),
        "loo_matters": matters(own.loo, whole=float(own.values[-1]), nothing=float(own.values[0])),
        "efficiency error": float(abs(own.shapley.sum() - (own.values[-1] - own.values[0]))),
        "best error": abs(limits.best - sentence.best),
        "worst error": abs(limits.worst - sentence.worst),
        "best error of its order": abs(_area(positive, sentence.best_order) - sentence.best),
        "last step alone": float(positive[-1] - positive[0]) / sentence.words,
        "stored best": sentence.best,
        "misfits": sentence.misfits,
        "loo": own.loo.tolist(),
        "shapley": own.shapley.tolist(),
    }
    computed = {"loo": own.loo, "alone": own.alone, "both-ends": (own.loo + own.alone) / 2, "shapley": own.shapley}
    scores = {name: computed[name] for name in methods} | sentence.scores
    rows = []
    for name, of_method in scores.items():
        target = 1 if name in OF_POSITIVE else predicted
        more = {**by_class[target].measure(of_method), "shapley-r predicted": pearson(of_method, own.shapley)}
        rows.append({**common, "method": name, "target": target, **more, "scores": of_method.tolist(), "error": ""})
    return rows


class Exact:
    """Everything that there is to know of one class: the logit of every set of words (2^n,), and the references."""

    def __init__(self, logits: Floats, target: int) -> None:
        self.values: Floats = logits[:, target]
        self.probabilities: Floats = softmax(logits, axis=1)[:, target]
        self.words = len(logits).bit_length() - 1
        self.bits = 1 << np.arange(self.words)
        self.loo = last_marginals(lambda sets: self.values[sets @ self.bits], self.words)
        self.alone = first_marginals(lambda sets: self.values[sets @ self.bits], self.words)
        self.shapley = exact_shapley(self.values)

    def measure(self, scores: Floats) -> Row:
        """What the metrics say of scores; NAOPC on logits, and on probabilities as those who proposed it have it."""
        normalised = correlate(scores, self.loo, protocol="paper")
        removed = removal_sets(np.ones(self.words, dtype=bool))
        drops = self.values[-1] - self.values[~removed @ self.bits]
        return {
            "loo-r": pearson(scores, self.loo),
            "shapley-r": pearson(scores, self.shapley),
            "loo-spearman": spearman(scores, self.loo),
            "shapley-spearman": spearman(scores, self.shapley),
            "loo-r-paper": normalised.value,
            "flipped": normalised.flipped,
            "naopc": self._naopc(scores, self.values),
            "naopc of probability": self._naopc(scores, self.probabilities),
            "sensitivity": sensitivity_n(scores, removed, drops),
            "infidelity": infidelity(scores, removed, drops),
        }

    def _naopc(self, scores: Floats, values: Floats) -> float:
        if self.words < 2:
            return float("nan")
        limits = exact_limits(values)
        curve = values[required_states(["naopc"], scores).keep[1:] @ self.bits]
        return normalised_aopc(area_over_curve(float(values[-1]), curve), limits.worst, limits.best)


def _area(values: Floats, order: Sequence[int]) -> float:
    """The area over the curve of an order in which words go."""
    gone = np.cumsum([1 << word for word in order])
    return area_over_curve(float(values[-1]), values[len(values) - 1 - gone])
