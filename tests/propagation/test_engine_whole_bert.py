"""The engine against an explicit propagation through a whole BERT, in float64: every plan, both forms of attention."""

from typing import Any, Literal

import pytest
import torch
import transformers as hf
from torch import Tensor

from looprop import Plan, relevance
from propagation.whole_bert import propagate

LAYERS = 4
HYBRIDS: dict[str, set[int]] = {
    "attnlrp": set(),
    "cp-lrp": {1, 2, 3, 4},
    "first": {1},
    "last two": {3, 4},
    "two and four": {2, 4},
}


def tiny_bert(attention: str) -> Any:
    torch.manual_seed(0)
    config = hf.BertConfig(
        vocab_size=99,
        hidden_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=32,
        num_labels=3,
        attn_implementation=attention,
    )
    model = hf.BertForSequenceClassification(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases and gains that are not trivial
            parameter.add_(torch.randn_like(parameter) * 0.1)
    assert model.config._attn_implementation == attention
    return model


@pytest.fixture(scope="module", params=["sdpa", "eager"])
def bert(request: pytest.FixtureRequest) -> Any:
    return tiny_bert(request.param)


IDS = torch.randint(5, 99, (1, 9), generator=torch.Generator().manual_seed(1))


def run(model: Any, plan: Plan, mask: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Relevance at the word embeddings (T, D), at the embedding sum (T, D), and the logit."""
    with relevance(model, plan, explained_weight=model.get_input_embeddings().weight) as tape:
        logits = model(input_ids=IDS, attention_mask=mask).logits
        tape.check(logits)
        word = tape.relevance(logits[0, 1], tape.explained, keep=True)
        summed = tape.relevance(logits[0, 1], tape.embedding_sum)
    return word[0], summed[0], logits[0, 1].detach()


def plan_of(cp: set[int], epsilon: float, bias: Literal["keep", "printed"]) -> Plan:
    return Plan(attention=dict.fromkeys(cp, "cp"), epsilon=epsilon, bias=bias)


def assert_equal(found: tuple[Tensor, ...], expected: tuple[Tensor, ...], tolerance: float = 1e-8) -> None:
    for a, b in zip(found, expected, strict=True):
        assert float((a - b).abs().max()) <= tolerance * float(b.abs().max())


@pytest.mark.parametrize("bias", ["keep", "printed"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.1])
@pytest.mark.parametrize("cp", HYBRIDS.values(), ids=HYBRIDS)
def test_engine_equals_explicit_propagation(
    bert: Any, cp: set[int], epsilon: float, bias: Literal["keep", "printed"]
) -> None:
    expected = propagate(bert, IDS, 1, cp_layers=cp, epsilon=epsilon, bias_share=bias)
    # Without the bias in it a denominator may come close to zero, and rounding is divided by it layer after layer.
    assert_equal(run(bert, plan_of(cp, epsilon, bias)), expected, 1e-8 if bias == "keep" or epsilon else 1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("cp", [set(), {2, 3}], ids=str)
def test_masked_tokens_take_no_part(bert: Any, cp: set[int], epsilon: float) -> None:
    mask = torch.tensor([[1, 1, 1, 0, 1, 1, 1, 0, 0]])
    found = run(bert, plan_of(cp, epsilon, "keep"), mask)
    assert_equal(found, propagate(bert, IDS, 1, cp_layers=cp, epsilon=epsilon, attention_mask=mask))
    assert float(found[0][[3, 7, 8]].abs().max()) == 0.0
    assert float(found[0][[0, 1, 2]].abs().min(1).values.max()) > 0.0


def test_the_oracle_tells_plans_apart(bert: Any) -> None:
    results = [propagate(bert, IDS, 1, cp_layers=cp, epsilon=0.0)[0] for cp in HYBRIDS.values()]
    for i, one in enumerate(results):
        for other in results[i + 1 :]:
            assert float((one - other).abs().max()) > 1e-3 * float(one.abs().max())
