"""Twenty families of models, tiny and random, with parameters that require gradients: what must hold for every one of
them.
"""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import zoo
from looprop import Plan, relevance

PLANS = {
    "attnlrp": Plan(),
    "cp": Plan(attention="cp"),
    "hybrid": Plan(attention={2: "cp"}),
    "epsilon": Plan(epsilon=1e-6),
    "cp-epsilon": Plan(attention="cp", epsilon=0.1),
}
FAMILIES = [*zoo.TEXT, "vit"]
TARGET = 1


@pytest.fixture(scope="module")
def models() -> dict[str, nn.Module]:
    return {}


def model_of(models: dict[str, nn.Module], name: str) -> nn.Module:
    if name not in models:
        models[name] = zoo.build(name)
        assert all(p.requires_grad for p in models[name].parameters())
    return models[name]


def pixels() -> Tensor:
    return torch.rand(1, 1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(3))


def run(model: nn.Module, plan: Plan) -> tuple[Tensor, Tensor, Tensor]:
    """The logits, and relevance at the word embedding and at the embedding sum (for images both at the pixels)."""
    is_text = hasattr(model, "get_input_embeddings") and not type(model).__name__.startswith("ViT")
    weight = model.get_input_embeddings().weight if is_text else None  # type: ignore[operator]
    with relevance(model, plan, explained_weight=weight) as tape:
        if is_text:
            logits = zoo.logits_of(model(input_ids=zoo.token_ids()))
            word, summed = tape.explained, tape.embedding_sum
        else:
            word = summed = tape.watch(pixels())
            logits = zoo.logits_of(model(pixel_values=word))
        tape.check(logits)
        found = tape.relevance(logits[0, TARGET], word, keep=True)
        return logits.detach(), found, tape.relevance(logits[0, TARGET], summed)


def plain_logits(model: nn.Module) -> Tensor:
    with torch.no_grad():
        if type(model).__name__.startswith("ViT"):
            return zoo.logits_of(model(pixel_values=pixels()))
        return zoo.logits_of(model(input_ids=zoo.token_ids()))


def largest(tensor: Tensor) -> float:
    return float(tensor.abs().max())


def test_there_are_twenty_families() -> None:
    assert len(FAMILIES) == 20


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("name", FAMILIES)
def test_logits_are_unchanged_and_scores_are_numbers(models: dict[str, nn.Module], name: str, plan: Plan) -> None:
    model = model_of(models, name)
    expected = plain_logits(model)
    logits, word, summed = run(model, plan)
    assert largest(logits - expected) <= 1e-6 * largest(expected)
    for scores in (word, summed):
        assert torch.isfinite(scores).all()
        assert largest(scores) > 0


def without_additive_parameters(model: nn.Module) -> nn.Module:
    """A copy in which nothing is added that does not come from the input, except at the embedding."""
    model = copy.deepcopy(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("bias", "cls_token", "position_embeddings")) and parameter.dim() != 2:
                parameter.zero_()
    return model


@pytest.mark.parametrize("name", FAMILIES)
def test_cp_lrp_adds_up_to_the_logit_without_additive_parameters(models: dict[str, nn.Module], name: str) -> None:
    model = without_additive_parameters(model_of(models, name))
    logits, _, summed = run(model, Plan(attention="cp"))
    # Some families compute their norms in float32 whatever the model's dtype is.
    assert float(summed.sum()) == pytest.approx(float(logits[0, TARGET]), rel=1e-6)
    assert abs(float(logits[0, TARGET])) > 1e-3


@pytest.mark.parametrize("name", FAMILIES)
def test_parameters_that_require_gradients_make_no_difference(models: dict[str, nn.Module], name: str) -> None:
    model = model_of(models, name)
    frozen = copy.deepcopy(model).requires_grad_(False)
    for plan in (Plan(), Plan(attention="cp", epsilon=0.01)):
        for one, other in zip(run(model, plan), run(frozen, plan), strict=True):
            assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma3", "t5-encoder", "distilbert", "gpt-neox"])
def test_attention_in_one_call_or_written_out_is_the_same(models: dict[str, nn.Module], name: str) -> None:
    model = model_of(models, name)
    fused, written = copy.deepcopy(model), copy.deepcopy(model)
    for one, implementation in ((fused, "sdpa"), (written, "eager")):
        getattr(one, "encoder", one).set_attn_implementation(implementation)  # type: ignore[operator,union-attr]
    for plan in (*PLANS.values(), Plan(attention={1: "gradient"}, epsilon=0.01)):
        for found, expected in zip(run(fused, plan), run(written, plan), strict=True):
            assert largest(found - expected) <= 1e-6 * largest(expected)


def gelu_modules(model: nn.Module) -> list[tuple[nn.Module, str]]:
    return [
        (parent, key)
        for parent in model.modules()
        for key, child in parent.named_children()
        if type(child).__name__ == "NewGELUActivation"
    ]


@pytest.mark.parametrize("name", ["gpt2", "albert"])
@pytest.mark.parametrize("plan", [Plan(), Plan(attention="cp"), Plan(epsilon=0.01)], ids=["attnlrp", "cp", "epsilon"])
def test_written_out_gelu_is_one_activation(models: dict[str, nn.Module], name: str, plan: Plan) -> None:
    model = model_of(models, name)
    other = copy.deepcopy(model)
    places = gelu_modules(other)
    assert places, f"{name} no longer writes its GELU out: the test has lost its object"
    for parent, key in places:
        setattr(parent, key, nn.GELU(approximate="tanh"))
    for found, expected in zip(run(model, plan), run(other, plan), strict=True):
        assert largest(found - expected) <= 1e-9 * largest(expected)


def written_activation(x: Tensor, kind: str) -> Tensor:
    return {
        "silu": lambda: x * torch.sigmoid(x),
        "silu by division": lambda: x / (1 + torch.exp(-x)),
        "quick gelu": lambda: x * torch.sigmoid(1.702 * x),
        "gelu": lambda: 0.5 * x * (1.0 + torch.erf(x / 2**0.5)),
        "mish": lambda: x * torch.tanh(nn.functional.softplus(x)),
        "squared relu": lambda: torch.relu(x) ** 2,
    }[kind]()


@pytest.mark.parametrize("kind", ["silu", "silu by division", "quick gelu", "gelu", "mish", "squared relu"])
def test_pointwise_expressions_follow_the_identity_rule(kind: str) -> None:
    torch.manual_seed(0)
    first, second = torch.randn(4, 5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    x = torch.randn(3, 4, dtype=torch.float64)
    with relevance(None, Plan()) as tape:
        given = tape.watch(x)
        found = tape.relevance(written_activation(given @ first, kind) @ second, given)
    z = x @ first
    relevance_of_z = written_activation(z, kind) * second  # the identity rule: all that the activation has
    expected = x * ((relevance_of_z / z) @ first.T)
    assert torch.allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_rows_of_a_batch_do_not_meet(models: dict[str, nn.Module], name: str) -> None:
    model = model_of(models, name)
    ids = zoo.token_ids(batch=3)
    weight = model.get_input_embeddings().weight  # type: ignore[operator]

    def explain(rows: Tensor) -> Tensor:
        with relevance(model, Plan(), explained_weight=weight) as tape:
            logits: Any = zoo.logits_of(model(input_ids=rows))
            return tape.relevance(
                logits[torch.arange(len(rows)), torch.arange(len(rows)) % 3 if len(rows) > 1 else 1], tape.explained
            )

    assert largest(explain(ids)[1] - explain(ids[1:2])[0]) <= 1e-10
