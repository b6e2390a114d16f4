"""A model that takes no padding gets none, and one that takes one input at a time gets one."""

from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf
from torch import Tensor, nn

import looprop
import tiny
import zoo
from looprop.models.adapter import Adapter
from looprop.models.heads.text_classifier import TextClassifier
from looprop.removal.value import SetFunction
from removal.naive import MASK, adapter_of, everything, one_by_one, subject_of


def lone_classifier() -> Any:
    """A classifier on a decoder without a padding token, which refuses every batch of more than one."""
    torch.manual_seed(0)
    config = hf.GPT2Config(
        vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, num_labels=3, bos_token_id=1, eos_token_id=2
    )
    assert config.pad_token_id is None
    return tiny.stir(hf.GPT2ForSequenceClassification(config), torch.float64)


class Without(nn.Module):
    """A model that takes token ids and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = zoo.build("hand-written")

    def get_input_embeddings(self) -> Any:
        return self.inner.get_input_embeddings()

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.inner(input_ids)


@pytest.mark.parametrize("kind", ["attention-mask", "mask-token", "delete"])
def test_one_input_at_a_time(kind: Any) -> None:
    adapter = adapter_of("classifier", lone_classifier())
    subject = subject_of("classifier", length=7, adapter=adapter)
    keep = everything(7)
    got = SetFunction(subject, removal=kind)(keep)
    if kind == "attention-mask":
        wanted = one_by_one(subject, keep)
    else:
        ids = subject.encoded.inputs["input_ids"]
        inputs = [
            ids[:, row] if kind == "delete" else ids.where(torch.from_numpy(row), torch.tensor(MASK)) for row in keep
        ]
        with torch.no_grad():
            wanted = np.array([float(adapter.model(i).logits[0, 1]) for i in inputs])
    assert np.ptp(wanted) > 1e-2
    np.testing.assert_allclose(got, wanted, atol=1e-9)


@pytest.mark.parametrize("method", ["loo", "ig", "looprop", "rollout", "attnlrp"])
def test_every_method_on_a_model_that_takes_one_input_at_a_time(method: str) -> None:
    """The same model with a padding token, which it never meets, takes batches and gives the same answers."""
    lone, other = lone_classifier(), lone_classifier()
    other.config.pad_token_id = 98
    options = {"steps": 200} if method == "ig" else {}
    text = "a very bad movie, isn't it?"
    wanted = looprop.load((other, tiny.wordpiece())).explain(text, method, target=1, **options)
    got = looprop.load((lone, tiny.wordpiece())).explain(text, method, target=1, **options)
    np.testing.assert_allclose(got.scores, wanted.scores, atol=1e-9)


@pytest.mark.parametrize("family", ["gpt2", "llama", "distilbert"])
@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("pads", [True, False])
def test_no_batch_of_different_lengths_without_padding(
    family: str, quick: bool, pads: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that fill a batch up are those that the mask bars although they are read nowhere: the spy tells them by
    their number.
    """
    subject = subject_of(family, length=12)
    subject.adapter.pads = pads
    monkeypatch.setattr(
        "looprop.removal.shortcuts.choose.attention_sites_of", lambda _: 0
    )  # not packed, which needs no padding
    filled: list[bool] = []
    from looprop.removal.shortcuts import dropped as dropping
    from looprop.removal.shortcuts import prefix

    def spy(needed: Tensor, *, left: bool) -> tuple[Tensor, Tensor]:
        index, present = gathered(needed, left=left)
        filled.append(not bool(present.all()))
        return index, present

    gathered = dropping.gathered
    monkeypatch.setattr(dropping, "gathered", spy)
    monkeypatch.setattr(prefix, "gathered", spy)
    keep = everything(12)
    np.testing.assert_allclose(SetFunction(subject, quick=quick)(keep), one_by_one(subject, keep), atol=1e-9)
    assert bool(filled) == quick
    assert any(filled) == (quick and pads)


def test_a_model_that_takes_no_mask() -> None:
    """Its keys are barred at the attention sites, and texts of different lengths run apart."""
    bench = looprop.load((Without(), tiny.wordpiece()))
    masked = looprop.load((bench.model.inner, tiny.wordpiece()))
    texts = ["the film", "a very bad movie, isn't it?", "good", "bad"]
    for method in ("loo", "cp-lrp", "looprop"):
        for got, wanted in zip(bench.explain(texts, method), masked.explain(texts, method), strict=True):
            np.testing.assert_allclose(got.scores, wanted.scores, atol=1e-6)


class Pooled(nn.Module):
    """Takes a mask, and forgets it in the mean at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(99, 8), nn.Linear(8, 3)

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.head(self.embedding(input_ids).mean(1))


@pytest.mark.parametrize(
    ("model", "safe"), [(Pooled, False), (zoo.HandWritten, False), (zoo.TorchEncoder, True), (Without, False)]
)
def test_padding_is_tried_before_it_is_trusted(model: type[nn.Module], safe: bool) -> None:
    adapter: Adapter = TextClassifier(model().eval(), tiny.wordpiece())
    assert adapter.may_pad(adapter.encode("a very bad movie")) is safe
