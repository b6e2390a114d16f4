"""Shapley values of an example from an earlier run: dearer than leave-one-out, and the same whatever is compared with
them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError
from looprop.evaluation.known_loo import ROUNDING
from looprop.methods.players import players_of
from looprop.models.adapter import Removal
from looprop.models.subject import Subject


@dataclass(frozen=True, eq=False)
class KnownShapley:
    """Scores of `shapley`, their largest standard error (0 where they are exact), cost and seconds as they were
    measured then.
    """

    scores: NDArray[np.float64]
    target: str
    output: float
    error: float
    cost: float
    seconds: float


def known_shapley(rows: Iterable[Mapping[str, Any]]) -> dict[str, KnownShapley]:
    """Shapley values by example, from the rows of a run that had them for its reference."""
    return {
        row["example"]: KnownShapley(
            np.array(row["shapley"]),
            row["target"],
            float(row["output"]),
            float(row["shapley_error"]),
            float(row["reference_cost"]),
            float("nan"),
        )
        for row in rows
        if row.get("shapley") and not row["error"]
    }


def check_known(subject: Subject, known: KnownShapley, removal: Removal | None) -> None:
    """Raise unless the known values can be those of this subject: they add up to f(x) - f(nothing), sampled or exact,
    and what always stays has none.
    """
    count = len(subject.features)
    if known.scores.shape != (count,) or known.target != str(subject.target.key):
        raise InputError(
            f"the known Shapley values are of {len(known.scores)} features and target {known.target}, "
            f"the input has {count} and target {subject.target.key}"
        )
    game = players_of(subject.alone(), removal=removal)
    gap = subject.output - float(game(np.zeros((1, len(game)), dtype=bool))[0])
    found = np.array([subject.output, gap, *np.zeros(len(game.stays))])
    wanted = np.array([known.output, known.scores.sum(), *known.scores[game.stays]])
    error = float(np.abs(found - wanted).max())
    if error > ROUNDING * max(1.0, float(np.abs(known.scores).sum())):
        raise InputError(
            "the known Shapley values are not those of this model and text: they do not add up to f(x) - f(nothing), "
            f"by {error:.2g}"
        )
