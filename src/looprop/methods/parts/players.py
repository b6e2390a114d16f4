"""A subject as a game: which features play, and which always stay.

Where features come in one by one, some state has none of them, and a Transformer without any key answers whatever its
code happens to do. So something always stays, with score 0: the tokens that the tokenizer added, and where it added
none the first token; beside them what the user names, such as the words of a template; and context that is no feature.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, get_args

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError, UnknownNameError
from looprop.methods.base import Attribution, Method
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.naming import one_of
from looprop.removal.value import SetFunction

Keep = str | Sequence[int | str]
"""What always stays: "special" (special tokens, or the first token where there is none), "none" (nothing: for tensors
and images, where "nothing there" is zero), or features beside the special ones: numbers (`3`, `4-9`) or names, as a
list or parted by commas."""

WORDS = ("special", "none")


def check_game_options(keep: Keep, removal: str | None) -> Keep:
    """What stays, as plain data; options that no game has raise."""
    if removal is not None:
        one_of("removal", removal, get_args(Removal))
    if isinstance(keep, str) and keep.strip():
        return keep
    if isinstance(keep, Sequence) and keep and all(type(part) is int or isinstance(part, str) for part in keep):
        return list(keep)
    raise InputError(f"keep must be 'special', 'none', or numbers or names of features, got {keep!r}")


@dataclass(frozen=True, eq=False)
class Players:
    """The features of a subject that play, by number, those that stay, and the set function that values sets."""

    value: SetFunction
    players: NDArray[np.int64]
    stays: NDArray[np.int64]

    def __call__(self, sets: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The target's value when only a set of players is there, beside what always stays: (N, n) -> (N,)."""
        return self.value(self._kept(sets))

    def __len__(self) -> int:
        return len(self.players)

    def spread(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of all features from those of the players."""
        spread = np.zeros(len(self.players) + len(self.stays))
        spread[self.players] = scores
        return spread

    @property
    def alone_cost(self) -> float:
        """The cost of every player by itself, and of none."""
        count = len(self.players)
        return float(self.set_cost(np.eye(count + 1, count, dtype=bool)).sum())

    @property
    def shared_cost(self) -> float:
        """What is computed once for all sets: a causal model's prefix, one pass at the most."""
        return 1.0 if self.value.way.startswith("prefix") else 0.0

    @property
    def about(self) -> dict[str, Any]:
        """What stays, by name, for the result: features, and context that is none."""
        subject = self.value.subject
        said = {"stays": [_name(subject, number) for number in self.stays]}
        context = [subject.encoded.names[i] for i in sorted(subject.encoded.fixed)]
        return {**said, "context": context} if context else said

    def set_cost(self, sets: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The cost of each set of players in forward passes: the share of rows run, where rows can be left out."""
        return self.value.cost(self._kept(sets))

    def _kept(self, sets: NDArray[np.bool_]) -> NDArray[np.bool_]:
        keep = np.ones((len(sets), len(self.players) + len(self.stays)), dtype=bool)
        keep[:, self.players] = sets
        return keep


def _name(subject: Subject, feature: int) -> str:
    return " ".join(subject.encoded.names[i] for i in subject.features[feature])


def players_of(subject: Subject, *, keep: Keep = "special", removal: Removal | None = None) -> Players:
    value = SetFunction(subject, removal=removal)
    stays = np.array([], dtype=np.int64) if keep == "none" else np.flatnonzero(subject.special)
    if keep not in WORDS:
        stays = np.union1d(stays, named_features(subject, keep)).astype(np.int64)
    if not len(stays) and value.removal != "zero" and not subject.something_stays:
        if keep == "none":
            raise InputError(
                "a text of which nothing stays has no answer: use keep='special', or removal='zero' on tensors"
            )
        stays = np.array([0])
    players = np.setdiff1d(np.arange(len(subject.features)), stays)
    if not len(players):
        raise InputError("every feature of this input always stays: there is nothing to share the answer among")
    return Players(value, players, stays)


def named_features(subject: Subject, keep: Keep) -> list[int]:
    """The numbers of the features that are named: by number, by a range of numbers, or by what they are called."""
    count = len(subject.features)
    names = [_name(subject, number) for number in range(count)]
    found: list[int] = []
    for part in [p.strip() for p in keep.split(",")] if isinstance(keep, str) else keep:
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", str(part))
        if span and part not in names:
            first, last = int(span[1]), int(span[2] or span[1])
            if not first <= last < count:
                raise InputError(f"keep names feature {part}; features run from 0 to {count - 1}")
            found += range(first, last + 1)
        elif part in names:
            found += [number for number, name in enumerate(names) if name == part]
        elif part != "special":
            raise UnknownNameError("kept feature", str(part), {*names, *WORDS})
    return found


class GameMethod(Method):
    """The base of methods that ask what sets of features are worth. keep: what always stays beside what the tokenizer
    added. removal: how features are removed.
    """

    text_options = frozenset({"keep"})
    shares_removals = True

    def __init__(self, *, keep: Keep = "special", removal: Removal | None = None) -> None:
        self.keep = check_game_options(keep, removal)
        self.removal = removal

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        return [self.play(subject, players_of(subject, keep=self.keep, removal=self.removal)) for subject in subjects]

    @abstractmethod
    def play(self, subject: Subject, players: Players) -> Attribution:
        """The scores of one subject, from its game."""


class SampledGame(GameMethod):
    """The base of methods that fit a model to sampled sets. samples: evaluations. seed: of the lot."""

    fit: ClassVar[Callable[..., NDArray[np.float64]]]

    def __init__(
        self, *, samples: int = 128, keep: Keep = "special", removal: Removal | None = None, seed: int = 0
    ) -> None:
        super().__init__(keep=keep, removal=removal)
        self.samples, self.seed = whole_number("samples", samples, 3), whole_number("seed", seed, 0)

    def passes(self, subject: Subject) -> float:
        return float(self.samples)

    def play(self, subject: Subject, players: Players) -> Attribution:
        fitted = type(self).fit(players, len(players), samples=self.samples, seed=self.seed)
        return Attribution(players.spread(fitted), cost=float(self.samples), details=players.about)


def whole_number(name: str, value: Any, least: int) -> int:
    """A whole number of at least so much; anything else raises."""
    if type(value) is not int or value < least:
        raise InputError(f"{name} must be an integer >= {least}, got {value!r}")
    return value
