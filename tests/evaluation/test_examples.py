"""Examples on which methods disagree, removal curves, and what a reader is told of cost and removal."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import looprop
from evaluation.pages import METHODS, evaluated, measured
from evaluation.tiny import TEXTS, tiny_model, tiny_tokenizer
from looprop.errors import DataError, InputError
from looprop.evaluation import Evaluation
from looprop.evaluation.examples import SHOWN, disagreements, kind_of, said_of
from looprop.evaluation.models import ModelEvaluations
from looprop.evaluation.page import POINTS, mean_curves
from looprop.evaluation.summary import cheaper_loo, exact_notes, removal_notes
from looprop.metrics import get_metric, removal_order
from looprop.workbench import Workbench


def row(example: str, method: str, value: float, **more: Any) -> dict[str, Any]:
    return {"example": example, "method": method, "error": "", "loo-r": value, "morf": -value, **more}


def test_examples_by_how_far_methods_are_apart() -> None:
    rows = [
        row("a", "cp-lrp", 0.5), row("a", "attnlrp", 0.9), row("a", "random", -1.0), row("a", "loo", 1.0),
        row("b", "cp-lrp", -0.5), row("b", "attnlrp", 0.9),
        row("c", "cp-lrp", -1.0, loo_matters=False), row("c", "attnlrp", 1.0, loo_matters=False),
        row("d", "cp-lrp", math.nan), row("d", "attnlrp", 1.0) | {"error": "x"},
    ]  # fmt: skip
    found = disagreements(rows, ["loo-r"])
    assert [(one.example, one.worst, one.best) for one in found] == [
        ("b", "cp-lrp", "attnlrp"), ("a", "cp-lrp", "attnlrp"), ("c", "cp-lrp", "attnlrp"),
    ]  # fmt: skip
    assert [one.gap for one in found] == pytest.approx([1.4, 0.4, 2.0])
    down = disagreements(rows, ["morf"])
    assert (down[0].worst, down[0].lowest) == ("cp-lrp", 0.5), "of MoRF the highest is the worst"
    assert disagreements(rows, []) == []


def test_which_scores_know_nothing() -> None:
    assert [kind_of(name) for name in ("random", "position", "loo[removal=zero]", "mine")] == [
        "none", "none", "effect", "share",
    ]  # fmt: skip


def test_rows_hold_the_curves_that_their_metrics_come_from() -> None:
    found = evaluated()
    for own in found.rows:
        assert len(own["morf_curve"]) == own["features"] - 1
        assert np.mean(own["morf_curve"]) == pytest.approx(own["morf"], abs=1e-6)
        assert np.mean(own["lerf_curve"]) == pytest.approx(own["lerf"], abs=1e-6)
    first = found.rows[0]
    bench = looprop.load((tiny_model(), tiny_tokenizer()))
    gone = removal_order(first["scores"], most_relevant_first=True)[0]
    keep = np.ones((1, first["features"]), dtype=bool)
    keep[0, gone] = False
    assert first["morf_curve"][0] == pytest.approx(float(bench.set_function(TEXTS[0])(keep)[0]), abs=1e-4)
    without = looprop.evaluate(bench, TEXTS[:1], ["cp-lrp"], ["loo-r"])
    assert "morf_curve" not in without.rows[0], "nobody asked for them"


def test_curves_go_over_the_share_that_is_removed() -> None:
    short = {"example": "a", "method": "x", "error": "", "output": 4.0, "morf_curve": [2.0]}
    long = {"example": "b", "method": "x", "error": "", "output": 2.0, "morf_curve": [1.0, 0.0, -1.0, -2.0]}
    (line,) = mean_curves([short, long], "morf_curve", ["x"])
    assert len(line.x) == len(line.y) == POINTS
    at = dict(zip(line.x, line.y, strict=True))
    assert at[0.0] == pytest.approx(3.0)
    assert at[0.5] == pytest.approx((3.0 + 0.0) / 2)
    assert at[1.0] == pytest.approx((2.0 - 2.0) / 2)
    assert mean_curves([short], "lerf_curve", ["x"]) == []


def test_the_page_says_what_columns_mean_and_which_way_is_better() -> None:
    source = measured()
    for name in evaluated().metrics:
        metric = get_metric(name)
        better = "Higher is better." if metric.higher_is_better else "Lower is better."
        assert f"{metric.description[1:].replace(chr(39), '&#x27;')}. {better}" in source
    assert source.count("<small>lower is better</small>") == 3, "MoRF, time, cost"
    assert re.search(r"<small>\[−?\d\.\d\d, −?\d\.\d\d\]</small>", source), "intervals are numbers on the page"
    assert source.count('<div class="chart">') == 2
    assert source.count('<details class="example') == len(TEXTS)
    assert source.count('<div class="method">') == len(TEXTS) * len(METHODS)


def test_examples_show_what_was_measured() -> None:
    found = evaluated()
    assert set(found.frames) == {str(i) for i in range(len(TEXTS))}
    for name, frame in found.frames.items():
        assert frame.text == TEXTS[int(name)]
        said = said_of(frame, [own for own in found.rows if own["example"] == name])
        assert [e.method for e in said] == list(METHODS)
        (views,) = said.views()
        r = {view.tokens.name: view.tokens.r for view in views}
        for own in found.rows:
            if own["example"] == name and own["method"] == "cp-lrp":
                assert r["cp-lrp"] == pytest.approx(own["loo-r-no-special"], abs=1e-6)


def test_examples_are_saved_and_read_again(tmp_path: Path) -> None:
    found = evaluated()
    again = Evaluation.load(found.save(tmp_path / "run"))
    assert again.save(tmp_path / "a.html").read_bytes() == found.save(tmp_path / "b.html").read_bytes()


def test_only_the_examples_that_disagree_most_are_kept(tiny: Workbench) -> None:
    texts = [" ".join(TEXTS[(i + j) % 6] for j in range(2)) + " good" * (i % 5) for i in range(SHOWN + 3)]
    found = looprop.evaluate(tiny, texts, ["cp-lrp", "attnlrp"], ["loo-r-no-special"])
    order = [one.example for one in disagreements(found.rows, found.metrics)]
    assert list(found.frames) == order[:SHOWN]


def test_it_is_said_where_leave_one_out_is_the_cheaper_one() -> None:
    found = evaluated()
    by = {"loo": 0.2, "looprop": 0.3, "cp-lrp": 0.1, "shapley": 9.0, "loo[removal=zero]": 0.4}
    summary = [replace(found.summary[0], method=method, seconds=seconds) for method, seconds in by.items()]
    (said,) = cheaper_loo(summary)
    assert said.startswith("Exact leave-one-out took 200 ms an example here, less than looprop (300 ms):")
    assert "shapley" not in said
    assert cheaper_loo([s for s in summary if s.method != "looprop"]) == []
    assert cheaper_loo(summary[1:]) == []
    (exact,) = exact_notes(found.rows)
    assert exact.startswith(f"On {len(TEXTS)} of {len(TEXTS)} examples the scores of looprop are exact leave-one-out")
    assert exact_notes([own for own in found.rows if own["method"] != "looprop"]) == []


def test_another_removal_is_never_compared_silently() -> None:
    about = {"removals": {"reference": "zero", "methods": {"looprop": "attention-mask", "loo": "zero"}}}
    (said,) = removal_notes(about)
    assert said.startswith("looprop: estimates removal by attention-mask, and is measured here against removal by zero")
    assert removal_notes({}) == []
    assert evaluated().about["removals"]["reference"] == "attention-mask"
    assert removal_notes(evaluated().about) == []


def test_the_notes_name_a_removal_that_is_not_the_references() -> None:
    bench = looprop.load((tiny_model(), tiny_tokenizer()))
    found = looprop.evaluate(bench, TEXTS[:2], ["looprop"], ["loo-r"], removal="mask-token")
    assert any("estimates removal by attention-mask" in note for note in found.notes)


# ----- several models


@pytest.fixture(scope="module")
def models() -> dict[str, Workbench]:
    return {name: looprop.load((tiny_model(seed=i), tiny_tokenizer())) for i, name in enumerate(("old", "n<e>w"))}


@pytest.fixture(scope="module")
def both(models: dict[str, Workbench]) -> ModelEvaluations:
    return looprop.evaluate(models, TEXTS[:3], ["loo", "cp-lrp"])


def numbers(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(own["example"], own["method"], own["loo-r"], own["delta"], own["scores"]) for own in rows]


def test_each_model_is_evaluated_as_if_alone(both: ModelEvaluations, models: dict[str, Workbench]) -> None:
    assert list(both) == ["old", "n<e>w"]
    for name, bench in models.items():
        alone = looprop.evaluate(bench, TEXTS[:3], ["loo", "cp-lrp"])
        assert numbers(both[name].rows) == numbers(alone.rows)
        assert both[name].about["model"] == name
    assert all(own["loo-r"] == pytest.approx(1.0) for name in both for own in both[name].rows if own["method"] == "loo")


def test_tables_of_several_models_name_each(both: ModelEvaluations, tmp_path: Path) -> None:
    columns, rows = both.table
    assert [column.name for column in columns][:2] == ["method", "model"]
    assert {(own[0], own[1]) for own in rows} == {(m, name) for m in ("loo", "cp-lrp") for name in both}
    beside, cells = both.beside
    assert [column.name for column in beside] == ["method", "old", "n<e>w"]
    assert [own[0] for own in cells] == ["loo", "cp-lrp"]
    for place, name in enumerate(both, start=1):
        assert cells[1][place].value == both[name]["cp-lrp"].metrics["loo-r-no-special"].mean  # type: ignore[union-attr]
    source = both.save(tmp_path / "models.html").read_text(encoding="utf-8")
    assert source.count("n&lt;e&gt;w") >= 3
    assert "n<e>w" not in source
    assert "n&lt;e&gt;w" in both._repr_html_()


def test_several_models_are_saved_and_read_again(both: ModelEvaluations, tmp_path: Path) -> None:
    again = ModelEvaluations.load(both.save(tmp_path / "models"))
    assert again.to_dict() == both.to_dict()
    assert both.to_dict()["evaluations"]["old"]["schema"] == "looprop.evaluation"
    assert both.save(tmp_path / "x.json").is_file()
    (tmp_path / "models" / "models.json").write_text('{"old": "../../etc"}')
    with pytest.raises(DataError, match="must name the folders model-1"):
        ModelEvaluations.load(tmp_path / "models")


def test_models_that_cannot_be_told_apart_are_refused(models: dict[str, Workbench]) -> None:
    with pytest.raises(InputError, match="several models bring the same name"):
        looprop.evaluate(list(models.values()), TEXTS[:1], ["cp-lrp"])
    with pytest.raises(InputError, match="scores are those of one model"):
        looprop.evaluate(models, TEXTS[:1], ["cp-lrp"], scores={"mine": [[1.0] * 8]})
    with pytest.raises(InputError, match="no model"):
        looprop.evaluate({}, TEXTS[:1], ["cp-lrp"])
