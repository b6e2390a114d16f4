"""Small models bound to an input, and their scores."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import zoo
from looprop.methods.looprop.first_order import first_order
from looprop.methods.registry import make_method
from looprop.models.encoded import Encoded, partition
from looprop.models.heads.causal_lm import CausalLanguageModel
from looprop.models.heads.image_classifier import ImageClassifier
from looprop.models.heads.text_classifier import TextClassifier
from looprop.models.subject import Subject, new_subject
from looprop.models.target import Target


def encoded(ids: Tensor) -> Encoded:
    length = ids.shape[1]
    none = (None,) * length
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return Encoded(inputs, tuple(map(str, range(length))), "", none, (False,) * length, none)


def subject_of(name: str, *, length: int = 11, features: Any = "token", model: nn.Module | None = None) -> Subject:
    model = model or zoo.build(name)
    adapter: Any
    if name == "vit":
        adapter = ImageClassifier(model)
        item = adapter.encode(torch.randn(1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(3)))
    else:
        kind = CausalLanguageModel if name in zoo.DECODERS else TextClassifier
        adapter = kind(model, lambda text: text)
        item = encoded(zoo.token_ids(length))
    return new_subject(adapter, item, Target((1,), "1"), partition(item, features))


def scores(subject: Subject, method: str, **options: Any) -> np.ndarray:
    return make_method(method, **options).attribute([subject.alone()])[0].scores


def felt(subject: Subject, backward: Any = "gradient") -> np.ndarray:
    """Row by row, how much of each removal is felt outside the rows of the token itself; the read-out row counts."""
    effect, read = first_order(subject.alone(), backward).effect.numpy(), subject.rows_read
    length = len(effect)
    return np.array([sum(abs(effect[j, i]) for j in range(length) if j != i or j in read) for i in range(length)])
