"""Plain ways to remove: one full-length (or shortened) input per variant. The reference for everything quicker."""

from collections.abc import Callable

import torch
from torch import Tensor

from looprop.errors import InputError, ModelError
from looprop.intercept.sites import barring
from looprop.models.adapter import Adapter, Removal
from looprop.models.subject import Subject

Runner = Callable[[Tensor], Tensor]
"""Kept positions (B, T) bool -> logits (B, K, C)."""


def plain_runner(subject: Subject, removal: Removal) -> Runner:
    """The plain way of one kind of removal, or an error that says which kinds the input can take."""
    adapter = subject.adapter
    if removal not in adapter.removals:
        allowed = " or ".join(map(repr, adapter.removals))
        raise InputError(f"removal={removal!r} is not for {adapter.noun}, which take {allowed}")
    encoded = subject.encoded
    if removal == "delete":  # those after it move up
        left = _altered(
            subject, lambda keep: adapter.collate([encoded.only(one.nonzero()[:, 0].tolist()) for one in keep])[0]
        )
        return without_padding(left, adapter, lambda keep: keep.sum(1))
    if removal == "zero":  # an element of a tensor, or a patch of an image
        run = _altered(subject, lambda keep: adapter.zeroed(encoded, keep))
    elif removal != "attention-mask":  # by another token, which everybody still reads
        token = adapter.token_id(removal)
        run = _altered(subject, lambda keep: adapter.replaced(encoded, keep, token))
    elif adapter.takes_mask:  # the paper's removal: its key is barred for every row, by the model's own mask
        run = _altered(subject, lambda keep: adapter.masked(encoded, keep))
    else:
        run = _injected_mask(subject)
    return without_padding(run, adapter)


def _altered(subject: Subject, alter: Callable[[Tensor], dict[str, Tensor]]) -> Runner:
    """Run what is left of the input. alter: the inputs of the model from kept positions (B, T)."""
    return lambda keep: subject.adapter.logits(alter(keep), positions=subject.target.positions)


def _injected_mask(subject: Subject) -> Runner:
    """Barred keys for models that take no mask: at the attention sites themselves."""
    adapter, encoded = subject.adapter, subject.encoded
    layers = adapter.attention_sites(encoded)
    if layers == 0:
        others = " or ".join(f"removal={other!r}" for other in adapter.removals if other != "attention-mask")
        raise InputError(f"{adapter.name} has no attention to mask: use {others}")

    def run(keep: Tensor) -> Tensor:
        before = adapter.leading_positions(encoded)  # class tokens that stand before the first patch
        barred = torch.cat([torch.zeros(len(keep), before, dtype=torch.bool, device=keep.device), ~keep], 1)
        with barring(barred) as mode:
            logits = adapter.logits(adapter.whole(encoded, len(keep)), positions=subject.target.positions)
        if mode.met != layers:
            raise ModelError(
                f"{mode.met} attention sites were masked and the model has {layers}: its attention is not understood; "
                "give it an attention_mask argument, or use another removal"
            )
        return logits

    return run


def without_padding(runner: Runner, adapter: Adapter, lengths: Callable[[Tensor], Tensor] | None = None) -> Runner:
    """A runner that gives a model no batch it cannot take: one variant at a time, or those of one length.

    lengths: kept positions (B, T) -> how many of them each variant runs (B,); None where all are as long as the input.
    """

    def run(keep: Tensor) -> Tensor:
        batches = adapter.takes_batches  # asked anew: it may be found out on the way
        if batches and (adapter.pads or lengths is None):
            return runner(keep)
        like = torch.arange(len(keep)) if lengths is None or not batches else lengths(keep).cpu()
        groups = [(like == value).nonzero()[:, 0].to(keep.device) for value in dict.fromkeys(like.tolist())]
        return torch.cat([runner(keep[group]) for group in groups])[torch.cat(groups).argsort()]

    return run
