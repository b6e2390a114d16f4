"""The study of context attribution: shared games charge everybody for what they ask, and rows are what methods say."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.context.asking import Asked, SharedGame, held_out
from experiments.context.measuring import GENERATED, MEASURES, AnswerTask, groups_of, measure_answer
from experiments.context.methods import RIVALS, attention_scores
from experiments.context.questions import Question
from experiments.context.rivals import coarse_to_fine

from looprop.errors import DataError, UnknownNameError
from looprop.games.values import Floats, Sets, all_sets
from looprop.models.loading import load_adapter
from looprop.study import load_spec, parse_spec
from looprop.study.kind import Options
from looprop.study.kinds import get_kind
from looprop.workbench import Workbench
from tiny import CHAT, tiny_decoder

METHODS = ("loo", "attnlrp", "alone", "both-ends")
QUESTION = Question(
    "q/1",
    "is it good ?",
    "good fun",
    {"one": "The film is good . It was fun .", "two": "The movie was bad . Not good ."},
    (("one", 18, 21),),
)


@pytest.fixture(scope="module")
def bench() -> Workbench:
    model, tokenizer = tiny_decoder()
    tokenizer.chat_template = CHAT
    return Workbench(load_adapter((model, tokenizer)))


@pytest.fixture(scope="module")
def rows(bench: Workbench) -> dict[str, dict[str, Any]]:
    found = measure_answer(bench.adapter, (*METHODS, *RIVALS), 0, AnswerTask("q/1", QUESTION))
    assert not [row["error"] for row in found if row["error"]]
    return {row["method"]: row for row in found}


def test_everyone_is_charged_for_what_they_ask_and_nothing_is_computed_twice() -> None:
    computed: list[int] = []
    now = [0.0]

    def game(sets: Sets) -> Floats:
        computed.extend(sets @ (1 << np.arange(4)))
        now[0] += 2.0 * len(sets)
        return sets.sum(1).astype(float)

    shared = SharedGame(game, clock=lambda: now[0])
    one, two = Asked(), Asked()
    everything = all_sets(4)
    for play, part in ((shared.of(one), everything[:6]), (shared.of(two), everything[3:9])):
        assert play(part).tolist() == part.sum(1).tolist()
        play(part)
    assert (one.passes, one.seconds) == (6, 12.0)
    assert (two.passes, two.seconds) == (6, 12.0), "as if nobody had asked before"
    assert sorted(computed) == list(range(9))


@pytest.mark.parametrize("players", [3, 8, 14])
def test_held_out_sets_are_held_out(players: int) -> None:
    training = np.random.default_rng(0).random((32, players)) < 0.5
    sets = held_out(players, 64, training, 1)
    own, others = {tuple(row) for row in sets.tolist()}, {tuple(row) for row in training.tolist()}
    assert len(own) == len(sets) == min(64, 2**players - len(others) if players < 6 else 64)
    assert not own & others


def test_coarse_to_fine_is_exact_where_it_opened_and_shares_elsewhere() -> None:
    asked: list[Sets] = []

    def game(sets: Sets) -> Floats:
        asked.append(sets)
        return sets @ np.array([1.0, 2.0, 8.0, -3.0, 0.5]) + 4.0 * (sets[:, 0] & sets[:, 2])

    scores = coarse_to_fine(game, [[0, 1], [2, 3], [4]], keep=1)
    # without the first group 1 + 2 + 4 are lost, without the second 8 - 3 + 4: that is opened
    assert scores.tolist() == [3.5, 3.5, 12.0, -3.0, 0.5]
    assert sum(map(len, asked)) == 4 + 2


def test_rows_are_what_the_methods_of_the_workbench_say(bench: Workbench, rows: dict[str, dict[str, Any]]) -> None:
    answer = bench.context(QUESTION.documents, QUESTION.question, QUESTION.answer)
    for method in METHODS:
        e = bench.explain(answer, method, features="sentence")
        np.testing.assert_allclose(rows[method]["scores"], e.scores, atol=1e-5)
        assert e.features[rows[method]["gold"][0]] == "It was fun ."
    assert rows["loo"]["r"] == pytest.approx(1.0)
    assert rows["loo"]["passes"] == 5
    assert rows["alone"]["passes"] == 5
    assert rows["both-ends"]["passes"] == 10, "nobody, everyone, and four on either side"
    assert {name for name in MEASURES if name not in rows["loo"]} == set()


def test_drops_are_removals(bench: Workbench, rows: dict[str, dict[str, Any]]) -> None:
    value = bench.set_function(
        bench.context(QUESTION.documents, QUESTION.question, QUESTION.answer), features="sentence"
    )
    for row in rows.values():
        order = sorted(range(4), key=lambda i: -row["scores"][i])
        for count in (1, 3):
            keep = np.array([[i not in order[:count] for i in range(4)]])
            expected = value(np.ones((1, 4), dtype=bool))[0] - value(keep)[0]
            assert row[f"drop@{count}"] == pytest.approx(expected, abs=1e-5)


def test_attention_is_a_share_of_what_the_rows_of_the_answer_read(bench: Workbench) -> None:
    subject = bench.subject(bench.context(QUESTION.documents, QUESTION.question, QUESTION.answer), features="sentence")
    scores = attention_scores(subject)
    assert (scores > 0).all()
    assert scores.sum() < 1


def test_an_answer_of_the_models_own(bench: Workbench) -> None:
    found = measure_answer(bench.adapter, ("loo",), 0, AnswerTask("q/1/generated", QUESTION, answer=GENERATED))
    assert found[0]["answer"] == "generated"
    assert found[0]["tokens"] >= 1
    assert math.isfinite(found[0]["drop@1"])


def test_groups_are_documents_or_three_by_three() -> None:
    assert groups_of([0, 0, 1, 2, 2]) == [[0, 1], [2], [3, 4]]
    assert groups_of([0] * 7) == [[0, 1, 2], [3, 4, 5], [6]]


def test_what_does_not_go_with_it_is_refused(tmp_path: Path) -> None:
    spec = load_spec("context")
    with pytest.raises(DataError, match="takes no loo_from"):
        get_kind("context").job(spec, Options(loo_from=tmp_path))
    with pytest.raises(UnknownNameError, match="squad"):
        parse_spec("{name: own, kind: context, question: q, methods: [loo], data: {squat: {}}}", where="own.yaml")
