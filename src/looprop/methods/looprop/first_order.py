"""The effect of barring keys at attention sites, to first order in everything outside the attention block.

At one site and head, with weights A, values V and output O, barring the keys of a group I changes row j exactly by

    dO_j(I) = O_j - O_j(without I) = sum over i in I of A_ji (V_i - O_j) / (1 - A_jI),    A_jI = sum over i in I of
    A_ji,

softmax renormalisation included; its effect on f is < df/dO_j, dO_j(I) >.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from looprop.errors import InputError
from looprop.intercept.layers import UnfollowedAttention
from looprop.intercept.reductions import Reduction, recording
from looprop.intercept.rows import Kept, keep_site
from looprop.methods.looprop.sites import barred_sites, check_followed, heads_of_site
from looprop.models.subject import Subject
from looprop.propagation.plan import GRADIENT, Plan
from looprop.removal.plain import plain_runner
from looprop.removal.trust import once

Backward = Literal["gradient", "norm", "attnlrp", "cp"]

BACKWARDS: dict[Backward, Plan] = {
    "gradient": GRADIENT,
    "norm": Plan(attention="gradient", otherwise="gradient", activation="gradient", product="gradient"),
    "attnlrp": Plan(),
    "cp": Plan(attention="cp", otherwise="cp"),
}

# A row may put all its weight on what is removed: what it would read instead is not defined, and is bounded here.
LEAST_REST = 1e-3


def barring_effect(weights: Tensor, value: Tensor, output: Tensor, gradient: Tensor, member: Tensor) -> Tensor:
    """< df/dO_j, dO_j(I) > for every row j and group I, summed over heads: (T, F).

    weights (H, T, T); value, output, gradient (H, T, d); member (F, T) marks the keys of each group.
    """
    along = gradient @ value.transpose(1, 2) - (gradient * output).sum(
        -1, keepdim=True
    )  # (H, T, T): < G_j, V_i - O_j >
    member = member.to(weights.dtype).T  # (T, F)
    rest = (1.0 - weights @ member).clamp_(min=LEAST_REST)
    return ((weights * along) @ member / rest).sum(0)


def pooled_effect(reductions: Sequence[Reduction], gradients: Sequence[Tensor | None], member: Tensor) -> Tensor:
    """What f loses, to first order, when the rows of each group leave the sums over rows: (F,) for member (F, T).

    gradients: of f at what came out of those reductions that depend on the input, in order; None where f does not ask
    for it. Where there are others as well (counts of rows), the sums are means in the end: mean - mean without I = sum
    over i in I of (x_i - mean) / (T - |I|).
    """
    carried = [r for r in reductions if r.out.requires_grad]
    counts = len(carried) < len(reductions)
    length = member.shape[1]
    effect = torch.zeros(len(member), dtype=carried[0].out.dtype, device=carried[0].out.device)
    member = member.to(effect)
    sizes = member.sum(1)
    for reduction, gradient in zip(carried, gradients, strict=True):
        if gradient is None:
            continue
        along = (reduction.rows[0].detach() * gradient[0]).flatten(1).sum(1) / (
            length if reduction.mean else 1
        )  # (T,): < df/dout, x_i >
        effect += member @ (along - along.mean() if counts else along)
    return effect * length / (length - sizes).clamp(min=1.0) if counts else effect


@dataclass(frozen=True)
class FirstOrder:
    """One forward and one backward pass over the intact input, and what can be read off it.

    effect: (T, F) effect of each feature's removal through each row, over all sites. size: the same with sites taken by
    absolute value. elsewhere: (F,) effect through rows that are no positions of the input. pooled: (F,) effect of
    leaving a mean over rows, None where none is left. sites: keys and values for carrying rows, empty where they are
    not known. reduced: what sums over rows were taken of, (T, ...) each.
    """

    output: float
    effect: Tensor
    size: Tensor
    elsewhere: Tensor
    pooled: Tensor | None
    sites: list[Kept]
    reduced: list[Tensor]


def member_matrix(subject: Subject) -> Tensor:
    """Which positions of the sequence belong to which feature: (F, T)."""
    leading = subject.adapter.leading_positions(subject.encoded)
    member = torch.zeros(len(subject.features), leading + subject.length, dtype=torch.bool)
    for feature, positions in enumerate(subject.features):
        member[feature, [leading + p for p in positions]] = True
    return member


@contextmanager
def _both(first: AbstractContextManager[object], second: AbstractContextManager[object]) -> Iterator[None]:
    with first, second:
        yield


def refuse_others(subject: Subject) -> None:
    """Raise for models that are no single stack of tokens which attend to each other."""
    adapter = subject.adapter
    if not adapter.tokens:
        raise InputError(
            "looprop has no meaning for a plain tensor model: its inputs are no tokens that attend to each other"
        )
    if adapter.two_stacks:
        raise InputError(
            "looprop has no meaning for an encoder-decoder yet: the rows of its two stacks are not told apart; use loo"
        )


def first_order(subject: Subject, backward: Backward = "gradient") -> FirstOrder:
    """The first-order effect of every removal, with nothing inside an attention block linearised."""
    refuse_others(subject)
    adapter = subject.adapter
    member = member_matrix(subject)
    reductions: list[Reduction] = []
    unfollowed = UnfollowedAttention()
    noting = recording((1, member.shape[1]), reductions) if subject.answer_rows.everything else nullcontext()
    with adapter.traced(
        subject.encoded.inputs,
        BACKWARDS[backward],
        positions=subject.target.positions,
        record=True,
        within=_both(unfollowed, noting),
    ) as traced:
        tape, logits, value = traced.tape, traced.logits, traced.value(subject.target)
        outputs = [site.output for site in tape.sites if site.output is not None]
        sums = [r.out for r in reductions if r.out.requires_grad]
        asked_for = [*outputs, *sums]
        gradients = tape.gradients_or_none(value, asked_for) if asked_for else []
    check_followed(adapter.name, unfollowed)
    bars = barred_sites(subject, tape.sites)
    gradients, of_sums = gradients[: len(outputs)], gradients[len(outputs) :]
    member = member.to(logits.device)
    effect = size = torch.zeros(member.shape[1], member.shape[0], dtype=logits.dtype, device=logits.device)
    elsewhere = torch.zeros(len(member), dtype=logits.dtype, device=logits.device)
    for site, gradient, barred in zip(tape.sites, gradients, bars, strict=True):
        if gradient is None or not barred:
            continue
        part = barring_effect(*heads_of_site(adapter.name, site, gradient), member)
        if len(part) == len(effect):
            effect, size = effect + part, size + part.abs()
        else:  # rows that are no positions of the input: a class token's alone, a decoder's
            elsewhere = elsewhere + part.sum(0)
    kept = [k for site in tape.sites if (k := keep_site(site)) is not None]
    asked = [i for i, r in enumerate(reductions) if r.out.requires_grad]
    asked = [i for i, gradient in zip(asked, of_sums, strict=True) if gradient is not None]
    pooled = pooled_effect(reductions, of_sums, member) if asked and leaves_the_mean(subject, asked) else None
    return FirstOrder(
        output=float(value[0].detach()),
        effect=effect.detach(),
        size=size.detach(),
        elsewhere=elsewhere.detach(),
        pooled=pooled,
        sites=kept if len(kept) == len(tape.sites) and all(bars) else [],
        reduced=[r.rows[0].detach() for r in reductions],
    )


def leaves_the_mean(subject: Subject, asked: list[int]) -> bool:
    """Does a removed token also leave the means over rows that are read out? Tried once per model: some forget their
    mask there.

    asked: which of the sums over rows, in order, the answer depends on.
    """
    length, leading = subject.length, subject.adapter.leading_positions(subject.encoded)

    def leaves() -> bool:
        keep = torch.ones(1, length, dtype=torch.bool, device=subject.adapter.device)
        keep[0, length // 2] = False
        found: list[Reduction] = []
        with subject.adapter.evaluating(), torch.inference_mode(), recording((1, leading + length), found):
            plain_runner(subject, "attention-mask")(keep)
        own = [found[i].rows[0, leading + length // 2] for i in asked if i < len(found)]
        return len(own) == len(asked) and not any(row.any() for row in own)

    return once(subject, "leaves the mean", leaves)
