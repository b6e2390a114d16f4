"""The quicker ways to remove by attention mask, and the proof that they agree with plain masking on a model."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from looprop.models.answer_rows import FIRST_ROW
from looprop.models.checking import out_of_memory
from looprop.models.subject import Subject
from looprop.removal.plain import Runner, without_padding
from looprop.removal.shortcuts.biases import recorded_biases
from looprop.removal.shortcuts.dropped import can_drop, dropped_rows, dropped_texts
from looprop.removal.shortcuts.packed import packed_rows, packed_texts
from looprop.removal.trust import FEW_VARIANTS, allowed_error, allows, attention_sites_of, program
from looprop.removal.variants import run_halving

# On fewer positions there is nothing to gain, and too little to prove anything by.
SHORTEST = 4
# On fewer, computing the prefix once more costs what sharing it saves.
SHORTEST_SHARED = 10
# From this length on a proof takes two variants.
LONG = 512


@dataclass(frozen=True)
class Shortcut:
    """A quicker way: its runner, and how many rows it computes for each variant (B, T) -> (B,).

    padded: are the variants of a batch filled up to the longest? columns: does each read the keys of the whole
        sequence? together: runs variants of several texts at once: (text, kept positions) -> logits of each.
    """

    name: str
    runner: Runner
    lengths: Callable[[Tensor], Tensor]
    padded: bool = True
    columns: bool = False
    together: Callable[[Sequence[tuple[Subject, Tensor]]], list[Tensor]] | None = None


def choose_shortcut(subject: Subject, plain: Runner) -> Shortcut | None:
    """The quickest shortcut that is proven on this model, if any."""
    for way in _ways(subject):
        if allows(subject, way.name, partial(agrees, subject, way.runner, plain)):
            return way
    return None


def _ways(subject: Subject) -> Iterator[Shortcut]:
    """Those that may hold, quickest first."""
    if subject.length < SHORTEST or not can_drop(subject) or subject.reads_a_part:
        return
    sites, own = attention_sites_of(subject), subject.count_rows
    found = program(subject)
    # What values decide may be decided otherwise in a variant that nobody tried; and what token ids decide, on the next
    # input: that is seen by checking each, which short inputs do not pay for.
    if found.decides or (found.reads_ids and subject.length < FEW_VARIANTS):
        return
    if sites and subject.answer_rows == FIRST_ROW and not subject.encoded.besides:
        runner, together = packed_rows(subject, sites=sites), partial(packed_texts, sites=sites)
        yield Shortcut(f"packed, cut at {sites}", runner, own, padded=False, together=together)
    shares = subject.adapter.takes_past and subject.length >= SHORTEST_SHARED
    cuts = (sites, 0) if sites and (subject.answer_rows.first or subject.answer_rows.last) else (0,)
    for cut in cuts:
        if shares:
            yield _prefix(subject, cut)
        rows = dropped_rows(subject, sites=cut)
        runner, together = without_padding(rows, subject.adapter, own), partial(dropped_texts, sites=cut)
        yield Shortcut(f"rows, cut at {cut}", runner, own, together=together)
    if sites and not subject.adapter.causal and (biases := recorded_biases(subject)) is not None:
        rows = dropped_rows(subject, sites=cuts[0], biases=biases)
        yield Shortcut(f"rows with biases, cut at {cuts[0]}", without_padding(rows, subject.adapter, own), own)


def _prefix(subject: Subject, cut: int) -> Shortcut:
    # Only models of the transformers library get here, so that it is loaded already.
    from looprop.removal.shortcuts.prefix import PrefixSharing, rows_left

    lengths = partial(rows_left, subject)
    runner = without_padding(PrefixSharing(subject, sites=cut), subject.adapter, lengths)
    return Shortcut(f"prefix, cut at {cut}", runner, lengths, columns=True)


def agrees(subject: Subject, runner: Runner, plain: Runner) -> bool:
    """Does a shortcut give what plain masking gives, on variants that show most?"""
    keep = _samples(subject).to(next(iter(subject.encoded.inputs.values())).device)
    everything = list(range(len(keep)))
    with subject.adapter.evaluating(), torch.inference_mode():
        try:
            wanted = run_halving(everything, lambda part: plain(keep[part])).double()
            got = run_halving(everything, lambda part: runner(keep[part])).double()
        except Exception as failure:  # a model that takes no such batch, or whose rows cannot be run at all
            if out_of_memory(failure.__cause__ or failure):
                raise
            return False
    if got.shape != wanted.shape:
        return False
    error, change = float((got - wanted).abs().max()), float((wanted - wanted[:1]).abs().max())
    return error <= allowed_error(float(wanted.abs().max()), change, subject.dtype)


def _samples(subject: Subject) -> Tensor:
    """Variants that tell: an early position, the last, the read-out or the first removed, and both ends kept. (5, T)

    Of a long input two that hold all of this between them: each costs a forward pass, and the run that follows checks
    its own ends again.
    """
    length = subject.length
    generator = torch.Generator().manual_seed(length)
    keep = torch.rand(5, length, generator=generator) > torch.tensor([[0.5], [0.2], [0.5], [0.5], [0.2]])
    keep[:, [0, -1]] = True
    keep[0] = True
    keep[0, 1] = False
    keep[1, [length // 2, -1]] = False
    keep[2, subject.rows_read[0]] = False
    keep[4, 0] = False
    if length >= LONG:
        keep[4, [1, length // 2, -1]] = False
        keep = keep[[2, 4]]
    keep[:, sorted(subject.encoded.fixed)] = True
    return keep
