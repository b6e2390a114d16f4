"""SQuAD and HotpotQA: what is chosen is what the rule says, and evidence stands where it is said to stand."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from experiments.context.questions import load_questions

from looprop.errors import DataError, UnknownNameError

LONG = "One. Two! Three? Four. Five. Six. Seven is the answer."


def written(folder: Path, name: str, data: Any) -> Path:
    (folder / "qa").mkdir(exist_ok=True)
    with gzip.open(folder / "qa" / name, "wt", encoding="utf-8") as file:
        json.dump(data, file)
    return folder


def squad(*paragraphs: dict[str, Any]) -> dict[str, Any]:
    return {"data": [{"title": "T", "paragraphs": list(paragraphs)}]}


def asked(number: int, answer: str | None, text: str) -> dict[str, Any]:
    answers = [] if answer is None else [{"text": answer, "answer_start": text.index(answer)}]
    return {"id": str(number), "question": f" q{number}? ", "answers": answers, "is_impossible": answer is None}


def test_the_rule_of_squad(tmp_path: Path) -> None:
    data = squad(
        {"context": LONG, "qas": [asked(1, None, LONG), asked(2, "Seven", LONG), asked(3, "Six", LONG)]},
        {"context": "Too short.", "qas": [asked(4, "short", "Too short.")]},
        {"context": LONG + "x" * 1200, "qas": [asked(5, "Six", LONG)]},
        {"context": LONG, "qas": [asked(6, None, LONG)]},
    )
    found = load_questions("squad", folder=written(tmp_path, "squad-dev-v2.0.json.gz", data))
    (only,) = found
    assert (only.id, only.question, only.answer, only.documents) == ("squad/2", "q2?", "Seven", {"T 1": LONG})
    ((title, start, stop),) = only.gold
    assert only.documents[title][start:stop] == "Seven"


def test_the_rule_of_hotpot(tmp_path: Path) -> None:
    def one(answer: str, long: int = 0) -> dict[str, Any]:
        return {
            "question": "who?",
            "answer": answer,
            "supporting_facts": {"title": ["B", "D", "D"], "sent_id": [1, 0, 7]},
            "context": {
                "title": ["A", "B", "C", "D", "E"],
                "sentences": [["a" + "x" * long], [" b1. ", " b2."], ["c"], ["d1.", " d2."], ["e"]],
            },
        }

    data = [one("yes"), one("Ada"), one("Bob", 2000)]
    found = load_questions("hotpot", folder=written(tmp_path, "hotpot-dev-distractor-100.json.gz", data))
    (only,) = found
    assert only.id == "hotpot/1"
    assert list(only.documents) == ["A", "B", "C", "D"], "both that are needed, and the first two others, in order"
    assert [only.documents[title][start:stop] for title, start, stop in only.gold] == ["b2.", "d1."]


@pytest.mark.parametrize("text", ["[]", "{", '{"data": [{"title": 1}]}', '{"data": 3}'])
def test_other_forms_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "qa").mkdir()
    (tmp_path / "qa" / "squad-dev-v2.0.json.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(DataError, match=r"squad-dev-v2\.0\.json\.gz"):
        load_questions("squad", folder=tmp_path)


def test_unknown_names_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="squad"):
        load_questions("squat", folder=tmp_path)
    with pytest.raises(DataError, match="no such file"):
        load_questions("hotpot", folder=tmp_path)
    (tmp_path / "qa").mkdir()
    (tmp_path / "qa" / "squad-dev-v2.0.json.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="expected gzip-packed JSON"):
        load_questions("squad", folder=tmp_path)


@pytest.mark.data
@pytest.mark.parametrize(("name", "count"), [("squad", 100), ("hotpot", 30)])
def test_the_real_ones(data_folder: Path, name: str, count: int) -> None:
    found = load_questions(name, limit=count, folder=data_folder)
    assert len(found) == count < found.total
    assert f"subset: {count} of" in found.title
    for question in found:
        for title, start, stop in question.gold:
            own = question.documents[title]
            assert 0 <= start < stop <= len(own)
            assert own[start:stop] == own[start:stop].strip()
            if name == "squad":
                assert own[start:stop] == question.answer
            else:
                assert own[stop - 1] in ".!?\")'" or stop == len(own), "whole sentences"
