"""Shortcuts are trusted where they were proven, watched while they are used, and dropped for good once they are wrong.

Shortcuts of removal, carried rows, batches under rules and the cut line of integrated gradients all run under
`guarded`. Outside of `models/` only this module reads the ledger. `docs/what-is-checked.md` says what is checked when,
and how far apart numbers may be.
"""

import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from zlib import crc32

import torch
from torch import Tensor

from looprop.errors import LoopropError, ModelError
from looprop.intercept.program import paths
from looprop.models.adapter import Adapter
from looprop.models.agreement import AGREEMENT, least_rounding, rounding
from looprop.models.checking import out_of_memory
from looprop.models.ledger import BATCHES, Situation
from looprop.models.program import Program, program_of, values_leave
from looprop.models.subject import Subject
from looprop.models.version import version_of

# A shortcut is taken only where it agrees with the plain way to AGREEMENT, relative to the size of the values, and to
# this share of what the removals change: a shortcut that drops a term is off by about that much.
SHARE = 1e-3
# Programs that read token ids are run plainly below this number of variants, and checked in every run above it.
FEW_VARIANTS = 20
# A model that takes so many ways through its operations is run plainly: each would have to be proven.
MOST_PATHS = 16
# On fewer rows a number counted from the start is one counted from the end: paths cannot be compared.
FEWEST_ROWS = 5
# Checks compute at most this share of the variants that are asked for, once a way of running them was checked: the
# first of runs of so many variants, the second of shorter ones. Programs that read token ids are checked in every run.
MANY, FEW_CHECKS, MORE_CHECKS = 32, 0.05, 0.1

T = TypeVar("T")


class Disagreement(Exception):
    """A shortcut and the plain way do not agree."""


def guarded(
    subject: Subject,
    name: str,
    *,
    prove: Callable[[], bool] | None,
    run: Callable[[], T],
    plain: Callable[[str], T],
) -> T:
    """The result of a shortcut where it holds, else that of the plain way.

    prove: does the shortcut agree with the plain way on this input? Asked once per situation, and for longer inputs;
    None where that was asked before.
    run: takes the shortcut; raises `Disagreement` where a check fails. plain: is given the reason why the shortcut was
    dropped just now, "" where it was not taken. Where the plain way fails as well, the shortcut is not at fault.
    """
    if not allows(subject, name, prove):
        return plain("")
    try:
        return run()
    except Disagreement as found:
        reason = str(found)
    except Exception as error:  # whatever a model raises when it is run in a way that it was not made for
        if out_of_memory(error.__cause__ or error):
            raise
        reason = f"{type(error).__name__}: {error}"
    result = plain(reason)
    drop(subject, name, reason)
    return result


def check_version(subject: Subject) -> None:
    """Raise if the model has changed since it predicted the subject. Called after each computation, so that it also
    covers changes on the way; what was computed or found out meanwhile is then forgotten.

    If only fields and buffers differ, the model may have written them itself: then a fresh forward pass decides.
    """
    adapter, known = subject.adapter, subject.prediction
    now = version_of(adapter)
    if now == known.version:
        return
    if now.weights == known.version.weights:
        adapter.ledger.version = now  # where the answer stays, what was found out stays, too
        with booked(subject, passes=1):
            logits = adapter.predict(subject.encoded, positions=subject.target.positions).logits
        if logits.shape == known.logits.shape and not subject.apart(logits):
            return
    adapter.ledger.renew(None)
    subject.cache.values.clear()
    raise ModelError(
        f"{adapter.name} has changed since it predicted this input (its weights, modules, hooks, labels or tokenizer): "
        "give the input to the model again"
    )


def allows(subject: Subject, name: str, prove: Callable[[], bool] | None) -> bool:
    """Is a shortcut proven for inputs like this one, and was it never wrong?

    Proven once per sequence of operations and order of magnitude of the length, and again for every longer input: a
    window ends somewhere.
    """
    ledger, length = subject.adapter.ledger, subject.length
    if name in ledger.dropped or prove is None:
        return name not in ledger.dropped
    situation = Situation(subject.path, length.bit_length(), subject.answer_rows)
    proofs = ledger.proofs.setdefault((name, situation), {})
    known = dict(proofs)  # a copy: other threads may prove, too
    if not all(known.values()):
        return False
    if length > max(known, default=0):
        with booked(subject):
            proofs[length] = known[length] = prove()
    return known.get(length, True)


def is_dropped(adapter: Adapter, name: str) -> str | None:
    """Why a shortcut was dropped; None where it was not."""
    return adapter.ledger.dropped.get(name)


def drop(subject: Subject, name: str, reason: str) -> None:
    """Never take a shortcut again on this version of the model, and look anew for the rows that the answer is read
    from.
    """
    subject.adapter.ledger.drop(name, reason)
    subject.cache.found = None


def drop_batches(adapter: Adapter, reason: str = "an input is answered otherwise in a batch than alone") -> None:
    """The rows of a batch depend on each other: run each input alone from now on."""
    adapter.ledger.dropped[BATCHES] = reason


def is_new(subject: Subject, name: str) -> bool:
    """Was a way of running variants never checked on inputs of this path?"""
    return (name, subject.path) not in subject.adapter.ledger.unchecked


