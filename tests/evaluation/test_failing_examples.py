"""One example that fails, in whatever way, is a row with its error; the others are measured as if it were not there."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import looprop
from evaluation.tiny import TEXTS, save_tiny, tiny_model, tiny_tokenizer
from looprop.errors import DataError
from looprop.evaluation import METRICS
from looprop.inputs.examples import Dataset, Example
from looprop.running import run_missing
from looprop.running.store import open_store
from looprop.study import read_run, reproduce
from looprop.workbench import Workbench

GOOD = TEXTS[:2]
BAD = "dull dull dull"
SPEC = """
name: own
kind: texts
question: "what fails?"
data: {own: {}}
methods: [loo, cp-lrp, random]
metrics: [loo-r, morf]
"""


class Panic(BaseException):
    """As libraries written in Rust raise it: no Exception."""


def fragile(error: BaseException | None, *, answer: float = 0.0) -> Workbench:
    """A model that raises on a text in which "dull" stands three times, or answers that number."""
    model = tiny_model()
    dull = tiny_tokenizer().convert_tokens_to_ids("dull")
    whole = model.bert.forward

    def forward(input_ids: Tensor | None = None, **more: Any) -> Any:
        bad = input_ids is not None and bool((input_ids == dull).sum(-1).ge(3).any())
        if bad and error is not None:
            raise error
        output = whole(input_ids=input_ids, **more)
        if bad:
            output.pooler_output = torch.full_like(output.pooler_output, answer)
        return output

    model.bert.forward = forward
    return looprop.load((model, tiny_tokenizer()))


ERRORS = [
    IndexError("index out of range in self"),
    MemoryError("no room"),
    RecursionError("too deep"),
    UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed"),
    Panic("the tokenizer panicked"),
    StopIteration("early"),
    ValueError("so \ud800 so"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_of_any_class_in_the_model_is_a_row(error: BaseException, tmp_path: Path) -> None:
    found = looprop.evaluate(fragile(error), [GOOD[0], BAD, GOOD[1]], ["cp-lrp", "random"])
    alone = looprop.evaluate(fragile(None), GOOD, ["cp-lrp", "random"])
    failed = [row for row in found.rows if row["example"] == "1"]
    # Either as it was raised, or as a ModelError that names it.
    named = "memory runs out" if isinstance(error, MemoryError) else type(error).__name__
    assert [named in row["error"] for row in failed] == [True, True]
    assert all(math.isnan(row[metric]) for row in failed for metric in METRICS)
    others = [row for row in found.rows if row["example"] != "1"]
    for own, wanted in zip(others, alone.rows, strict=True):
        assert own["scores"] == wanted["scores"]
        assert own["loo"] == wanted["loo"]
    found.save(tmp_path / "saved")
    assert len(looprop.evaluation.Evaluation.load(tmp_path / "saved").rows) == len(found.rows)


@pytest.mark.parametrize("answer", [math.nan, math.inf])
def test_answers_that_are_no_numbers_are_rows_with_errors(answer: float) -> None:
    found = looprop.evaluate(fragile(None, answer=answer), [GOOD[0], BAD], ["cp-lrp", "random"])
    assert [bool(row["error"]) for row in found.rows] == [False, False, True, True]


@pytest.mark.parametrize("item", ["so \ud800 so", "", " ", 3, None, ("a", 3), b"bytes", "\x00"])
def test_texts_that_are_none_are_rows_with_errors(item: Any) -> None:
    found = looprop.evaluate(fragile(None), [item, *GOOD], ["random"], ["loo-r"])
    assert [bool(row["error"]) for row in found.rows][1:] == [False, False]
    assert found.rows[0]["error"] or item == "\x00"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_what_is_meant_to_stop_a_run_does(stop: type[BaseException]) -> None:
    with pytest.raises(stop):
        looprop.evaluate(fragile(stop()), [GOOD[0], BAD], ["random"])


def test_a_run_with_failing_texts_is_finished_and_they_can_be_retried(tmp_path: Path) -> None:
    texts = ["so \ud800 so", *GOOD, BAD]
    (tmp_path / "own.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in texts))
    (tmp_path / "own.yaml").write_text(SPEC)
    model = save_tiny(tmp_path / "model")
    options = {"data": str(tmp_path / "own.jsonl"), "model": str(model), "progress": False}
    whole = reproduce(tmp_path / "own.yaml", out=tmp_path / "run", **options)
    assert whole.finished
    failed = {row["example"] for row in whole.rows if row["error"]}
    assert len(failed) == 1, "the first text"
    reproduce(tmp_path / "own.yaml", out=tmp_path / "run", **options)
    assert len(read_run(tmp_path / "run").manifest["sessions"]) == 2
    times = {row["example"]: row["seconds"] for row in whole.rows if row["method"] == "loo"}
    again = reproduce(tmp_path / "own.yaml", out=tmp_path / "run", retry_failed=True, **options)
    kept = {row["example"]: row["seconds"] for row in again.rows if row["method"] == "loo" and not row["error"]}
    assert kept.items() <= times.items(), "only what failed is computed again"
    assert {row["example"] for row in again.rows if row["error"]} == failed


class Named:
    """A task."""

    def __init__(self, id: str) -> None:
        self.id = id


def test_failed_rows_are_replaced_when_a_retry_succeeds(tmp_path: Path) -> None:
    tasks = [Named("a"), Named("b"), Named("c")]
    computed: list[str] = []

    def work(task: Named) -> list[dict]:
        computed.append(task.id)
        return [{"example": task.id, "error": "no room" if task.id == "b" and len(computed) < 4 else ""}]

    for retry, expected in ((False, "abc"), (False, "abc"), (True, "abcb"), (True, "abcb")):
        with open_store(tmp_path, {"spec": "x"}) as store:
            run_missing(store, tasks, work, progress=False, retry=retry)
            assert "".join(computed) == expected
            assert [row["example"] for row in store.rows(["a", "b", "c"])] == ["a", "b", "c"]
    with open_store(tmp_path, {"spec": "x"}) as store:
        assert [row["error"] for row in store.rows()] == ["", "", ""]


def test_work_that_fails_by_itself_does_not_keep_the_others_from_being_done(tmp_path: Path) -> None:
    def work(task: Named) -> list[dict]:
        if task.id == "b":
            raise ZeroDivisionError("by hand")
        return [{"example": task.id}]

    with open_store(tmp_path, {"spec": "x"}) as store:
        with pytest.raises(looprop.errors.ShardError, match=r"1 example failed, .*b: ZeroDivisionError: by hand"):
            run_missing(store, [Named("a"), Named("b"), Named("c")], work, progress=False)
        assert store.missing("abc") == ["b"]
        assert store.manifest["sessions"][-1]["failed"] == {"b": "ZeroDivisionError: by hand"}


@pytest.mark.parametrize("ids", [["same", "same"], ["a", "b\ud800"]])
def test_ids_that_are_not_their_own_are_refused(ids: list[str]) -> None:
    examples = tuple(Example(id, text) for id, text in zip(ids, GOOD, strict=True))
    data = Dataset("own", "all", examples, labels=(), total=2, hash="")
    with pytest.raises(DataError, match=r"ids of their own, got 'same' twice|must be Unicode"):
        looprop.evaluate(fragile(None), data, ["random"])


@pytest.mark.parametrize("ids", [["../../climbed", "/absolute"], ["x" * 5000, "new\nline"], ["nul\x00", "ü"]])
def test_ids_are_no_places(ids: list[str], tmp_path: Path) -> None:
    def work(task: Named) -> list[dict]:
        return [{"example": task.id}]

    with open_store(tmp_path / "deep" / "run", {"spec": "x"}) as store:
        run_missing(store, [Named(id) for id in ids], work, progress=False)
        assert [row["example"] for row in store.rows(ids)] == ids
    outside = [
        path for path in tmp_path.rglob("*") if path.is_file() and (tmp_path / "deep" / "run") not in path.parents
    ]
    assert not outside
