"""The effect of barring keys at attention sites, to first order in everything outside the attention block.

A removal is felt directly at the sites where it bars a key; a site that is not understood is refused. At one site and
head, with weights A, values V and output O, barring the keys of a group I changes row j exactly by

    dO_j(I) = O_j - O_j(without I) = sum over i in I of A_ji (V_i - O_j) / (1 - A_jI),   A_jI = sum over i in I of A_ji,

softmax renormalisation included; its effect on f is < df/dO_j, dO_j(I) >.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from looprop.errors import InputError
from looprop.intercept.attention import AttentionSite, heads_of_one
from looprop.intercept.layers import UnfollowedAttention
from looprop.intercept.reductions import Reduction, recording
from looprop.intercept.rows import Kept, keep_site
from looprop.methods.parts.attention_layers import check_tokens
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
TWO_STACKS = " yet: the rows of its two stacks are not told apart; use loo"


def barring_effect(weights: Tensor, value: Tensor, output: Tensor, gradient: Tensor, member: Tensor) -> Tensor:
    """< df/dO_j, dO_j(I) > for every row j and group I, summed over heads: (T, F).

    weights (H, T, T); value, output, gradient (H, T, d); member (F, T) marks the keys of each group.
    """
    # (H, T, T): < G_j, V_i - O_j >
    along = gradient @ value.transpose(1, 2) - (gradient * output).sum(-1, keepdim=True)
    member = member.to(weights.dtype).T  # (T, F)
    rest = (1.0 - weights @ member).clamp_(min=LEAST_REST)
    return ((weights * along) @ member / rest).sum(0)


def pooled_effect(reductions: Sequence[Reduction], gradients: Sequence[Tensor | None], member: Tensor) -> Tensor:
    """What f loses, to first order, when the rows of each group leave the sums over rows: (F,) for member (F, T).

    gradients: of f at what came out of the reductions that depend on the input; None where f does not ask for it. Where
    there are others as well (counts of rows), the sums are means in the end: mean - mean without I = sum over i in I of
    (x_i - mean) / (T - |I|).
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
        along = (reduction.rows[0].detach() * gradient[0]).flatten(1).sum(1)  # (T,): < df/dout, x_i >
        along = along / length if reduction.mean else along
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


def first_order(subject: Subject, backward: Backward = "gradient") -> FirstOrder:
    """The first-order effect of every removal, with nothing inside an attention block linearised."""
    check_tokens(subject, "looprop", TWO_STACKS)
    adapter = subject.adapter
    member = member_matrix(subject)
    reductions: list[Reduction] = []
    inputs, plan, unfollowed = subject.encoded.inputs, BACKWARDS[backward], UnfollowedAttention()

    @contextmanager
    def both() -> Iterator[None]:
        with unfollowed, recording((1, member.shape[1]), reductions):
            yield

    within = both() if subject.answer_rows.everything else unfollowed
    with adapter.traced(inputs, plan, positions=subject.target.positions, record=True, within=within) as traced:
        tape, logits, value = traced.tape, traced.logits, traced.value(subject.target)
        outputs = [site.output for site in tape.sites if site.output is not None]
        sums = [r.out for r in reductions if r.out.requires_grad]
        gradients = tape.gradients_or_none(value, [*outputs, *sums]) if outputs or sums else []
    if unfollowed.off:  # the effect through them would be missing
        raise InputError(
            f"{adapter.name} computes {unfollowed.off} of its attention calls with gradients turned off, so that what "
            f"a removal does there cannot be followed: {INSTEAD}"
        )
    bars = barred_sites(subject, tape.sites)
    gradients, of_sums = gradients[: len(outputs)], gradients[len(outputs) :]
    member = member.to(logits.device)
    effect = size = logits.new_zeros(member.shape[1], member.shape[0])
    elsewhere = logits.new_zeros(len(member))
    for site, gradient, barred in zip(tape.sites, gradients, bars, strict=True):
        if gradient is None or not barred:
            continue
        part = barring_effect(*heads_of_site(adapter.name, site, gradient), member)
        if len(part) == len(effect):
            effect, size = effect + part, size + part.abs()
        else:  # rows that are no positions of the input: a class token's alone, a decoder's
            elsewhere = elsewhere + part.sum(0)
    kept = [k for site in tape.sites if (k := keep_site(site)) is not None]
    carried = [i for i, r in enumerate(reductions) if r.out.requires_grad]
    asked = [i for i, gradient in zip(carried, of_sums, strict=True) if gradient is not None]
    pooled = pooled_effect(reductions, of_sums, member) if asked and leaves_the_mean(subject, asked) else None
    kept = kept if len(kept) == len(tape.sites) and all(bars) else []
    effect, size, elsewhere = effect.detach(), size.detach(), elsewhere.detach()
    reduced = [r.rows[0].detach() for r in reductions]
    return FirstOrder(float(value[0].detach()), effect, size, elsewhere, pooled, kept, reduced)


