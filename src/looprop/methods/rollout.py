"""Attention rollout (Abnar & Zuidema 2020): the product of head-averaged attention over layers.

Printed form: A~(l) = A(l) A~(l-1), A~(0) = I. With the residual: A(l) is replaced by (A(l) + I) / 2.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from looprop.errors import InputError
from looprop.intercept.attention import heads_of_one
from looprop.intercept.layers import UnfollowedAttention, layers_of
from looprop.methods.base import Attribution, Method
from looprop.models.adapter import Adapter
from looprop.models.encoded import Encoded
from looprop.models.subject import Subject

INSTEAD = "use 'looprop', 'loo' or a method of propagation"


def attention_maps(adapter: Adapter, encoded: Encoded) -> list[Tensor]:
    """The attention weights (H, T, T) of every layer on one input; what an attention sink takes is left out."""
    unfollowed = UnfollowedAttention()
    with adapter.traced(encoded.inputs, record=True, within=unfollowed) as traced:
        sites = traced.tape.sites
    if not sites:
        raise InputError(f"rollout needs attention, and {adapter.name} has none that the engine recognises")
    if missed := unfollowed.off + unfollowed.constant:
        raise InputError(
            f"rollout needs every layer, and {adapter.name} computes {missed} of its attention calls with "
            f"gradients turned off or on constants, where nothing is recorded: {INSTEAD}"
        )
    if unread := [site.number for site in sites if site.products == 0 or site.changed]:
        raise InputError(
            f"rollout needs weights that meet values as the softmax made them, and those of attention site {unread[0]} "
            f"of {adapter.name} are mixed, changed or used in another way first: {INSTEAD}"
        )
    layers = layers_of(sites)
    if layers is None:
        raise InputError(
            f"rollout needs layers that follow each other, and the {len(sites)} attention sites of {adapter.name} do "
            "not: there is more than one stream (an encoder and a decoder, two flows), or attention runs in pieces: "
            f"{INSTEAD}"
        )
    maps = [heads_of_one(weights := layer[0].all_weights().detach(), weights) for layer in layers]
    length = adapter.leading_positions(encoded) + len(encoded)
    if others := sorted({tuple(m.shape[-2:]) for m in maps} - {(length, length)}):
        raise InputError(
            f"rollout needs weights of every position on every other, ({length}, {length}), and {adapter.name} has "
            f"{others[0]}: its positions are other than those of the input: {INSTEAD}"
        )
    return maps


class AttentionRollout(Method):
    """How much of each position reaches the read-out if only attention moved information. Cost 1.

    residual: count the residual connection as half of every layer (the default), or leave it out as printed.
    """

    name = "rollout"
    title = "Attention rollout"
    short = "Rollout (with residual)"
    summary = "product of head-averaged attention over the layers"
    cost = "1"
    kind = "weight"
    order = 42
    inputs = ("text", "image")
    limits = """
        *Claims:* where attention could have brought information from, if nothing else moved it.

        Do not trust it about direction or class: it is the same for every target, never negative, and ignores values
        and feed-forward layers.
        """

    def __init__(self, *, residual: bool = True) -> None:
        self.residual = residual

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """The row of the rolled-out attention that is read out (the class token's, a decoder's last), or the mean of
        those that are.
        """
        return [self._attribute(subject) for subject in subjects]

    def _attribute(self, subject: Subject) -> Attribution:
        if not subject.adapter.tokens:
            raise InputError(
                "rollout has no meaning for a plain tensor model: its inputs are no tokens that attend to each other"
            )
        if subject.adapter.two_stacks:
            raise InputError(
                "rollout has no meaning for an encoder-decoder: its attention maps are of two sequences and no chain"
            )
        maps = attention_maps(subject.adapter, subject.encoded)
        leading = subject.adapter.leading_positions(subject.encoded)
        rows = subject.rows_read
        if subject.target.continuation:
            rows = rows[:-1]  # the last token of a continuation predicts nothing that is asked for
        flow = rollout([m.mean(0) for m in maps], residual=self.residual)[rows].mean(0)[leading:]
        return Attribution(subject.group(flow.double().cpu().numpy()), cost=1.0)


def rollout(maps: Sequence[Tensor], *, residual: bool) -> Tensor:
    """The product of attention matrices (T, T), first layer first."""
    identity = torch.eye(maps[0].shape[-1], dtype=maps[0].dtype, device=maps[0].device)
    flow = identity
    for weights in maps:
        flow = ((weights + identity) / 2 if residual else weights) @ flow
    return flow
