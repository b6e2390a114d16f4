"""References of an example from an earlier run: the most expensive part of an evaluation, and the same whatever is
compared with them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError
from looprop.methods.parts.players import players_of
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.removal.value import SetFunction

# Two machines round differently, by this at most, relative to the size of the values.
ROUNDING = 1e-4
# Of leave-one-out the largest value and so many others are computed again.
PROBES = 2


class WrongReference(InputError):
    """A known reference that is not that of the example."""


@dataclass(frozen=True, eq=False)
class KnownReference:
    """The scores of a reference and the target's value on the intact input; cost and seconds as they were measured
    then. error: the largest standard error of the scores, 0 where they are exact.
    """

    scores: NDArray[np.float64]
    target: str
    output: float
    cost: float
    seconds: float = float("nan")
    error: float = 0.0


def known_loo(rows: Iterable[Mapping[str, Any]]) -> dict[str, KnownReference]:
    """Leave-one-out by example, from the rows of a run; examples on which it failed are left out."""
    return {
        row["example"]: KnownReference(
            np.array(row["scores"]), row["target"], float(row["output"]), float(row["cost"]), float(row["seconds"])
        )
        for row in rows
        if row["method"] == "loo" and not row["error"]
    }


def known_shapley(rows: Iterable[Mapping[str, Any]]) -> dict[str, KnownReference]:
    """Shapley values by example, from the rows of a run that had them for its reference."""
    return {
        row["example"]: KnownReference(
            np.array(row["shapley"]),
            row["target"],
            float(row["output"]),
            float(row["reference_cost"]),
            error=float(row["shapley_error"]),
        )
        for row in rows
        if row.get("shapley") and not row["error"]
    }


def learn_known(subject: Subject, known: KnownReference, removal: Removal | None) -> None:
    """Give a subject's set function the known leave-one-out; raise unless it is its own: some is computed again."""
    count = len(subject.features)
    check_fits(subject, known, "leave-one-out is")
    largest = int(np.abs(known.scores).argmax())
    others = [i for i in np.random.default_rng(count).permutation(count) if i != largest]
    probes = np.array([largest, *others[:PROBES]])
    keep = ~np.eye(count, dtype=bool)  # row i leaves feature i out
    again = subject.output - SetFunction(subject.alone(), removal=removal)(keep[probes])
    check_values([subject.output, *again], [known.output, *known.scores[probes]], "leave-one-out is", 1.0)
    SetFunction(subject, removal=removal).learn(keep, known.output - known.scores)


def check_shapley(subject: Subject, known: KnownReference, removal: Removal | None) -> None:
    """Raise unless the known Shapley values can be those of this subject: they add up to f(x) - f(nothing), and what
    always stays has none.
    """
    check_fits(subject, known, "Shapley values are")
    game = players_of(subject.alone(), removal=removal)
    gap = subject.output - float(game(np.zeros((1, len(game)), dtype=bool))[0])
    found = [subject.output, gap, *np.zeros(len(game.stays))]
    wanted = [known.output, known.scores.sum(), *known.scores[game.stays]]
    check_values(found, wanted, "Shapley values are", float(np.abs(known.scores).sum()))


def check_fits(subject: Subject, known: KnownReference, what: str) -> None:
    """Raise for a reference of other features or another target than the subject's."""
    count = len(subject.features)
    if known.scores.shape != (count,) or known.target != str(subject.target.key):
        raise InputError(
            f"the known {what} of {len(known.scores)} features and target {known.target}, "
            f"the input has {count} and target {subject.target.key}"
        )


def check_values(found: Sequence[float], wanted: Sequence[float], what: str, size: float) -> None:
    """Raise where values that were computed again are not the known ones."""
    error = float(np.abs(np.array(found) - np.array(wanted)).max())
    if error > ROUNDING * max(1.0, size, float(np.abs(np.array(wanted)).max())):
        raise InputError(f"the known {what} not of this model and text: off by {error:.2g} where computed again")
