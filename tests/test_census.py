"""The census of architectures: its committed table, the page made of it, and a sample of it run again."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from benchmarks.census import page, table
from benchmarks.census.__main__ import main
from benchmarks.census.cases import ways
from benchmarks.census.cells import NothingToHoldError, WrongError, cell_of, examine
from benchmarks.census.oracles import leave_one_out
from benchmarks.census.tiny import build

from looprop.errors import RuleError

RECORDS, VERSIONS = table.read()
SAMPLE = table.sample(RECORDS)

pinned = pytest.mark.skipif(
    transformers.__version__ != VERSIONS["transformers"],
    reason=f"the table is of transformers {VERSIONS['transformers']}: run `python -m benchmarks.census --compare`",
)


def test_nothing_is_wrong_and_nothing_crashes() -> None:
    bad = [
        f"{table.name_of(record)} {method}: {cell}"
        for record in RECORDS
        for method, cell in record["cells"].items()
        if cell["verdict"] not in ("ok", "refused", "none")
    ]
    assert bad == []


def test_every_refusal_says_what_is_in_the_way() -> None:
    reasons = {c["reason"] for r in RECORDS for c in r["cells"].values() if c["verdict"] == "refused"}
    assert all(len(reason) > 30 for reason in reasons), sorted(reasons, key=len)[:3]


@pinned
def test_the_table_holds_every_pair_of_the_library() -> None:
    assert [table.name_of(r) for r in RECORDS] == [f"{head}:{name}" for head, name, _ in table.pairs()]


def test_the_page_is_what_the_table_says() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.text(RECORDS, VERSIONS)


def test_the_sample_shows_every_head_and_verdict() -> None:
    assert len(SAMPLE) >= 60
    assert {r["head"] for r in SAMPLE} == set(table.HEADS)
    built = [record for record in RECORDS if record["cells"]]
    assert {r["route"] for r in SAMPLE} == {r["route"] for r in built}
    shown, wanted = (
        {(method, cell["verdict"]) for record in some for method, cell in record["cells"].items()}
        for some in (SAMPLE, built)
    )
    assert shown == wanted


@pinned
@pytest.mark.slow
@pytest.mark.parametrize("record", SAMPLE, ids=table.name_of)
def test_the_sample_answers_as_the_table_says(record: dict[str, Any]) -> None:
    found = examine(record["head"], record["architecture"], record["class"])
    assert table.regressions([record], [found]) == []


def _record(**verdicts: str) -> dict[str, Any]:
    cells = {method: {"verdict": verdict, "reason": ""} for method, verdict in verdicts.items()}
    return {"head": "CAUSAL_LM", "architecture": "one", "class": "One", "route": "load", "cells": cells}


@pytest.mark.parametrize(
    ("old", "new", "worse"),
    [
        ("ok", "ok", 0),
        ("ok", "refused", 1),
        ("ok", "wrong", 1),
        ("refused", "ok", 0),
        ("refused", "crash", 1),
        ("wrong", "crash", 0),
        ("none", "refused", 1),
    ],
)
def test_what_is_worse(old: str, new: str, worse: int) -> None:
    assert len(table.regressions([_record(loo=old)], [_record(loo=new)])) == worse


def test_a_model_that_cannot_be_run_any_more_is_worse() -> None:
    gone = {**_record(), "unbuilt": "ImportError"}
    assert len(table.regressions([_record(loo="ok")], [gone])) == 1


def test_a_new_architecture_is_worse_only_where_it_is_wrong() -> None:
    assert table.regressions([], [_record(loo="refused")]) == []
    assert len(table.regressions([], [_record(loo="wrong")])) == 1


def test_the_command_says_by_its_exit_whether_anything_is_worse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    some = ["--heads", "SEQUENCE_CLASSIFICATION", "--only", "bert", "fnet", "--processes", "1"]
    kept = tmp_path / "table.json"
    assert main([*some, "--out", str(kept)]) == 0
    assert main([*some, "--compare", str(kept)]) == 0
    assert "nothing is worse" in capsys.readouterr().out
    claimed = kept.read_text(encoding="utf-8").replace('"refused"', '"ok"')  # FNet has no attention
    kept.write_text(claimed, encoding="utf-8")
    assert main([*some, "--compare", str(kept)]) == 1
    assert "SEQUENCE_CLASSIFICATION:fnet rollout: was ok, is refused" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (WrongError("x"), "wrong"),
        (NothingToHoldError("x"), "none"),
        (RuleError("x"), "refused"),
        (KeyError("x"), "crash"),
    ],
)
def test_verdicts(error: Exception, verdict: str) -> None:
    def check(case: Any, subject: Any) -> str:
        raise error

    case = next(
        ways(
            "SEQUENCE_CLASSIFICATION", "bert", build("SEQUENCE_CLASSIFICATION", "bert", "BertForSequenceClassification")
        )
    )
    assert cell_of(check, case, case.subject()).verdict == verdict


def test_the_slow_way_of_leave_one_out_is_the_naive_loop() -> None:
    model = build("SEQUENCE_CLASSIFICATION", "bert", "BertForSequenceClassification")
    case = next(ways("SEQUENCE_CLASSIFICATION", "bert", model))
    subject = case.subject()
    ids, target = subject.encoded.inputs["input_ids"], subject.target.index[0]
    wanted = []
    with torch.no_grad():
        for i in range(ids.shape[1]):
            mask = torch.ones_like(ids)
            mask[0, i] = 0
            wanted.append(float(model(ids).logits[0, target] - model(ids, attention_mask=mask).logits[0, target]))
    np.testing.assert_allclose(leave_one_out(subject), wanted, atol=1e-6)


def test_most_models_are_held_to_something() -> None:
    """A slow way that says nothing of most models would hold nothing."""
    said = Counter(
        (method, "not held" in cell["reason"])
        for record in RECORDS
        for method, cell in record["cells"].items()
        if cell["verdict"] == "ok"
    )
    for method in ("loo", "rollout", "ig"):
        assert said[method, False] > 4 * said[method, True]
