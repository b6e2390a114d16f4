"""`looprop evaluate --out`, stopped and given again."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from evaluation.tiny import TEXTS, save_tiny
from looprop.cli.main import app
from looprop.evaluation import Evaluation
from looprop.evaluation.example import evaluate_framed


def plain(folder: Path) -> str:
    return repr([{**row, "seconds": 0} for row in Evaluation.load(folder).rows])


def test_a_stopped_evaluation_goes_on_with_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    model = str(save_tiny(tmp_path / "model"))
    calls: list[str] = []
    last = -1

    def measured(adapter: Any, task: Any, *, setup: Any) -> Any:
        if len(calls) == last:
            raise KeyboardInterrupt
        calls.append(task.id)
        return evaluate_framed(adapter, task, setup)

    monkeypatch.setattr("looprop.evaluation.evaluate.evaluate_framed", measured)

    def given(out: str, *more: str) -> int:
        command = ["evaluate", str(tmp_path / "texts.txt"), "--model", model, "--method", "loo", "--method", "cp-lrp"]
        calls.clear()
        return CliRunner().invoke(app, [*command, "--out", str(tmp_path / out), *more]).exit_code

    assert given("whole") == 0
    every = list(calls)
    last = 3
    assert given("out") == 130
    last = -1
    assert given("out", "--seed", "1") == 0
    assert calls == every, "rows of other settings are not taken"
    last = 3
    assert given("out") == 130
    assert (tmp_path / "out.unfinished").is_dir()
    last = -1
    assert given("out") == 0
    assert calls == every[3:], "nothing is computed twice"
    assert not (tmp_path / "out.unfinished").exists()
    assert plain(tmp_path / "out") == plain(tmp_path / "whole")
    assert (tmp_path / "out/examples.json").read_bytes() == (tmp_path / "whole/examples.json").read_bytes()
