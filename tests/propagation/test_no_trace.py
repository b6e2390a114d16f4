"""Whatever is explained is as before: after a failure of the engine in the middle, and with two plans at once.

What holds for every method (success, failure, threads) is in tests/methods/test_contract.py.
"""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import looprop
import tiny
import zoo
from looprop import Plan, relevance
from looprop.errors import LoopropError, PlanError, RuleError
from looprop.methods.lrp import LRP
from traces import assert_no_trace, in_threads

TEXT = "the film is not good"


def classifier(**config: Any) -> looprop.Workbench:
    return looprop.load(tiny.tiny_classifier(**config))


def test_gradients_that_were_there_stay() -> None:
    bench = classifier()
    bench.model(**bench.tokenizer(TEXT, return_tensors="pt")).logits.sum().backward()
    assert_no_trace(bench.model, lambda: bench.explain(TEXT, "attnlrp"))
    assert bench.model.classifier.weight.grad is not None  # type: ignore[union-attr]


class Failing(nn.Module):
    """A classifier that goes wrong between two layers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 2)
        self.dropout = nn.Dropout(0.5)
        self.failure: Callable[[Tensor], Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.dropout(self.first(x)))
        if self.failure is not None and torch.is_grad_enabled():
            hidden = self.failure(hidden)
        return self.last(hidden)


def broken(_: Tensor) -> Tensor:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "failure", [lambda h: torch.logsumexp(h, -1, keepdim=True).expand(-1, 4), lambda h: h.detach(), broken]
)
@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp"])
def test_after_a_failure_in_the_middle(failure: Callable[[Tensor], Tensor], method: str) -> None:
    model = Failing().train()
    model.failure = failure
    x = torch.randn(2, 4)

    def act() -> None:
        with pytest.raises((RuleError, KeyboardInterrupt)):
            looprop.attribute(model, x, method)

    assert_no_trace(model, act)
    model.failure = None
    assert torch.isfinite(looprop.attribute(model, x, method)).all()


@pytest.mark.parametrize(
    "act",
    [
        lambda bench: bench.explain(TEXT, LRP(plan=Plan(attention={9: "cp"}))),
        lambda bench: bench.explain(TEXT, "lrp[cp=9:]"),
        lambda bench: bench.explain(TEXT, target=7),
        lambda bench: bench.explain(" "),
        lambda bench: bench.explain("the film " * 40),
        lambda bench: bench.explain([TEXT, ""]),
        lambda bench: bench.explain(TEXT, "cp-lrpp"),
        lambda bench: bench.explain(TEXT, readout="words"),
    ],
    ids=["layer", "open range", "target", "empty", "too long", "empty in a list", "method", "readout"],
)
def test_after_bad_input(act: Callable[[looprop.Workbench], object]) -> None:
    bench = classifier()
    bench.model.train()

    def failing() -> None:
        with pytest.raises(LoopropError):
            act(bench)

    assert_no_trace(bench.model, failing)


def test_after_a_failure_inside_the_context_manager() -> None:
    model = zoo.build("bert")

    def act() -> None:
        with (
            pytest.raises(PlanError),
            relevance(model, Plan(attention={5: "cp"}), explained_weight=model.get_input_embeddings().weight) as tape,
        ):  # type: ignore[operator]
            tape.check(model(input_ids=zoo.token_ids()).logits)

    assert_no_trace(model, act)


@pytest.mark.parametrize("name", ["bert", "gpt2", "torch-encoder", "deberta-v2"])
def test_every_kind_of_attention_leaves_no_trace(name: str) -> None:
    model = zoo.build(name)

    def act() -> None:
        with relevance(
            model, Plan(epsilon=0.01), explained_weight=model.get_input_embeddings().weight, record=True
        ) as tape:  # type: ignore[operator]
            tape.relevance(zoo.logits_of(model(input_ids=zoo.token_ids()))[0, 0], tape.explained)

    assert_no_trace(model, act)


def test_nothing_is_kept_alive() -> None:
    """Without a cycle to wait for, activations go as soon as the tape does."""
    model = zoo.build("bert")
    gc.collect()
    gc.disable()
    try:
        with relevance(model, Plan(), explained_weight=model.get_input_embeddings().weight, record=True) as tape:  # type: ignore[operator]
            logits = model(input_ids=zoo.token_ids()).logits
            tape.relevance(logits[0, 0], tape.explained)
        parts = [weakref.ref(t) for t in (tape.explained, logits, tape.sites[0].value) if t is not None]
        assert all(part() is not None for part in parts)
        del tape, logits
        assert [part() for part in parts] == [None] * 3
    finally:
        gc.enable()


# ----- threads


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_two_threads_with_two_plans_on_one_model(training: bool) -> None:
    bench = classifier(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5, num_hidden_layers=3)
    assert all(p.requires_grad for p in bench.model.parameters())
    methods = ["attnlrp", "cp-lrp", "lrp[cp=2;epsilon=0.1]"]
    expected = [bench.explain(TEXT, method).scores for method in methods]
    bench.model.train(training)

    def act() -> None:
        found = in_threads([lambda method=method: bench.explain(TEXT, method).scores for method in methods])  # type: ignore[misc]
        for mine, right in zip(found, expected, strict=True):
            for scores in mine:
                np.testing.assert_allclose(scores, right, rtol=1e-6, atol=1e-9)

    assert_no_trace(bench.model, act)


def test_the_last_run_that_ends_puts_training_back() -> None:
    bench = classifier()
    bench.model.train()
    one, other = bench.adapter.evaluating(), bench.adapter.evaluating()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert not any(module.training for module in bench.model.modules())
    other.__exit__(None, None, None)
    assert all(module.training for module in bench.model.modules())


def test_another_thread_without_a_plan_is_not_touched() -> None:
    model = zoo.build("bert")
    ids = zoo.token_ids()
    weight = model.get_input_embeddings().weight  # type: ignore[operator]

    def explained() -> Tensor:
        with relevance(model, Plan(), explained_weight=weight) as tape:
            return tape.relevance(model(input_ids=ids).logits[0, 0], tape.explained)

    def plain() -> Tensor:
        embedded = weight[ids].detach().requires_grad_()
        (gradient,) = torch.autograd.grad(model(inputs_embeds=embedded).logits[0, 0], embedded)
        return gradient

    expected = [explained(), plain()]
    for mine, right in zip(in_threads([explained, plain]), expected, strict=True):
        for found in mine:
            assert torch.equal(found, right)
