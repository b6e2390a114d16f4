"""`looprop.evaluate` against the naive way: one mask at a time, scipy, and loops straight from the definitions."""

import math
import pickle
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import looprop
from evaluation.tiny import TEXTS, tiny_model, tiny_tokenizer
from looprop.errors import DataError, InputError, UnknownNameError
from looprop.evaluation import setup
from looprop.evaluation.result import Evaluation
from looprop.methods.base import Attribution, Method
from looprop.methods.loo import LeaveOneOut
from looprop.methods.registry import CATALOGUE, make_method
from looprop.models.subject import Subject
from looprop.workbench import Workbench


def logit(m: Workbench, text: str, kept: Sequence[int]) -> float:
    """The logit of the class predicted on the intact text, with the other tokens masked: nothing of looprop in it."""
    batch = m.tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        target = int(m.model(**batch).logits[0].argmax())
        mask = torch.zeros_like(batch["attention_mask"])
        mask[0, list(kept)] = 1
        return float(m.model(input_ids=batch["input_ids"], attention_mask=mask).logits[0, target])


def naive_loo(m: Workbench, text: str) -> np.ndarray:
    n = len(m.tokenizer(text)["input_ids"])
    return np.array([logit(m, text, range(n)) - logit(m, text, [j for j in range(n) if j != i]) for i in range(n)])


def naive_curve(m: Workbench, text: str, groups: list[list[int]], order: Sequence[int]) -> list[float]:
    """The logit after each step but the last, which would leave nothing."""
    values = []
    for step in range(1, len(groups)):
        kept = [i for g in order[step:] for i in groups[g]]
        values.append(logit(m, text, kept))
    return values


@pytest.fixture(scope="module")
def result(tiny: Workbench) -> Evaluation:
    return looprop.evaluate(tiny, TEXTS[:3], ["loo", "cp-lrp", "loo[removal=mask-token]"], yardsticks=True)


def rows_of(result: Evaluation, method: str) -> list[dict]:
    return [row for row in result.rows if row["method"] == method]


def test_one_row_per_example_and_method_in_order(result: Evaluation) -> None:
    methods = ["loo", "cp-lrp", "loo[removal=mask-token]", "random", "position", "length"]
    assert [(row["example"], row["method"]) for row in result.rows] == [
        (str(i), name) for i in range(3) for name in methods
    ]


@pytest.mark.parametrize("method", ["loo", "cp-lrp", "position"])
def test_rows_equal_the_naive_way(result: Evaluation, tiny: Workbench, method: str) -> None:
    for text, row in zip(TEXTS, rows_of(result, method), strict=False):
        loo, scores = naive_loo(tiny, text), np.array(row["scores"])
        np.testing.assert_allclose(row["loo"], loo, atol=1e-5)
        assert row["loo-r"] == pytest.approx(stats.pearsonr(scores, loo)[0], abs=1e-4)
        assert row["loo-r-no-special"] == pytest.approx(stats.pearsonr(scores[1:-1], loo[1:-1])[0], abs=1e-4)
        singles = [[i] for i in range(len(scores))]
        morf = np.mean(naive_curve(tiny, text, singles, sorted(range(len(scores)), key=lambda i: (-scores[i], i))))
        lerf = np.mean(naive_curve(tiny, text, singles, sorted(range(len(scores)), key=lambda i: (scores[i], i))))
        assert row["morf"] == pytest.approx(morf, abs=1e-5)
        assert row["lerf"] == pytest.approx(lerf, abs=1e-5)
        assert row["delta"] == pytest.approx(lerf - morf, abs=2e-5)


def test_chunks_are_removed_together_and_their_score_is_the_sum_of_their_tokens(tiny: Workbench) -> None:
    text = TEXTS[4]
    row = looprop.evaluate(tiny, [text], ["attnlrp"], ["morf"], curve_features="chunk:4").rows[0]
    scores = row["scores"]
    groups = [list(range(start, min(start + 4, len(scores)))) for start in range(0, len(scores), 4)]
    assert row["curve_features"] == len(groups)
    of_chunks = [sum(scores[i] for i in group) for group in groups]
    order = sorted(range(len(groups)), key=lambda g: (-of_chunks[g], g))
    assert row["morf"] == pytest.approx(np.mean(naive_curve(tiny, text, groups, order)), abs=1e-5)


