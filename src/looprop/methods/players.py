"""A subject as a game: which features play, and which always stay.

Where features come in one by one, some state has none of them, and a Transformer without any key answers whatever its
code happens to do. So something always stays: the tokens that the tokenizer added ([CLS], [SEP], a beginning of
sequence), and where it added none the first token, on which the others lean. What stays gets score 0.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError, UnknownNameError
from looprop.models.adapter import Removal
from looprop.models.subject import Subject
from looprop.removal.set_function import SetFunction

Keep = Literal["special", "none"]
"""What always stays: special tokens, or nothing (tensors and images, where "nothing there" is zero)."""


def check_game_options(keep: str, removal: str | None) -> None:
    """Raise for options that no game has."""
    if keep not in get_args(Keep):
        raise UnknownNameError("kept part", str(keep), get_args(Keep))
    if removal is not None and removal not in get_args(Removal):
        raise UnknownNameError("removal", str(removal), get_args(Removal))


@dataclass(frozen=True, eq=False)
class Players:
    """The features of a subject that play, and the set function that values sets of them.

    players: their numbers. stays: the numbers of the others.
    """

    value: SetFunction
    players: NDArray[np.int64]
    stays: NDArray[np.int64]

    def __call__(self, sets: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The target's value when only a set of players is there, beside what always stays: (N, n) -> (N,)."""
        keep = np.ones((len(sets), len(self.players) + len(self.stays)), dtype=bool)
        keep[:, self.players] = sets
        return self.value(keep)

    def __len__(self) -> int:
        return len(self.players)

    def spread(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of all features from those of the players."""
        spread = np.zeros(len(self.players) + len(self.stays))
        spread[self.players] = scores
        return spread

    @property
    def alone_cost(self) -> float:
        """The cost of every player by itself, and of none: only their own rows are run, beside those that stay, where
        rows can be left out.
        """
        subject = self.value.subject
        if self.value.way == "plain":
            return len(self.players) + 1.0
        length = len(subject.encoded) + subject.adapter.leading_positions(subject.encoded)
        staying = {p for i in self.stays for p in subject.features[i]} | set(subject.encoded.fixed)
        always = len(staying | set(subject.rows_read))
        own = sum(len(set(subject.features[i]) - set(subject.rows_read)) for i in self.players)
        return (own + (len(self.players) + 1) * always) / length

    @property
    def about(self) -> dict[str, Any]:
        """What stays, by name, for the result."""
        encoded, features = self.value.subject.encoded, self.value.subject.features
        return {"stays": [" ".join(encoded.names[i] for i in features[number]) for number in self.stays]}


def players_of(subject: Subject, *, keep: Keep = "special", removal: Removal | None = None) -> Players:
    """The game of a subject."""
    value = SetFunction(subject, removal=removal)
    special = [all(subject.encoded.special[i] for i in group) for group in subject.features]
    stays = np.flatnonzero(special) if keep == "special" else np.array([], dtype=np.int64)
    if not len(stays) and value.removal != "zero":
        if keep == "none" and not subject.something_stays:
            raise InputError(
                "a text of which nothing stays has no answer: use keep='special', or removal='zero' on tensors"
            )
        if not subject.something_stays:
            stays = np.array([0])
    players = np.setdiff1d(np.arange(len(subject.features)), stays)
    if not len(players):
        raise InputError("every feature of this input always stays: there is nothing to share the answer among")
    return Players(value, players, stays)
