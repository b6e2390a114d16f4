"""What was found out about a model, for as long as the model stays as it is.

Each entry was tried on the model itself, on some input, and belongs to one version of the model. There is one ledger
per root module and kind of adapter: two workbenches on one model share it. Outside of this room only
`looprop.removal.trust` reads it.
"""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from torch import nn

from looprop.models.answer_rows import AnswerRows
from looprop.models.version import Place, Version

# On fewer positions there is too little to prove anything by.
SHORTEST_PROOF = 3

BATCHES, PADDING = "batches", "padding"
"""What the ledger calls it that inputs share a batch, and that they are filled up to one length for it."""

T = TypeVar("T")


@dataclass(frozen=True)
class Situation:
    """What a proof on one input is taken to hold for: inputs on which the same operations run, of like length, whose
    answer is read from the same rows.
    """

    path: int
    magnitude: int
    answer_rows: AnswerRows


class Ledger:
    """The facts about one version of a model.

    found: what was tried once, by name. answer_rows: where the answer is read from, by path, where that holds for all.
    moves: was it found elsewhere after that? Then it is looked for on every input. proofs: on inputs of which length
    did a shortcut agree with the plain way, by name and situation. dropped: shortcuts that were wrong once, with the
    reason. unchecked: how many variants were run since the last check, by the name of the way and path.
    batch_positions: how many positions fit into one batch; belongs to the machine and outlives versions. written: the
    attributes and buffers that the model's own forward pass writes: no part of its version. watched: was such a pass
    watched under this version? lengths: on how many rows a path was seen, by the shortcut that ran it ("" is none).
    refreshed: how often the user asked to forget everything; a part of the version.
    """

    def __init__(self, batch_positions: int | None = None) -> None:
        self.lock = threading.RLock()
        self.version: Version | None = None
        self.batch_positions = batch_positions
        self.written: frozenset[Place] = frozenset()
        self.refreshed = 0
        self._empty()

    def _empty(self) -> None:
        self.found: dict[Hashable, Any] = {}
        self.answer_rows: dict[int, AnswerRows] = {}
        self.moves = False
        self.proofs: dict[tuple[str, Situation], dict[int, bool]] = {}
        self.dropped: dict[str, str] = {}
        self.unchecked: dict[tuple[str, int], int] = {}
        self.watched = False
        self.lengths: set[tuple[str, int, int]] = set()

    def renew(self, version: Version | None) -> None:
        """Forget what was found out about another version of the model; None forgets everything."""
        with self.lock:
            if version is None or self.version != version:
                self._empty()
                self.version = version

    def once(self, name: Hashable, find: Callable[[], T]) -> T:
        """What `find` returns, asked once per version of the model; an exception is not kept."""
        if name not in self.found:
            self.found[name] = find()
        value: T = self.found[name]
        return value

    def drop(self, name: str, reason: str) -> None:
        """Never use a shortcut of this version again. Where the answer is read from may have been wrong."""
        with self.lock:
            self.dropped[name] = reason
            self.moves = True
            self.answer_rows.clear()


_LEDGERS: "WeakKeyDictionary[nn.Module, dict[type, Ledger]]" = WeakKeyDictionary()
_LOCK = threading.Lock()


def ledger_of(model: nn.Module, kind: type) -> Ledger:
    """The ledger that all adapters of one kind on one model share."""
    with _LOCK:
        return _LEDGERS.setdefault(model, {}).setdefault(kind, Ledger())


def refresh(model: nn.Module, own: Ledger) -> None:
    """Treat a model as one of another version: forget what was found out, and refuse what was bound before."""
    with _LOCK:
        ledgers = {own, *_LEDGERS.get(model, {}).values()}
    for ledger in ledgers:
        ledger.refreshed += 1
        ledger.renew(None)


@dataclass
class CheckCost:
    """What the checks of one input cost in seconds and forward passes, apart from the method that ran first."""

    seconds: float = 0.0
    passes: float = 0.0