def test_a_short_last_chunk_counts_by_its_sum_not_by_its_mean(tiny: Workbench) -> None:
    text = next(text for text in TEXTS if len(tiny.tokenizer(text)["input_ids"]) % 4 in (1, 2))
    count = len(tiny.tokenizer(text)["input_ids"])
    groups = [list(range(start, min(start + 4, count))) for start in range(0, count, 4)]
    last = len(groups) - 1
    scores = [1.5 if g == last else 1.0 + 0.1 * g for g, group in enumerate(groups) for _ in group]
    given = looprop.evaluate(tiny, [text], [], ["morf", "lerf"], scores={"mine": [scores]}, curve_features="chunk:4")
    order = [*range(last - 1, -1, -1), last]  # the last has the largest scores and the smallest sum
    assert given.rows[0]["morf"] == pytest.approx(np.mean(naive_curve(tiny, text, groups, order)), abs=1e-5)
    assert given.rows[0]["lerf"] == pytest.approx(np.mean(naive_curve(tiny, text, groups, order[::-1])), abs=1e-5)


def test_leave_one_out_costs_one_pass_per_token_and_agrees_with_itself(result: Evaluation) -> None:
    for row in rows_of(result, "loo"):
        assert row["loo-r"] == pytest.approx(1.0)
        assert row["cost"] == row["features"]
        assert row["scores"] == row["loo"]


def test_the_cost_of_a_method_does_not_depend_on_what_ran_before(tiny: Workbench) -> None:
    alone = looprop.evaluate(tiny, TEXTS[:2], ["loo[removal=mask-token]", "looprop"], ["loo-r"])
    after = looprop.evaluate(
        tiny, TEXTS[:2], ["loo", "ig[steps=5]", "loo[removal=mask-token]", "looprop"], ["loo-r", "morf"]
    )
    for method in ("loo[removal=mask-token]", "looprop"):
        assert [row["cost"] for row in rows_of(alone, method)] == [row["cost"] for row in rows_of(after, method)]


def test_scores_from_elsewhere_are_measured_like_our_own(tiny: Workbench) -> None:
    ours = looprop.evaluate(tiny, TEXTS[:3], ["cp-lrp"])
    elsewhere = looprop.evaluate(tiny, TEXTS[:3], [], scores={"theirs": [np.array(row["scores"]) for row in ours.rows]})
    for own, other in zip(ours.rows, elsewhere.rows, strict=True):
        assert other["method"] == "theirs"
        assert math.isnan(other["cost"])
        for metric in ours.metrics:
            assert other[metric] == pytest.approx(own[metric], abs=1e-6)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([1.0, 2.0], r"scores of example '1': mine: expected \d+ scores, one per token, got shape \(2,\)"),
        ([[1.0], [2.0]], r"got shape \(2, 1\)"),
        (3.0, r"got shape \(\)"),
        ([math.nan] * 7, "must be finite, got nan"),
        ([1.0, [2.0]], "must be numbers"),
        (["a"] * 7, "must be numbers"),
    ],
)
def test_scores_that_are_not_those_of_their_example_raise_before_anything_is_measured(
    tiny: Workbench, scores: list, message: str
) -> None:
    texts = [TEXTS[0], "the film is very good"]
    right = [0.0] * len(tiny.explain(texts[0], "random").scores)
    calls = []
    with pytest.raises(InputError, match=message):
        looprop.evaluate(tiny, texts, ["random"], scores={"mine": [right, scores]}, progress=lambda *_: calls.append(1))
    assert not calls


class Moody(Method):
    """Fails on long texts, warns on short ones."""

    name = "moody"
    summary = "for tests"

    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        length = len(subjects[0].features)
        if length > 7:
            raise RuntimeError(f"{length} features are too many")
        warnings.warn("this is short", UserWarning, stacklevel=1)
        return [Attribution(np.arange(length, dtype=float), cost=2.0)]


def test_a_method_that_fails_on_one_example_is_recorded_with_its_error(tiny: Workbench) -> None:
    found = looprop.evaluate(tiny, [TEXTS[0], TEXTS[3]], [Moody(), "random"])
    long, short = rows_of(found, "moody")
    assert long["error"] == "RuntimeError: 8 features are too many"
    assert math.isnan(long["loo-r"])
    assert short["note"] == "this is short"
    summary = found["moody"]
    assert (summary.errors, summary.notes, summary.cost) == (1, 1, 2.0)
    assert (summary.metrics["loo-r"].count, summary.metrics["loo-r"].undefined) == (1, 1)


