"""An adapter and subjects with nothing found out yet: what one writing of a model has shown must not reach another."""

from dataclasses import fields, replace

import pytest
import torch

import looprop
from auditing.pieces import bench
from looprop.models.facts import Facts
from looprop.models.subject import bind

# What each kind of adapter comes to know below; a causal model reads its last row, which need not be found out.
FOUND_OUT = {
    "bert": {"positions", "attention", "answer_rows", "padding", "bars", "carries", "shortcuts", "programs", "runs"},
    "llama": {"positions", "attention", "padding", "bars", "carries", "shortcuts", "programs", "runs"},
    "vit": {"attention", "answer_rows", "leading", "carries", "programs", "runs"},
}


@pytest.mark.parametrize("family", FOUND_OUT)
def test_an_adapter_that_was_used_is_renewed_to_one_that_was_not(family: str) -> None:
    """Whatever an adapter comes to know is held against a new adapter of the same model, by whatever name."""
    m, inputs = bench(family)
    used = m.adapter
    fresh = looprop.load((m.model, getattr(used, "tokenizer", None))).adapter
    m.explain(list(inputs), "cp-lrp")
    for method in ("loo", "looprop[rows=2]", "lrp[cp=2:]", "rollout"):
        m.explain(inputs[0], method)
    unknown = Facts()
    known = {f.name for f in fields(Facts) if getattr(used.facts, f.name) != getattr(unknown, f.name)}
    assert known == FOUND_OUT[family]
    assert vars(used.renewed()) == vars(fresh)
    assert type(used.renewed()) is type(used)
    assert {name: value for name, value in vars(used).items() if name != "facts"} == {
        name: value for name, value in vars(fresh).items() if name != "facts"
    }


def test_what_fits_into_memory_is_a_fact_about_the_machine_and_stays() -> None:
    adapter = bench("bert")[0].adapter
    adapter.facts.batch_positions = 64
    assert adapter.renewed().facts == replace(Facts(), batch_positions=64)


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
