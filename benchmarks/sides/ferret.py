"""ferret: the leave-one-out inside its taucorr_loo, which deletes a token from the text, tokenizes anew and reads
probabilities.
"""

from typing import Any

import numpy as np
from ferret.evaluators.faithfulness_measures import TauLOO_Evaluation
from ferret.explainers.explanation import Explanation

from benchmarks.exchange import Case, load_tokenizer
from benchmarks.sides import Job
from benchmarks.sides.plain import model_of


class _Fewer:
    """Its helper, which runs only the first so many of a list of variants."""

    def __init__(self, helper: Any, count: int | None) -> None:
        self._helper, self._count = helper, count

    def __getattr__(self, name: str) -> Any:
        return getattr(self._helper, name)

    def _forward(self, text: Any, **options: Any) -> Any:
        return self._helper._forward(text if isinstance(text, str) else text[: self._count], **options)


def _evaluation(case: Case, count: int | None = None) -> Any:
    evaluation = TauLOO_Evaluation(model_of(case), load_tokenizer(case.model))
    evaluation.helper = _Fewer(evaluation.helper, count)
    return evaluation


def loo(case: Case, *, count: int | None = None) -> Job:
    """Its leave-one-out of the tokens between the special ones: the drop of the probability, for every text."""
    evaluation = _evaluation(case, count)

    def run() -> list[Any]:
        pairs = zip(case.texts, case.targets, strict=True)
        return [-evaluation.compute_leave_one_out_occlusion(text, target=target).numpy() for text, target in pairs]

    computed = [min(len(ids) - 2, count or len(ids)) + 1 for ids in case.ids]  # and the intact text
    return Job(run, sum(computed))


def tau(case: Case, *, scores: list[list[float]]) -> Job:
    """Its correlation of given scores (special tokens included, which it drops) with its leave-one-out."""
    evaluation = _evaluation(case)

    def run() -> list[Any]:
        found = []
        for text, target, of in zip(case.texts, case.targets, scores, strict=True):
            tokens = evaluation.helper.get_tokens(text)
            given = Explanation(text=text, tokens=tokens, scores=np.asarray(of), explainer="given", target=target)
            found.append([evaluation.compute_evaluation(given, target=target).score])
        return found

    return Job(run, len(case.ids))


JOBS = {"loo": loo, "tau": tau}
