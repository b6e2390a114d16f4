"""How the remedy spends a budget: never more than it has, decoders on rows, encoders on true values."""

import json
from typing import Any

import numpy as np
import pytest
import torch

import zoo
from looprop.methods.base import Attribution
from looprop.methods.looprop import spending
from looprop.methods.looprop.first_order import first_order
from looprop.methods.looprop.rows import whole_variants
from looprop.methods.looprop.spending import first_estimate
from looprop.methods.registry import make_method
from looprop.models.heads.causal_lm import CausalLanguageModel
from looprop.models.subject import Subject, new_subject
from looprop.models.target import Target
from looprop.removal.trust import Disagreement
from methods.subjects import encoded, felt, scores, subject_of

ENCODERS, DECODERS = ["bert", "modernbert", "mpnet", "vit"], ["gpt2", "llama", "gemma3"]


def spent(subject: Subject, **options: Any) -> Attribution:
    return make_method("looprop", **options).attribute([subject.alone()])[0]


@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS])
@pytest.mark.parametrize("features", ["token", "chunk:2"])
def test_the_budget_never_costs_more_than_it_says(name: str, features: str) -> None:
    subject = subject_of(name, length=24, features=features)
    count, loo = len(subject.features), scores(subject, "loo", removal="attention-mask")
    for budget in (3, 4, 5, 7.5, 11, 0.5, 0.9):
        found = spent(subject, budget=budget)
        passes = budget if budget >= 1 else budget * count
        assert found.cost <= max(3.0, passes) + 1e-9 or passes >= count
        known = found.details["known"]
        np.testing.assert_allclose(found.scores[known], loo[known], atol=1e-6 * np.abs(loo).max())
        json.dumps(found.details)
    exact = spent(subject, budget=count)
    np.testing.assert_allclose(exact.scores, loo, atol=1e-6 * np.abs(loo).max())
    assert exact.details["known"] == list(range(count))


@pytest.mark.parametrize("name", ["bert", "mpnet"])
def test_an_encoder_spends_on_the_read_out_and_on_what_is_felt_most(name: str) -> None:
    subject = subject_of(name, length=20)
    order = [i for i in np.argsort(-felt(subject)) if i != 0]
    for budget in (4, 6, 9):
        found = spent(subject, budget=budget)
        assert sorted(found.details["known"]) == sorted([0, *order[: budget - 4]])
        assert found.details["spent"] == {"first pass": 3.0, "true values": budget - 3, "rows": 0.0}


def test_estimates_lean_the_way_of_all_removals() -> None:
    """score_i + felt_i * (sum of scores / sum of felt), without the read-out in the sums, by a loop."""
    subject = subject_of("bert", length=12)
    effect, gross = first_order(subject.alone()).effect.numpy(), felt(subject)
    net = [sum(effect[j, i] for j in range(12) if j != i) for i in range(1, 12)]
    share = sum(net) / sum(gross[1:])
    wanted = [score + share * gross[i + 1] for i, score in enumerate(net)]
    found = spent(subject, budget=3)
    np.testing.assert_allclose(found.scores, [np.mean(wanted), *wanted], rtol=1e-9)


def test_scores_of_the_opposite_target_are_opposite() -> None:
    """What is decided on the input does not depend on the sign of what is asked."""
    one = subject_of("bert", length=14)
    for budget in (3, 5, 9):
        there, back = (
            spent(new_subject(one.adapter, one.encoded, target, one.features), budget=budget)
            for target in (Target((1,), "1 - 0", 0), Target((0,), "0 - 1", 1))
        )
        np.testing.assert_allclose(there.scores, -back.scores, atol=1e-9 * np.abs(there.scores).max())


def test_rows_where_the_first_true_values_show_poor_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of("bert", length=20)
    monkeypatch.setattr(spending, "POOR", -1.0)
    found = spent(subject, budget=9)
    assert found.details["spent"] == {"first pass": 3.0, "true values": 3, "rows": pytest.approx(3.0)}
    assert "off by" in found.details["why"]
    loo = scores(subject, "loo")
    known = found.details["known"]
    assert len(known) == 3
    np.testing.assert_allclose(found.scores[known], loo[known], atol=1e-9)

    def broken(*given: Any) -> Any:
        raise Disagreement("not today")

    monkeypatch.setattr(spending, "with_rows", broken)
    found = spent(subject, budget=9)
    assert found.details["fell_back"] == "rows: not today"
    assert len(found.details["known"]) == 6
    assert found.cost == 9.0


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("budget", [5, 6, 8, 11])
def test_the_first_token_of_a_decoder_gets_its_true_value(name: str, budget: int) -> None:
    subject = subject_of(name, length=24)
    found, loo = spent(subject, budget=budget), scores(subject, "loo")
    assert 0 in found.details["known"]
    assert found.scores[0] == pytest.approx(loo[0], abs=1e-6 * np.abs(loo).max())


