"""Shapley values at the price of a few forward passes.

phi ~ a guess from relevance (AttnLRP) and what each feature says alone, corrected by a few true values: what is lost
without the features that seem to matter most, and the values of random halves of the input (`games/smooth.py`).
Where leaving every feature out once is cheap, as with the shared prefix of a decoder, both ends are the guess.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError, LoopropError, RuleError
from looprop.games.smooth import likeliest_of, signs
from looprop.games.values import all_sets, exact_shapley, first_marginals, last_marginals
from looprop.methods.attnlrp import AttnLRP
from looprop.methods.base import Attribution, Method
from looprop.methods.looprop.method import LooProp
from looprop.methods.parts.players import GameMethod, Keep, Players, whole_number
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.removal.value import SetFunction

Floats = NDArray[np.float64]

RELEVANCE = 3.0  # what one forward and one backward pass cost
# How much of the Shapley value is in each part of the guess, by which parts there are, on training sentences of two
# models (docs/fast-shapley.md). In the first AttnLRP loses about half on its way, and alone a feature says several
# times what it adds in company; in the second relevance says less and alone more. Which one it is, the values tell.
SHARES: dict[tuple[str, ...], tuple[tuple[float, ...], ...]] = {
    ("relevance",): ((2.87,), (1.05,)),
    ("relevance", "alone"): ((1.9, 0.18), (0.79, 0.48)),
    ("relevance", "alone", "first order"): ((1.58, 0.18, 0.57), (0.64, 0.49, 0.2)),
    ("relevance", "alone", "leave-one-out"): ((1.29, 0.2, 0.34), (0.48, 0.46, 0.34)),
    ("alone",): ((0.27,), (0.54,)),
    ("alone", "first order"): ((0.25, 1.52), (0.53, 0.32)),
    ("alone", "leave-one-out"): ((0.27, 0.61), (0.49, 0.41)),
}
FOR_TRUE_VALUES = 4.0  # so many passes buy true leave-one-out values of the largest, all others random halves
HALF = 0.2  # halves have between 30 % and 70 % of the features


@dataclass
class Purse:
    """A budget in forward passes, and what was bought."""

    left: float
    spent: dict[str, float] = field(default_factory=dict)

    def buy(self, what: str, cost: float) -> bool:
        if cost > self.left + 1e-9:
            return False
        self.left -= cost
        self.spent[what] = self.spent.get(what, 0.0) + cost
        return True


class FastShapley(GameMethod):
    """An estimate of the Shapley value from relevance, alone and a few true values.

    budget: forward passes in all; where all sets cost no more, the value is exact. seed: of the random halves.
    """

    name = "fast-shapley"
    title = "Fast Shapley estimate"
    short = "fast Shapley"
    summary = "the Shapley value from relevance, alone and a few true values, for a budget of passes"
    cost = "at most budget"
    kind = "share"

    def __init__(
        self, *, budget: float = 10, keep: Keep = "special", removal: Removal | None = None, seed: int = 0
    ) -> None:
        super().__init__(keep=keep, removal=removal)
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not RELEVANCE + 1 <= budget < math.inf:
            raise InputError(f"budget must be at least {RELEVANCE + 1:g} forward passes, and finite, got {budget!r}")
        self.budget, self.seed = budget, whole_number("seed", seed, 0)

    def passes(self, subject: Subject) -> float:
        return min(float(self.budget), 2.0 ** (len(subject.features) - sum(subject.special)))

    def play(self, subject: Subject, players: Players) -> Attribution:
        found = self._played(subject, players)
        while players.value.fell_back:  # the prices of a shortcut that was dropped have decided what was bought
            players = replace(players, value=SetFunction(subject, removal=players.value.removal))
            found = self._played(subject, players)
        return found

    def _played(self, subject: Subject, players: Players) -> Attribution:
        purse = Purse(float(self.budget))
        count = len(players)
        nothing = float(players(np.zeros((1, count), dtype=bool))[0])
        sets = all_sets(count) if 2**count <= 8 * self.budget else None
        # The value of the whole is known.
        if sets is not None and purse.buy("all sets", float(players.set_cost(sets[:-1]).sum()) + players.shared_cost):
            shares, errors = exact_shapley(players(sets)), np.zeros(count)
            said: dict[str, Any] = {"exact": True}
        else:
            shares, errors, said = _estimate(subject, players, purse, np.random.default_rng(self.seed))
        scores = players.spread(shares)
        details = {**players.about, **said, "errors": players.spread(errors).tolist(), "spent": purse.spent}
        residual = subject.output - nothing - float(scores.sum())
        details["baseline_output"] = nothing
        return Attribution(scores, cost=sum(purse.spent.values()), residual=residual, details=details)


def _estimate(
    subject: Subject, players: Players, purse: Purse, generator: np.random.Generator
) -> tuple[Floats, Floats, dict[str, Any]]:
    count = len(players)
    single, nobody = np.eye(count, dtype=bool), np.zeros((1, count), dtype=bool)
    purse.buy("nothing", float(players.set_cost(nobody)[0]) + players.shared_cost)
    views, said = _views(subject, players, purse)
    guesses = _guesses(views)
    alone_cost, without_cost = players.set_cost(single), players.set_cost(~single)
    cost = (without_cost if "alone" in views else without_cost + alone_cost).tolist()
    order = np.lexsort((np.arange(count), -np.abs(guesses[0].sum(1))))
    least = max(0.0, purse.left - FOR_TRUE_VALUES)
    known = list(order) if "leave-one-out" in views else []
    if not known:
        known = [i for i in order if purse.left - cost[i] >= least - 1e-9 and purse.buy("leave-one-out", cost[i])]
    if len(known) == count:
        guesses = _guesses({**views, "leave-one-out": last_marginals(players, count)})
    halves = _halves(players, purse, generator)
    sets = np.concatenate([np.ones((1, count), dtype=bool), single[known], halves])
    values = players(np.concatenate([sets, ~sets]))
    found = likeliest_of(guesses, signs(sets), (values[: len(sets)] - values[len(sets) :]) / 2)
    said |= {"exact": False, "views": list(views), "true_values": len(known), "halves": 2 * len(halves)}
    return found.shares, found.errors, said


def _views(subject: Subject, players: Players, purse: Purse) -> tuple[dict[str, Floats], dict[str, Any]]:
    """Views of the Shapley value that cost little: both ends where they do, else relevance, alone, and leave-one-out to
    first order where it is too dear itself. What a model has no rule for is left out, and said.
    """
    count = len(players)
    views: dict[str, Floats] = {}
    said: dict[str, Any] = {}
    single = np.eye(count, dtype=bool)
    alone, everyone = (float(players.set_cost(sets).sum()) for sets in (single, ~single))
    if everyone <= RELEVANCE + FOR_TRUE_VALUES and purse.buy("both ends", alone + everyone):
        return {"alone": first_marginals(players, count), "leave-one-out": last_marginals(players, count)}, said

    def through_the_model(name: str, method: Method, refusal: type[LoopropError]) -> None:
        if purse.left < RELEVANCE - 1e-9:
            return
        try:
            views[name] = method.attribute([subject])[0].scores[players.players]
            purse.buy(name, RELEVANCE)
        except refusal as error:
            said["without"] = f"{name}: {error}"

    through_the_model("relevance", AttnLRP(), RuleError)
    if purse.buy("alone", alone):
        views["alone"] = first_marginals(players, count)
    if "alone" in views and min(FOR_TRUE_VALUES, purse.left) < everyone and players.value.removal == "attention-mask":
        through_the_model("first order", LooProp(rows=0), InputError)
    return views, said


def _guesses(views: dict[str, Floats]) -> list[Floats]:  # parts of each guess: (n, c)
    names = tuple(name for name in views if name != "first order" or "leave-one-out" not in views)
    if names not in SHARES:
        raise InputError("the budget is too small for a model without relevance: give more passes, or use 'shapley'")
    found = np.stack([views[name] for name in names], 1)
    return [found * np.array(shares) for shares in SHARES[names]]


def _halves(players: Players, purse: Purse, generator: np.random.Generator) -> NDArray[np.bool_]:
    """Random sets of about half of the players, as many as can be paid together with their complements: (m, n)."""
    count = len(players)
    bought: list[NDArray[np.bool_]] = []
    low, high = int(np.ceil((0.5 - HALF) * count)), int((0.5 + HALF) * count)
    while count > 1:
        half = np.zeros(count, dtype=bool)
        half[generator.permutation(count)[: generator.integers(max(1, low), max(1, high) + 1)]] = True
        if not purse.buy("halves", float(players.set_cost(np.stack([half, ~half])).sum())):
            break
        bought.append(half)
    return np.stack(bought) if bought else np.empty((0, count), dtype=bool)
