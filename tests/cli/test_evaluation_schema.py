"""The published schema of evaluations, and that what is printed and written fits it."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from looprop.evaluation import Evaluation
from looprop.metrics import metric_names

PUBLISHED = json.loads((Path(__file__).parents[2] / "docs/schema/evaluation.schema.json").read_text(encoding="utf-8"))
METRICS = ("loo-r", "delta")


def make(**changes: Any) -> Evaluation:
    row: dict[str, Any] = {
        "example": "0",
        "method": "cp-lrp",
        "error": "",
        "note": "",
        "flipped": None,
        "cost": 3.0,
        "seconds": 0.1,
    }
    return Evaluation([row | dict.fromkeys(METRICS, 0.5) | changes], METRICS, "1 example")


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)
    return jsonschema.Draft202012Validator(PUBLISHED)


def test_the_schema_names_every_field_and_no_other() -> None:
    data = make(loo_matters=False, tokens_read=32, tokens=202).to_dict()
    assert set(PUBLISHED["properties"]) == {*PUBLISHED["required"], "no_feature_matters", "truncated"} == set(data)
    assert set(make().to_dict()) == set(PUBLISHED["required"])
    assert PUBLISHED["properties"]["version"]["const"] == data["version"] == Evaluation.VERSION
    assert PUBLISHED["properties"]["schema"]["const"] == data["schema"] == Evaluation.SCHEMA
    parts = {f"{metric}{end}" for metric in METRICS for end in ("", "-low", "-high", "-n", "-undefined")}
    assert set(PUBLISHED["$defs"]["method"]["properties"]) | parts == set(data["summary"][0])


def test_no_metric_is_named_like_an_entry_of_another() -> None:
    assert not [name for name in metric_names() if name.endswith(("-low", "-high", "-n", "-undefined"))]
    assert not set(metric_names()) & set(PUBLISHED["$defs"]["method"]["properties"])


def test_data_fit(validator: Any) -> None:
    for e in (
        make(),
        make(flipped=0.5),
        make(loo_matters=False),
        make(tokens_read=32, tokens=202),
        make(error="failed", cost=math.nan, **{"loo-r": math.nan}),
    ):
        validator.validate(json.loads(json.dumps(e.to_dict(), allow_nan=False)))


@pytest.mark.parametrize(
    "wrong",
    [{"schema": "looprop.explanation"}, {"version": 2}, {"summary": []}, {"extra": 1}, {"confidence": 95}],
    ids=str,
)
def test_other_data_do_not(validator: Any, wrong: dict[str, Any]) -> None:
    assert not validator.is_valid(make().to_dict() | wrong)


@pytest.mark.parametrize("wrong", [{"loo-r": "0.5"}, {"loo-r-n": 0.5}, {"errors": -1}, {"method": 1}], ids=str)
def test_methods_are_checked_too(validator: Any, wrong: dict[str, Any]) -> None:
    data = make().to_dict()
    data["summary"][0] |= wrong
    assert not validator.is_valid(data)


def test_what_the_command_prints_and_writes(validator: Any, looprop: Run, classifier: str, tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("the film is not good\ngood\n", encoding="utf-8")
    arguments = (
        "evaluate",
        str(texts),
        "--model",
        classifier,
        "-m",
        "loo",
        "-m",
        "random",
        "--protocol",
        "paper",
        "--out",
        str(tmp_path / "out"),
    )
    printed = json.loads(looprop(*arguments, "--json").stdout)
    validator.validate(printed)
    written = json.loads((tmp_path / "out" / "evaluation.json").read_text(encoding="ascii"))
    assert written == printed
    assert Evaluation.load(tmp_path / "out").to_dict() == printed
