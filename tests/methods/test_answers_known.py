"""The prediction under the engine is always compared with the model's own."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import tiny
from looprop.errors import ModelError
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


def test_texts_are_always_compared() -> None:
    """A model that begins to drift is refused at once, whatever it did before."""
    model, tokenizer = tiny.tiny_classifier(dtype=torch.float64)
    bench = load((Noisy(model, quiet=30), tokenizer))

    def explained() -> None:
        for _ in range(30):
            bench.explain("the film is good", "attnlrp")

    with pytest.raises(ModelError, match="under the engine"):
        explained()
    assert bench.model.calls <= 34  # two of them look how far the answer moves, before it is refused