def test_an_example_that_cannot_be_encoded_is_an_error_of_its_rows(tiny: Workbench) -> None:
    found = looprop.evaluate(tiny, ["", TEXTS[0]], ["random"])
    assert found.rows[0]["error"]
    assert not found.rows[1]["error"]


def test_protocol_paper_normalises_and_counts_flips(tiny: Workbench) -> None:
    raw = looprop.evaluate(tiny, TEXTS, ["random"], ["loo-r"])
    paper = looprop.evaluate(tiny, TEXTS, ["random"], ["loo-r"], protocol="paper")
    assert paper.metrics == ("loo-r-paper",)
    flipped = []
    for before, after in zip(raw.rows, paper.rows, strict=True):
        turned = (sum(before["scores"]) < 0) != (sum(before["loo"]) < 0)
        assert after["flipped"] is turned
        assert after["loo-r-paper"] == pytest.approx(-before["loo-r"] if turned else before["loo-r"])
        flipped.append(turned)
    assert paper["random"].flipped == pytest.approx(np.mean(flipped))
    assert raw["random"].flipped is None


def test_summary_and_comparison_take_part_of_all_examples(result: Evaluation) -> None:
    for metric in result.metrics:
        assert result["cp-lrp"].metrics[metric].mean == pytest.approx(
            np.mean([row[metric] for row in rows_of(result, "cp-lrp")])
        )
    pairs = {frozenset((c.better, c.worse)) for c in result.compare("loo-r")}
    assert len(pairs) == math.comb(5, 2), "leave-one-out is the reference of r and takes no part"
    assert len(result.compare("delta")) == math.comb(6, 2)
    with pytest.raises(UnknownNameError, match="lo-r"):
        result.compare("lo-r")
    with pytest.raises(DataError, match="no method 'cplrp'"):
        result["cplrp"]


def test_saved_and_loaded_bit_by_bit(result: Evaluation, tmp_path: Path) -> None:
    again = Evaluation.load(result.save(tmp_path / "new" / "folder"))
    assert repr(again.rows) == repr(result.rows), "NaN included"
    assert again.title == result.title
    assert again.summary_to_pandas().equals(result.summary_to_pandas())
    (tmp_path / "new" / "folder" / "rows.parquet").write_bytes(b"no parquet")
    with pytest.raises(DataError, match="cannot read the rows"):
        Evaluation.load(tmp_path / "new" / "folder")


def test_tables(result: Evaluation) -> None:
    assert list(result.to_pandas()["method"][:2]) == ["loo", "cp-lrp"]
    assert len(result.summary_to_pandas()) == 6


def test_another_engine_may_answer_in_any_order(tiny: Workbench) -> None:
    plain = looprop.evaluate(tiny, TEXTS[:3], ["cp-lrp"], ["loo-r"])
    turned = looprop.evaluate(
        tiny, TEXTS[:3], ["cp-lrp"], ["loo-r"], engine=lambda work, items: map(work, reversed(list(items)))
    )
    assert [row["loo-r"] for row in plain.rows] == [row["loo-r"] for row in turned.rows]


def test_an_example_does_not_depend_on_the_others(tiny: Workbench) -> None:
    together = looprop.evaluate(tiny, TEXTS, ["ig[steps=5]", "attnlrp"])
    for i, text in enumerate(TEXTS):
        alone = looprop.evaluate(tiny, [text], ["ig[steps=5]", "attnlrp"])
        for one, other in zip(alone.rows, together.rows[2 * i : 2 * i + 2], strict=True):
            assert {**one, "seconds": 0, "example": ""} == {**other, "seconds": 0, "example": ""}


def test_every_method_is_made_once(tiny: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str | Method] = []
    monkeypatch.setattr(setup, "make_method", lambda method: made.append(method) or make_method(method))
    looprop.evaluate(tiny, TEXTS[:3], ["loo", "cp-lrp", "position"])
    assert made == ["loo", "cp-lrp"]


