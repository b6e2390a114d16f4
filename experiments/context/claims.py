"""What was aimed at: ours ahead of ContextCite's 32 ablations, in three measures, at no more passes."""

import numpy as np

from looprop.study import JudgedClaim, Run
from looprop.study.claims import judge_difference

from .measuring import GENERATED, GIVEN, TOPS
from .methods import COARSE_TO_FINE, CONTEXT_CITE
from .tables import TITLES, values_of

OURS = ("looprop", COARSE_TO_FINE)
AHEAD = ("r", "lds", *(f"drop@{k}" for k in TOPS))


def context_claims(run: Run) -> list[JudgedClaim]:
    """Every aim for which a run has rows."""
    present = {(row["answer"], row["method"]) for row in run.rows}
    return [
        claim
        for answer in (GIVEN, GENERATED)
        for method in OURS
        if {(answer, method), (answer, CONTEXT_CITE)} <= present
        for claim in _of(run, answer, method)
    ]


def _of(run: Run, answer: str, method: str) -> list[JudgedClaim]:
    claims = []
    for measure in AHEAD:
        own, rival = (np.array(values_of(run.rows, answer, name, measure)) for name in (method, CONTEXT_CITE))
        both = ~np.isnan(own) & ~np.isnan(rival)
        claim = f"{method} is ahead of {CONTEXT_CITE} in {TITLES[measure]} (answer {answer})"
        claims.append(judge_difference(own[both] - rival[both], claim, "–"))
    passes = [float(np.mean(values_of(run.rows, answer, name, "passes"))) for name in (method, CONTEXT_CITE)]
    claim = f"{method} needs no more passes than {CONTEXT_CITE} (answer {answer})"
    return [*claims, JudgedClaim(claim, "–", f"{passes[0]:.1f} and {passes[1]:.1f}", passes[0] <= passes[1])]
