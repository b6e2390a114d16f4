"""Targets as people name them: one class is meant, or the error lists those that may be."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

import looprop
import tiny
from looprop.errors import LoopropError, ModelError, TargetError, UnknownNameError
from looprop.inputs.examples import Example, make_dataset
from looprop.models.prompts import parse_target
from looprop.models.target import labels_of, resolve_target

LOGITS = torch.tensor([0.1, 0.3, 0.2])


def found(target: Any, labels: dict[int, str]) -> Any:
    return resolve_target(target, LOGITS, labels).key


@pytest.mark.parametrize(("name", "index"), [("us", 0), ("US", 1), ("other", 2), ("OTHER", 2)])
def test_a_label_as_it_is_written_comes_before_one_in_another_case(name: str, index: int) -> None:
    labels = {0: "us", 1: "US", 2: "other"}
    assert found(name, labels) == index
    model, tokenizer = tiny.tiny_classifier(id2label=labels, label2id={v: k for k, v in labels.items()})
    explained = looprop.load((model, tokenizer)).explain("the film", target=name)
    assert (explained.target, explained.label) == (index, labels[index])
    with torch.no_grad():
        logits = model(**tokenizer("the film", return_tensors="pt")).logits[0]
    assert explained.output == pytest.approx(float(logits[index]), rel=1e-5)


@pytest.mark.parametrize("target", ["Us", ("Us", "other"), ("other", "uS")])
def test_a_label_that_several_differ_from_in_case_is_refused(target: Any) -> None:
    with pytest.raises(TargetError, match=r"more than one class: 0 \('us'\), 1 \('US'\); give the number"):
        found(target, {0: "us", 1: "US", 2: "other"})


def test_a_label_of_two_classes_is_refused_when_it_is_named() -> None:
    labels = {0: "other", 1: "good", 2: "good"}
    assert found("other", labels) == 0
    assert found(2, labels) == 2
    assert found(None, labels) == 1
    for name in ("good", "GOOD"):
        with pytest.raises(TargetError, match=r"more than one class: 1 \('good'\), 2 \('good'\)"):
            found(name, labels)


@pytest.mark.parametrize("target", [7, "ghost", ("a", "ghost"), -1, 3])
def test_a_class_that_the_model_does_not_answer(target: Any) -> None:
    with pytest.raises(TargetError, match=r"does not exist: this model has 3 classes, 0 to 2"):
        found(target, {0: "a", 1: "b", 2: "c", 7: "ghost"})


@pytest.mark.parametrize(
    "target", [1.0, True, b"a", [0, 1], {"a"}, object(), (0, 1, 2), (0,), (), (0, None), (1, 1), ("a", 0), "", "3"]
)
def test_what_names_no_class(target: Any) -> None:
    with pytest.raises((TargetError, UnknownNameError)):
        found(target, {0: "a", 1: "b", 2: "c"})


def test_labels_that_are_digits() -> None:
    stars = {0: "1", 1: "2", 2: "3"}
    assert [found(name, stars) for name in ("1", "2", "3")] == [0, 1, 2]
    assert [found(number, stars) for number in (0, 1, 2)] == [0, 1, 2]
    with pytest.raises(TargetError, match="no class is called '0'; the class of that number is target=0"):
        found("0", stars)


def test_a_model_without_labels() -> None:
    with pytest.raises(TargetError, match="has no labels"):
        found("good", {})
    assert found(1, {}) == 1


class Reads:
    """As much of an adapter as a written target asks for."""

    target_words = "class"

    def __init__(self, *labels: str) -> None:
        self.labels = dict(enumerate(labels))


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("1", ("a", "b"), 1),
        ("id:1", ("a", "b"), 1),
        (" b ", ("a", "b"), "b"),
        (" b ", ("b", " b "), " b "),
        ("a,b", ("a", "b"), ("a", "b")),
        ("a,b", ("a,b", "c"), "a,b"),
        ("a,b,c", ("a,b", "c"), ("a,b", "c")),
        ("1,0", ("a", "b"), (1, 0)),
        ("--1", ("a", "b"), "--1"),
        ("9" * 5000, ("a", "b"), "9" * 5000),
        ("0", ("0", "1"), "0"),
        ("5", ("1", "5"), "5"),
        ("id:5", ("id:5", "5"), "id:5"),
    ],
)
def test_written_targets(text: str, labels: tuple[str, ...], expected: Any) -> None:
    assert parse_target(text, Reads(*labels)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "labels", "said"),
    [
        ("1", ("1", "2"), "'1' is the label of class 0 and the number of the class '2': write id:0 or id:1"),
        ("a,b,c", ("a", "a,b", "b,c", "c"), "cannot|can be told apart"),
        ("x,y,z", ("a", "b"), "can be told apart"),
    ],
)
def test_written_targets_with_two_meanings(text: str, labels: tuple[str, ...], said: str) -> None:
    with pytest.raises(TargetError, match=said):
        parse_target(text, Reads(*labels))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given", [["a", "b"], {"x": "a"}, {None: "a"}, "ab", 3, {"1": "a", "01": "b"}, {(): "a"}], ids=repr
)
def test_labels_that_name_no_classes(given: Any) -> None:
    with pytest.raises(ModelError, match="id2label"):
        labels_of(SimpleNamespace(id2label=given))


def test_labels_as_json_has_them() -> None:
    assert labels_of(SimpleNamespace(id2label={"1": "b", "0": 7})) == {1: "b", 0: "7"}
    assert labels_of(SimpleNamespace(id2label=None)) == labels_of(None) == {}


def test_ids_and_classes_that_are_there_twice() -> None:
    with pytest.raises(LoopropError, match="examples need ids of their own, got 'a' twice"):
        make_dataset("d", "all", [Example("a", "x"), Example("a", "y")])
    with pytest.raises(LoopropError, match="a name of its own"):
        make_dataset("d", "all", [Example("a", "x")], labels=["good", "good"])
