"""Adapters by peft: what is explained is the adapted model, as every method does with the merged one, or refused."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import looprop
import tiny
import zoo
from looprop.errors import LoopropError

peft = pytest.importorskip("peft", reason="peft is not installed (pip install --no-deps peft accelerate psutil)")
pytestmark = pytest.mark.filterwarnings("ignore")  # peft's own

TEXTS: dict[str, list[Any]] = {
    "bert": ["the film is not good", "this was unbelievable fun and great!", ("the film", "a very bad movie")],
    "llama": ["the film is not good", "this was unbelievable fun and great!"],
}


def base(kind: str) -> Any:
    torch.manual_seed(0)
    if kind == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**zoo.DECODER))
    return hf.BertForSequenceClassification(hf.BertConfig(**zoo.SMALL, num_labels=3, max_position_embeddings=64))


def adapted(kind: str, name: str) -> Any:
    task = peft.TaskType.SEQ_CLS if kind == "bert" else peft.TaskType.CAUSAL_LM
    modules = ["query", "value"] if kind == "bert" else ["q_proj", "v_proj"]
    config = {
        "lora": lambda: peft.LoraConfig(task_type=task, r=4, target_modules=modules, lora_dropout=0.3),
        "ia3": lambda: peft.IA3Config(task_type=task, target_modules=modules, feedforward_modules=[]),
        "prompt": lambda: peft.PromptTuningConfig(task_type=task, num_virtual_tokens=3),
        "prefix": lambda: peft.PrefixTuningConfig(task_type=task, num_virtual_tokens=3),
    }[name]()
    return tiny.stir(peft.get_peft_model(base(kind), config), torch.float32)


def tokenizer() -> Any:
    made = tiny.wordpiece()
    made.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return made


@torch.no_grad()
def naive(model: Any, inputs: dict[str, Any], target: int) -> tuple[float, list[float]]:
    """The model's own answer, and leave-one-out by its own attention mask."""

    def value(mask: Any) -> float:
        logits = model(**{**inputs, "attention_mask": mask}).logits
        return float(logits[0, -1, target] if logits.dim() == 3 else logits[0, target])

    ones = torch.ones_like(inputs["input_ids"])
    whole = value(ones)
    return whole, [whole - value(ones.index_fill(1, torch.tensor([i]), 0)) for i in range(ones.shape[1])]


@pytest.mark.parametrize("kind", ["bert", "llama"])
@pytest.mark.parametrize("name", ["lora", "ia3", "prompt", "prefix"])
def test_leave_one_out_is_that_of_the_adapted_model(kind: str, name: str) -> None:
    model = adapted(kind, name)
    bench = looprop.load((model, tokenizer()))
    for text in TEXTS[kind]:
        pair = text if isinstance(text, tuple) else (text,)
        inputs = dict(tokenizer()(*pair, return_tensors="pt"))
        if kind == "llama":
            inputs.pop("token_type_ids")  # which a Llama does not know
        found = bench.explain(text, "loo")
        output, wanted = naive(model, inputs, int(found.target))
        assert found.output == pytest.approx(output, abs=1e-5)
        np.testing.assert_allclose(found.scores, wanted, atol=2e-5)


@pytest.mark.parametrize("kind", ["bert", "llama"])
@pytest.mark.parametrize("name", ["lora", "ia3"])
@pytest.mark.parametrize("method", ["loo", "attnlrp", "cp-lrp", "grad-x-input", "looprop", "looprop[rows=all]"])
def test_it_equals_the_merged_model_or_is_refused(kind: str, name: str, method: str) -> None:
    model = adapted(kind, name)
    merged = copy.deepcopy(model).merge_and_unload().eval()
    bench, plain = looprop.load((model, tokenizer())), looprop.load((merged, tokenizer()))
    for text in TEXTS[kind]:
        target = plain.explain(text, "random").target
        try:
            found = bench.explain(text, method, target=target)
        except LoopropError:
            assert method == "looprop[rows=all]"
            continue
        wanted = plain.explain(text, method, target=target)
        assert found.output == pytest.approx(wanted.output, abs=1e-5)
        if method == "looprop" and found.details["rows"] != wanted.details["rows"]:
            continue  # an estimate of another size: rows cannot be carried through the wrapper
        np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-4 * max(1.0, np.abs(wanted.scores).max()))


@pytest.mark.parametrize("kind", ["bert", "llama"])
@pytest.mark.parametrize("name", ["prompt", "prefix"])
@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "looprop", "rollout"])
def test_virtual_tokens_are_explained_with_the_models_own_answer_or_refused(kind: str, name: str, method: str) -> None:
    model = adapted(kind, name)
    bench = looprop.load((model, tokenizer()))
    for text in TEXTS[kind]:
        own = bench.explain(text, "random")
        try:
            found = bench.explain(text, method, target=own.target)
        except LoopropError:
            continue
        assert found.output == pytest.approx(own.output, abs=1e-5)
        assert len(found) == len(own)
