"""Which attention sites a removal is felt at directly: where it bars a key. What is not understood is refused."""

from collections.abc import Sequence

import torch
from torch import Tensor

from looprop.errors import InputError
from looprop.intercept.attention import AttentionSite, heads_of_one
from looprop.intercept.layers import UnfollowedAttention
from looprop.models.subject import Subject
from looprop.removal.trust import once

INSTEAD = "use method='loo', which needs no attention to be understood"


def check_followed(name: str, unfollowed: UnfollowedAttention) -> None:
    """Raise where attention ran with gradients turned off: the effect through it would be missing."""
    if unfollowed.off:
        raise InputError(
            f"{name} computes {unfollowed.off} of its attention calls with gradients turned off, so that what a "
            f"removal does there cannot be followed: {INSTEAD}"
        )


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
    for site in sites:
        if site.products != 1 or site.changed:
            raise InputError(
                f"the weights of attention site {site.number} of {name} do not meet the values once, as the softmax "
                f"made them (they are mixed, changed or used in another way): {INSTEAD}"
            )
    met: set[int] = set()
    for site in sites:
        assert site.key is not None
        assert site.output is not None
        if site.output.shape[-2] != length:
            if site.key.data_ptr() in met:
                raise InputError(
                    f"the queries of attention site {site.number} of {name} are a piece of those of a layer, which "
                    f"runs in pieces: {INSTEAD}"
                )
            met.add(site.key.data_ptr())


def _tried(subject: Subject, sites: Sequence[AttentionSite], length: int) -> tuple[bool, ...]:
    """Found out by removing one position."""
    adapter, encoded = subject.adapter, subject.encoded
    place = len(encoded) // 2
    keep = torch.ones(1, len(encoded), dtype=torch.bool, device=adapter.device)
    keep[0, place] = False
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
    return (
        weights,
        value.repeat_interleave(len(weights) // len(value), 0),
        output,
        slope,
    )  # grouped queries share values
