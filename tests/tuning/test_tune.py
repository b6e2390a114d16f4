"""The search, held to what can be computed without it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import looprop
import tiny
from looprop.cli.main import app
from looprop.errors import InputError, UnknownNameError
from looprop.metrics.statistics import bootstrap_mean
from looprop.propagation.plan import Plan
from looprop.tuning.candidates import STARTS, Candidate, blocks, neighbours, with_layers
from looprop.tuning.result import Trial, Tuning
from looprop.tuning.tune import most_passes, tune

TEXTS = [
    f"{a} film was {b} and {c} {d}"
    for a, b, c, d in (
        ("the", "good", "not", "bad"),
        ("a", "bad", "very", "great"),
        ("this", "fun", "great", "it"),
        ("the", "not", "good", "fun"),
        ("it", "very", "bad", "movie"),
        ("a", "unbelievable", "is", "good"),
        ("this", "great", "was", "a"),
        ("the", "is", "the", "bad"),
        ("movie", "a", "fun", "not"),
        ("is", "good", "very", "this"),
    )
]


@pytest.fixture(scope="module")
def bench() -> looprop.Workbench:
    return looprop.load(tiny.tiny_classifier(dtype=torch.float64))


@pytest.fixture(scope="module")
def found(bench: looprop.Workbench) -> Tuning:
    return tune(bench, TEXTS, budget=24, seed=3)


def r_by_hand(bench: Any, places: Any, method: str, **options: Any) -> np.ndarray:
    """numpy's correlation of scores with leave-one-out, special tokens left out."""
    values = []
    for place in sorted(places):
        one, loo = bench.explain(TEXTS[place], method, **options), bench.explain(TEXTS[place], "loo")
        kept = ~np.array(one.special)
        values.append(np.corrcoef(one.scores[kept], loo.scores[kept])[0, 1])
    return np.array(values)


def test_what_is_reported_is_so_on_texts_that_chose_nothing(bench: Any, found: Tuning, tmp_path: Path) -> None:
    order = np.random.default_rng(3).permutation(len(TEXTS))
    place = found.save(tmp_path / "plan.yaml")
    tuned = r_by_hand(bench, order[5:], f"lrp[plan={place}]")
    usual = r_by_hand(bench, order[5:], found.standard)
    assert found.tuned.mean == pytest.approx(tuned.mean(), abs=1e-9)
    assert found.usual.mean == pytest.approx(usual.mean(), abs=1e-9)
    assert found.gain.mean == pytest.approx((tuned - usual).mean(), abs=1e-9)
    gain = bootstrap_mean(tuned - usual, seed=3)
    assert (found.gain.low, found.gain.high) == pytest.approx((gain.low, gain.high), abs=1e-9)


def test_the_best_of_what_was_tried_is_chosen_on_the_other_half(bench: Any, found: Tuning) -> None:
    order = np.random.default_rng(3).permutation(len(TEXTS))
    best = max(trial.r for trial in found.trials)
    own = r_by_hand(bench, order[:5], "lrp", plan=found.chosen.plan, readout=found.chosen.readout)
    assert own.mean() == pytest.approx(next(t.r for t in found.trials if t.what == str(found.chosen)), abs=1e-9)
    assert own.mean() >= best - 0.001  # a smaller step is not taken
    for trial in found.standards:
        if not trial.error:
            assert trial.r == pytest.approx(r_by_hand(bench, order[:5], trial.what).mean(), abs=1e-9)
    assert found.standard == max(found.standards, key=lambda trial: trial.r).what


def test_nothing_is_tried_twice_and_the_budget_holds(bench: Any, found: Tuning) -> None:
    names = [trial.what for trial in found.trials]
    assert len(set(names)) == len(names) <= 24
    assert names[: len(STARTS)] == [str(start) for start in STARTS]
    assert found.passes <= most_passes(bench, TEXTS, budget=24)


def test_a_seed_repeats_it(found: Tuning) -> None:
    fresh = looprop.load(tiny.tiny_classifier(dtype=torch.float64))
    assert tune(fresh, TEXTS, budget=24, seed=3).to_dict() == found.to_dict()
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()


