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
from looprop.games.orders import Limits, order_limits
from looprop.measure import Measured
from looprop.methods.parts.players import Players, players_of
from looprop.metrics import matters, removal_sets
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.removal.value import SetFunction
from looprop.running.parts import Row

Floats = NDArray[np.float64]
# Two machines round differently, by this at most, relative to the size of the values.
ROUNDING = 1e-4
# Of leave-one-out the largest value and so many others are computed again.
PROBES = 2


@dataclass(frozen=True, eq=False)
class Common:
    """What all methods on one example are measured with.

    loo, shapley: the references, Shapley values only where a metric needs them; error: the largest standard error of
    theirs. special: (F,). nothing: the target's value of what always stays, None where everything does. plays: (G,)
    which features of the curves do not. limits: of the curves. removed, drops: sets of features and what falls without
    them. cost: of all this, in forward passes.
    """

    loo: Floats
    special: NDArray[np.bool_]
    plays: NDArray[np.bool_]
    shapley: Floats | None = None
    error: float | None = None
    nothing: float | None = None
    limits: Limits | None = None
    removed: NDArray[np.bool_] | None = None
    drops: Floats | None = None
    cost: float = 0.0

    @property
    def of_case(self) -> dict[str, Any]:
        """Fields of a `Case`."""
        limits = None if self.limits is None else np.array([self.limits.worst, self.limits.best])
        references = {"loo": self.loo, "shapley": self.shapley, "special": self.special}
        sets = {"removed": self.removed, "removed_drops": self.drops}
        return {**references, **sets, "plays": self.plays, "aopc_limits": limits}

    def of_row(self, output: float) -> Row:
        """Columns of a row; those of Shapley values and limits only where there are any."""
        row: Row = {"loo": self.loo.tolist(), "reference_cost": self.cost}
        row["loo_matters"] = self._matters(self.loo, output)
        if self.shapley is not None:
            row |= {"shapley": self.shapley.tolist(), "shapley_error": self.error}
            row["shapley_matters"] = self._matters(self.shapley, output)
        if self.limits is not None:
            row |= {"aopc_best": self.limits.best, "aopc_worst": self.limits.worst, "limits_exact": self.limits.exact}
        return row

    def _matters(self, effects: Floats, output: float) -> bool | None:
        if self.nothing is None:
            return None
        return matters(effects, whole=output, nothing=self.nothing, special=self.special)


def measure_common(
    subject: Subject, grouped: Subject, setup: Setup, loo: Measured, shapley: Measured | None = None
) -> Common:
    """What the metrics of a setup need beside a method's own scores. grouped: the subject in the features of the
    curves.
    """
    before = _computed(subject)
    needs = setup.needs
    special = np.array(subject.special)
    own = _players(subject, setup)
    game = own if grouped.features == subject.features else _players(grouped, setup)
    plays = np.zeros(len(grouped.features), dtype=bool)
    if game is not None:
        plays[game.players] = True
    more: dict[str, Any] = {}
    if "aopc_limits" in needs:
        more["limits"] = Limits(0.0, 0.0, (), (), exact=True) if game is None else order_limits(game, len(game))
    if "removed_drops" in needs:
        more |= _removals(grouped, game, plays, setup.seed)
    # No column of a row: its last bits depend on what rode in the same batch.
    nothing = None if own is None else float(own(np.zeros((1, len(own)), dtype=bool))[0])
    assert loo.scores is not None
    return Common(
        loo=loo.scores,
        special=special,
        plays=plays,
        shapley=None if shapley is None else shapley.scores,
        error=None if shapley is None else float(shapley.details.get("largest_error", math.nan)),
        nothing=nothing,
        cost=loo.cost + (0.0 if shapley is None else shapley.cost) + _computed(subject) - before,
        **more,
    )


def _computed(subject: Subject) -> int:
    return sum(values.computed for values in subject.cache.values.values())


def _players(subject: Subject, setup: Setup) -> Players | None:
    """The game of a subject; None where every feature always stays."""
    try:
        return players_of(subject, removal=setup.removal)
    except InputError:
        return None


def _removals(grouped: Subject, game: Players | None, plays: NDArray[np.bool_], seed: int) -> dict[str, Any]:
    removed = removal_sets(plays, seed=seed)
    drops = np.zeros(0) if game is None or not len(removed) else grouped.output - game.value(~removed)
    return {"removed": removed, "drops": drops}


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
