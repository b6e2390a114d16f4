"""An adapter and subjects with nothing found out yet: what one writing of a model has shown must not reach another."""

import pytest
import torch

import looprop
from auditing.pieces import bench
from looprop.auditing.renewing import rebound, renewed
from looprop.models.subject import bind

# What each kind of adapter comes to know below; a causal model reads its last row, which need not be found out.
FOUND_OUT = {
    "bert": {"proofs", "budget", "_layers", "_read"},
    "llama": {"proofs", "budget", "_layers"},
    "vit": {"proofs", "budget", "_layers", "_read", "_leading"},
}


@pytest.mark.parametrize("family", FOUND_OUT)
def test_an_adapter_that_was_used_is_renewed_to_one_that_was_not(family: str) -> None:
    """Whatever an adapter comes to know is held against a new adapter of the same model, by whatever name."""
    m, inputs = bench(family)
    used = m.adapter
    fresh = looprop.load((m.model, getattr(used, "tokenizer", None))).adapter
    m.explain(list(inputs), "loo")
    for method in ("loo", "looprop", "lrp[cp=2:]", "rollout"):
        m.explain(inputs[0], method)
    used.budget = 64  # what running out of memory leaves behind
    assert {name for name in vars(fresh) if vars(used)[name] != vars(fresh)[name]} == FOUND_OUT[family]
    assert vars(renewed(used)) == vars(fresh)
    assert type(renewed(used)) is type(used)
    assert used.proofs
    assert used.budget == 64


def test_subjects_forget_what_was_computed_and_keep_what_was_asked() -> None:
    m, texts = bench("bert")
    subject = bind(m.adapter, texts[0], target=1, features="word")
    assert subject.output == float(m.adapter.logits(subject.encoded)[0, 1])
    (again,) = rebound([subject], renewed(m.adapter))
    assert (again.encoded, again.target, again.features) == (subject.encoded, subject.target, subject.features)
    with torch.no_grad():
        for parameter in m.model.parameters():
            parameter.mul_(0.5)
    assert again.output != subject.output
