"""Questions about given texts: SQuAD 2.0 and HotpotQA, from a folder.

    qa/squad-dev-v2.0.json.gz                 SQuAD's own JSON
    qa/hotpot-dev-distractor-100.json.gz      a list of questions with ten paragraphs each

Sources: P. Rajpurkar, R. Jia, P. Liang, "Know What You Don't Know", 2018; Z. Yang et al., "HotpotQA", 2018.
"""

import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from looprop.errors import DataError, UnknownNameError
from looprop.inputs.datasets import FOLDER_HINT, data_folder
from looprop.inputs.examples import digest, draw
from looprop.inputs.files import Unpacked

FILES = {"squad": "squad-dev-v2.0.json.gz", "hotpot": "hotpot-dev-distractor-100.json.gz"}

# So that prompts stay short enough for a small machine, and have enough parts to choose from.
SQUAD_CHARACTERS = 1200
SQUAD_ENDS = 7
HOTPOT_OTHERS = 2
HOTPOT_CHARACTERS = 1650


@dataclass(frozen=True)
class Question:
    """A question about documents, by title.

    gold: the characters of its evidence, as (title, start, stop): what the answer stands in, or supporting sentences.
    """

    id: str
    question: str
    answer: str
    documents: Mapping[str, str]
    gold: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Questions:
    """Questions, whole or drawn; `total`, `hash` and `title` as in a Dataset."""

    name: str
    questions: tuple[Question, ...]
    total: int
    hash: str

    @property
    def subset(self) -> bool:
        """True if questions were left out."""
        return len(self.questions) < self.total

    @property
    def title(self) -> str:
        """The name for tables and reports; a subset says that it is one."""
        return f"{self.name} (subset: {len(self):,} of {self.total:,})" if self.subset else self.name

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[Question]:
        return iter(self.questions)


def load_questions(
    name: str, *, limit: int | None = None, seed: int = 0, folder: str | Path | None = None
) -> Questions:
    """The questions of "squad" or "hotpot" whose texts are short, or `limit` of them drawn by `seed`.

    squad: the first question with an answer of every paragraph of at most 1,200 characters with at least seven ends of
    sentences. hotpot: questions whose answer is not yes or no, with both paragraphs that are needed and the first two
    of the others, at most 1,650 characters together.
    """
    if name not in FILES:
        raise UnknownNameError("data set of questions", name, FILES)
    where = data_folder(folder)
    if where is None:
        raise DataError(f"the questions of {name} are read from a folder; {FOLDER_HINT}, here with qa/")
    path = where / "qa" / FILES[name]
    try:
        found = list(_squad(_read(path)) if name == "squad" else _hotpot(_read(path)))
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise DataError(f"{path}: not in the form of {name} ({type(error).__name__}: {error})") from error
    chosen = [found[i] for i in draw([question.id for question in found], limit=limit, seed=seed)]
    parts = (part for q in chosen for part in (q.id, q.question, q.answer, *q.documents, *q.documents.values()))
    return Questions(name, tuple(chosen), len(found), digest(parts))


def _read(path: Path) -> Any:
    try:
        with io.TextIOWrapper(io.BufferedReader(Unpacked(path)), encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: expected gzip-packed JSON ({error})") from error


def _squad(data: Any) -> Iterator[Question]:
    for article in data["data"]:
        for number, paragraph in enumerate(article["paragraphs"]):
            text = paragraph["context"]
            ends = sum(text[i] in ".!?" and text[i + 1 : i + 2] in (" ", "\n", "") for i in range(len(text)))
            asked = [one for one in paragraph["qas"] if one["answers"]]
            if asked and len(text) <= SQUAD_CHARACTERS and ends >= SQUAD_ENDS:
                first, answer = asked[0], asked[0]["answers"][0]
                title, start = f"{article['title']} {number + 1}", answer["answer_start"]
                gold = ((title, start, start + len(answer["text"])),)
                yield Question(f"squad/{first['id']}", first["question"].strip(), answer["text"], {title: text}, gold)


def _hotpot(data: Any) -> Iterator[Question]:
    for number, asked in enumerate(data):
        paragraphs = dict(zip(asked["context"]["title"], asked["context"]["sentences"], strict=True))
        facts = list(zip(asked["supporting_facts"]["title"], asked["supporting_facts"]["sent_id"], strict=True))
        needed = {title for title, _ in facts}
        others = [title for title in paragraphs if title not in needed][:HOTPOT_OTHERS]
        kept = {title: "".join(own).strip() for title, own in paragraphs.items() if title in {*needed, *others}}
        if asked["answer"] not in ("yes", "no") and sum(map(len, kept.values())) <= HOTPOT_CHARACTERS:
            gold = tuple(_place(title, paragraphs[title], i) for title, i in facts if i < len(paragraphs[title]))
            yield Question(f"hotpot/{number}", asked["question"].strip(), asked["answer"], kept, gold)


def _place(title: str, sentences: list[str], number: int) -> tuple[str, int, int]:
    """Where a sentence stands in its paragraph, without the space around it."""
    shift = len("".join(sentences)) - len("".join(sentences).lstrip())
    before, own = "".join(sentences[:number]), sentences[number]
    start = len(before) + len(own) - len(own.lstrip()) - shift
    return title, start, start + len(own.strip())
