"""Subjects of tiny models, and the slow way to answer what the set function answers: one variant at a time, by hand."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import zoo
from looprop.models.adapter import Adapter
from looprop.models.encoded import Encoded, partition
from looprop.models.heads.causal_lm import CausalLanguageModel
from looprop.models.heads.image_classifier import ImageClassifier
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, new_subject
from looprop.models.target import Target

PAD, MASK = 0, 4


class Tokens(SimpleNamespace):
    """As much of a tokenizer as removal needs."""

    def __call__(self, *texts: str) -> Any:
        raise NotImplementedError


TOKENIZER = Tokens(pad_token_id=PAD, mask_token_id=MASK)


def encode(ids: Tensor, *, fixed: int = 0) -> Encoded:
    """Token ids (1, T) as an encoded text of which the last `fixed` positions are context."""
    length = ids.shape[1]
    none, names = (None,) * length, tuple(f"t{i}" for i in range(length))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return Encoded(inputs, names, "", none, (False,) * length, none, frozenset(range(length - fixed, length)))


def adapter_of(name: str, model: nn.Module) -> Adapter:
    if name == "vit":
        return ImageClassifier(model)
    return (CausalLanguageModel if name in zoo.DECODERS else TextClassifier)(model, TOKENIZER)


def subject_of(
    name: str,
    *,
    length: int = 11,
    features: Any = "token",
    continuation: int = 0,
    adapter: Adapter | None = None,
    **build: Any,
) -> Subject:
    """A tiny model of a family bound to a random input. Class or token 1; or the last tokens of the input as a
    continuation.
    """
    adapter = adapter or adapter_of(name, zoo.build(name, **build))
    if name == "vit":
        encoded = adapter.encode(torch.randn(1, 16, 16, generator=torch.Generator().manual_seed(3)))
    else:
        encoded = encode(zoo.token_ids(length, seed=length), fixed=continuation)
    target = Target((1,), "1")
    if continuation:
        target = Target(tuple(encoded.inputs["input_ids"][0, -continuation:].tolist()), "...", continuation=True)
    return new_subject(adapter, encoded, target, partition(encoded, features))


def value_of(subject: Subject, logits: Tensor) -> float:
    """The target by hand from what the model returned for one input."""
    target = subject.target
    if target.continuation:
        scores = logits[0].log_softmax(-1)
        first = len(scores) - len(target.index) - 1
        return sum(float(scores[first + k, token]) for k, token in enumerate(target.index))
    return float(logits[0, -1, target.index[0]] if logits.dim() == 3 else logits[0, target.index[0]])


def kept_positions(subject: Subject, kept: NDArray[np.bool_]) -> list[int]:
    removed = {
        position for feature, keep in zip(subject.features, kept, strict=True) if not keep for position in feature
    }
    return [i for i in range(len(subject.encoded)) if i not in removed]


@torch.no_grad()
def one_by_one(subject: Subject, keep: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The paper's removal by the model's own attention mask, or by hand for a ViT, one variant at a time."""
    model = subject.adapter.model
    values = []
    for row in keep:
        mask = torch.zeros(1, len(subject.encoded), dtype=torch.long)
        mask[0, kept_positions(subject, row)] = 1
        if isinstance(subject.adapter, ImageClassifier):
            logits = masked_vit(model, subject.encoded.inputs["pixel_values"], mask)
        else:
            ids = subject.encoded.inputs["input_ids"]
            more = {"position_ids": torch.arange(ids.shape[1])[None]} if subject.adapter.causal else {}
            output = model(input_ids=ids, attention_mask=mask, **more)
            logits = getattr(output, "logits", output)
        values.append(value_of(subject, logits))
    return np.array(values)


def masked_vit(model: Any, pixels: Tensor, mask: Tensor) -> Tensor:
    """A ViT with the patches of mask (1, patches) == 0 barred as keys; the class token stays. Written out from its
    modules.
    """
    x = model.vit.embeddings(pixels)  # (1, 1 + patches, D)
    barred = torch.cat([torch.ones(1, 1), mask], 1) == 0
    for layer in model.vit.layers:
        site, normed = layer.attention, layer.layernorm_before(x)
        query, key, value = (
            p(normed).unflatten(-1, (4, -1)).transpose(1, 2) for p in (site.q_proj, site.k_proj, site.v_proj)
        )
        scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
        weights = scores.masked_fill(barred[:, None, None], -torch.inf).softmax(-1)
        x = x + site.o_proj((weights @ value).transpose(1, 2).flatten(2))
        x = x + layer.mlp.fc2(torch.nn.functional.gelu(layer.mlp.fc1(layer.layernorm_after(x))))
    return model.classifier(model.vit.layernorm(x)[:, 0])


def leave_one_out(count: int) -> NDArray[np.bool_]:
    return ~np.eye(count, dtype=bool)


def curves(count: int, seed: int = 0) -> NDArray[np.bool_]:
    """The states of MoRF and LeRF for one random order."""
    order = np.random.default_rng(seed).permutation(count)
    keep = np.ones((2, count - 1, count), dtype=bool)
    for step in range(1, count):
        keep[0, step - 1, order[:step]] = False
        keep[1, step - 1, order[::-1][:step]] = False
    return keep.reshape(-1, count)


def everything(count: int) -> NDArray[np.bool_]:
    """All states that leave-one-out, MoRF and LeRF ask for."""
    return np.concatenate([leave_one_out(count), curves(count)])