def test_the_reference_is_not_computed_twice() -> None:
    own = setup.Setup(("loo", "loo[removal=mask-token]", "cp-lrp"), removal="attention-mask")
    assert [method is own.reference for method in own.made.values()] == [False, False, False]
    own = setup.Setup(("loo[removal=delete]", "loo", " cp-lrp "), removal="delete")
    assert {label: method is own.reference for label, method in own.made.items()} == {
        "loo[removal=delete]": True,
        "loo": False,
        "cp-lrp": False,
    }


def test_the_reference_pays_for_no_checks_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same removals under another name follow the reference. Once looprop has met such a text, both run the model
    equally often, but for a check (2 passes) that falls to one of them; else the time of leave-one-out would be that of
    looprop's own checks.
    """
    own = looprop.load((tiny_model(), tiny_tokenizer()))
    calls, counted = [], {"loo": [], "loo[removal=attention-mask]": []}
    own.model.register_forward_hook(lambda *_: calls.append(1))
    attribute = LeaveOneOut.attribute

    def count(method: LeaveOneOut, subjects: Sequence[Subject]) -> list[Attribution]:
        before = len(calls)
        found = attribute(method, subjects)
        counted["loo" if method.removal is None else f"loo[removal={method.removal}]"].append(len(calls) - before)
        return found

    monkeypatch.setattr(LeaveOneOut, "attribute", count)
    looprop.evaluate(own, TEXTS[:1] * 9, list(counted), ["loo-r"])
    reference, other = counted.values()
    assert len(reference) == len(other) == 9
    assert abs(sum(reference[1:]) - sum(other[1:])) <= 2


def test_a_setup_with_every_method_can_be_sent_to_another_process() -> None:
    own = setup.make_setup([entry.example or entry.name for entry in CATALOGUE.values()], yardsticks=True)
    sent = pickle.loads(pickle.dumps(own))
    assert sent == own
    assert {label: (type(method), method.options) for label, method in sent.made.items()} == {
        label: (type(method), method.options) for label, method in own.made.items()
    }
    assert sent.made["loo"] is sent.reference


def test_random_scores_are_those_of_the_method(result: Evaluation, tiny: Workbench) -> None:
    for text, row in zip(TEXTS[:3], rows_of(result, "random"), strict=True):
        assert row["scores"] == tiny.explain(text, "random").scores.tolist()


@pytest.mark.parametrize("given", [True, False])
def test_progress_is_told_to_whoever_wants_to_hear_it(
    tiny: Workbench, given: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    heard: list[str] = []

    def advance(note: str = "", count: int = 1) -> None:
        heard.extend([note] * count)

    looprop.evaluate(tiny, TEXTS[:3], ["random"], ["loo-r"], progress=advance if given else True)
    assert heard == ([""] * 3 if given else [])
    assert ("3/3" in capsys.readouterr().err) is not given


def test_the_work_can_be_sent_to_another_process(tiny: Workbench) -> None:
    def sent(work, items):  # what an engine on other machines does
        work = pickle.loads(pickle.dumps(work))
        return (work(pickle.loads(pickle.dumps(item))) for item in items)

    here = looprop.evaluate(tiny, TEXTS[:2], ["cp-lrp", "random"])
    there = looprop.evaluate(tiny, TEXTS[:2], ["cp-lrp", "random"], engine=sent)
    assert repr([{**row, "seconds": 0} for row in here.rows]) == repr([{**row, "seconds": 0} for row in there.rows])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"data": "one text"}, "put it into a list"),
        ({"data": []}, "no examples"),
        ({"methods": []}, "no methods"),
        ({"methods": ["cp-lrp", "cp-lrp"]}, "named twice"),
        ({"methods": ["cplrp"]}, "did you mean 'cp-lrp'"),
        ({"metrics": ["loor"]}, "did you mean 'loo-r'"),
        ({"protocol": "papers"}, "raw, paper"),
        ({"removal": "burn"}, "unknown removal"),
        ({"engine": "remote"}, "unknown engine"),
        ({"scores": {"mine": [[0.0]]}}, r"expected one array per example \(2\), got 1"),
    ],
)
def test_bad_input_is_named(tiny: Workbench, arguments: dict, message: str) -> None:
    with pytest.raises((InputError, UnknownNameError), match=message):
        looprop.evaluate(tiny, **{"data": TEXTS[:2], "methods": ["random"], **arguments})
