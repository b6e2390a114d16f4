"""Interactions of a subject: every pair of a short text, the strongest candidates of a long one."""

import time

import numpy as np

from looprop.errors import InputError
from looprop.explained import named_features
from looprop.games.values import candidate_pairs, first_marginals, last_marginals, pair_interactions
from looprop.methods.parts.players import Keep, check_game_options, players_of
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.result.pairs import ALL, Interactions

MOST = 120
"""So many pairs are asked for by default: all pairs of up to 16 features."""


def planned(subject: Subject, *, most: int = MOST, keep: Keep = "special", removal: Removal | None = None) -> str:
    """What interactions of a subject will cost, in words, before they are computed."""
    count = len(players_of(subject, keep=keep, removal=removal))
    possible = count * (count - 1) // 2
    asked = possible if possible <= most else len(candidate_pairs(np.zeros(count), most))
    alone = "" if possible <= most else " and each feature alone"
    return f"{asked} of {possible} pairs: about {asked + count} forward passes{alone}"


def interactions_of(
    subject: Subject, *, most: int = MOST, keep: Keep = "special", removal: Removal | None = None
) -> Interactions:
    """f(x) - f(-i) - f(-j) + f(-ij) of all pairs where there are at most `most` of them, else of those among the
    features with the largest effects: by leave-one-out, or alone, where what is said twice shows.
    """
    check_game_options(keep, removal)
    if type(most) is not int or most < 1:
        raise InputError(f"most must be an integer >= 1, got {most!r}")
    start = time.perf_counter()
    game = players_of(subject, keep=keep, removal=removal)
    before, count = game.value.count.computed, len(game)
    if count < 2:
        raise InputError(f"interactions need at least 2 features that can go, got {count}")
    lost, possible = last_marginals(game, count), count * (count - 1) // 2
    sizes = np.abs(lost)
    if possible > most:
        sizes = np.maximum(sizes, np.abs(first_marginals(game, count)))
    pairs = candidate_pairs(sizes, most)
    values = pair_interactions(game, count, pairs)
    chosen = ALL
    if len(pairs) < possible:
        among = len({player for pair in pairs for player in pair})
        chosen = f"those among the {among} features with the largest effects, of {count}"
    if subject.encoded.cut is not None:
        chosen += " of a text that was cut to {} of {} tokens".format(*subject.encoded.cut)
    return Interactions(
        features=list(named_features(subject)[1]),
        pairs=[(int(game.players[i]), int(game.players[j])) for i, j in pairs],
        values=values,
        effects=game.spread(lost),
        output=subject.output,
        target=subject.target.key,
        label=subject.target.label,
        text=subject.encoded.text,
        possible=possible,
        chosen=chosen,
        stays=game.about["stays"],
        removal=game.value.removal,
        model=subject.adapter.name,
        cost=float(game.value.count.computed - before),
        seconds=time.perf_counter() - start,
    )
