"""What every method owes its caller, drawn from the catalogue: a new method is held to it without a line here.

`LOOPROP_CONTRACT_METHODS="saliency ig[steps=5]" pytest tests/methods/test_contract.py` holds only these to it.
"""

import inspect
import json
import math
import os
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from typer.testing import CliRunner

import looprop
import tiny
import zoo
from looprop.cli.main import app
from looprop.errors import InputError, UnknownNameError
from looprop.methods import Method, make_method, method_class
from looprop.methods.names import SCORE_KINDS
from looprop.methods.registry import CATALOGUE, check_described, options_of
from looprop.naming import split_name
from traces import assert_no_trace, in_threads

METHODS = os.environ.get("LOOPROP_CONTRACT_METHODS", "").split() or [a.example or a.name for a in CATALOGUE.values()]
TEXTS = ["the film", "a very bad movie, isn't it?", "this was unbelievable fun and great!", "good"]
TEXT = "the film is not very good and this movie was a very bad movie"

each = pytest.mark.parametrize("method", METHODS)
# Random networks are rough: whether a method warns of it is tested where the method is.
pytestmark = pytest.mark.filterwarnings("ignore::looprop.methods.ig.IntegratedGradientsWarning")


class Net(nn.Module):
    """A plain network on tensors (B, 2, 3), with two layers of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(3, 3) for _ in range(6))
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        for layer in (self.maps[:3], self.maps[3:]):
            x = x + torch.relu(scaled_dot_product_attention(*(part(x) for part in layer)))
        return self.last(x.flatten(1))


def fresh(kind: str, **config: Any) -> looprop.Workbench:
    """A tiny model that nobody else holds."""
    if kind == "bert":
        return looprop.load(tiny.tiny_classifier(dtype=torch.float64, **config))
    return looprop.load((zoo.build(kind), None if kind == "vit" else tiny.wordpiece()))


bench = cache(fresh)


@cache
def net() -> Net:
    torch.manual_seed(0)
    return Net().double()


def pictures(count: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(1, 16, 16, dtype=torch.float64, generator=generator) for _ in range(count)]


def about(method: str) -> type[Method]:
    return CATALOGUE[split_name(method)[0]]


def forms(*kinds: str, taken: bool = True) -> Any:
    """Methods with the kinds of input that they say they take, or do not take."""
    pairs = [(m, k) for m in METHODS for k in kinds if (k in method_class(about(m).name).inputs) == taken]
    return pytest.mark.parametrize(("method", "kind"), pairs)


def close(found: Any, expected: Any) -> None:
    """Equal up to rounding, measured by the largest score."""
    size = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * max(size, 1e-30))


# ----- what it says about itself


@each
def test_says_what_it_is(method: str) -> None:
    said = found = about(method)
    check_described(found)
    assert said.kind in SCORE_KINDS
    assert "\n" not in said.title + said.summary + said.cost
    assert not said.summary.endswith("."), "a summary is no sentence: it stands in tables"
    assert found.__doc__
    assert set(found.inputs) <= {"text", "image", "tensor"}
    assert "text" in found.inputs, "every method explains texts"


@each
def test_is_listed(method: str) -> None:
    shown = CliRunner().invoke(app, ["methods", "--json"])
    listed = {entry["name"]: entry for entry in json.loads(shown.stdout)["methods"]}
    entry, said = listed[about(method).name], about(method)
    assert (entry["summary"], entry["cost"]) == (said.summary, said.cost)
    assert [option["name"] for option in entry["options"]] == [option.name for option in options_of(said)]


@each
def test_options_are_named_checked_and_recorded(method: str) -> None:
    made = make_method(method)
    parameters = inspect.signature(type(made)).parameters.values()
    assert all(p.kind is p.KEYWORD_ONLY for p in parameters)
    with pytest.raises(UnknownNameError, match=f"unknown option of {about(method).name} 'no_such_option'"):
        make_method(method, no_such_option=1)
    assert json.loads(json.dumps(made.options)) == made.options
    assert pickle.loads(pickle.dumps(made)).options == made.options  # methods travel to other processes
    assert bench("bert").explain(TEXT, method).options == made.options


@each
@pytest.mark.parametrize("text", TEXTS)
def test_passes_are_what_the_cost_says(method: str, text: str) -> None:
    subject, made = bench("bert").subject(text), make_method(method)
    count = len(subject.features)
    names = {"F": count, "T": len(subject.encoded), "S": sum(subject.special), **made.options}
    stated = eval(made.cost.removeprefix("at most "), {"__builtins__": {}}, names)
    if not made.cost.startswith("at most "):
        assert made.passes(subject) == pytest.approx(stated)
    assert 0 <= made.passes(subject) <= stated or count < names.get("rows", 0)


@each
def test_the_cost_is_the_stated_one(method: str) -> None:
    e = bench("bert").explain(TEXT, method)
    # Every token is a feature; S of them are special, and stay where something has to.
    names = {"F": len(e), "T": len(e), "S": sum(e.special), **make_method(method).options}
    assert math.isfinite(e.cost)
    assert e.cost >= 0
    stated = eval(about(method).cost.removeprefix("at most "), {"__builtins__": {}}, names)
    if about(method).cost.startswith("at most "):
        assert e.cost <= stated
    else:
        assert e.cost == pytest.approx(stated)


# ----- what it answers


@forms("text", "image")
def test_a_batch_is_one_by_one(method: str, kind: str) -> None:
    items = pictures(3) if kind == "image" else TEXTS
    for model in ("vit",) if kind == "image" else ("bert", "llama"):
        together = bench(model).explain(items, method)
        assert len(together) == len(items)
        for item, e in zip(items, together, strict=True):
            alone = bench(model).explain(item, method)
            assert (e.features, e.target, e.method) == (alone.features, alone.target, about(method).name)
            assert e.output == pytest.approx(alone.output, rel=1e-9)
            close(e.scores, alone.scores)


@forms("tensor")
def test_a_batch_of_tensors_is_one_by_one(method: str, kind: str) -> None:
    x = torch.randn(3, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    together = looprop.attribute(net(), x, method)
    assert together.shape == x.shape
    assert torch.isfinite(together).all()
    for row, found in zip(x, together, strict=True):
        close(found.numpy(), looprop.attribute(net(), row[None], method)[0].numpy())


@each
@pytest.mark.parametrize("target", [None, 1, "neutral", ("positive", "negative")])
def test_targets_of_a_classifier(method: str, target: Any) -> None:
    inputs = bench("bert").tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        logits = bench("bert").model(**inputs).logits[0]
    e = bench("bert").explain(TEXT, method, target=target)
    expected = {None: logits.max(), 1: logits[1], "neutral": logits[1]}.get(target, logits[2] - logits[0])
    assert e.output == pytest.approx(float(expected))
    assert e.target == {None: int(logits.argmax()), 1: 1, "neutral": 1}.get(target, (2, 0))
    assert np.isfinite(e.scores).all()


@each
@pytest.mark.parametrize("target", [None, 7, "good", ("good", "bad"), "continuation:and fun"])
def test_targets_of_a_language_model(method: str, target: Any) -> None:
    e = bench("llama").explain(TEXTS[1], method, target=target)
    prompt = bench("llama").tokenizer(TEXTS[1])["input_ids"]
    assert len(e) == len(prompt)  # a continuation is context, no feature
    assert np.isfinite(e.scores).all()
    assert math.isfinite(e.output)


@each
def test_several_targets_at_once(method: str) -> None:
    several = bench("bert").explain(TEXT, method, target=[0, 2, ("positive", "negative")])
    for target, e in zip((0, 2, ("positive", "negative")), several, strict=True):
        close(e.scores, bench("bert").explain(TEXT, method, target=target).scores)


@each
@pytest.mark.parametrize("kind", ["bert", "llama"])
def test_features(method: str, kind: str) -> None:
    text = TEXTS[2]
    tokens = bench(kind).explain(text, method)
    count = len(tokens)
    assert count == len(bench(kind).tokenizer(text)["input_ids"])
    words = bench(kind).explain(text, method, features="word")
    assert words.features == tokens.words().features
    assert len(bench(kind).explain(text, method, features="chunk:3")) == math.ceil(count / 3)
    own = [[0, count - 1], list(range(1, count - 1))]
    assert len(bench(kind).explain(text, method, features=own)) == 2


@forms("image", "tensor", taken=False)
def test_refuses_what_it_does_not_take(method: str, kind: str) -> None:
    asked: Callable[[], Any] = {
        "image": lambda: bench("vit").explain(pictures(1)[0], method),
        "tensor": lambda: looprop.attribute(net(), torch.ones(1, 2, 3, dtype=torch.float64), method),
    }[kind]
    with pytest.raises(InputError, match=f"{about(method).name} has no meaning for"):
        asked()


@each
def test_scores_are_of_their_kind(method: str) -> None:
    kind = about(method).kind
    before = bench("bert").explain(TEXT, method, target=1)
    other = fresh("bert")
    with torch.no_grad():
        for parameter in other.model.classifier.parameters():  # type: ignore[union-attr]
            parameter.mul_(2)  # the target doubles, nothing else changes
    after = other.explain(TEXT, method, target=1)
    assert after.output == pytest.approx(2 * before.output)
    if kind in ("effect", "share"):
        close(after.scores, 2 * before.scores)
    elif kind == "weight":
        assert min(before.scores.min(), after.scores.min()) >= 0
    else:
        close(after.scores, before.scores)


@each
def test_completeness_is_reported(method: str) -> None:
    e = bench("bert").explain(TEXT, method)
    if make_method(method).complete:
        assert e.residual is not None
    if e.residual is not None:
        start = e.details.get("baseline_output", 0.0)
        assert e.output - start - e.scores.sum() == pytest.approx(e.residual, abs=1e-9)


@each
def test_asked_again_it_says_the_same(method: str) -> None:
    once, again = (fresh("bert").explain(TEXT, method) for _ in range(2))
    np.testing.assert_array_equal(once.scores, again.scores)
    assert once.cost == again.cost
    for context in (torch.no_grad, torch.inference_mode):
        own = fresh("bert")
        with context():
            np.testing.assert_array_equal(own.explain(TEXT, method).scores, once.scores)


# ----- what becomes of the answer


@each
def test_as_data(method: str, tmp_path: Path) -> None:
    e = bench("bert").explain(TEXT, method)
    loaded = looprop.Explanation.load(e.save(tmp_path / "e.json"))
    assert loaded.to_dict() == e.to_dict()
    np.testing.assert_array_equal(loaded.scores, e.scores)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("classifier")
    for part in tiny.tiny_classifier():
        part.save_pretrained(place)
    return place


@each
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["terminal", "json"])
def test_on_the_command_line(method: str, folder: Path, tmp_path: Path, options: list[str]) -> None:
    page = tmp_path / "page.html"
    arguments = ["explain", TEXT, "--model", str(folder), "-m", method, "--html", str(page), *options]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    for word in TEXT.split():
        assert word in page.read_text(encoding="utf-8")
        assert word in result.stdout
    assert method in page.read_text(encoding="utf-8")
    if options:
        assert json.loads(result.stdout)["method"] == method


@each
def test_in_an_evaluation(method: str) -> None:
    found = looprop.evaluate(bench("bert"), TEXTS[:2], methods=["loo", *({method} - {"loo"})])
    assert found[method].errors == 0
    assert found[method].cost >= 0


@each
def test_in_an_audit(method: str) -> None:
    """The order of attention heads is nothing but writing."""
    found = looprop.audit(bench("bert"), TEXTS[:2], methods=[method], rewrites=["heads-permuted"], checks=False)
    assert found.verdicts[method].word == "invariant"


# ----- what it leaves behind


@each
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_no_trace_after_success(method: str, training: bool) -> None:
    own = fresh("bert", hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    predicting = own.explain(TEXT, method).scores
    own.model(**own.tokenizer(TEXT, return_tensors="pt")).logits.sum().backward()  # gradients that were there stay
    own.model.train(training)
    own.model.bert.encoder.layer[1].eval()  # type: ignore[union-attr,index,operator]
    own.model.classifier.weight.requires_grad_(False)  # type: ignore[union-attr,operator]
    assert_no_trace(own.model, lambda: own.explain([TEXT, "bad"], method, target=1))
    close(own.explain(TEXT, method).scores, predicting)  # as it predicts, not as it trains


class Trap(nn.Module):
    """A layer that goes wrong at its n-th call."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.calls = inner, [math.inf]

    def forward(self, x: Tensor) -> Tensor:
        self.calls[0] -= 1
        if self.calls[0] < 0:
            raise KeyboardInterrupt
        return self.inner(x)


