"""What many methods ask of one answer is computed once, and every method is charged for all that it asked for."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from looprop.games.values import Floats, Game, Sets, all_sets

from .rivals import random_sets

FEW = 12
"""Of so many players all sets can be listed."""


@dataclass
class Asked:
    """What one method asked of a game: how many sets, and the seconds that these took when they were computed."""

    passes: float = 0.0
    seconds: float = 0.0


@dataclass
class SharedGame:
    """A game whose values are kept, with the processor time of each."""

    game: Game
    clock: Callable[[], float] = time.process_time
    _known: dict[bytes, tuple[float, float]] = field(default_factory=dict)

    def of(self, asked: Asked) -> Game:
        """The game for one method, which is charged once for every set."""
        charged: set[bytes] = set()

        def play(sets: Sets) -> Floats:
            values = self(sets)
            for key in _keys(sets):
                if key not in charged:
                    charged.add(key)
                    asked.passes += 1
                    asked.seconds += self._known[key][1]
            return values

        return play

    def __call__(self, sets: Sets) -> Floats:
        """Values of sets, (N, n) -> (N,), each computed once."""
        keys = _keys(sets)
        missing = list({key: i for i, key in enumerate(keys) if key not in self._known}.values())
        if missing:
            start = self.clock()
            values = self.game(sets[missing])
            each = (self.clock() - start) / len(missing)
            for i, value in zip(missing, values.tolist(), strict=True):
                self._known[keys[i]] = (value, each)
        return np.array([self._known[key][0] for key in keys])


def _keys(sets: Sets) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(sets, axis=1)]


def held_out(players: int, count: int, training: Sets, seed: int) -> Sets:
    """So many different random sets, none of them among those that a method was fitted to; fewer where there are not so
    many.
    """
    generator = np.random.default_rng(seed)
    seen = set(_keys(training))
    if players <= FEW:
        everything = all_sets(players)
        left = [row for row, key in zip(everything, _keys(everything), strict=True) if key not in seen]
        order = generator.permutation(len(left))[:count]
        return np.array([left[i] for i in order], dtype=bool).reshape(len(order), players)
    found: list[Sets] = []
    while len(found) < count:
        (one,) = random_sets(players, 1, generator)
        (key,) = _keys(one[None])
        if key not in seen:
            seen.add(key)
            found.append(one)
    return np.array(found)