def test_special_tokens_and_shapley(bench: Any) -> None:
    one = tune(bench, TEXTS[:8], budget=5, with_special=True, reference="shapley[samples=4]")
    assert one.about["reference"] == "shapley[samples=4]"
    assert len(one.trials) == 5
    assert one.stopped == "the budget of 5 plans is spent"


def test_verdicts() -> None:
    def made(values: list[float]) -> Tuning:
        gain = bootstrap_mean(values)
        about = {"reference": "loo", "reported": 4, "chosen_on": 4}
        trials = (Trial("attnlrp", 0.5),)
        return Tuning(Candidate(Plan()), "cp-lrp", gain, gain, gain, trials, trials, "why", about, 9.0)

    assert made([0.1, 0.2, 0.15, 0.1]).verdict.startswith("gain over cp-lrp: +0.138")
    assert made([0.1, -0.2, 0.15, -0.1]).verdict.startswith("no gain over cp-lrp: -0.013")
    assert made([0.1, -0.2, 0.15, -0.1]).verdict.endswith("use cp-lrp")
    assert not made([0.0, 0.0, 0.0, 0.0]).gains
    assert "no gain" in str(made([float("nan")] * 4))  # nothing to say is no gain


def test_candidates_say_what_they_are() -> None:
    one = with_layers(Candidate(Plan()), 2, 3, "cp", 4)
    assert str(one) == "attention=attnlrp in 1, cp in 2-3, attnlrp in 4"
    assert with_layers(one, 1, 4, "cp", 4).plan == Plan(attention="cp")
    assert str(Candidate(Plan(temperature=2.0), "sum")) == "temperature=2.0, readout=sum"


@pytest.mark.parametrize("layers", [1, 2, 6, 30])
def test_steps_differ_in_one_respect_and_do_not_grow_with_depth(layers: int) -> None:
    start, count = Candidate(Plan()), 0
    for step in neighbours(layers):
        others = {other.key for other in step(start)} - {start.key}
        count += len(others)
        for other in step(start):
            whole = {**other.plan.to_dict(), "readout": other.readout}
            changed = {k for k, v in whole.items() if v != {**start.plan.to_dict(), "readout": "word"}.get(k)}
            assert len(changed) <= 1
    assert count <= 60
    parts = blocks(layers, 12)
    assert [n for low, high in parts for n in range(low, high + 1)] == list(range(1, layers + 1))


def test_bad_options(bench: Any) -> None:
    with pytest.raises(InputError, match="at least 8 texts, half of which choose, got 3"):
        tune(bench, TEXTS[:3])
    with pytest.raises(InputError, match="budget must be an integer >= 5, got 2"):
        tune(bench, TEXTS, budget=2)
    with pytest.raises(UnknownNameError, match="unknown reference 'lo'; did you mean 'loo'"):
        tune(bench, TEXTS, reference="lo")


def test_on_the_command_line(tmp_path: Path) -> None:
    folder, texts, plan = tmp_path / "model", tmp_path / "texts.txt", tmp_path / "plan.yaml"
    for part in tiny.tiny_classifier():
        part.save_pretrained(folder)
    texts.write_text("\n".join(TEXTS))
    asked = ["tune", "--model", str(folder), "--data", str(texts), "--budget", "6", "--output", str(plan)]
    shown = CliRunner().invoke(app, asked)
    assert shown.exit_code == 0, shown.output
    assert "at most" in shown.stderr
    assert "texts that chose nothing" in shown.stdout
    again = CliRunner().invoke(app, [*asked, "--json"])
    assert json.loads(again.stdout)["schema"] == "looprop.tuning"
    used = CliRunner().invoke(app, ["explain", TEXTS[0], "--model", str(folder), "-m", f"lrp[plan={plan}]"])
    assert used.exit_code == 0, used.output
    wrong = CliRunner().invoke(app, [*asked[:-1], str(tmp_path / "plan.txt")])
    assert wrong.exit_code == 1
    assert "must end in .yaml" in wrong.stderr
