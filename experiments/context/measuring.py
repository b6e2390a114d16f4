"""One answer under every method, measured against what really happens when sentences are removed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from looprop.errors import LoopropError
from looprop.games.values import Floats, Sets, last_marginals
from looprop.metrics import pearson, spearman
from looprop.metrics.sources import average_precision, best, linear_datamodeling_score, recall_at, standing_out
from looprop.models.adapter import Adapter
from looprop.models.answers import answered_from
from looprop.models.prompts import language_model
from looprop.models.subject import Subject, bind
from looprop.removal.value import SetFunction
from looprop.running.parts import Row
from looprop.study import Task

from .asking import SharedGame, held_out
from .methods import GROUP, KEPT_DOCUMENTS, Situation, run
from .questions import Question

HELD_OUT = 64
"""So many sets tell how well scores predict; computed in bfloat16, whose error is a few hundredths of their spread."""
LONGEST_ANSWER = 20
TOPS = (1, 3, 5)
RECALLS = (1, 3)
MEASURES = ("r", "spearman", "map", "lds", *(f"drop@{k}" for k in TOPS), *(f"recall@{k}" for k in RECALLS))
GIVEN, GENERATED = "given", "generated"


@dataclass(frozen=True, eq=False)
class AnswerTask(Task):
    """A question, and whether its given answer is explained or what the model says itself."""

    item: Question
    answer: str = GIVEN


def measure_answer(adapter: Adapter, methods: Sequence[str], seed: int, task: AnswerTask) -> list[Row]:
    """One row per method; what goes wrong with a method is its row's error."""
    question = task.item
    own = language_model(adapter, "an answer")
    given = question.answer if task.answer == GIVEN else None
    answer = answered_from(own, question.documents, question.question, given=given, max_new_tokens=LONGEST_ANSWER)
    subject = bind(adapter, answer, features="sentence")
    documents, gold = _places(subject, question)
    keep = KEPT_DOCUMENTS if len(set(documents)) > 1 else 1
    situation = Situation(subject, SharedGame(SetFunction(subject)), groups_of(documents), keep, seed)
    sets = held_out(situation.players, HELD_OUT, situation.training, seed + 1)
    values = SetFunction(subject, precision="bfloat16")(sets)
    loo = last_marginals(situation.game, situation.players)
    common = {
        "example": task.id,
        "answer": task.answer,
        "said": answer.text,
        "tokens": len(answer),
        "positions": len(subject.encoded),
        "sentences": situation.players,
        "documents": len(question.documents),
        "output": subject.output,
        "loo": loo.tolist(),
        "gold": [int(i) for i in np.flatnonzero(gold)],
    }
    rows: list[Row] = []
    for name in methods:
        row: Row = {**common, "method": name, "error": ""}
        try:
            found = run(situation, name)
            row |= {"passes": found.passes, "seconds": found.seconds, "scores": found.scores.tolist()}
            row |= {**measured(found.scores, loo, gold, sets, values), **drops(situation.game, found.scores)}
        except LoopropError as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def measured(scores: Floats, loo: Floats, gold: NDArray[np.bool_], sets: Sets, values: Floats) -> dict[str, float]:
    """How near scores are to leave-one-out, to the answer's probability on held-out sets, and to the evidence."""
    return {
        "r": pearson(scores, loo),
        "spearman": spearman(scores, loo),
        "map": average_precision(scores, standing_out(loo)),
        "lds": linear_datamodeling_score(scores, sets, values),
        **{f"recall@{k}": recall_at(scores, gold, k) for k in RECALLS},
    }


def drops(game: SharedGame, scores: Floats) -> dict[str, float]:
    """What the answer's log-probability loses when the best sentences go, as many of them as there are."""
    keep = np.ones((len(TOPS) + 1, len(scores)), dtype=bool)
    for row, count in enumerate(TOPS):
        keep[row + 1, best(scores, count)] = False
    values = game(keep)
    return {f"drop@{k}": float(values[0] - value) for k, value in zip(TOPS, values[1:], strict=True)}


def groups_of(documents: Sequence[int]) -> list[list[int]]:
    """Sentences by document; of a single document, three by three."""
    if len(set(documents)) > 1:
        return [[i for i, own in enumerate(documents) if own == one] for one in sorted(set(documents))]
    return [list(range(start, min(start + GROUP, len(documents)))) for start in range(0, len(documents), GROUP)]


def _places(subject: Subject, question: Question) -> tuple[list[int], NDArray[np.bool_]]:
    """Of every sentence the number of its document, and whether evidence stands in it."""
    layout = subject.encoded.layout
    assert layout is not None
    assert subject.spans is not None
    starts = {part.name: part.start for part in layout.documents}
    evidence = [(starts[title] + start, starts[title] + stop) for title, start, stop in question.gold]
    documents = [
        next(n for n, part in enumerate(layout.documents) if part.start <= span[0] < part.stop)
        for span in subject.spans
    ]
    gold = [any(start < span[1] and stop > span[0] for start, stop in evidence) for span in subject.spans]
    return documents, np.array(gold)
