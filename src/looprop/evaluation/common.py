"""What is the same for all methods on one example: the references, what is left when every feature is gone, the limits
of its removal curves, and random sets of features. Computed once, and only what the metrics need.
"""

import math
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
from looprop.models.subject import Subject
from looprop.running.parts import Row

Floats = NDArray[np.float64]


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
