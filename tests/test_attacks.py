"""The short part of the campaigns, with fixed seeds; and the campaigns themselves: would they notice?

`make attack` has the long part, with fresh seeds.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from attacks import runner, verdict
from attacks.catalogue import CAMPAIGNS, Campaign
from attacks.models import campaign as models
from attacks.models import families
from attacks.programs import campaign as programs
from attacks.programs.evasions import WAYS, own_gradient
from attacks.programs.steps import Affine, Attention, Product, Step, evaluate, propagate

import looprop
from looprop.errors import InputError, LoopropError

# Cases of the quick suite and of the whole one, and the number of the first.
QUICK = {"programs": 200, "models": 12, "texts": 30, "files": 24, "changes": 12}
WHOLE = {"programs": 1000, "models": len(families.NAMED) + len(families.ZOO), "texts": 120, "files": 80}
# Of the models a number at which all families come, one after the other.
FIRST = {
    "programs": 20_000,
    "models": 200 * WHOLE["models"],
    "texts": 20_000,
    "files": 20_000,
    "kills": 20_000,
    "changes": 20_000,
}

# Odd models that were explained wrongly once: rows that are left out make a text short, or the first row of a batch
# decides for all of it.
ONCE_WRONG = ("pooling first_or_mean", "twist way_of_the_first", "twist way_of_the_first, mean")


def seed_of(name: str) -> int:
    """The number of an odd model."""
    return FIRST["models"] + list(families.NAMED).index(name)


def attack(name: str, seeds: Iterable[int]) -> Counter[str]:
    """Hold a campaign's cases to be right or refused."""
    counts: Counter[str] = Counter()
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch, about what odd models do
        for seed in seeds:
            outcome = runner.judged(CAMPAIGNS[name], seed)
            counts[outcome.kind] += 1
            if outcome.finding:
                found.append(
                    f"{outcome.kind}: {outcome.note}\n  python -m attacks --only {name} --seed {seed} --count 1"
                )
    assert not found, f"{len(found)} findings\n" + "\n".join(found)
    return counts


@pytest.mark.parametrize("name", QUICK)
def test_a_short_campaign_finds_nothing(name: str) -> None:
    counts = attack(name, range(FIRST[name], FIRST[name] + QUICK[name]))
    assert counts["right"] or name == "models", "not everything is refused"


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_a_longer_campaign_finds_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "TEXTS", models.TEXTS // 2)  # of each model; `make attack` asks for all
    # Every other model: the campaign has all.
    counts = attack(name, range(FIRST[name] + QUICK[name], FIRST[name] + WHOLE[name], 2 if name == "models" else 1))
    assert counts["right"], "not everything is refused"


@pytest.mark.slow
@pytest.mark.parametrize("model", ONCE_WRONG)
def test_an_odd_model_that_was_explained_wrongly_is_right_or_refused(model: str) -> None:
    attack("models", [seed_of(model)])


def test_a_program_that_multiplies_by_its_own_gradient_is_refused() -> None:
    assert attack("programs", [555_007_010])["refused"]


def test_a_model_that_differentiates_itself_is_refused_in_words() -> None:
    with pytest.raises(LoopropError):
        looprop.attribute(lambda x: own_gradient(torch.tanh(x)).sum(1), torch.rand(1, 3, dtype=torch.float64), target=0)


