"""Plain ways to remove: one full-length (or shortened) input per variant. The reference for everything quicker."""

from collections.abc import Callable

import torch
from torch import Tensor

from looprop.errors import InputError, ModelError
from looprop.intercept.sites import barring
from looprop.models.adapter import Adapter
from looprop.models.subject import Subject

Runner = Callable[[Tensor], Tensor]
"""Kept positions (B, T) bool -> logits (B, K, C)."""


def attention_mask(subject: Subject) -> Runner:
    """The paper's removal: a removed token's key is barred for every row, by the model's own attention mask."""

    def run(keep: Tensor) -> Tensor:
        inputs = {key: value.expand(len(keep), *value.shape[1:]) for key, value in subject.encoded.inputs.items()}
        inputs["attention_mask"] = keep.to(inputs["input_ids"])
        if subject.adapter.causal and "position_ids" in subject.adapter.arguments:
            inputs["position_ids"] = torch.arange(keep.shape[1], device=keep.device).expand(len(keep), -1)
        return subject.adapter.forward(inputs, positions=subject.target.positions)

    return run


def injected_mask(subject: Subject) -> Runner:
    """The same for models that take no mask: keys are barred at the attention sites themselves."""
    adapter = subject.adapter
    layers = adapter.attention_layers(subject.encoded)
    if layers == 0:
        raise InputError(f"{adapter.name} has no attention to mask: use removal='zero'")

    def run(keep: Tensor) -> Tensor:
        inputs = {key: value.expand(len(keep), *value.shape[1:]) for key, value in subject.encoded.inputs.items()}
        before = adapter.leading_positions(subject.encoded)  # class tokens that stand before the first patch
        barred = torch.cat([torch.zeros(len(keep), before, dtype=torch.bool, device=keep.device), ~keep], 1)
        mode = barring(barred)
        with mode:
            logits = adapter.forward(inputs, positions=subject.target.positions)
        if mode.met != layers:
            raise ModelError(
                f"{mode.met} attention sites were masked and the model has {layers}: its attention is not understood; "
                "give it an attention_mask argument, or use another removal"
            )
        return logits

    return run


def replaced_token(subject: Subject, token: int) -> Runner:
    """A removed token is replaced by another (mask or padding token), which everybody still reads."""

    def run(keep: Tensor) -> Tensor:
        inputs = {key: value.expand(len(keep), *value.shape[1:]) for key, value in subject.encoded.inputs.items()}
        inputs["input_ids"] = torch.where(keep, inputs["input_ids"], token)
        return subject.adapter.forward(inputs, positions=subject.target.positions)

    return run


def zeroed(subject: Subject) -> Runner:
    """A removed element of a tensor, or a removed patch of an image, is set to zero."""
    (name,) = subject.encoded.inputs

    def run(keep: Tensor) -> Tensor:
        whole = subject.encoded.inputs[name]
        inputs = {name: whole * subject.adapter.spread(keep, whole).to(whole.dtype)}
        return subject.adapter.forward(inputs, positions=subject.target.positions)

    return run


def deleted(subject: Subject) -> Runner:
    """A removed token is cut out: those after it move up."""
    adapter = subject.adapter

    def run(keep: Tensor) -> Tensor:
        batch, _ = adapter.collate([subject.encoded.only(kept.nonzero()[:, 0].tolist()) for kept in keep])
        return adapter.forward(batch, positions=subject.target.positions)

    return run


def without_padding(runner: Runner, adapter: Adapter, lengths: Callable[[Tensor], Tensor] | None = None) -> Runner:
    """A runner that gives a model no batch it cannot take: one variant at a time, or those of one length.

    lengths: kept positions (B, T) -> how many of them each variant runs (B,); None where all are as long as the input.
    """
    if adapter.batches and (adapter.pads or lengths is None):
        return runner

    def run(keep: Tensor) -> Tensor:
        like = torch.arange(len(keep)) if lengths is None or not adapter.batches else lengths(keep).cpu()
        groups = [(like == value).nonzero()[:, 0].to(keep.device) for value in dict.fromkeys(like.tolist())]
        return torch.cat([runner(keep[group]) for group in groups])[torch.cat(groups).argsort()]

    return run


def token_runner(subject: Subject, kind: str) -> Runner:
    """Removal by replacement: "mask-token" or "pad-token"."""
    tokenizer = getattr(subject.adapter, "tokenizer", None)
    name = "mask_token_id" if kind == "mask-token" else "pad_token_id"
    token = getattr(tokenizer, name, None)
    if token is None:
        raise InputError(
            f"the tokenizer of {subject.adapter.name} has no {kind.replace('-', ' ')}: use another removal"
        )
    return replaced_token(subject, int(token))


def runner(subject: Subject, kind: str) -> Runner:
    """The plain way of one kind of removal, or an error that says which kinds the input can take."""
    text = "input_ids" in subject.encoded.inputs
    if kind == "attention-mask":
        return (
            attention_mask(subject)
            if text and "attention_mask" in subject.adapter.arguments
            else injected_mask(subject)
        )
    if kind == "zero":
        if text:
            raise InputError(
                "removal='zero' is for tensors and images; texts take 'attention-mask', 'mask-token', 'pad-token' or "
                "'delete'"
            )
        return zeroed(subject)
    if not text:
        raise InputError(f"removal={kind!r} is for texts; images take 'attention-mask' or 'zero', tensors 'zero'")
    return deleted(subject) if kind == "delete" else token_runner(subject, kind)