def is_due(subject: Subject, name: str, variants: int, controls: int) -> bool:
    """Is it a run's turn to be checked: the first of its kind, and then as often as controls stay a small share of the
    variants that were run; of programs that read token ids every run?
    """
    ledger, kind = subject.adapter.ledger, (name, subject.path)
    with ledger.lock:
        before = ledger.unchecked.get(kind)
        share = FEW_CHECKS if variants >= MANY else MORE_CHECKS
        due = before is None or (before + variants) * share >= controls or program(subject).reads_ids
        ledger.unchecked[kind] = 0 if due else (before or 0) + variants
    return due


def not_counted(subject: Subject, name: str) -> None:
    """Take a check back: a run that was refused does not count, so that the next one is checked."""
    subject.adapter.ledger.unchecked.pop((name, subject.path), None)


def once(subject: Subject, name: Hashable, find: Callable[[], T]) -> T:
    """What is found out about the model by trying it on an input, once per version of the model."""

    def found() -> T:
        with booked(subject):
            return find()

    return subject.adapter.ledger.once(name, found)


@contextmanager
def booked(subject: Subject, passes: float = 0.0) -> Iterator[None]:
    """Whatever runs inside is a check: its time and its forward passes are not the method's."""
    checks, start, before = subject.cache.checks, time.perf_counter(), subject.cache.checks.seconds
    try:
        yield
    finally:
        checks.seconds = before + time.perf_counter() - start  # checks inside of checks count once
        checks.passes += passes


def same_path_when_packed(subject: Subject, name: str, rows: int, noted: list[int], intact: Callable[[], T]) -> bool:
    """Does a shortcut, run on so many rows in one sequence, call the same operations as on the whole input?

    noted: the paths of its forward passes. intact: runs the whole input by the same shortcut; asked once.
    """

    def own() -> int:
        with paths() as found:
            intact()
        return found[0] if found else 0

    wanted = once(subject, ("path", name, subject.path), own)
    if any(path != wanted for path in noted):
        return False
    subject.adapter.ledger.lengths.add((name, subject.path, rows))
    return True


def same_path_when_shorter(subject: Subject, kept: Tensor) -> bool:
    """Does the model call the same operations on an input with rows cut out? kept: (T,) those that stay. Seen once for
    every number of rows.
    """
    adapter = subject.adapter
    shorter = subject.encoded.only(kept.nonzero()[:, 0].tolist())
    try:
        with booked(subject, passes=1):
            return adapter.predict(shorter, positions=subject.target.positions).path == subject.path
    except LoopropError:
        return False


def is_new_length(subject: Subject, rows: int, name: str = "") -> bool:
    """Was no input of this path seen yet that has so many rows? name: of a shortcut that puts variants in one row."""
    seen = (name, subject.path, rows) in subject.adapter.ledger.lengths
    return not seen and rows >= FEWEST_ROWS and subject.path != 0


def run_alone_where_values_leave(subject: Subject) -> None:
    """Where values of activations leave to Python, one of them may decide for a whole batch: run inputs one by one."""
    adapter, positions = subject.adapter, subject.target.positions
    if not adapter.takes_batches or not subject.path:
        return
    if once(subject, ("leaves", subject.path), lambda: values_leave(adapter, subject.encoded, positions=positions)):
        drop_batches(subject.adapter, "values of activations leave to Python, where one may decide for all")


def sentinels(rows: Tensor, *, new: bool) -> list[int]:
    """The variants (M, T) that are also computed plainly: one that is drawn, and every fourth run an end besides; a run
    of a kind that is new takes both ends. At the ends a shortcut may be right where it is wrong in between.
    """
    lot = _lot(rows)
    ends = {0, len(rows) - 1} if new else {(0, len(rows) - 1)[lot // 4 % 2]} if lot % 4 == 0 else set()
    return sorted({drawn(rows)} | ends)


def drawn(rows: Tensor) -> int:
    """One of the variants (M, T) between both ends, drawn by what they are, so that a run repeats itself."""
    return 1 + _lot(rows) // 8 % (len(rows) - 2) if len(rows) > 2 else len(rows) - 1


def _lot(rows: Tensor) -> int:
    return crc32(rows.numpy().tobytes())


def allowed_error(size: float, change: float, dtype: torch.dtype) -> float:
    """How far a shortcut may be from the plain way, for logits of a size that removals change by so much."""
    size = max(size, change)
    return min(rounding(size, dtype, relative=AGREEMENT), max(SHARE * change, least_rounding(size, dtype)))


def program(subject: Subject) -> Program:
    """What kind of program the input runs; looked at once per sequence of operations."""
    ledger = subject.adapter.ledger
    name = ("program", subject.path)
    if (known := ledger.found.get(name)) is not None:
        seen: Program = known
        return seen
    paths = [other for other in ledger.found if isinstance(other, tuple) and other[0] == "program"]
    if not subject.path or len(paths) >= MOST_PATHS:
        return Program(decides=True, reads_ids=True)

    def look() -> Program:
        sites, positions = attention_sites_of(subject), subject.target.positions
        return program_of(subject.adapter, subject.encoded, sites=sites, read=subject.rows_read, positions=positions)

    return once(subject, name, look)


def attention_sites_of(subject: Subject) -> int:
    """How many attention sites the input meets; 0 where the engine cannot tell."""
    try:
        return subject.adapter.attention_sites(subject.encoded)
    except Exception:  # not known to the engine, or too large for it: its last attention is not known
        return 0


def batch_limit(adapter: Adapter) -> int | None:
    """How many positions fit into one batch, where memory allowed fewer than is usual."""
    return adapter.ledger.batch_positions


def limit_batches(adapter: Adapter, positions: int | None) -> None:
    """From now on batches of this model hold at most so many positions."""
    adapter.ledger.batch_positions = positions
