"""Which attention sites make one layer, read off the graph of a forward pass.

A layer may call attention more than once (differential attention: the same weights on two sets of values), and a model
may hold more than one stream of positions (an encoder and a decoder, a text and its layout). What a site comes from
tells them apart: in one stream every site comes from all sites before it.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from looprop.intercept.attention import AttentionSite
from looprop.intercept.mode import InterceptMode


class UnfollowedAttention(InterceptMode):
    """Counts attention of which no site is made. It answers nothing.

    off: calls with gradients turned off, so that what they do with the input cannot be followed. constant: calls on
    what does not depend on the input.
    """

    def __init__(self) -> None:
        super().__init__()
        self.off = self.constant = 0

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = function(*args, **kwargs)
        attends = name == "scaled_dot_product_attention" or (name == "softmax" and out.dim() == 4)
        if attends and not torch.is_grad_enabled():
            self.off += 1
        elif attends and not out.requires_grad:
            self.constant += 1
        return out


def layers_of(sites: Sequence[AttentionSite]) -> list[list[AttentionSite]] | None:
    """The sites of each layer of one stream; several sites of a layer have the same weights. None where the sites are
    no such chain: more streams than one, or queries that meet the keys of another stream.
    """
    behind = sites_behind(sites)
    layers: list[list[AttentionSite]] = []
    seen, level = 0, -1
    for site, (query, key, value) in zip(sites, behind, strict=True):
        whole = query | key | value
        if key & ~query or value & ~query:  # they come from where the queries do not
            return None
        if whole == level and same_weights(layers[-1][0], site):
            layers[-1].append(site)
        elif whole == seen:
            layers.append([site])
            level = whole
        else:
            return None
        seen |= 1 << (site.number - 1)
    return layers


def same_weights(first: AttentionSite, second: AttentionSite) -> bool:
    """Do two sites put the same queries to the same keys?"""
    same = first.query is second.query and first.key is second.key and first.query is not None
    same = same and (first.causal, first.scale) == (second.causal, second.scale)
    if first.mask is None or second.mask is None:
        return same and first.mask is second.mask
    return same and torch.equal(first.mask, second.mask)


def sites_behind(sites: Sequence[AttentionSite]) -> list[tuple[int, int, int]]:
    """For each site the sites that its query, its key and its value come from, one bit for each."""
    made = {site.output.grad_fn: 1 << n for n, site in enumerate(sites) if site.output is not None}
    known: dict[Any, int] = {None: 0}

    def behind(tensor: Tensor | None) -> int:
        todo: list[Any] = [] if tensor is None else [tensor.grad_fn]
        while todo:
            node = todo[-1]
            if node in known:
                todo.pop()
                continue
            before = [above for above, _ in node.next_functions]
            open_ = [above for above in before if above not in known]
            if open_:
                todo += open_
                continue
            known[node] = made.get(node, 0)
            for above in before:
                known[node] |= known[above]
            todo.pop()
        return 0 if tensor is None else known[tensor.grad_fn]

    return [(behind(site.query), behind(site.key), behind(site.value)) for site in sites]
