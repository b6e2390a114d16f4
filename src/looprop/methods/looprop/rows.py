"""Exact rows: for each variant a few rows are carried through the whole network, all others stay as they were."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from looprop.intercept.reductions import completing
from looprop.intercept.rows import Kept, carrying
from looprop.methods.looprop.first_order import FirstOrder
from looprop.models.agreement import AGREEMENT, rounding
from looprop.models.subject import Subject
from looprop.removal.plain import plain_runner
from looprop.removal.trust import Disagreement, drawn, guarded, program
from looprop.removal.value import SetFunction
from looprop.removal.variants import run_halving

# Scores (variants x heads x rows x positions), and rows in all, that one batch may hold.
SCORES = 16_000_000
ROWS = 2048

# A run of its own costs about as much as so many rows: variants with fewer rows are filled up rather than run apart.
SPARE = 24

T = TypeVar("T")

CARRIED = "carried rows"  # what the ledger calls this shortcut


def carried(subject: Subject, intact: FirstOrder, run: Callable[[], T], plain: Callable[[str], T]) -> T:
    """What `run` gives by rows that are run on their own, where they can be; else what `plain` gives, told the reason.

    Proven once per situation: with all rows carried the answer must be that of plain masking, with nothing removed any
    rows that hold the read-out must give that of the intact input, and variants filled up to one number of rows what
    each gives alone.
    """
    sites = intact.sites
    if not sites or subject.reads_a_part or len({site.key.shape[1] for site in sites}) != 1:
        return plain("")
    if program(subject).decides:  # in a variant, values may decide otherwise than in those that are tried
        return plain("")

    def prove() -> bool:
        return not _reads_elsewhere(subject) and _agrees(subject, intact)

    return guarded(subject, CARRIED, prove=prove, run=run, plain=plain)


def _reads_elsewhere(subject: Subject) -> bool:
    """Does the answer move to another row when the one it is read from is removed? That row would not be carried."""
    adapter, encoded = subject.adapter, subject.encoded
    if not adapter.takes_mask or adapter.causal or subject.answer_rows.everything:
        return False
    keep = torch.ones(1, len(encoded), dtype=torch.bool, device=adapter.device)
    keep[0, [row for row in subject.rows_read if row not in encoded.fixed]] = False
    if keep.all() or not keep.any():
        return False
    removed = replace(encoded, inputs=adapter.masked(encoded, keep))
    return adapter.answer_rows(removed, positions=subject.target.positions) != subject.answer_rows


def _agrees(subject: Subject, intact: FirstOrder) -> bool:
    sites = intact.sites
    length = sites[0].key.shape[1]
    leading = length - subject.length
    if subject.length < 2:
        return False
    read = [] if subject.answer_rows.everything else subject.rows_read
    removed = [leading + subject.length // 2, leading + subject.length // 3]
    ends = (leading, length - 1, *read[:1])  # a mask may mean something else at an end (left padding)
    removed += [row for row in dict.fromkeys(ends) if row >= leading and row - leading not in subject.encoded.fixed]
    member = torch.zeros(len(removed), length, dtype=torch.bool, device=sites[0].key.device)
    member[range(len(removed)), removed] = True
    every = torch.arange(length, device=member.device)
    few = [torch.tensor(sorted({*read, *more}), device=member.device) for more in (removed[:1], removed[:2])]
    try:
        carried = exact_rows(subject, intact, [every] * len(removed), member).cpu()
        unchanged = exact_rows(subject, intact, few[:1], torch.zeros_like(member[:1])).cpu()
        filled = exact_rows(subject, intact, few, member[:2]).cpu()  # of unlike number: one of them is filled up
        alone = torch.cat([exact_rows(subject, intact, few[i : i + 1], member[i : i + 1]).cpu() for i in range(2)])
    except Exception:  # rows of this model cannot be run at all, whatever it says to them
        return False
    single = replace(subject.alone(), features=tuple((i,) for i in range(subject.length)))
    plain = SetFunction(single, removal="attention-mask", quick=False)
    own = torch.tensor([subject.output], dtype=torch.float64)
    wanted = torch.cat([torch.from_numpy(plain(~member[:, leading:].cpu())), own, alone])
    return bool((torch.cat([carried, unchanged, filled]) - wanted).abs().max() <= AGREEMENT * wanted.abs().max())


def check_carried(subject: Subject, intact: FirstOrder, values: Tensor, rows: list[Tensor], member: Tensor) -> None:
    """Raise `Disagreement` where rows that hold the read-out do not give the model's own answer with nothing removed,
    or, where all rows were carried, a variant not what plain masking gives.
    """
    read = torch.tensor([0] if subject.answer_rows.everything else subject.rows_read, device=member.device)
    own = float(exact_rows(subject, intact, [read], torch.zeros_like(member[:1]))[0])
    if subject.differs(own):
        raise Disagreement(f"with nothing removed they answer {own:.6g}, the model itself {subject.output:.6g}")
    if min(len(r) for r in rows) < member.shape[1]:
        return
    keep = ~member[:, member.shape[1] - subject.length :].cpu()
    chosen = drawn(keep)
    with subject.adapter.evaluating(), torch.inference_mode():
        logits = plain_runner(subject, "attention-mask")(keep[chosen : chosen + 1].to(subject.adapter.device))
    wanted, got = float(subject.target.value(logits)[0]), float(values[chosen])
    if abs(wanted - got) > rounding(subject.size, subject.dtype):
        raise Disagreement(f"a variant gives {got:.6g}, plain masking {wanted:.6g}")


def choose_rows(subject: Subject, size: Tensor, member: Tensor, total: int) -> list[Tensor]:
    """The rows of each variant, ascending: the read-out always (the feature's own rows, where they leave a mean over
    all), then those outside the feature with the largest effect; ties go to the lower feature and position.

    size: (T, F), below zero for pairs that are not to be carried. total: how many pairs (variant, row) there may be in
    all: a removal that is felt in many rows gets many.
    """
    member = member.to(size.device)
    worth = size.T.clone().masked_fill_(member, -1.0)  # nobody reads the rows of the feature itself
    if subject.answer_rows.everything:
        chosen = member.clone()
    else:
        chosen = torch.zeros_like(member)
        chosen[:, subject.rows_read] = True
    worth[chosen] = -1.0
    left = min(max(0, total - int(chosen.sum())), int((worth >= 0).sum()))
    best = torch.argsort(worth.flatten(), descending=True, stable=True)[:left]
    chosen[best // worth.shape[1], best % worth.shape[1]] = True
    return [row.nonzero()[:, 0] for row in chosen]


def whole_variants(member: Tensor, read: list[int]) -> list[Tensor]:
    """All rows of a decoder that feel a removal, which carried give leave-one-out: those after its first token that are
    not its own, and the read-out. member: (F, T).
    """
    places = torch.arange(member.shape[1], device=member.device)
    later = (places[None] > member.int().argmax(1)[:, None]) & ~member
    later[:, read] = True
    return [row.nonzero()[:, 0] for row in later]


def exact_rows(subject: Subject, intact: FirstOrder, rows: list[Tensor], member: Tensor) -> Tensor:
    """The target when feature i is removed and only the rows in rows[i] feel it: (F,) for member (F, T)."""
    found = torch.zeros(len(rows), dtype=torch.float64, device=member.device)
    at_front = not (subject.answer_rows.first or subject.answer_rows.everything)
    most = ROWS if subject.adapter.takes_batches else 1
    with subject.adapter.evaluating(), torch.inference_mode():
        for batch in _batches([len(r) for r in rows], intact.sites[0], most=most):
            chosen, real = _filled([rows[i] for i in batch], member[batch], at_front=at_front)
            run = partial(_run, subject, intact, chosen, member[batch], real)
            found[batch] = run_halving([*range(len(batch))], run)
    return found


def _batches(widths: list[int], site: Kept, *, most: int) -> Iterator[list[int]]:
    """Variants with about as many rows each, the widest first, within the bounds of memory."""
    heads, length = site.key.shape[:2]
    left = sorted(range(len(widths)), key=lambda i: -widths[i])
    while left:
        width = widths[left[0]]
        size, spare = max(1, min(SCORES // (heads * length * width), ROWS // width, most)), SPARE
        batch = []
        for i in left[:size]:
            spare -= width - widths[i]
            if spare < 0:
                break
            batch.append(i)
        yield batch
        left = left[len(batch) :]


def _filled(rows: list[Tensor], member: Tensor, *, at_front: bool) -> tuple[Tensor, Tensor]:
    """Rows of equal number (N, k), and which do not only fill up. What does is a row whose key is barred."""
    width, filled = max(len(r) for r in rows), []
    for own, filler in zip(rows, member.int().argmax(1), strict=True):
        more = filler.expand(width - len(own))
        filled.append(torch.cat([more, own] if at_front else [own, more]))
    counts = torch.tensor([len(own) for own in rows], device=member.device)[:, None]
    places = torch.arange(width, device=member.device)[None]
    return torch.stack(filled), places >= width - counts if at_front else places < counts


def _run(subject: Subject, intact: FirstOrder, rows: Tensor, barred: Tensor, real: Tensor, part: list[int]) -> Tensor:
    adapter, rows, barred, real = subject.adapter, rows[part], barred[part], real[part]
    # What is removed leaves a mean, and some models clear its row.
    batch, placed = adapter.at_rows(subject.encoded, rows, read=~barred.gather(1, rows))
    completed = completing(intact.reduced, rows, real) if intact.reduced else nullcontext()
    with carrying(intact.sites, rows, barred), placed, completed:
        logits = adapter.logits(batch, positions=subject.target.positions)
    return subject.target.value(logits).double()
