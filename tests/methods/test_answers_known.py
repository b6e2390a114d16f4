"""When the answer under the engine is compared with the model's own: always where that is known, else in the first run
and every eighth.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tiny
import zoo
from looprop.errors import ModelError
from looprop.methods.registry import make_method
from looprop.models.adapter import Adapter
from looprop.models.encoded import partition
from looprop.models.subject import Subject
from looprop.models.target import Target
from looprop.workbench import load
from removal.naive import adapter_of, encode


def by_hand(adapter: Adapter, *lengths: int) -> list[Subject]:
    found = []
    for number, length in enumerate(lengths):
        encoded = encode(torch.arange(5 + number, 5 + number + length)[None])
        found.append(Subject(adapter, encoded, Target((1,), "1"), partition(encoded)))
    return found


def asked(adapter: Adapter, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    met: list[int] = []
    own = adapter.intact

    def intact(*args: Any, **kwargs: Any) -> Any:
        met.append(1)
        return own(*args, **kwargs)

    monkeypatch.setattr(adapter, "intact", intact)
    return met


@pytest.mark.parametrize(("lengths", "turns"), [((7,), [1, 0, 0, 0, 0, 0, 0, 0, 1]), ((7, 7, 7), [3, *[0] * 7, 3])])
def test_the_first_run_and_every_eighth(lengths: Any, turns: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = adapter_of("bert", zoo.build("bert"))
    met, found, scores = asked(adapter, monkeypatch), [], []
    for _ in turns:
        before = len(met)
        scores.append(make_method("attnlrp").attribute(by_hand(adapter, *lengths))[0].scores)
        found.append(len(met) - before)
    assert found == turns
    assert all(np.array_equal(scores[0], other) for other in scores)


def test_every_row_of_a_batch_that_is_filled_up(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = adapter_of("bert", zoo.build("bert"))
    met = asked(adapter, monkeypatch)
    for turn in range(1, 4):
        make_method("attnlrp").attribute(by_hand(adapter, 7, 9))
        assert len(met) == 2 * turn


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
    assert bench.model.calls <= 33