def leaves_the_mean(subject: Subject, asked: list[int]) -> bool:
    """Does a removed token also leave the means over rows that are read out? Some models forget their mask there.

    asked: which of the sums over rows, in order, the answer depends on.
    """
    length, leading = subject.length, subject.adapter.leading_positions(subject.encoded)

    def leaves() -> bool:
        keep = torch.arange(length, device=subject.adapter.device)[None] != length // 2
        found: list[Reduction] = []
        with subject.adapter.evaluating(), torch.inference_mode(), recording((1, leading + length), found):
            plain_runner(subject, "attention-mask")(keep)
        own = [found[i].rows[0, leading + length // 2] for i in asked if i < len(found)]
        return len(own) == len(asked) and not any(row.any() for row in own)

    return once(subject, "leaves the mean", leaves)


INSTEAD = "use method='loo', which needs no attention to be understood"


def barred_sites(subject: Subject, sites: Sequence[AttentionSite]) -> tuple[bool, ...]:
    """Is the key of a removed position barred at each site? Sites of another sequence (a decoder's own) are not.

    sites: recorded on the intact input. Raises for sites whose keys are other than the positions of the input.
    """
    adapter, encoded = subject.adapter, subject.encoded
    if not sites:
        raise InputError(f"{adapter.name} has no attention whose keys could be barred: looprop explains Transformers")
    length = adapter.leading_positions(encoded) + len(encoded)
    _check_products(adapter.name, sites, length)
    if not adapter.takes_mask:  # keys are then barred at every site from outside
        if odd := [s for s in sites if _keys(s) != length]:
            raise _other_keys(adapter.name, odd[0], length)
        return (True,) * len(sites)
    bars = once(subject, ("bars", len(sites)), lambda: _tried(subject, sites, length))
    if not any(bars):
        raise InputError(
            f"removing a token bars no key of {adapter.name}: its attention takes no notice of the mask. Use 'loo' "
            "with another removal, such as removal='mask-token'"
        )
    return bars


def _check_products(name: str, sites: Sequence[AttentionSite], length: int) -> None:
    """Every site has one output, made by the weights of its softmax, and its rows are not shared out among sites."""
    if odd := [site.number for site in sites if site.products != 1 or site.changed]:
        raise InputError(
            f"the weights of attention site {odd[0]} of {name} do not meet the values once, as the softmax made them "
            f"(they are mixed, changed or used in another way): {INSTEAD}"
        )
    met: set[int] = set()
    for site in sites:
        assert site.key is not None
        assert site.output is not None
        if site.output.shape[-2] != length and site.key.data_ptr() in met:
            raise InputError(
                f"the queries of attention site {site.number} of {name} are a piece of those of a layer, which runs in "
                f"pieces: {INSTEAD}"
            )
        if site.output.shape[-2] != length:
            met.add(site.key.data_ptr())


def _tried(subject: Subject, sites: Sequence[AttentionSite], length: int) -> tuple[bool, ...]:
    adapter, encoded = subject.adapter, subject.encoded
    place = len(encoded) // 2
    keep = torch.arange(len(encoded), device=adapter.device)[None] != place
    with adapter.traced(adapter.masked(encoded, keep), positions=subject.target.positions, record=True) as traced:
        without = traced.tape.sites
    if len(without) != len(sites):
        raise InputError(
            f"{adapter.name} has {len(sites)} attention sites and {len(without)} when a token is removed: {INSTEAD}"
        )
    column = length - len(encoded) + place
    bars = []
    for site, other in zip(sites, without, strict=True):
        before, after = site.all_weights().detach(), other.all_weights().detach()
        if _keys(site) == length:
            others = torch.arange(after.shape[-2], device=after.device) != column  # a row may still read itself
            bars.append(not after[..., others, column].any())
        elif before.shape == after.shape and torch.equal(before == 0, after == 0):
            bars.append(False)
        else:
            raise _other_keys(adapter.name, site, length)
    return tuple(bars)


def _keys(site: AttentionSite) -> int:
    assert site.value is not None
    return site.value.shape[-2]


def _other_keys(name: str, site: AttentionSite, length: int) -> InputError:
    return InputError(
        f"attention site {site.number} of {name} has {_keys(site)} keys where the input has {length} positions, so "
        f"that it is not known which key a removal bars: {INSTEAD}"
    )


def heads_of_site(name: str, site: AttentionSite, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Weights (H, R, T), values (H, T, d), output and gradient (H, R, d) of a site on one input."""
    assert site.value is not None
    assert site.output is not None
    weights = site.all_weights().detach()
    value, output, slope = (heads_of_one(t, weights) for t in (site.value.detach(), site.output.detach(), gradient))
    weights = heads_of_one(weights, weights)
    fits = weights.dim() == value.dim() == output.dim() == 3 and output.shape == slope.shape
    if not fits or output.shape[:2] != weights.shape[:2] or len(weights) % len(value):
        raise InputError(
            f"attention site {site.number} of {name} lays out its heads in a way that is not understood (weights "
            f"{tuple(weights.shape)}, values {tuple(value.shape)}): {INSTEAD}"
        )
    return weights, value.repeat_interleave(len(weights) // len(value), 0), output, slope  # queries may share values
