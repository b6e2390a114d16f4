"""`methods`, `demo`, `evaluate`, `reproduce`, `report`: what they print and write."""

import json
from pathlib import Path

import numpy as np
import pytest

from browser import Browser
from cli.conftest import Run
from looprop.evaluation.evaluate import evaluate, measured_explanations
from looprop.evaluation.result import Evaluation
from looprop.inputs.examples import Example, make_dataset
from looprop.methods.registry import CATALOGUE
from looprop.workbench import load

TEXTS = ["the film is not good", "a very bad movie", "unbelievable fun"]


@pytest.fixture
def texts(tmp_path: Path) -> str:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return str(path)


def test_methods_lists_all_of_them(looprop: Run) -> None:
    shown = looprop("methods")
    assert shown.exit_code == 0
    for name, entry in CATALOGUE.items():
        line = next(line for line in shown.stdout.splitlines() if line.split()[0] == name)
        assert entry.cost in line
    said = json.loads(looprop("methods", "--json").stdout)
    assert [method["name"] for method in said["methods"]] == list(CATALOGUE)


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["-h"], ["explain", "--help"], ["evaluate", "-h"]])
def test_help_and_version(looprop: Run, arguments: list[str]) -> None:
    result = looprop(*arguments)
    assert result.exit_code == 0
    assert "looprop" in result.stdout


def test_tune_says_what_to_use_instead(looprop: Run) -> None:
    result = looprop("tune", "--data", "demo", "--budget", "20")
    assert result.exit_code == 1
    assert result.output.startswith("looprop: `looprop tune` was removed")
    assert "`looprop evaluate DATA" in result.output
    assert result.output.count("\n") == 1
    assert "tune" not in looprop("--help").output


def test_no_arguments_show_the_help(looprop: Run) -> None:
    assert "Usage" in looprop().output


def test_completion_can_be_shown(looprop: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert "LOOPROP_COMPLETE" in looprop("--show-completion", "bash").output


def test_evaluate_prints_the_summary_that_python_gives(
    looprop: Run, classifier: str, texts: str, tmp_path: Path
) -> None:
    arguments = (
        "evaluate",
        texts,
        "--model",
        classifier,
        "-m",
        "loo",
        "-m",
        "cp-lrp",
        "--metric",
        "loo-r",
        "--metric",
        "delta",
    )
    page, folder = tmp_path / "page.html", tmp_path / "out"
    said = json.loads(looprop(*arguments, "--json", "--html", str(page), "--out", str(folder)).stdout)
    ours = evaluate(load(classifier), TEXTS, methods=["loo", "cp-lrp"], metrics=["loo-r", "delta"])
    for found, summary in zip(said["summary"], ours.summary, strict=True):
        assert found["method"] == summary.method
        assert found["loo-r"] == pytest.approx(summary.metrics["loo-r"].mean, abs=1e-5)
    assert Evaluation.load(folder).methods == ["loo", "cp-lrp"]
    assert "cp-lrp" in page.read_text(encoding="utf-8")
    table = looprop(*arguments).stdout
    assert f"{ours['cp-lrp'].metrics['loo-r'].mean:.2f}".replace("-", "−") in table


def test_evaluate_draws_a_subset_and_says_so(looprop: Run, classifier: str, texts: str) -> None:
    shown = looprop("evaluate", texts, "--model", classifier, "-m", "random", "--limit", "2").stdout
    assert "subset: 2 of 3" in shown
    assert (
        "subset: 2 of 24" in looprop("evaluate", "demo", "--model", classifier, "-m", "random", "--limit", "2").stdout
    )


def test_a_method_that_fails_somewhere_is_named(looprop: Run, classifier: str, texts: str) -> None:
    result = looprop("evaluate", texts, "--model", classifier, "-m", "random", "-m", "lrp[cp=7]")
    assert result.exit_code == 0
    assert "lrp[cp=7] (3)" in result.stderr


def test_methods_are_sorted_by_the_first_metric(classifier: str) -> None:
    found = evaluate(load(classifier), TEXTS, methods=["random", "loo", "cp-lrp"]).by_agreement
    values = [summary.metrics["loo-r"].mean for summary in found]
    assert values == sorted(values, reverse=True)
    assert found[0].method == "loo"


def test_explanations_come_back_from_rows(classifier: str) -> None:
    bench = load(classifier)
    data = make_dataset("own", "all", [Example(str(i), text) for i, text in enumerate(TEXTS)])
    result = evaluate(bench, data, methods=["loo", "cp-lrp"])
    for text, explanations in zip(TEXTS, measured_explanations(bench, data, result), strict=True):
        for explanation in explanations:
            again = bench.explain(text, explanation.method)
            assert explanation.features == again.features
            assert explanation.cost == again.cost
            np.testing.assert_allclose(explanation.scores, again.scores, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.browser
def test_demo_writes_a_page_with_every_method_and_sentence(
    looprop: Run, classifier: str, tmp_path: Path, browser: Browser
) -> None:
    page = tmp_path / "demo.html"
    result = looprop("demo", "--model", classifier, "--html", str(page))
    assert result.exit_code == 0, result.output
    for entry in CATALOGUE.values():
        assert any(line.startswith(entry.example or entry.name) for line in result.stdout.splitlines())
    browser.open(page)
    assert browser.errors == []
    assert browser.evaluate("document.querySelectorAll('table.data tbody tr').length") == len(CATALOGUE)
    assert browser.evaluate("document.querySelectorAll('.example').length") == 24
    wide = browser.evaluate("(t => t.scrollWidth > t.clientWidth)(document.querySelector('.scroll'))")
    assert not wide, "the table of the demo is cut off at the width of a laptop"


def test_reproduce_and_report(looprop: Run, classifier: str, texts: str, tmp_path: Path) -> None:
    spec = tmp_path / "own.yaml"
    spec.write_text(
        "name: own\nkind: texts\nquestion: Does it run?\nmethods: [loo, cp-lrp]\nmetrics: [loo-r, loo-r-no-special, "
        "morf, lerf, delta]\n"
        "data:\n  texts.txt: {}\n",
        encoding="utf-8",
    )
    run = tmp_path / "run"
    arguments = ("reproduce", str(spec), "--model", classifier, "--data", texts, "--out", str(run))
    result = looprop(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout.strip() == str(run)
    assert (run / "report.html").is_file()
    assert looprop(*arguments, "--no-report").exit_code == 0
    other = tmp_path / "report"
    assert looprop("report", str(run), "--out", str(other)).exit_code == 0
    assert (other / "report.html").read_bytes() == (run / "report.html").read_bytes() or (other / "report.md").is_file()
