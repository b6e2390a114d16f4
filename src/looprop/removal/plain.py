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
    if removal == "delete":
        return without_padding(_deleted(subject), adapter, lambda keep: keep.sum(1))
    if removal == "attention-mask":
        run = _masked(subject) if adapter.takes_mask else _injected_mask(subject)
    elif removal == "zero":
        run = _zeroed(subject)
    else:
        run = _replaced(subject, adapter.token_id(removal))
    return without_padding(run, adapter)


def _forward(subject: Subject, inputs: dict[str, Tensor]) -> Tensor:
    return subject.adapter.logits(inputs, positions=subject.target.positions)


def _masked(subject: Subject) -> Runner:
    """The paper's removal: a removed token's key is barred for every row, by the model's own attention mask."""
    return lambda keep: _forward(subject, subject.adapter.masked(subject.encoded, keep))


def _zeroed(subject: Subject) -> Runner:
    """A removed element of a tensor, or a removed patch of an image, is set to zero."""
    return lambda keep: _forward(subject, subject.adapter.zeroed(subject.encoded, keep))


def _replaced(subject: Subject, token: int) -> Runner:
    """A removed token is replaced by another (mask or padding token), which everybody still reads."""
    return lambda keep: _forward(subject, subject.adapter.replaced(subject.encoded, keep, token))


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
            logits = _forward(subject, adapter.whole(encoded, len(keep)))
        if mode.met != layers:
            raise ModelError(
                f"{mode.met} attention sites were masked and the model has {layers}: its attention is not understood; "
                "give it an attention_mask argument, or use another removal"
            )
        return logits

    return run


def _deleted(subject: Subject) -> Runner:
    """A removed token is cut out: those after it move up."""

    def run(keep: Tensor) -> Tensor:
        left = [subject.encoded.only(kept.nonzero()[:, 0].tolist()) for kept in keep]
        return _forward(subject, subject.adapter.collate(left)[0])

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
