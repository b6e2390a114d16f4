"""The quicker ways to remove by attention mask, and the proof that they agree with plain masking on a model."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from looprop.errors import LoopropError
from looprop.models.read_out import ReadOut
from looprop.models.subject import Subject
from looprop.removal.batching import run_halving
from looprop.removal.plain import Runner, without_padding
from looprop.removal.shortcuts.biases import SiteBias, recorded_biases
from looprop.removal.shortcuts.dropped import can_drop, dropped_rows, rows_needed
from looprop.removal.shortcuts.packed import packed_rows

# A quicker way is taken only where it agrees with plain masking to this, relative to the size of the values,
AGREEMENT = 2e-5
# and to this share of what the removals change: a way that forgets something is wrong by about as much.
SHARE = 1e-3
# On fewer positions there is nothing to gain, and too little to prove anything by.
SHORTEST = 4
# On fewer, computing the prefix once more costs what sharing it saves.
SHORTEST_SHARED = 10


@dataclass(frozen=True)
class Quick:
    """A quicker way: its runner, and how many rows it computes for each variant (B, T) -> (B,).

    padded: are the variants of a batch filled up to the longest? columns: does each read the keys of the whole
        sequence?
    """

    runner: Runner
    lengths: Callable[[Tensor], Tensor]
    padded: bool = True
    columns: bool = False


def quick_way(subject: Subject, plain: Runner) -> Quick | None:
    """The quickest way that is proven on this model, if any."""
    return next((make() for name, make in _ways(subject) if _proven(subject, name, make().runner, plain)), None)


def _ways(subject: Subject) -> Iterator[tuple[str, Callable[[], Quick]]]:
    """Those that may hold, quickest first."""
    if len(subject.encoded) < SHORTEST or not can_drop(subject) or subject.reads_a_part:
        return
    sites = _attention_sites(subject)
    if sites and subject.read_out == ReadOut(first=1):
        yield f"packed, cut at {sites}", partial(_packed, subject, sites)
    shares = (
        subject.adapter.causal
        and "past_key_values" in subject.adapter.arguments
        and len(subject.encoded) >= SHORTEST_SHARED
    )
    cuts = (sites, 0) if sites and (subject.read_out.first or subject.read_out.last) else (0,)
    for cut in cuts:
        if shares:
            yield f"prefix, cut at {cut}", partial(_prefix, subject, cut)
        yield f"rows, cut at {cut}", partial(_rows, subject, cut)
    if sites and not subject.adapter.causal and (biases := recorded_biases(subject)) is not None:
        yield f"rows with biases, cut at {cuts[0]}", partial(_rows, subject, cuts[0], biases)


def _prefix(subject: Subject, cut: int) -> Quick:
    # Only models of the transformers library get here, so that it is loaded already.
    from looprop.removal.shortcuts.prefix import PrefixSharing, rows_left

    lengths = partial(rows_left, subject)
    return Quick(without_padding(PrefixSharing(subject, sites=cut), subject.adapter, lengths), lengths, columns=True)


def _packed(subject: Subject, cut: int) -> Quick:
    return Quick(packed_rows(subject, sites=cut), partial(_count_rows, subject), padded=False)


def _rows(subject: Subject, cut: int, biases: list[SiteBias] | None = None) -> Quick:
    lengths = partial(_count_rows, subject)
    return Quick(without_padding(dropped_rows(subject, sites=cut, biases=biases), subject.adapter, lengths), lengths)


def _count_rows(subject: Subject, keep: Tensor) -> Tensor:
    return rows_needed(subject, keep).sum(1)


def _attention_sites(subject: Subject) -> int:
    try:
        return subject.adapter.attention_layers(subject.encoded)
    except (
        LoopropError,
        RuntimeError,
        MemoryError,
    ):  # not known to the engine, or too large for it: its last attention is not known
        return 0


def _proven(subject: Subject, name: str, runner: Runner, plain: Runner) -> bool:
    """Proven once per model and order of magnitude of the length, and again for every longer input: a window ends
    somewhere.
    """
    proofs: dict[Any, bool] = subject.adapter.proofs
    length = len(subject.encoded)
    kind = (name, length.bit_length(), subject.read_out)
    known = {
        key[3]: holds for key, holds in dict(proofs).items() if key[:3] == kind
    }  # a copy: other threads may prove, too
    if not all(known.values()):
        return False
    if length > max(known, default=0):
        proofs[*kind, length] = _agrees(subject, runner, plain)
    return proofs.get((*kind, length), True)


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
    keep[2, subject.read_rows[0]] = False
    keep[4, 0] = False
    keep[:, sorted(subject.encoded.fixed)] = True
    return keep
