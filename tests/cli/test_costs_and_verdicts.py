"""What is said of cost before long work, the options of methods, verdicts in the terminal, several models at once."""

import inspect
import json
import re
from pathlib import Path
from typing import get_args

import pytest

from cli.conftest import Run
from looprop.auditing.result import Audit, MethodVerdict, said_of, sign_of
from looprop.cli import evaluating, explaining
from looprop.measure import estimate_run, spoken, stated_cost
from looprop.methods.ig import Baseline
from looprop.methods.registry import CATALOGUE, as_written, make_method, method_class, options_of
from looprop.models.adapter import Removal
from looprop.workbench import load

KEPT = Path(__file__).parents[2] / "results" / "audit"
TEXT = "the film is good and it was not bad"


@pytest.mark.parametrize("name", CATALOGUE)
def test_options_are_those_of_the_constructor(name: str) -> None:
    given = inspect.signature(method_class(name)).parameters.values()
    expected = {p.name: None if p.default is None else as_written(p.default) for p in given}
    expected = {k: value for k, value in expected.items() if k not in CATALOGUE[name].fixed}
    assert {option.name: option.default for option in options_of(CATALOGUE[name])} == expected
    for option in options_of(CATALOGUE[name]):
        for choice in option.choices:
            made = make_method(f"{name}[{option.name}={choice}]") if (name, option.name) != ("lrp", "plan") else None
            assert made is None or made.name == name, "what is said to be allowed is"


def test_choices_are_all_that_there_are() -> None:
    options = {option.name: option for option in options_of(CATALOGUE["ig"])}
    assert options["baseline"].choices == get_args(Baseline)
    assert str(options["steps"]) == "steps=50"
    (removal,) = (option for option in options_of(CATALOGUE["loo"]) if option.name == "removal")
    assert removal.choices == get_args(Removal)
    assert str(removal).startswith("removal (unset; attention-mask, zero")


def test_methods_lists_options_with_defaults(looprop: Run) -> None:
    shown = " ".join(looprop("methods").stdout.split())
    assert "steps=50, baseline=zero (or pad, mask), keep_special=false" in shown
    found = json.loads(looprop("methods", "--json").stdout)["methods"]
    by_name = {own["name"]: {option["name"]: option for option in own["options"]} for own in found}
    assert by_name["ig"]["steps"] == {"name": "steps", "default": "50", "choices": []}
    assert by_name["rollout"]["residual"]["default"] == "true"
    assert by_name["pa-lrp"] == {}


def test_a_time_as_one_says_it() -> None:
    assert [spoken(s) for s in (0.4, 59.6, 90.0, 3599.0, 7200.0)] == ["0 s", "60 s", "2 min", "60 min", "2.0 h"]


def test_an_explanation_says_its_cost_before_it_is_long(
    looprop: Run, classifier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = looprop("explain", TEXT, "--model", classifier, "-m", "ig")
    assert "forward passes (" not in quick.stderr, "short work is not announced"
    monkeypatch.setattr(explaining, "LONG", 0.0)
    said = looprop("explain", TEXT, "--model", classifier, "-m", "ig", "-m", "loo")
    assert said.stderr.startswith("at most 163 forward passes (ig 151, loo 12), about ")
    few = looprop("explain", TEXT, "--model", classifier, "-m", "loo")
    assert "forward passes (" not in few.stderr


def test_an_evaluation_says_its_cost_before_it_is_long(
    looprop: Run, classifier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{TEXT}\n" * 1 + "the film\ngood and bad and good\n", encoding="utf-8")
    arguments = ("evaluate", str(texts), "--model", classifier, "-m", "cp-lrp", "-m", "loo")
    assert "3 texts by 2 methods" not in looprop(*arguments).stderr
    monkeypatch.setattr(evaluating, "LONG", 0.0)
    # The text of middling length has 7 tokens: leave-one-out 7, cp-lrp 3, two curves of 6 steps for each method.
    assert (
        f"3 texts by 2 methods: at most {3 * (7 + 3 + 2 * 6 * 2)} forward passes, about " in looprop(*arguments).stderr
    )


def test_an_estimate_of_a_run_is_a_bound(classifier: str) -> None:
    from looprop.evaluation import Setup, Task, evaluate_example

    bench = load(classifier)
    methods = [make_method(name) for name in ("loo", "cp-lrp", "ig[steps=3]")]
    subject = bench.subject(TEXT)
    found = estimate_run(subject, methods, curves=True, texts=1)
    setup = Setup(tuple(methods))
    fresh = bench.subject(TEXT)
    rows = evaluate_example(bench.adapter, Task("a", TEXT), setup)
    spent = sum(row["cost"] for row in rows) + 2 * (len(fresh.features) - 1) * len(methods)
    assert spent <= found.passes + 1e-9
    assert stated_cost(subject, methods[2]) == (10.0, False)
    assert found.at_most


def test_several_models_in_one_command(looprop: Run, classifier: str, tmp_path: Path) -> None:
    from tiny import tiny_classifier

    other = tmp_path / "other"
    for part in tiny_classifier():
        part.save_pretrained(other)
    texts = tmp_path / "texts.txt"
    texts.write_text(f"{TEXT}\nthe film is good\n", encoding="utf-8")
    page = tmp_path / "models.html"
    arguments = ("evaluate", str(texts), "-m", "loo", "-m", "cp-lrp", "--model", classifier, "--model", str(other))
    result = looprop(*arguments, "--html", str(page))
    assert result.exit_code == 0, result.output
    assert Path(classifier).name in result.stdout
    assert "other" in page.read_text(encoding="utf-8")
    said = json.loads(looprop(*arguments, "--json").stdout)
    assert said["schema"] == "looprop.evaluations"
    assert len(said["evaluations"]) == 2


def test_nothing_blind_gets_a_tick() -> None:
    same = MethodVerdict("invariant", "the same explanation under all 10 rewrites")
    assert sign_of("loo", same) == "✓"
    assert sign_of("random", same) == "–"
    assert sign_of("random[seed=3]", same) == "–"
    blind = MethodVerdict("invariant", "the same", ("hardly looks at the model: its explanation stays",))
    assert sign_of("rollout", blind) == "–"
    assert said_of("rollout", blind) == "– invariant, but blind"
    assert said_of("x", MethodVerdict("depends on the writing", "another")) == "✗ depends on the writing"
    assert sign_of("mine", same) == "✓"


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.json")), ids=lambda path: path.stem)
def test_random_scores_have_no_tick_on_the_pages_of_kept_audits(path: Path, tmp_path: Path) -> None:
    audit = Audit.load(path)
    source = audit.save(tmp_path / "audit.html").read_text(encoding="utf-8")
    assert "top token" not in source, "a product has none"
    if "random" in audit.methods:
        assert re.search(r">– invariant, but blind</td><td [^>]*>random</td>", source)


def test_an_audit_says_its_verdicts_in_the_terminal(looprop: Run) -> None:
    result = looprop("audit", "product", "-m", "loo", "-m", "attnlrp", "-m", "random", "--no-checks")
    lines = result.stdout.splitlines()
    assert any(line.startswith("✓ loo: ") for line in lines)
    assert any(line.startswith("✗ attnlrp: ") for line in lines)
    assert any(line.startswith("– random: ") for line in lines)
    assert "but it is blind to the model" in " ".join(result.stdout.split())


def test_a_report_says_its_verdicts_in_the_terminal(looprop: Run, tmp_path: Path) -> None:
    run = Path(__file__).parents[2] / "results" / "softmax"
    result = looprop("report", str(run), "--out", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    assert "does not hold: the softmax rule conserves relevance locally (uniform logits" in result.stderr
