"""An adapter and subjects with nothing found out yet: what one writing of a model has shown must not reach another."""

from typing import Any

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from torch import nn

import looprop
import tiny_heads
from auditing.pieces import bench
from looprop.errors import ModelError
from looprop.methods import make_method
from looprop.models.ledger import Ledger
from looprop.models.subject import bind

ENDS = [("[CLS]", 2), ("[SEP]", 3)]


def known(ledger: Ledger) -> dict[str, Any]:
    return {name: value for name, value in vars(ledger).items() if name not in ("lock", "version") and value}


@pytest.mark.parametrize("family", ["bert", "llama", "vit"])
def test_an_adapter_that_was_used_is_renewed_to_one_that_was_not(family: str) -> None:
    """Whatever was found out of a model is shared by its adapters, and unknown to a renewed one."""
    m, inputs = bench(family)
    used = m.adapter
    m.explain(list(inputs), "cp-lrp")
    for method in ("loo", "looprop[rows=2]", "lrp[cp=2:]", "rollout"):
        m.explain(inputs[0], method)
    assert {"found", "proofs", "unchecked"} <= known(used.ledger).keys()
    other = looprop.load((m.model, getattr(used, "tokenizer", None))).adapter
    assert other.ledger is used.ledger
    renewed = used.renewed()
    assert not known(renewed.ledger)
    assert type(renewed) is type(used)
    assert {name: value for name, value in vars(renewed).items() if name not in ("ledger", "positions")} == {
        name: value for name, value in vars(used).items() if name not in ("ledger", "positions")
    }


def test_what_was_found_out_is_forgotten_when_the_model_changes() -> None:
    m, inputs = bench("bert")
    m.explain(inputs[0], "looprop[rows=2]")
    before = m.subject(inputs[0])
    assert known(m.adapter.ledger).keys() > {"watched", "lengths"}
    with torch.no_grad():
        next(m.model.parameters()).mul_(1.0)
    for method in ("loo", "attnlrp", "ig"):
        with pytest.raises(ModelError, match="has changed since it predicted this input"):
            make_method(method).attribute([before])
        assert not known(m.adapter.ledger)
    m.subject(inputs[0])
    assert known(m.adapter.ledger).keys() == {"watched", "lengths"}  # what one prediction finds out


def test_a_hook_of_all_modules_and_new_tokens_make_another_version() -> None:
    m, texts = bench("bert")
    subject = m.subject(texts[0])
    hook = nn.modules.module.register_module_forward_hook(lambda module, given, out: None)
    try:
        with pytest.raises(ModelError, match="has changed since it predicted this input"):
            make_method("loo").attribute([subject])
    finally:
        hook.remove()
    subject = m.subject(texts[0])
    tokenizer: Any = m.adapter.tokenizer  # type: ignore[attr-defined]
    tokenizer.add_tokens(["filmwise"])
    with pytest.raises(ModelError, match="has changed since it predicted this input"):
        make_method("loo").attribute([subject])


def test_another_class_or_another_forward_function_of_it_makes_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    class Half(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) / 2

    m, texts = bench("bert")
    subject, layer = m.subject(texts[0]), next(part for part in m.model.modules() if type(part) is nn.Linear)
    layer.__class__ = Half
    with pytest.raises(ModelError, match="has changed since it predicted this input"):
        make_method("loo").attribute([subject])
    subject = m.subject(texts[0])
    monkeypatch.setattr(Half, "forward", nn.Linear.forward)
    with pytest.raises(ModelError, match="has changed since it predicted this input"):
        make_method("loo").attribute([subject])


def test_other_special_tokens_around_a_text_make_another_version() -> None:
    m, texts = bench("bert")
    subject = m.subject(texts[0])
    tokenizer: Any = m.adapter.tokenizer  # type: ignore[attr-defined]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="[SEP] $A [CLS]", special_tokens=ENDS)
    with pytest.raises(ModelError, match="has changed since it predicted this input"):
        make_method("loo").attribute([subject])


@pytest.mark.parametrize("changes", [1, 99])
def test_an_answer_found_in_two_passes_is_of_one_version(changes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are written between the pass that chooses a token and the pass that is explained."""
    m = tiny_heads.bench("roberta-ner")
    text, left = tiny_heads.text_of("roberta-ner", 8), [changes]
    m.subject(text)  # its first pass
    every_answer = type(m.adapter).every_answer  # type: ignore[attr-defined]

    def changed(adapter: Any, encoded: Any) -> Any:
        found = every_answer(adapter, encoded)
        left[0] -= 1
        if left[0] >= 0:
            with torch.no_grad():
                for parameter in m.model.parameters():
                    parameter.mul_(-1.5)
        return found

    monkeypatch.setattr(type(m.adapter), "every_answer", changed)
    if changes > 1:
        with pytest.raises(ModelError, match="changes while it answers"):
            m.subject(text)
        return
    found = m.subject(text)
    monkeypatch.undo()
    assert (found.target, found.output) == (m.subject(text).target, m.subject(text).output)


@pytest.mark.parametrize("method", ["cp-lrp", "attention-norm", "ig[steps=2]", "loo", "value-zeroing"])
def test_a_head_with_more_classes_is_another_version(method: str) -> None:
    m, texts = bench("bert")
    subject, head = m.subject(texts[0]), m.model.classifier
    m.model.classifier = nn.Linear(head.in_features, head.out_features + 1, dtype=head.weight.dtype)
    with pytest.raises(ModelError):
        make_method(method).attribute([subject])


def test_what_fits_into_memory_belongs_to_the_machine_and_stays() -> None:
    adapter = bench("bert")[0].adapter
    adapter.ledger.batch_positions = 64
    assert known(adapter.renewed().ledger) == {"batch_positions": 64}


def test_subjects_forget_what_was_computed_and_keep_what_was_asked() -> None:
    m, texts = bench("bert")
    subject = bind(m.adapter, texts[0], target=1, features="word")
    assert subject.output == float(m.adapter.predict(subject.encoded).logits[0, 1])
    with torch.no_grad():
        for parameter in m.model.parameters():
            parameter.mul_(0.5)
    again = subject.of(m.adapter.renewed())
    assert (again.encoded, again.target, again.features) == (subject.encoded, subject.target, subject.features)
    assert again.output != subject.output
