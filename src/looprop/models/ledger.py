"""What was found out about a model, for as long as the model stays as it is.

Each entry was tried on the model itself, on some input, and belongs to one version of the model. There is one ledger
per root module and kind of adapter: two workbenches on one model share it. Outside of this room only
`looprop.removal.trust` reads it.
"""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from looprop.errors import ModelError
from looprop.models.answer_rows import AnswerRows

if TYPE_CHECKING:
    from looprop.models.subject import Subject

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
    reason. runs: how often a shortcut was used, by name and path.
    batch_positions: how many positions fit into one batch; belongs to the machine and outlives versions.
    """

    def __init__(self, batch_positions: int | None = None) -> None:
        self.lock = threading.RLock()
        self.version: int | None = None
        self.batch_positions = batch_positions
        self._empty()

    def _empty(self) -> None:
        self.found: dict[Hashable, Any] = {}
        self.answer_rows: dict[int, AnswerRows] = {}
        self.moves = False
        self.proofs: dict[tuple[str, Situation], dict[int, bool]] = {}
        self.dropped: dict[str, str] = {}
        self.runs: dict[tuple[str, int], int] = {}

    def renew(self, version: int) -> None:
        """Forget what was found out about another version of the model."""
        with self.lock:
            if self.version != version:
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


def version_of(model: nn.Module, *others: Hashable) -> int:
    """One number for the state of a model: its parameters, how often each was written, its configuration, and what
    else is given. Writes through `.data` or numpy leave it as it was.
    """
    config = getattr(model, "config", None)
    said = (str(getattr(config, "id2label", None)), getattr(config, "_attn_implementation", None))
    return hash((tuple(_state(parameter) for parameter in model.parameters()), said, others))


def check_version(subject: "Subject") -> None:
    """Raise where a model is no longer the one that made the prediction of a subject."""
    adapter = subject.adapter
    if version_of(adapter.model, adapter.tokenizer_id) != subject.prediction.version:
        raise ModelError(
            f"{adapter.name} has changed since it predicted this input (its weights, labels or tokenizer): "
            "give the input to the model again"
        )


def _state(parameter: Tensor) -> tuple[int, int]:
    return id(parameter), 0 if parameter.is_inference() else parameter._version


@dataclass
class Checks:
    """What the checks of one input cost, apart from the method that happened to run first: seconds, and forward
    passes.
    """

    seconds: float = 0.0
    passes: float = 0.0
