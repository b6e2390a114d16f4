"""What all methods on one example are measured with: the references, what is left when every feature is gone, the
limits of its removal curves, and random sets of features. Computed once, and only what the metrics need; references may
also be known from an earlier run.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError
from looprop.evaluation.setup import Setup
from looprop.games.orders import OrderLimits, order_limits
from looprop.measure import Outcome
from looprop.methods.parts.players import Players, players_of
from looprop.metrics import matters, removal_sets
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.removal.value import SetFunction
from looprop.running.parts import Row

# Two machines round differently, by this at most, relative to the size of the values.
ROUNDING = 1e-4
# Of leave-one-out the largest value and so many others are computed again.
PROBES = 2


def measure_common(
    subject: Subject, grouped: Subject, setup: Setup, loo: Outcome, shapley: Outcome | None = None
) -> tuple[dict[str, Any], Row]:
    """What the metrics of a setup need beside a method's own scores, as fields of a `Case` and as columns of a row; of
    Shapley values, limits and random sets only what a metric asks for. grouped: the subject in the features of the
    curves.
    """
    before, special = _computed(subject), np.array(subject.special)
    own = _players(subject, setup)
    game = own if grouped.features == subject.features else _players(grouped, setup)
    plays = np.zeros(len(grouped.features), dtype=bool)
    if game is not None:
        plays[game.players] = True
    case: dict[str, Any] = {"special": special, "plays": plays}
    limits: Row = {}
    if "aopc_limits" in setup.needs:
        found = OrderLimits(0.0, 0.0, (), (), exact=True) if game is None else order_limits(game, len(game))
        case["aopc_limits"] = np.array([found.worst, found.best])
        limits = {"aopc_best": found.best, "aopc_worst": found.worst, "limits_exact": found.exact}
    if "removed_drops" in setup.needs:
        removed = removal_sets(plays, seed=setup.seed)
        drops = np.zeros(0) if game is None or not len(removed) else grouped.output - game.value(~removed)
        case |= {"removed": removed, "removed_drops": drops}
    # No column of a row: its last bits depend on what rode in the same batch.
    nothing = None if own is None else float(own(np.zeros((1, len(own)), dtype=bool))[0])
    cost = loo.cost + (0.0 if shapley is None else shapley.cost) + _computed(subject) - before

    def columns(name: str, reference: Outcome, more: Row) -> Row:
        scores = case[name] = reference.scores
        assert scores is not None
        matter = None if nothing is None else matters(scores, whole=subject.output, nothing=nothing, special=special)
        return {name: scores.tolist(), **more, f"{name}_matters": matter}

    row = columns("loo", loo, {"reference_cost": cost})
    if shapley is not None:
        error = float(shapley.details.get("largest_error", math.nan))
        row |= columns("shapley", shapley, {"shapley_error": error})
    return case, row | limits


def _computed(subject: Subject) -> int:
    return sum(values.computed for values in subject.cache.values.values())


def _players(subject: Subject, setup: Setup) -> Players | None:
    """The game of a subject; None where every feature always stays."""
    try:
        return players_of(subject, removal=setup.removal)
    except InputError:
        return None


# ----- references from an earlier run


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
    own = (row for row in rows if row["method"] == "loo" and not row["error"])
    return {row["example"]: _known(row, row["scores"], row["cost"], float(row["seconds"])) for row in own}


def known_shapley(rows: Iterable[Mapping[str, Any]]) -> dict[str, KnownReference]:
    """Shapley values by example, from the rows of a run that had them for its reference."""
    own = (row for row in rows if row.get("shapley") and not row["error"])
    return {
        row["example"]: _known(row, row["shapley"], row["reference_cost"], math.nan, float(row["shapley_error"]))
        for row in own
    }


def _known(row: Mapping[str, Any], scores: Any, cost: float, *more: float) -> KnownReference:
    return KnownReference(np.array(scores), row["target"], float(row["output"]), float(cost), *more)


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
