"""`looprop.audit`: the proof, the comparison, the checks, the verdicts."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor, nn

import looprop
from auditing.pieces import TEXTS, bench, outside
from looprop.auditing import Audit, Changes, Model, Places, Rewrite
from looprop.auditing.asking import agreement, relative_change, top_changes
from looprop.auditing.catalogue import CATALOGUE
from looprop.errors import DataError, InputError, UnknownNameError
from looprop.methods.base import Attribution, Method
from looprop.models.adapter import Adapter
from looprop.models.subject import Subject
from looprop.study.kinds.networks.pairs import left_product

EXACT = ("loo", "looprop", "ig[steps=3]")
FAMILIES = {
    "bert": {"bias-moved", "key-bias-shifted", "norm-folded"},
    "llama": {"norm-folded"},
    "vit": {"bias-moved", "key-bias-shifted", "norm-folded"},
    "torch-encoder": {"bias-moved", "key-bias-shifted", "norm-folded"},
}
ALWAYS = {"attention-unfused", "qk-rescaled", "vo-turned", "heads-permuted", "linear-split", "norm-split"}


class Planted(Rewrite):
    """Not the same function: one weight is a little larger."""

    name = "planted"

    def apply(self, model: Model, changes: Changes) -> Places:
        linear = next(m for m in model.module.modules() if isinstance(m, nn.Linear))
        changes.edit(linear, "weight").mul_(1.0 + 1e-6)
        return Places(["one weight"])


class SameLogits(Rewrite):
    """The same logits, another gradient: only the proof of gradients can tell."""

    name = "cut"

    def apply(self, model: Model, changes: Changes) -> Places:
        linear = next(m for m in model.module.modules() if isinstance(m, nn.Linear))
        before = linear.forward

        def forward(x: Tensor) -> Tensor:
            return 0.5 * before(x) + 0.5 * before(x).detach()

        changes.set_forward(linear, forward)
        return Places(["one layer"])


class Raising(Rewrite):
    """Fails after it has changed something."""

    name = "raising"

    def apply(self, model: Model, changes: Changes) -> Places:
        Planted().apply(model, changes)
        raise ValueError("no such thing here")


class Unsettled(Method):
    """Another answer in a batch than alone."""

    name = "unsettled"
    summary = "depends on the batch"

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        return [Attribution(np.arange(len(s.features)) + float(len(subjects)), cost=0.0) for s in subjects]


class OneWritingOnly(Method):
    """Refuses to explain any model but the one that it met first."""

    name = "one-writing-only"
    summary = "falls silent under every rewrite"

    def __init__(self) -> None:
        self._met: Adapter | None = None

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        self._met = self._met or subjects[0].adapter
        if subjects[0].adapter is not self._met:
            raise InputError("another   writing")
        return [Attribution(np.arange(float(len(s.features))), cost=0.0) for s in subjects]


@pytest.mark.parametrize("family", FAMILIES)
def test_what_depends_on_the_function_alone_is_invariant(family: str) -> None:
    m, inputs = bench(family)
    before = outside(m.model)
    result = looprop.audit(m, inputs, [*EXACT, "attnlrp", "cp-lrp", "rollout"], checks=False)
    assert outside(m.model) == before
    assert set(result.applied) >= ALWAYS | FAMILIES[family]
    assert [a.rewrite for a in result.attempts] == list(CATALOGUE)
    for attempt in result.attempts:
        assert attempt.status != "refused", attempt
        if attempt.status == "applied":
            assert attempt.places
            assert max(attempt.logits, attempt.gradient) < 1e-12
    for row in result.rows:
        assert not row.refused
        if row.method in EXACT:
            assert row.change <= 1e-6
            assert row.top == 0
            assert row.r == pytest.approx(1.0)
    assert {result.verdicts[name].word for name in EXACT} == {"invariant"}


def test_looprop_is_invariant_whatever_carries_its_first_order() -> None:
    methods = [f"looprop[rows=0;backward={backward}]" for backward in ("gradient", "norm", "attnlrp", "cp")]
    methods += ["looprop[rows=2]", "looprop[rows=2;refine=2]", "looprop[budget=5]"]
    result = looprop.audit(*bench("bert"), methods, checks=False)
    assert {row.method for row in result.rows} == set(methods)
    assert not [row for row in result.rows if row.refused or row.change > 1e-9]


@pytest.mark.slow
@pytest.mark.parametrize(
    "family", "roberta distilbert electra albert modernbert mpnet gpt2 qwen3 gemma3 gpt-neox".split()
)
def test_other_families(family: str) -> None:
    m, inputs = bench(family)
    result = looprop.audit(m, inputs[:1], EXACT, checks=False)
    assert {"vo-turned", "linear-split", "norm-split"} <= set(result.applied)
    assert all(row.change <= 1e-6 for row in result.rows)
    assert not [a for a in result.attempts if a.status == "refused"]


def test_the_scalar_product_of_the_paper() -> None:
    """6, 6, 12 against 12, 6, 6: r = -0.5, half of the largest score; thirds in canonical form."""
    methods = ["loo", "ig", "attnlrp", "cp-lrp", "attnlrp[bilinear=canonical]", "looprop", "rollout"]
    result = looprop.audit(left_product, [torch.tensor([2.0, 3.0, 4.0])], methods)
    assert result.applied == ["reassociated"]
    row = result.row("attnlrp", "reassociated")
    assert row.r == pytest.approx(stats.pearsonr([6, 6, 12], [12, 6, 6]).statistic)
    assert (row.change, row.top) == (pytest.approx(0.5), 1.0)
    assert {m for m, v in result.verdicts.items() if v.word == "invariant"} == {
        "loo",
        "ig",
        "attnlrp[bilinear=canonical]",
    }
    assert {m for m, v in result.verdicts.items() if v.word == "refused"} == {"looprop", "rollout"}
    assert "no tokens that attend" in result.verdicts["looprop"].sentence


def test_a_rewrite_that_is_none_is_refused() -> None:
    m, texts = bench("bert")
    before = outside(m.model)
    result = looprop.audit(m, texts, ["grad-x-input"], [Planted(), SameLogits(), Raising(), "vo-turned"], checks=False)
    planted, cut, raising, honest = result.attempts
    assert planted.status == cut.status == raising.status == "refused"
    assert planted.logits > 1e-9
    assert cut.logits == 0.0
    assert cut.gradient > 1e-3
    assert "another function" in planted.reason
    assert raising.reason == "ValueError: no such thing here"
    assert honest.status == "applied"
    assert {row.rewrite for row in result.rows} == {"vo-turned"}
    assert outside(m.model) == before


def test_a_method_that_falls_silent_under_a_rewrite_is_refused_there() -> None:
    result = looprop.audit(*bench("bert"), ["loo", OneWritingOnly()], ["vo-turned", "norm-split"], checks=False)
    effect = result.row("one-writing-only", "vo-turned")
    assert effect.refused == "another writing"
    assert all(math.isnan(x) for x in (effect.r, effect.lowest_r, effect.change, effect.top, effect.loo_r))
    verdict = result.verdicts["one-writing-only"]
    assert verdict.word == "not tested"
    assert verdict.sentence == "could not be compared under any rewrite: another writing"
    assert not math.isnan(result.checks[1].loo_r)
    assert result.verdicts["loo"].word == "invariant"


def test_epsilon_makes_relevance_depend_on_the_writing() -> None:
    """With a stabiliser every factor that is split off has a denominator of its own; without it the rules are linear
    maps.
    """
    m, texts = bench("bert")
    result = looprop.audit(m, texts, ["attnlrp", "attnlrp[epsilon=0.05]"], ["linear-split", "vo-turned"], checks=False)
    assert result.verdicts["attnlrp"].word == "invariant"
    assert result.row("attnlrp[epsilon=0.05]", "linear-split").change > 1e-3
    assert result.verdicts["attnlrp[epsilon=0.05]"].word == "depends on the writing"


def test_the_sanity_checks() -> None:
    m, texts = bench("bert")
    before = outside(m.model)
    result = looprop.audit(m, texts, ["loo", "grad-x-input", "ig[steps=20]", "random", Unsettled()], ["norm-split"])
    assert outside(m.model) == before
    checks = {check.method: check for check in result.checks}
    # Random scores with a fixed seed never look at the model.
    assert checks["random"].randomised == pytest.approx((1.0, 1.0, 1.0))
    assert any("hardly looks at the model" in flag for flag in result.verdicts["random"].flags)
    assert not any("hardly" in flag for flag in result.verdicts["loo"].flags)
    assert min(checks["loo"].randomised) < 0.9
    # Removal does not ask where the embedding has its zero; gradient times input does.
    assert checks["loo"].shifted < 1e-6
    assert checks["grad-x-input"].shifted > 0.01
    assert any("zero" in flag for flag in result.verdicts["grad-x-input"].flags)
    assert checks["loo"].batched < 1e-6
    assert checks["grad-x-input"].batched < 1e-6
    assert any("batch" in flag for flag in result.verdicts["unsettled"].flags)
    assert checks["ig[steps=20]"].complete
    e = m.explain(texts[0], "grad-x-input"), m.explain(texts[1], "grad-x-input")
    wanted = np.median([abs(x.output - x.scores.sum()) / abs(x.output) for x in e])
    assert checks["grad-x-input"].residual == pytest.approx(wanted, rel=1e-3)
    assert checks["loo"].loo_r == pytest.approx(1.0)


def test_an_incomplete_sum_is_flagged() -> None:
    m, texts = bench("llama")
    result = looprop.audit(m, texts, ["ig[steps=1]"], ["norm-split"], checks=False)
    assert result.checks[0].residual > 0.05
    assert any("promises" in flag for flag in result.verdicts["ig[steps=1]"].flags)


def test_the_model_itself_in_its_own_precision() -> None:
    m, texts = bench("bert")
    before = outside(m.model)
    result = looprop.audit(
        m, texts, ["attnlrp", "random"], ["vo-turned", "linear-split", "reassociated"], precision="model"
    )
    assert outside(m.model) == before
    assert result.about["computed_in"] == "float32"
    assert result.tolerance == 1e-3
    assert result.applied == ["vo-turned", "linear-split"]
    assert 0 < result.row("attnlrp", "linear-split").change < 1e-3


def test_float64_leaves_no_float32_behind() -> None:
    """Llama casts to float32 in its norms and rotary tables; the deviation of a rewrite shows that nothing was rounded
    to it.
    """
    m, texts = bench("llama")
    result = looprop.audit(m, texts, ["random"], ["linear-split"], checks=False)
    assert result.about["computed_in"] == "float64"
    assert result.attempts[0].logits < 1e-13


def test_saved_and_read_again(tmp_path: Path) -> None:
    m, texts = bench("bert")
    result = looprop.audit(m, texts, ["attnlrp", "rollout"], ["vo-turned", "reassociated"])
    again = Audit.load(result.save(tmp_path / "audit.json"))
    assert again.to_dict() == result.to_dict()
    assert again.verdicts == result.verdicts
    assert result.about["weights"] == looprop.audit(m, texts, ["random"], [], checks=False).about["weights"]
    assert list(result.to_pandas()["rewrite"]) == ["vo-turned", "vo-turned"]
    with pytest.raises(DataError, match="there is no 'loo'"):
        result.row("loo", "vo-turned")
    (tmp_path / "other.json").write_text('{"schema": "looprop.explanation", "version": 1}', encoding="utf-8")
    with pytest.raises(DataError, match=r"looprop\.audit"):
        Audit.load(tmp_path / "other.json")


def test_comparisons_against_scipy_and_by_hand() -> None:
    rng = np.random.default_rng(0)
    before, after = [rng.normal(size=8) for _ in range(3)], [rng.normal(size=8) for _ in range(3)]
    compared = agreement(before, after, 1e-6)
    assert compared.r == pytest.approx(
        np.mean([stats.pearsonr(a, b).statistic for a, b in zip(before, after, strict=True)])
    )
    assert compared.lowest_r == pytest.approx(
        min(stats.pearsonr(a, b).statistic for a, b in zip(before, after, strict=True))
    )
    assert compared.top == np.mean([abs(a).argmax() != abs(b).argmax() for a, b in zip(before, after, strict=True)])
    assert relative_change(np.zeros(3), np.zeros(3)) == 0.0
    # Two equal tops may change places by rounding.
    assert not top_changes(np.array([1.0, 1.0 - 1e-9]), np.array([1.0 - 1e-9, 1.0]), 1e-6)
    constant = agreement([np.ones(4)], [np.ones(4)], 1e-6)
    assert math.isnan(constant.r)
    assert constant.change == 0.0


def test_wrong_questions() -> None:
    m, _ = bench("bert")
    with pytest.raises(InputError, match="put it into a list"):
        looprop.audit(m, TEXTS[0])
    with pytest.raises(InputError, match="no inputs"):
        looprop.audit(m, [])
    with pytest.raises(InputError, match="no methods"):
        looprop.audit(m, TEXTS, [])
    with pytest.raises(UnknownNameError, match="float64"):
        looprop.audit(m, TEXTS, precision="float46")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="linear-split"):
        looprop.audit(m, TEXTS, rewrites=["linear-splt"])
    with pytest.raises(UnknownNameError, match="unknown method"):
        looprop.audit(m, TEXTS, ["lop"])
