"""Generic attention, attention times norm and value zeroing against eager copies of the models, by literal loops."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers as hf
from torch import Tensor, nn

import looprop
import tiny
from looprop.errors import InputError
from looprop.intercept.blocks import blocks_of
from looprop.methods import make_method
from looprop.models.subject import Subject
from removal.naive import subject_of

FAMILIES = ["bert", "distilbert", "gpt2", "llama", "vit"]


def scores(method: str, subject: Subject, **options: Any) -> np.ndarray:
    return make_method(method, **options).attribute([subject])[0].scores


def eager(subject: Subject) -> Any:
    model: Any = copy.deepcopy(subject.adapter.model).eval()
    model.set_attn_implementation("eager")
    return model


def read(flow: np.ndarray, family: str) -> np.ndarray:
    """The class token's row, or a decoder's last; images leave the class token out."""
    row = flow[-1] if family in ("gpt2", "llama") else flow[0]
    return row[1:] if family == "vit" else row


def target_value(subject: Subject, logits: Tensor) -> Tensor:
    return subject.target.value(logits[:, -1:] if logits.dim() == 3 else logits[:, None])[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_generic_attention_by_its_equation(family: str) -> None:
    subject = subject_of(family)
    output = eager(subject)(**subject.encoded.inputs, output_attentions=True)
    gradients = torch.autograd.grad(target_value(subject, output.logits), output.attentions)
    length = output.attentions[0].shape[-1]
    flow = np.eye(length)
    for weights, gradient in zip(output.attentions, gradients, strict=True):
        mean = np.zeros((length, length))
        for head, slope in zip(weights[0], gradient[0], strict=True):
            mean += np.maximum((head * slope).detach().double().numpy(), 0.0) / weights.shape[1]
        flow = flow + mean @ flow
    expected = read(flow - np.eye(length), family)
    found = scores("generic-attention", subject)
    np.testing.assert_allclose(found, expected, atol=1e-5 * expected.max())
    assert found.max() > 0


def own_values(subject: Subject, family: str) -> list[np.ndarray]:
    """The values (H, T, d) of every layer, from the modules that project them."""
    model, kept = eager(subject), []

    def keep(module: Any, args: Any, out: Tensor) -> None:
        kept.append(out.detach()[0])

    names = {"bert": "self.value", "distilbert": "v_lin", "vit": "v_proj", "llama": "v_proj"}
    ends = (names[family], "attention.value")
    hooks = [m.register_forward_hook(keep) for n, m in model.named_modules() if n.endswith(ends)]
    assert hooks
    with torch.no_grad():
        model(**subject.encoded.inputs)
    config = model.config
    heads = getattr(config, "num_attention_heads", None) or config.n_heads
    groups = heads // (getattr(config, "num_key_value_heads", None) or heads)
    found = []
    for value in kept:
        own = value.reshape(len(value), heads // groups, -1).transpose(0, 1)
        found.append(own.repeat_interleave(groups, 0).double().numpy())
    return found


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("family", ["bert", "distilbert", "llama", "vit"])
def test_attention_times_norm_by_its_equation(family: str, residual: bool) -> None:
    subject = subject_of(family)
    with torch.no_grad():
        output = eager(subject)(**subject.encoded.inputs, output_attentions=True)
    length = output.attentions[0].shape[-1]
    flow = np.eye(length)
    for weights, values in zip(output.attentions, own_values(subject, family), strict=True):
        sizes = np.zeros((length, length))
        for i in range(length):
            for j in range(length):
                whole = [float(weights[0, h, i, j]) * values[h, j] for h in range(len(values))]
                sizes[i, j] = np.linalg.norm(np.concatenate(whole))
        sizes /= sizes.sum(-1, keepdims=True)
        flow = ((sizes + np.eye(length)) / 2 if residual else sizes) @ flow
    np.testing.assert_allclose(scores("attention-norm", subject, residual=residual), read(flow, family), atol=1e-6)


def zeroed_by_hand(subject: Subject, family: str) -> np.ndarray:
    """One block at a time, one value at a time, by a hook on the module that makes the values."""
    model = eager(subject)
    layers = {
        "bert": lambda: model.bert.encoder.layer,
        "gpt2": lambda: model.transformer.h,
        "llama": lambda: model.model.layers,
        "vit": lambda: model.vit.layers if hasattr(model.vit, "layers") else model.vit.encoder.layer,
    }[family]()
    with torch.no_grad(), blocks_of(model) as blocks:
        model(**subject.encoded.inputs, **({"use_cache": False} if family in ("gpt2", "llama") else {}))
    assert [block.module for block in blocks] == list(layers)
    flow = np.eye(blocks[0].output.shape[1])
    for block in blocks:
        whole = block.output[0]
        change = np.zeros((len(whole), len(whole)))
        for j in range(len(whole)):

            def zero(module: Any, args: Any, out: Tensor, j: int = j) -> Tensor:
                out = out.clone()
                width = out.shape[-1]
                out[:, j, 2 * width // 3 if family == "gpt2" else 0 :] = 0.0  # GPT-2 makes q, k and v in one
                return out

            ends = ("value", "v_proj", "c_attn")
            makers = [m for n, m in block.module.named_modules() if n.endswith(ends)]
            assert len(makers) == 1
            hook = makers[0].register_forward_hook(zero)
            with torch.no_grad():
                other = block.run(1)[0]
            hook.remove()
            for i in range(len(whole)):
                cosine = float(whole[i] @ other[i] / whole[i].norm() / other[i].norm())
                change[i, j] = max(0.0, 1.0 - cosine)
        flow = (change / change.sum(-1, keepdims=True)) @ flow
    return flow


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "vit"])
def test_value_zeroing_by_hand(family: str) -> None:
    subject = subject_of(family)
    np.testing.assert_allclose(
        scores("value-zeroing", subject), read(zeroed_by_hand(subject, family), family), atol=1e-5
    )


class Flat(nn.Module):
    """Two layers of attention that are no modules of their own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.config = hf.BertConfig(vocab_size=99, num_labels=2)
        self.embedding, self.last = nn.Embedding(99, 8), nn.Linear(8, 2)

    def get_input_embeddings(self) -> nn.Embedding:
        return self.embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.embedding(input_ids)
        for _ in range(2):
            x = x + F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])[:, 0]
        return self.last(x[:, 0])


def test_value_zeroing_needs_blocks() -> None:
    bench = looprop.load((Flat(), tiny.wordpiece()))
    with pytest.raises(InputError, match="value-zeroing needs modules that hold one attention site each"):
        bench.explain("the film is good", "value-zeroing")
