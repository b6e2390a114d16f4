"""The Python lines that a page shows, run: they give the numbers of the page."""

from typing import Any

import pytest

import looprop
from serving.conftest import Served


def run(program: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(program, names)
    return names


@pytest.mark.parametrize(
    "question",
    [
        {"model": "embedded", "text": 'It\'s "not" a bad \\ film\n\nat all.'},
        {"model": "embedded", "text": "A dull film. Not good.", "target": "negative,positive", "features": "sentence"},
        {"model": "lm", "text": "the film is good", "features": "word", "answer": 3},
        {"model": "lm", "text": "the film is good", "features": "word", "answer": 3, "part": "1:3"},
        {"model": "lm", "text": "the film is", "target": "continuation: good, very"},
        {"model": "lm", "text": "the film is", "target": " good, bad"},
        {"model": "vit", "image": "picture", "target": "owl"},
    ],
    ids=["text", "contrast", "answer", "part", "continuation", "token contrast", "image"],
)
def test_lines_give_the_numbers_of_the_page(served: Served, question: dict[str, Any]) -> None:
    models = {"lm": served.lm, "vit": served.vit}
    asked = {**question, "model": models.get(question["model"], question["model"])}
    if "image" in asked:
        asked["image"] = served.picture
    methods = ["loo", "cp-lrp"]
    status, said = served.post("/api/python", {"question": asked, "methods": methods, "struck": [0, 1]})
    assert status == 200, said
    found = run(said["python"])
    shown = served.lines("/api/explain", {"question": asked, "methods": methods})
    loo = [score for one in shown if one["method"] == "loo" for score in one["scores"]]
    other = next(one["scores"] for one in shown if one["method"] == "cp-lrp")
    assert found["explanations"][0].scores.tolist() == pytest.approx(loo, abs=1e-4)
    assert found["explanations"][1].scores.tolist() == pytest.approx(other, abs=1e-4)
    _, without = served.post("/api/without", {"question": asked, "struck": [0, 1]})
    assert found["change"] == pytest.approx(without["change"], abs=1e-4)


def test_asking_whether_anybody_waits_changes_no_way_and_no_number(served: Served) -> None:
    """What a fast estimate spends goes by the price of a variant, and that by the way in which it is run."""
    question = {"model": "embedded", "text": "a fine film, not a bad one"}
    (shown,) = served.lines("/api/explain", {"question": question, "methods": ["fast-shapley"]})
    wanted = looprop.load().explain(question["text"], "fast-shapley")
    assert shown["scores"] == pytest.approx(wanted.scores.tolist(), abs=1e-4)
    assert shown["cost"] == wanted.cost
    ways = [m.set_function(question["text"]).way for m in (served.explorer.benches["embedded"], looprop.load())]
    assert ways[0] == ways[1] != "plain"


def test_nothing_in_a_question_becomes_code(served: Served) -> None:
    text = "'); raise SystemExit('x') #\n\"\"\" + \\"
    question = {"model": "embedded", "text": text, "target": "id:0"}
    _, said = served.post("/api/python", {"question": question, "methods": ["cp-lrp"], "struck": []})
    assert run(said["python"])["item"] == text
