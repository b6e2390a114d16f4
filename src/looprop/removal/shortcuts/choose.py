"""The quicker ways to remove by attention mask, and the proof that they agree with plain masking on a model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from looprop.errors import LoopropError
from looprop.models.answer_rows import AnswerRows
from looprop.models.facts import AGREEMENT, Situation
from looprop.models.subject import Subject
from looprop.removal.batching import run_halving
from looprop.removal.plain import Runner, without_padding
from looprop.removal.shortcuts.biases import recorded_biases
from looprop.removal.shortcuts.dropped import can_drop, dropped_rows, rows_needed
from looprop.removal.shortcuts.packed import packed_rows

# A quicker way is taken only where it agrees with plain masking to AGREEMENT, relative to the size of the values, and
# to this share of what the removals change: a way that forgets something is wrong by about as much.
SHARE = 1e-3
# On fewer positions there is nothing to gain, and too little to prove anything by.
SHORTEST = 4
# On fewer, computing the prefix once more costs what sharing it saves.
SHORTEST_SHARED = 10


@dataclass(frozen=True)
class Shortcut:
    """A quicker way: its runner, and how many rows it computes for each variant (B, T) -> (B,).

    padded: are the variants of a batch filled up to the longest? columns: does each read the keys of the whole
        sequence?
    """

    name: str
    runner: Runner
    lengths: Callable[[Tensor], Tensor]
    padded: bool = True
    columns: bool = False


def choose_shortcut(subject: Subject, plain: Runner) -> Shortcut | None:
    """The quickest way that is proven on this model, if any."""
    return next((way for way in _ways(subject) if _proven(subject, way, plain)), None)


def _ways(subject: Subject) -> Iterator[Shortcut]:
    """Those that may hold, quickest first."""
    if len(subject.encoded) < SHORTEST or not can_drop(subject) or subject.reads_a_part:
        return
    sites, own = _attention_sites(subject), partial(_count_rows, subject)
    if sites and subject.answer_rows == AnswerRows(first=1):
        yield Shortcut(f"packed, cut at {sites}", packed_rows(subject, sites=sites), own, padded=False)
    shares = subject.adapter.takes_past and len(subject.encoded) >= SHORTEST_SHARED
    cuts = (sites, 0) if sites and (subject.answer_rows.first or subject.answer_rows.last) else (0,)
    for cut in cuts:
        if shares:
            yield _prefix(subject, cut)
        rows = dropped_rows(subject, sites=cut)
        yield Shortcut(f"rows, cut at {cut}", without_padding(rows, subject.adapter, own), own)
    if sites and not subject.adapter.causal and (biases := recorded_biases(subject)) is not None:
        rows = dropped_rows(subject, sites=cuts[0], biases=biases)
        yield Shortcut(f"rows with biases, cut at {cuts[0]}", without_padding(rows, subject.adapter, own), own)


def _prefix(subject: Subject, cut: int) -> Shortcut:
    # Only models of the transformers library get here, so that it is loaded already.
    from looprop.removal.shortcuts.prefix import PrefixSharing, rows_left

    lengths = partial(rows_left, subject)
    runner = without_padding(PrefixSharing(subject, sites=cut), subject.adapter, lengths)
    return Shortcut(f"prefix, cut at {cut}", runner, lengths, columns=True)


def _count_rows(subject: Subject, keep: Tensor) -> Tensor:
    return rows_needed(subject, keep).sum(1)


def _attention_sites(subject: Subject) -> int:
    try:
        return subject.adapter.attention_sites(subject.encoded)
    except (
        LoopropError,
        RuntimeError,
        MemoryError,
    ):  # not known to the engine, or too large for it: its last attention is not known
        return 0


def _proven(subject: Subject, way: Shortcut, plain: Runner) -> bool:
    """Proven once per model and order of magnitude of the length, and again for every longer input: a window ends
    somewhere.
    """
    length = len(subject.encoded)
    situation = Situation(length.bit_length(), subject.answer_rows)
    proofs = subject.adapter.facts.shortcuts.setdefault((way.name, situation), {})
    known = dict(proofs)  # a copy: other threads may prove, too
    if not all(known.values()):
        return False
    if length > max(known, default=0):
        proofs[length] = known[length] = _agrees(subject, way.runner, plain)
    return known.get(length, True)


def _agrees(subject: Subject, runner: Runner, plain: Runner) -> bool:
    keep = _samples(subject).to(next(iter(subject.encoded.inputs.values())).device)
    everything = list(range(len(keep)))
    with subject.adapter.evaluating(), torch.inference_mode():
        wanted = run_halving(everything, lambda part: plain(keep[part])).double()
        try:
            got = run_halving(everything, lambda part: runner(keep[part])).double()
        except (RuntimeError, ValueError, TypeError, IndexError):  # rows of this model cannot be run at all
            return False
    if got.shape != wanted.shape:
        return False
    error, change = (got - wanted).abs().max(), (wanted - wanted[:1]).abs().max()
    return bool(error <= AGREEMENT * wanted.abs().max().clamp(min=1.0)) and bool(error <= SHARE * change)


def _samples(subject: Subject) -> Tensor:
    """Variants that tell: an early position, the last, the read-out or the first removed, and both ends kept. (5, T)"""
    length = len(subject.encoded)
    generator = torch.Generator().manual_seed(length)
    keep = torch.rand(5, length, generator=generator) > torch.tensor([[0.5], [0.2], [0.5], [0.5], [0.2]])
    keep[:, [0, -1]] = True
    keep[0] = True
    keep[0, 1] = False
    keep[1, [length // 2, -1]] = False
    keep[2, subject.rows_read[0]] = False
    keep[4, 0] = False
    keep[:, sorted(subject.encoded.fixed)] = True
    return keep
