"""What the explorer says is what the library says."""

from typing import Any

import numpy as np
import pytest

import looprop
from serving.conftest import Served

TEXT = "This is not a bad film at all."
QUESTION = {"model": "embedded", "text": TEXT}
PROMPT = {"text": "the film is good", "features": "word", "answer": 3}


def value_without(model: Any, struck: list[int]) -> float:
    keep = np.ones((1, 11), dtype=bool)
    keep[0, struck] = False
    return float(model.set_function(TEXT)(keep)[0])


def test_a_question_is_described(served: Served) -> None:
    status, said = served.post("/api/ask", QUESTION)
    wanted = looprop.load().explain(TEXT, "cp-lrp")
    assert status == 200
    assert said["features"] == wanted.features
    assert said["value"] == pytest.approx(wanted.output, abs=1e-5)
    assert said["label"] == "positive"
    assert 0.9 < said["probability"] <= 1.0
    assert [tuple(s) if s else None for s in said["spans"]] == wanted.offsets
    assert said["likeliest"][0][0] == "positive"


@pytest.mark.parametrize(("features", "outside"), [("token", [True, False]), ("sentence", [False, False])])
def test_only_the_first_token_by_itself_is_outside_the_scale(
    served: Served, features: str, outside: list[bool]
) -> None:
    question = {"model": served.lm, "text": "The film is good. A bad film.", "features": features}
    _, said = served.post("/api/ask", question)
    explained = served.explorer.benches[served.lm].explain(question["text"], "cp-lrp", features=features)
    assert said["outside"] == list(explained.outside_scale)
    assert said["outside"][:2] == outside


def test_what_is_struck_out_is_leave_one_out(served: Served) -> None:
    wanted = looprop.load().explain(TEXT, "loo").scores
    for feature in range(len(wanted)):
        _, said = served.post("/api/without", {"question": QUESTION, "struck": [feature]})
        assert -said["change"] == pytest.approx(wanted[feature], abs=1e-4)
        assert said["effects"] == pytest.approx([wanted[feature]], abs=1e-4)
        assert said["interaction"] is None


def test_two_struck_out_are_the_set_function_and_their_interaction(served: Served) -> None:
    model = looprop.load()
    loo = model.explain(TEXT, "loo")
    pair = [loo.features.index("not"), loo.features.index("bad")]
    _, said = served.post("/api/without", {"question": QUESTION, "struck": pair})
    assert said["value"] == pytest.approx(value_without(model, pair), abs=1e-4)
    assert said["interaction"] == pytest.approx(loo.output - said["value"] - loo.scores[pair].sum(), abs=1e-4)


def test_methods_come_in_order_of_their_cost_and_the_truth_a_few_features_at_a_time(served: Served) -> None:
    asked = {"question": QUESTION, "methods": ["ig", "loo", "looprop", "cp-lrp", "rollout"]}
    found = served.lines("/api/explain", asked)
    assert [one["method"] for one in found] == ["rollout", "cp-lrp", "loo", "loo", "looprop", "ig"]
    model = looprop.load()
    assert found[1]["scores"] == pytest.approx(model.explain(TEXT, "cp-lrp").scores.tolist(), abs=1e-4)
    truth = [score for one in found if one["method"] == "loo" for score in one["scores"]]
    assert truth == pytest.approx(model.explain(TEXT, "loo").scores.tolist(), abs=1e-4)
    assert found[0]["unsigned"]
    assert not found[1]["unsigned"]


def test_the_shapley_value_is_the_other_reference(served: Served) -> None:
    question = {"model": "embedded", "text": "not a bad film"}
    (found,) = served.lines("/api/explain", {"question": question, "methods": ["shapley"]})
    wanted = looprop.load().explain("not a bad film", "shapley")
    assert found["scores"] == pytest.approx(wanted.scores.tolist(), abs=1e-4)
    assert found["error_of_sampling"] == 0.0


def test_a_language_model_answers_anew(served: Served) -> None:
    prompt = {**PROMPT, "model": served.lm}
    status, said = served.post("/api/ask", prompt)
    assert status == 200, said
    model = served.explorer.benches[served.lm]
    answer = model.answer(PROMPT["text"], max_new_tokens=3)
    assert said["answer"] == answer.text
    assert said["value"] == pytest.approx(answer.logprob, abs=1e-4)
    wanted = model.explain(answer, "loo", features="word").scores
    for feature in range(len(wanted)):
        _, without = served.post("/api/without", {"question": prompt, "struck": [feature]})
        assert -without["change"] == pytest.approx(wanted[feature], abs=1e-4)
    _, again = served.post("/api/answer", {"question": prompt, "struck": [1]})
    assert again["answer"] == answer.without(1, features="word").text


