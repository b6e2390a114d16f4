"""Leave-one-out of an example from an earlier run: the dearest part of an evaluation, and the same whatever it is
compared with.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.removal.value import SetFunction

# Two machines round differently, by this at most, relative to the size of the values.
ROUNDING = 1e-4
# The largest value and so many others are computed again.
PROBES = 2


@dataclass(frozen=True, eq=False)
class KnownLoo:
    """Scores of `loo` and the target's value on the intact input; cost and seconds as they were measured then."""

    scores: NDArray[np.float64]
    target: str
    output: float
    cost: float
    seconds: float


def known_loo(rows: Iterable[Mapping[str, Any]]) -> dict[str, KnownLoo]:
    """Leave-one-out by example, from the rows of a run; examples on which it failed are left out."""
    own = [row for row in rows if row["method"] == "loo" and not row["error"]]
    return {
        row["example"]: KnownLoo(
            np.array(row["scores"]), row["target"], float(row["output"]), float(row["cost"]), float(row["seconds"])
        )
        for row in own
    }


def learn_known(subject: Subject, known: KnownLoo, removal: Removal | None) -> None:
    """Give a subject's set function the known values; raise unless they are its own: some are computed again."""
    count = len(subject.features)
    if known.scores.shape != (count,) or known.target != str(subject.target.key):
        raise InputError(
            f"the known leave-one-out is of {len(known.scores)} features and target {known.target}, "
            f"the input has {count} and target {subject.target.key}"
        )
    largest = int(np.abs(known.scores).argmax())
    others = [i for i in np.random.default_rng(count).permutation(count) if i != largest]
    probes = np.array([largest, *others[:PROBES]])
    keep = ~np.eye(count, dtype=bool)  # row i leaves feature i out
    again = subject.output - SetFunction(subject.alone(), removal=removal)(keep[probes])
    found = np.array([subject.output, *again])
    wanted = np.array([known.output, *known.scores[probes]])
    error = np.abs(found - wanted).max()
    if error > ROUNDING * max(1.0, np.abs(wanted).max()):
        raise InputError(
            f"the known leave-one-out is not that of this model and text: computed again it is off by {error:.2g}"
        )
    SetFunction(subject, removal=removal).learn(keep, known.output - known.scores)