@each
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_no_trace_after_a_failure(method: str, calls: int) -> None:
    own = fresh("bert")
    expected = own.explain(TEXT, method).scores
    trap = Trap(own.model.bert.encoder.layer[1].intermediate)  # type: ignore[union-attr,index,arg-type]
    own.model.bert.encoder.layer[1].intermediate = trap  # type: ignore[union-attr,index]
    own = looprop.load((own.model.train(), own.tokenizer))
    subject = own.subject(TEXT)
    trap.calls[0] = calls

    def failing() -> None:
        try:
            make_method(method).attribute([subject])
        except KeyboardInterrupt:
            return
        assert trap.calls[0] >= 0, "the failure was swallowed"

    assert_no_trace(own.model, failing)
    trap.calls[0] = math.inf
    close(own.explain(TEXT, method).scores, expected)


@each
def test_two_threads_do_not_disturb_each_other(method: str) -> None:
    own = fresh("bert", hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    asked = [(TEXT, method), (TEXTS[1], method), (TEXT, "attnlrp")]
    expected = [own.explain(*each).scores for each in asked]
    own.model.train()
    jobs: list[Callable[[], Any]] = [lambda each=each: own.explain(*each).scores for each in asked]  # type: ignore[misc]

    def act() -> None:
        for found, right in zip(in_threads(jobs, times=2), expected, strict=True):
            for scores in found:
                close(scores, right)

    assert_no_trace(own.model, act)