@pytest.mark.parametrize("name", DECODERS)
def test_one_pass_buys_a_decoder_the_true_values_of_late_tokens(name: str) -> None:
    """As many whole variants as fit into the rows of one pass, most felt per row first; by a literal greedy loop."""
    subject = subject_of(name, length=24)
    found, loo = spent(subject, budget=4), scores(subject, "loo")
    worth, left, known = felt(subject, "attnlrp"), 24, []
    for i in sorted(range(24), key=lambda i: -worth[i] / max(1, 23 - i)):
        if max(1, 23 - i) <= left:
            known.append(i)
            left -= max(1, 23 - i)
    assert found.details["known"] == sorted(known)
    np.testing.assert_allclose(found.scores[known], loo[known], atol=1e-6 * np.abs(loo).max())
    assert found.cost == pytest.approx(4 - left / 24)


def test_whole_variants_are_the_rows_after_the_removed_tokens() -> None:
    member = torch.tensor([[1, 0, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 1]], dtype=torch.bool)
    assert [rows.tolist() for rows in whole_variants(member, [4])] == [[1, 2, 3, 4], [2, 4], [4]]


@pytest.mark.parametrize("name", DECODERS)
def test_more_passes_than_a_decoder_has_rows_are_leave_one_out(name: str) -> None:
    """Half of leave-one-out's cost carries every row that feels anything."""
    subject = subject_of(name, length=30)
    found, loo = spent(subject, budget=3 + 16), scores(subject, "loo")
    np.testing.assert_allclose(found.scores, loo, atol=1e-6 * np.abs(loo).max())
    assert found.details["known"] == list(range(30))
    assert found.cost == pytest.approx(3 + (29 * 30 / 2 + 1) / 30)


@pytest.mark.parametrize("name", DECODERS)
def test_rows_go_to_large_effects_of_removals_that_are_felt_much(name: str) -> None:
    """A row of a variant is worth its effect times all that the removal is felt; by a literal greedy loop."""
    subject, length, budget = subject_of(name, length=24), 24, 11
    size = first_order(subject.alone(), "attnlrp").size.double().numpy()
    worth = {(i, j): size[j, i] * sum(size[:, i]) for i in range(1, length) for j in range(i + 1, length - 1)}
    rows = {i: set(range(1, length)) if i == 0 else {length - 1} for i in range(length)}
    left = (budget - 3) * length - sum(map(len, rows.values()))
    for i, j in sorted(worth, key=lambda pair: -worth[pair])[:left]:
        rows[i].add(j)
    found = spent(subject, budget=budget)
    assert found.details["known"] == [i for i in range(length) if set(range(i + 1, length)) <= rows[i]]
    assert found.cost == pytest.approx(3 + sum(map(len, rows.values())) / length)


def test_a_decoder_whose_rows_cannot_be_carried_gets_true_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spending, "carried", lambda subject, first, run, plain: plain(""))
    subject = subject_of("llama", length=20)
    order = [i for i in np.argsort(-felt(subject, "attnlrp")) if i != 0]
    for budget in (4, 8):
        found = spent(subject, budget=budget)
        assert sorted(found.details["known"]) == sorted([0, *order[: budget - 4]])
        assert found.cost == budget


def test_a_part_of_a_prompt_without_its_first_token() -> None:
    """Features need not cover the prompt: where nobody asks for the first token, nothing is spent on it."""
    adapter = CausalLanguageModel(zoo.build("llama"), lambda text: text)
    features = tuple((i,) for i in range(4, 20))
    subject = new_subject(adapter, encoded(zoo.token_ids(20)), Target((1,), "1"), features)
    loo = scores(subject, "loo")
    for budget in (4, 8, 15):
        found = spent(subject, budget=budget)
        known = found.details["known"]
        np.testing.assert_allclose(found.scores[known], loo[known], atol=1e-6 * np.abs(loo).max())
        assert found.cost <= budget


def test_what_is_known_and_what_the_first_pass_said_of_it() -> None:
    subject = subject_of("bert", length=20)
    found = spent(subject, budget=8)
    known = found.details["known"]
    first = first_estimate(subject.alone(), first_order(subject.alone()))
    np.testing.assert_allclose(found.details["estimated"], first.scores[known], rtol=1e-9)
    assert found.details["own_r"] == pytest.approx(np.corrcoef(first.scores[known], found.scores[known])[0, 1])


@pytest.mark.parametrize(("name", "longest"), [("bert", 18), ("llama", 20)])
def test_with_nothing_said_a_short_input_gets_leave_one_out(name: str, longest: int) -> None:
    short, long = (subject_of(name, length=length) for length in (longest, longest + 1))
    found = spent(short)
    assert found.details["known"] == list(range(longest))
    assert found.cost == longest
    np.testing.assert_allclose(found.scores, scores(short, "loo"), atol=1e-12)
    np.testing.assert_allclose(spent(long).scores, spent(long, budget=11).scores, rtol=1e-9, atol=1e-12)
    assert spent(long).cost <= 11
    assert len(spent(subject_of(name, length=longest, features="chunk:2")).details["known"]) == longest // 2
