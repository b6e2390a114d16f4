"""What checks add to leave-one-out, counted in positions that the model runs; and what `refresh` forgets."""

import random
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
import torch

import looprop
from looprop.errors import ModelError
from looprop.measure import ask
from looprop.methods import make_method
from looprop.models.heads.text_classifier import TextClassifier
from looprop.removal.trust import allowed_error
from looprop.workbench import Workbench
from tiny import tiny_classifier

LETTERS = "abcdefghijklmnopqrstuvwxyz"  # a token each


def texts(words: int, count: int) -> list[str]:
    lot = random.Random(words)
    return [" ".join(lot.choice(LETTERS) for _ in range(words)) for _ in range(count)]


def positions_run(bench: Workbench, items: list[str]) -> int:
    """Positions of all forward passes from the second text on: the first use is apart."""
    seen: list[int] = []

    def note(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        seen.append((kwargs["input_ids"] if "input_ids" in kwargs else args[0]).numel())

    bench.explain(items[0], "loo")
    hook = bench.model.register_forward_pre_hook(note, with_kwargs=True)
    bench.explain(items[0], "loo")  # a hook is another version of the model
    del seen[:]
    for item in items[1:]:
        bench.explain(item, "loo")
    hook.remove()
    return sum(seen)


def embedded() -> Workbench:
    return looprop.load()


def encoder() -> Workbench:
    return Workbench(TextClassifier(*tiny_classifier(max_position_embeddings=128)))


@pytest.mark.parametrize("make", [embedded, encoder])
@pytest.mark.parametrize(("words", "count", "most"), [(6, 17, 0.10), (30, 9, 0.05), (62, 5, 0.05)])
def test_checks_add_a_tenth_to_short_texts_and_a_twentieth_to_longer_ones(
    make: Any, words: int, count: int, most: float
) -> None:
    items = texts(words, count)
    checked = positions_run(make(), items)
    with ExitStack() as unchecked:
        for name in ("controls.is_due", "variants.is_new_length"):
            unchecked.enter_context(patch(f"looprop.removal.{name}", lambda *_: False))
        alone = positions_run(make(), items)
    assert alone < checked <= (1 + most) * alone


def test_the_time_of_checks_is_not_the_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stands still, but for one second inside of a check."""
    bench, clock = encoder(), [0.0]
    still = SimpleNamespace(perf_counter=lambda: clock[0])
    monkeypatch.setattr("looprop.measure.time", still)
    monkeypatch.setattr("looprop.removal.trust.time", still)

    def slow(*given: Any) -> float:
        clock[0] += 1.0
        return allowed_error(*given)

    monkeypatch.setattr("looprop.removal.controls.allowed_error", slow)
    (found,) = ask(make_method("loo"), [bench.subject("a good film of many words")])
    assert clock[0] >= 1
    assert (found.seconds, found.checks.seconds) == (0.0, clock[0])


def test_refresh_is_for_what_cannot_be_seen() -> None:
    bench = encoder()
    before, weight = bench.subject("a good film"), bench.model.bert.encoder.layer[0].output.dense.weight
    make_method("loo").attribute([before])
    flat = weight.data.numpy().reshape(-1)
    step = (flat.size - 1) // 15  # every so many values are looked at
    flat[step // 2] += 3.0
    make_method("loo").attribute([before.alone()])  # not seen: what docs/what-is-checked.md says
    bench.refresh()
    with pytest.raises(ModelError, match="has changed"):
        make_method("loo").attribute([before])
    again = bench.explain("a good film", "loo")
    inputs = bench.tokenizer("a good film", return_tensors="pt")
    with torch.no_grad():
        logits = bench.model(**inputs).logits[0]
    assert again.output == pytest.approx(float(logits.max()), rel=1e-5)