def test_a_part_of_an_answer_is_a_target(served: Served) -> None:
    prompt = {**PROMPT, "model": served.lm, "part": "1:2"}
    _, said = served.post("/api/ask", prompt)
    model = served.explorer.benches[served.lm]
    part = model.answer(PROMPT["text"], max_new_tokens=3)[1:2]
    assert said["part"] == [1, 2]
    assert len(said["said"]) == 3
    assert said["value"] == pytest.approx(part.logprob, abs=1e-4)
    _, without = served.post("/api/without", {"question": prompt, "struck": [0]})
    assert -without["change"] == pytest.approx(model.explain(part, "loo", features="word").scores[0], abs=1e-4)


@pytest.mark.parametrize("target", ["", " good", " good, bad", "continuation: good film, a very"])
def test_targets_of_a_language_model(served: Served, target: str) -> None:
    question = {"model": served.lm, "text": "the film is", "target": target}
    _, said = served.post("/api/ask", question)
    given: Any = {"": None, " good, bad": (" good", " bad")}.get(target, target)
    wanted = served.explorer.benches[served.lm].explain("the film is", "loo", target=given)
    assert said["value"] == pytest.approx(wanted.output, abs=1e-4)
    _, without = served.post("/api/without", {"question": question, "struck": [0]})
    assert -without["change"] == pytest.approx(wanted.scores[0], abs=1e-4)


@pytest.mark.parametrize("target", ["negative", "positive,negative", "id:0,id:1"])
@pytest.mark.parametrize("features", ["token", "word", "sentence", "paragraph"])
def test_targets_and_features_of_a_classifier(served: Served, target: str, features: str) -> None:
    text = "A dull film. Not good at all.\n\nBut I liked it."
    question = {"model": "embedded", "text": text, "target": target, "features": features}
    status, said = served.post("/api/ask", question)
    assert status == 200, said
    given: Any = {"negative": "negative", "id:0,id:1": (0, 1)}.get(target, ("positive", "negative"))
    wanted = looprop.load().explain(text, "loo", target=given, features=features)
    assert said["features"] == wanted.features
    assert said["value"] == pytest.approx(wanted.output, abs=1e-4)
    _, without = served.post("/api/without", {"question": question, "struck": [1]})
    assert -without["change"] == pytest.approx(wanted.scores[1], abs=1e-4)


def test_a_method_that_does_not_fit_says_so_and_the_others_go_on(served: Served) -> None:
    found = served.lines("/api/explain", {"question": QUESTION, "methods": ["lrp[cp=40]", "cp-lrp", "loo"]})
    assert "error" in next(one for one in found if one["method"] == "lrp[cp=40]")
    assert "scores" in next(one for one in found if one["method"] == "cp-lrp")


@pytest.mark.parametrize(
    ("path", "data", "said"),
    [
        ("/api/ask", {"model": "embedded", "text": "  "}, "empty"),
        ("/api/ask", {"model": "embedded"}, "needs a model and a text"),
        ("/api/ask", {"model": "embedded", "image": "x.png"}, "reads texts"),
        ("/api/ask", {**QUESTION, "part": "0:1"}, "tokens of an answer"),
        ("/api/ask", {**QUESTION, "answer": 3, "part": "0:1;"}, "tokens of an answer"),
        ("/api/picture", {"data": "!"}, "base64"),
        ("/api/picture", {"data": "aGFsbG8="}, "no picture"),
        ("/api/picture", {"path": "/etc/passwd"}, "must hold data"),
        ("/api/python", {"question": QUESTION, "methods": ["nonsense"], "struck": []}, "unknown method"),
        ("/api/ask", {"model": "embeded", "text": "x"}, "did you mean 'embedded'"),
        ("/api/ask", {**QUESTION, "features": "chunk:3"}, "unknown features"),
        ("/api/ask", {**QUESTION, "target": "happy"}, "happy"),
        ("/api/ask", {**QUESTION, "answer": 5}, "language model"),
        ("/api/ask", {**QUESTION, "answer": 10**9}, "0 to 200"),
        ("/api/ask", {**QUESTION, "path": "x"}, "unknown field"),
        ("/api/ask", {**QUESTION, "text": "a " * 20_000}, "characters"),
        ("/api/ask", {**QUESTION, "text": 5}, "must be a text"),
        ("/api/without", {"question": QUESTION, "struck": [99]}, "numbered 0 to"),
        ("/api/without", {"question": QUESTION, "struck": [True]}, "whole numbers"),
        ("/api/without", {"question": QUESTION, "struck": list(range(11))}, "at least one"),
        ("/api/explain", {"question": QUESTION, "methods": ["nonsense"]}, "unknown method"),
        ("/api/explain", {"question": QUESTION, "methods": ["lrp[plan=x.yaml]"]}, "unknown method"),
        ("/api/explain", {"question": QUESTION, "methods": ["loo"] * 13}, "at most 12"),
        ("/api/page", {"about": [], "panels": []}, "made of"),
    ],
)
def test_wrong_questions_get_one_clear_line(served: Served, path: str, data: Any, said: str) -> None:
    status, answer = served.post(path, data)
    assert status == 422
    assert said in answer["error"]
    assert "\n" not in answer["error"]
