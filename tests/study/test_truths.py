"""Both references on a tiny model: against literal loops, known and computed, and what is said of them."""

import json
import math
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.truths.claims import closeness
from experiments.truths.measuring import METRICS
from scipy import stats

from evaluation.tiny import TEXTS
from looprop.errors import DataError
from looprop.models.loading import load_adapter
from looprop.models.subject import bind
from looprop.removal import SetFunction
from looprop.study import parse_spec, read_run, reproduce, write_report
from looprop.study.report.writing import markdown_text
from looprop.study.run import Run

SPEC = """
name: own
kind: truths
question: which is it closer to?
data: {texts.txt: {}}
methods: [loo, shapley, alone, both-ends, attnlrp, cp-lrp, random]
plans: by-layer
metrics: [loo-r-no-special, shapley-r-no-special]
"""
SHORT = [0, 1, 3, 5]
"""Texts of at most seven words, whose orders can be counted."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("truths")
    (folder / "own.yaml").write_text(SPEC, encoding="utf-8")
    (folder / "texts.txt").write_text("\n".join(TEXTS[i] for i in SHORT), encoding="utf-8")
    return folder / "own.yaml", folder / "texts.txt"


@pytest.fixture(scope="module")
def run(model_folder: Path, places: tuple[Path, Path]) -> Run:
    spec, texts = places
    return reproduce(spec, model=str(model_folder), data=str(texts), out=spec.parent / "run", progress=False)


def by_example(run: Run) -> list[dict[str, Any]]:
    """The rows of each text by method, in the order of the texts."""
    found: dict[str, dict[str, Any]] = {}
    for row in run.rows:
        found.setdefault(row["example"], {})[row["method"]] = row
    return list(found.values())


def literal(model_folder: Path, text: str) -> tuple[list[float], list[float]]:
    """Leave-one-out and the Shapley values of the words, [CLS] and [SEP] staying, by their definitions."""
    subject = bind(load_adapter(str(model_folder)), text)
    value, count = SetFunction(subject), len(subject.features) - 2
    known: dict[tuple[bool, ...], float] = {}

    def f(*kept: bool) -> float:
        if kept not in known:
            known[kept] = float(value(np.array([[True, *kept, True]]))[0])
        return known[kept]

    loo = [f(*[True] * count) - f(*(j != i for j in range(count))) for i in range(count)]
    shares = np.zeros(count)
    for order in permutations(range(count)):
        kept = [False] * count
        for player in order:
            before = f(*kept)
            kept[player] = True
            shares[player] += f(*kept) - before
    return loo, (shares / math.factorial(count)).tolist()


def test_references_and_r_are_those_of_their_definitions(run: Run, model_folder: Path) -> None:
    assert not [row["error"] for row in run.rows if row["error"]]
    for number, rows in zip(SHORT, by_example(run), strict=True):
        loo, shapley = literal(model_folder, TEXTS[number])
        for method, row in rows.items():
            np.testing.assert_allclose(row["loo"], loo, atol=1e-5)
            np.testing.assert_allclose(row["shapley"], shapley, atol=1e-5)
            for metric, reference in zip(METRICS, (loo, shapley), strict=True):
                wanted = stats.pearsonr(row["scores"], reference).statistic
                assert row[metric] == pytest.approx(wanted, abs=1e-3), (method, metric)
        np.testing.assert_allclose(rows["loo"]["scores"], loo, atol=1e-5)
        both = (np.array(rows["alone"]["scores"]) + loo) / 2
        np.testing.assert_allclose(rows["both-ends"]["scores"], both, atol=1e-5)


def test_methods_are_those_asked_for_and_one_for_every_layer(run: Run) -> None:
    assert list(by_example(run)[0]) == [
        *("loo", "shapley", "alone", "both-ends", "attnlrp", "cp-lrp", "random"),
        *("lrp[cp=1]", "lrp[cp=2]", "lrp[cp=3]"),
    ]


def line(rows: dict[str, Any], model_folder: Path, text: str, **changes: Any) -> str:
    """A line of references from the rows of a text, as another program would write it."""
    subject = bind(load_adapter(str(model_folder)), text)
    row = rows["attnlrp"]
    known = {
        "text": text,
        "target": int(row["target"]),
        "groups": [list(group) for group in subject.features],
        "stays": [0, len(subject.features) - 1],
        "shapley": [0.0, *row["shapley"], 0.0],
        "errors": [0.0] * len(subject.features),
        "loo": [0.0, *row["loo"], 0.0],
        "output": row["output"],
        "nothing": row["nothing"],
        "evaluations": 7,
    }
    return json.dumps({**known, **changes})


def test_known_references_are_taken_over_and_texts_without_are_left_out(
    run: Run, model_folder: Path, places: tuple[Path, Path], tmp_path: Path
) -> None:
    examples = by_example(run)
    file = tmp_path / "known.jsonl"
    file.write_text("\n".join(line(examples[i], model_folder, TEXTS[SHORT[i]]) for i in (0, 2)), encoding="utf-8")
    spec, texts = places
    again = reproduce(
        spec, model=str(model_folder), data=str(texts), references=file, out=tmp_path / "run", progress=False
    )
    assert again.computed == {examples[i]["loo"]["example"] for i in (0, 2)}
    assert "subset: 2 of 4" in again.title
    assert again.manifest["sessions"][-1]["references"]["file"] == "known.jsonl"
    for own, before in zip(by_example(again), (examples[0], examples[2]), strict=True):
        assert own["shapley"]["cost"] == 7
        for method, row in own.items():
            assert row[METRICS[1]] == pytest.approx(before[method][METRICS[1]], abs=1e-5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output": 99.0}, "the known references are not of this model and text: off by"),
        ({"nothing": 99.0}, "the known references are not of this model and text"),
        ({"shapley": [9.0] * 8}, "the known references are not of this model and text"),
        ({"target": 1}, "the known references are of 6 features and target 1, here are 6 and target 0"),
        ({"groups": [[i + 1] for i in range(8)]}, "the known references are of 6 features"),
    ],
)
def test_references_of_something_else_are_found_out(
    run: Run, model_folder: Path, places: tuple[Path, Path], tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    rows = by_example(run)[0]
    if "target" in changes:
        other = 1 - int(rows["loo"]["target"])
        changes, message = {"target": other}, f"target {other}, here are 6 and target {1 - other}"
    (tmp_path / "known.jsonl").write_text(line(rows, model_folder, TEXTS[0], **changes), encoding="utf-8")
    spec, texts = places
    wrong = reproduce(
        spec,
        model=str(model_folder),
        data=str(texts),
        references=tmp_path / "known.jsonl",
        out=tmp_path / "run",
        progress=False,
    )
    assert all(message in row["error"] for row in wrong.rows)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "known.jsonl, line 1"),
        ("[]", "no line of references"),
        ('{"text": "a"}', "no line of references: .*target"),
    ],
)
def test_a_file_that_holds_no_references_is_refused(
    model_folder: Path, places: tuple[Path, Path], tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "known.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        reproduce(
            places[0],
            model=str(model_folder),
            data=str(places[1]),
            references=tmp_path / "known.jsonl",
            out=tmp_path / "run",
            progress=False,
        )


@pytest.mark.parametrize("experiment", ["planted", "softmax", "remedy"])
def test_other_kinds_take_no_references(experiment: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="takes no references"):
        reproduce(experiment, references=tmp_path / "x", out=tmp_path / "run", progress=False)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[loo, shapley,", "[shapley,", "methods must hold loo and one form of shapley"),
        ("[loo, shapley,", "[loo,", "methods must hold loo and one form of shapley"),
        ("[loo-r-no-special, ", "[loo-r, ", "has the metrics loo-r-no-special, shapley-r-no-special and no others"),
        ("kind: truths", "kind: texts", "features are for experiments of kind 'truths'"),
    ],
)
def test_a_specification_names_what_is_wrong(old: str, new: str, message: str) -> None:
    text = SPEC.replace("{texts.txt: {}}", "{texts.txt: {features: word}}")
    assert old in text
    with pytest.raises(DataError, match=message):
        parse_spec(text.replace(old, new), where="x")


def _rows(differences: list[float]) -> list[dict[str, Any]]:
    """One method whose r to Shapley exceeds its r to leave-one-out by these."""
    return [
        {"example": f"e{i}", "method": m, METRICS[0]: 0.5, METRICS[1]: 0.5 + d}
        for i, d in enumerate(differences)
        for m in ("a", "b")
    ]


def test_closeness_is_a_corrected_sign_flip_test() -> None:
    differences = [0.1, 0.2, 0.05, 0.3, 0.15, 0.2, 0.1, 0.05]
    found = closeness(_rows(differences), ["a", "b"])
    # All of one sign: of the 2^8 patterns only two are as extreme; two methods are asked, so twice that.
    assert found["a"].adjusted_p == pytest.approx(2 * 2 / 2**8)
    assert found["a"].decided is True
    assert closeness(_rows([-d for d in differences]), ["a", "b"])["a"].decided is False
    assert closeness(_rows([0.1, -0.1, 0.2, -0.2]), ["a", "b"])["a"].decided is None


def test_the_report_answers_the_questions(run: Run) -> None:
    written = {path.name for path in write_report(run.folder)}
    assert {"report.html", "summary.json", "figure.png"} <= written
    report = (run.folder / "report.md").read_text(encoding="utf-8")
    assert "AttnLRP is closer to the Shapley value than to LOO" in report
    assert "CP-LRP in one layer" in report
    assert "texts in which no feature matters to LOO" in report


RESULTS = Path(__file__).parents[2] / "results"
KEPT = sorted(place.parent.name for place in RESULTS.glob("truths-*/manifest.json"))


@pytest.mark.parametrize("name", KEPT)
def test_a_committed_run_says_what_its_scores_say(name: str) -> None:
    run = read_run(RESULTS / name)
    assert len(run.computed) >= 5
    assert run.finished or run.title.endswith("(unfinished)")  # it says so, and the same command goes on with it
    for row in run.rows:
        gap, shares = row["output"] - row["nothing"], np.array(row["shapley"])
        assert shares.sum() == pytest.approx(gap, abs=1e-3 * max(1.0, np.abs(shares).sum()))  # shares add up
        if row["error"] or len(row["loo"]) < 3:
            continue
        for metric, reference in zip(METRICS, ("loo", "shapley"), strict=True):
            if not math.isnan(row[metric]):
                assert row[metric] == pytest.approx(stats.pearsonr(row["scores"], row[reference]).statistic, abs=1e-6)
    stated = {entry["method"]: entry for entry in json.loads((RESULTS / name / "summary.json").read_text())["summary"]}
    for method, entry in stated.items():
        for metric in METRICS:
            own = [row[metric] for row in run.rows if row["method"] == method]
            assert entry[metric] == pytest.approx(np.nanmean(own))
    report = (RESULTS / name / "report.md").read_text(encoding="utf-8")
    for claim in run.claims():
        assert f"| {claim.verdict} | {markdown_text(claim.claim)} |" in report
