"""The prediction under the engine is always compared with the model's own."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tiny
from looprop.errors import ModelError
from looprop.methods import make_method
from looprop.models.predicting import PLAIN_EVERY
from looprop.workbench import load


class Noisy(nn.Module):
    """Answers otherwise every time it is asked."""

    def __init__(self, inner: nn.Module, quiet: int) -> None:
        super().__init__()
        self.inner, self.config, self.calls, self.quiet = inner, inner.config, 0, quiet

    def get_input_embeddings(self) -> nn.Module:
        return self.inner.get_input_embeddings()  # type: ignore[operator,no-any-return]

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        self.calls += 1
        out = self.inner(input_ids=input_ids, attention_mask=attention_mask)
        out.logits = out.logits + 0.1 * max(0, self.calls - self.quiet)
        return out


class Torn(Noisy):
    """Answers otherwise where gradients are wanted."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__(inner, quiet=10**9)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Any:
        out = self.inner(input_ids=input_ids, attention_mask=attention_mask)
        out.logits = out.logits * (1.5 if torch.is_grad_enabled() else 1.0)
        return out


def test_texts_are_compared_at_first_and_then_on_the_schedule() -> None:
    """A model that drifts is refused at its first explanation of a text, and one that begins to drift within as many
    as go by between two plain passes.
    """
    model, tokenizer = tiny.tiny_classifier(dtype=torch.float64)
    drifting = load((Noisy(model, quiet=0), tokenizer))
    with pytest.raises(ModelError, match="under the engine"):
        drifting.explain("the film is good", "attnlrp")
    bench = load((Noisy(model, quiet=30), tokenizer))

    def explained() -> None:
        for _ in range(50):
            bench.explain("the film is good", "attnlrp")

    with pytest.raises(ModelError, match="under the engine"):
        explained()
    # Each explanation is one pass; two more look how far the answer moves before it is refused.
    assert bench.model.calls <= 30 + PLAIN_EVERY + 4


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "grad-x-input", "gim", "lrp[cp=2:]"])
def test_one_pass_gives_what_two_give(method: str) -> None:
    """The prediction of the pass under the plan, and its relevance, are those of a pass of its own."""
    bench = load(tiny.tiny_classifier(dtype=torch.float64))
    alone = make_method(method).attribute([bench.subject("the film is good")])[0].scores
    passes: list[int] = []
    bench.model.register_forward_hook(lambda *_: passes.append(1))
    found = []
    for _ in range(2 + PLAIN_EVERY):
        before = len(passes)
        e = bench.explain("the film is good", method)
        found.append(len(passes) - before)
        np.testing.assert_allclose(e.scores, alone, rtol=1e-9, atol=1e-12)
        assert e.output == pytest.approx(float(bench.subject("the film is good").output), rel=1e-12)
    assert found[-PLAIN_EVERY:].count(1) == PLAIN_EVERY - 1
    assert found[-PLAIN_EVERY:].count(2) == 1


def test_a_pass_under_the_plan_that_answers_otherwise_is_no_prediction() -> None:
    """Its sequence of operations or its logits differ from the model's own: plain passes go on."""
    model, tokenizer = tiny.tiny_classifier(dtype=torch.float64)
    bench = load((Torn(model), tokenizer))
    for _ in range(3):
        with pytest.raises(ModelError, match="under the engine"):
            bench.explain("the film is good", "attnlrp")
    assert bench.explain("the film is good", "loo").output == pytest.approx(
        float(load((model, tokenizer)).subject("the film is good").output)
    )


def test_a_list_is_explained_from_the_pass_that_predicts_it() -> None:
    """One pass for all texts, two more plain ones now and then; the numbers are those of each text by itself."""
    bench = load(tiny.tiny_classifier(dtype=torch.float64))
    texts = ["the film is good", "a bad film", "this movie was fun", "not good at all"] * 5
    alone = [bench.explain(text, "attnlrp") for text in texts]
    bench.explain(texts, "attnlrp")  # finds out whether padding reaches an answer
    passes: list[int] = []
    bench.model.register_forward_hook(lambda *_: passes.append(1))
    bench.explain(texts[0], "attnlrp")  # with a hook the model is another version
    for _ in range(2):
        bench.explain(texts, "attnlrp")
    del passes[:]
    found = bench.explain(texts, "attnlrp")
    assert len(passes) <= 3
    for one, own in zip(found, alone, strict=True):
        assert (one.features, one.label) == (own.features, own.label)
        np.testing.assert_allclose(one.scores, own.scores, rtol=1e-9, atol=1e-12)
    assert bench.explain(texts[:3], "attnlrp", target=[1, 0, 1])[1].target == 0
    assert len(bench.explain(texts[:3], "loo")) == 3