def test_hard_swish_written_out_on_a_product_is_right_or_refused() -> None:
    x = torch.randn(1, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def scores(by: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        return looprop.attribute(lambda x: by(x @ x.mT @ x).sum((1, 2)), x, target=0)

    torch.testing.assert_close(scores(lambda h: h * F.relu6(h + 3) / 6), scores(F.hardswish))


def test_a_complex_constant_of_one_element_scales() -> None:
    x = torch.randn(1, 1, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turn = torch.polar(torch.ones(1, 1, dtype=torch.float64), torch.full((1, 1), 0.7, dtype=torch.float64))
    found = looprop.attribute(lambda x: torch.view_as_real(torch.view_as_complex(x) * turn)[..., 0], x, target=0)
    a, b = x[0, 0]
    cos, sin = torch.tensor(0.7).double().cos(), torch.tensor(0.7).double().sin()
    torch.testing.assert_close(found[0, 0], torch.stack([a * cos, -b * sin]))


@pytest.mark.slow
def test_killed_runs_and_commands_lose_nothing() -> None:
    # The fourth kind of case needs Ray.
    tally = runner.run(CAMPAIGNS["kills"], FIRST["kills"], count=3, seconds=None, processes=1)
    assert not tally.findings
    assert tally.tries >= 20, "most of the processes were killed"


def test_programs_are_mostly_understood() -> None:
    kinds = Counter(runner.judged(CAMPAIGNS["programs"], seed).kind for seed in range(1, 100) if seed % 5)
    assert kinds["right"] > 0.7 * sum(kinds.values())


# The truths themselves, on what can be derived by hand.


def test_relevance_by_hand_of_a_residual_product() -> None:
    x = np.array([[2.0, 3.0]])
    eye = np.eye(2)
    steps = [
        Step((0,), Affine((1, 2), [2 * eye], np.array([1.0, 0.0])), (1, 2), lambda x: x, "2 x + (1, 0)"),
        Step((0, 1), Product(), (1, 2), lambda a, b: a * b, "x y"),
        Step((2,), Affine((1,), [np.ones((1, 2))]), (1,), lambda x: x, "sum"),
    ]
    values = evaluate(steps, x)
    assert values[-1] == [2 * 5 + 3 * 6]
    # The first product, 10: half to x, half to y = 5, of which the constant 1 keeps a fifth. The second, 18: all to x.
    assert np.allclose(propagate(steps, values, 0, "attn")[0], [[5 + 5 * 4 / 5, 18]])


def test_relevance_by_hand_conserves_under_cp_and_vanishes_for_equal_logits() -> None:
    dice = np.random.default_rng(0)
    value, zeros = dice.normal(size=(3, 2)), np.zeros((3, 2))
    kind = Attention(1, 1.0, np.zeros((1, 3, 3)))
    out = kind.value(value, value, value)
    relevance = dice.normal(size=out.shape)
    of_query, of_key, of_value = kind.relevance([value, value, value], out, relevance, "cp")
    assert np.isclose(of_value.sum(), relevance.sum())
    assert not of_query.any()
    assert not of_key.any()
    flat = kind.value(zeros, value, value)
    assert np.allclose(flat, value.mean(0))
    assert not kind.relevance([zeros, value, value], flat, relevance, "attn")[0].any()


def test_the_naive_loop_sees_what_a_mean_loses() -> None:
    class Mean(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
            weights = attention_mask / attention_mask.sum(1, keepdim=True)
            return (input_ids * weights).sum(1, keepdim=True).double()

    scores, whole = models.naive(Mean(), [1, 2, 6], causal=False)
    assert whole == pytest.approx(3.0)
    assert scores == pytest.approx([3 - 4, 3 - 3.5, 3 - 1.5])


# Whether a campaign would notice.


def judged_case(monkeypatch: pytest.MonkeyPatch, case: Any, *, hang: int = 20) -> verdict.Outcome:
    monkeypatch.setattr(programs, "case", case)
    return runner.judged(Campaign("fake", "attacks.programs.campaign", "", 1.0, hang), 0)


def test_every_end_of_a_case_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(error: BaseException) -> Any:
        def case(seed: int) -> verdict.Outcome:
            raise error

        return case

    def hangs(seed: int) -> verdict.Outcome:
        while True:
            try:
                torch.ones(2).sum()
            except Exception:
                continue

    assert judged_case(monkeypatch, lambda seed: verdict.Outcome("right")).kind == "right"
    assert judged_case(monkeypatch, fails(InputError("no"))).kind == "refused"
    assert judged_case(monkeypatch, fails(verdict.WrongError("no"))).kind == "wrong"
    assert judged_case(monkeypatch, fails(KeyError("no"))).kind == "traceback"
    assert judged_case(monkeypatch, fails(SystemExit(3))).kind == "traceback"
    assert judged_case(monkeypatch, hangs, hang=1).kind == "hang"


def test_a_wrong_number_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = programs.looprop.attribute
    monkeypatch.setattr(programs.looprop, "attribute", lambda *a, **k: real(*a, **k) * 1.001)
    kinds = Counter(runner.judged(CAMPAIGNS["programs"], seed).kind for seed in range(1, 60) if seed % 5)
    assert kinds["wrong"] > 0.5 * sum(kinds.values())
    assert kinds["right"] <= 6, "nothing but relevance that is exactly zero"


def test_an_evasion_that_gets_through_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs.looprop, "attribute", lambda model, x, *a, **k: torch.zeros_like(x))
    kinds = Counter(runner.judged(CAMPAIGNS["programs"], seed).kind for seed in range(0, 200, 5))
    assert kinds["wrong"] > 30


def test_a_seed_makes_the_same_program_again() -> None:
    assert programs.described(programs.program(7, evading=False)[0]) == programs.described(
        programs.program(7, evading=False)[0]
    )


def test_there_is_enough_to_try() -> None:
    assert len(families.NAMED) >= 40
    assert len(WAYS) >= 30
    assert sum(campaign.share for campaign in CAMPAIGNS.values()) == pytest.approx(1.0)
