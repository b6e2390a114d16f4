"""Estimates against what the explanations say they cost."""

from typing import Any

import pytest

import looprop
from looprop.workbench import Workbench
from tiny import CHAT, byte_level, tiny_decoder

PROMPT = "the film is good. It was not bad! Is it? The movie was great fun. It is."


@pytest.fixture(scope="module")
def decoder() -> Workbench:
    tokenizer = byte_level()
    tokenizer.chat_template = CHAT
    return looprop.load(tiny_decoder(tokenizer, n_positions=256))


@pytest.mark.parametrize("output", ["sum", "each"])
@pytest.mark.parametrize("method", ["loo", "attnlrp", "grad-x-input", "looprop", "shapley[samples=4]", "ig[steps=3]"])
def test_an_estimate_is_what_it_costs(decoder: Workbench, method: str, output: Any) -> None:
    answer = decoder.answer(PROMPT, max_new_tokens=4)
    found = decoder.estimate(answer, method, output=output)
    explained: Any = decoder.explain(answer, method, output=output)
    cost = explained.cost if output == "sum" else explained.explanation.cost
    assert found.seconds > 0
    if found.at_most:
        assert cost <= found.passes + 1e-9
        assert str(found).startswith("at most ")
    elif method != "grad-x-input" or output == "sum":
        assert found.passes == pytest.approx(cost)
    else:  # shares its forward pass, too, which only methods of relevance say of themselves
        assert cost <= found.passes


def test_features_and_options_count(decoder: Workbench) -> None:
    answer = decoder.answer(PROMPT, max_new_tokens=2)
    assert decoder.estimate(answer, "loo", features="word").passes > decoder.estimate(answer, "loo").passes == 5
    assert decoder.estimate(answer, "ig", steps=7).passes == 22
