"""Models with hand-set weights: each computes its rule on every subset, and the answers stated by hand are the rule's.

The chain: a rule in plain Python -> the network agrees with it on all subsets -> the stated answers are those of a
literal sum over all orders, in fractions -> the methods give the stated answers.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest
import torch
from experiments.planted.case import KNOWN, PlantedCase, numbers
from experiments.planted.measuring import measure_planted
from experiments.planted.tables import known_answers

import looprop
from looprop.errors import DataError, UnknownNameError
from looprop.evaluation.example import Task
from looprop.methods.names import check_name
from looprop.study import load_spec, parse_spec, planted_model, read_run, reproduce
from looprop.study.planted_models import CIRCUITS

Rule = Callable[[Sequence[str], Sequence[bool]], int | Fraction]
CASES = load_spec("planted").cases
RESULTS = Path(__file__).parents[2] / "results" / "planted"


def _among(words: Sequence[str], kept: Sequence[bool]) -> set[str]:
    return {word for word, here in zip(words, kept, strict=True) if here}


def _needle(words: Sequence[str], kept: Sequence[bool]) -> int:
    there = _among(words, kept)
    return 1 if "needle" in there else -1 if "straw" in there else 0


def _majority(words: Sequence[str], kept: Sequence[bool]) -> int:
    votes = [word for word, here in zip(words, kept, strict=True) if here]
    return int(votes.count("yes") > votes.count("no"))


def _copying(words: Sequence[str], kept: Sequence[bool]) -> Fraction:
    """The mean of what the words say that come after "colour"."""
    says = {"red": 1, "blue": -1}
    copied = [
        says.get(words[place], 0)
        for place in range(1, len(words))
        if words[place - 1] == "colour" and kept[place - 1] and kept[place]
    ]
    return Fraction(sum(copied), len(copied)) if copied else Fraction(0)


RULES: dict[str, Rule] = {
    "and": lambda words, kept: int({"key", "lock"} <= _among(words, kept)),
    "or": lambda words, kept: int(bool({"tea", "coffee", "juice"} & _among(words, kept))),
    "redundant": lambda words, kept: int(bool({"superb", "wonderful"} & _among(words, kept))),
    "negation": lambda words, kept: ("good" in _among(words, kept)) * (1 - 2 * ("not" in _among(words, kept))),
    "needle": _needle,
    "majority": _majority,
    "copying": _copying,
}


def subsets(words: Sequence[str]) -> list[tuple[bool, ...]]:
    return list(product([False, True], repeat=len(words)))


def literal(rule: Rule, words: Sequence[str]) -> dict[str, list[Fraction]]:
    """Leave-one-out, alone and the Shapley value by their definitions, the last as the mean over all orders."""
    value = {kept: rule(words, kept) for kept in subsets(words)}
    count = len(words)
    whole, none = (True,) * count, (False,) * count
    only = [tuple(j == i for j in range(count)) for i in range(count)]
    loo = [Fraction(value[whole] - value[tuple(not here for here in own)]) for own in only]
    alone = [Fraction(value[own] - value[none]) for own in only]
    shares = [Fraction(0)] * count
    for order in permutations(range(count)):
        kept = list(none)
        for player in order:
            before = value[tuple(kept)]
            kept[player] = True
            shares[player] += value[tuple(kept)] - before
    shapley = [share / math.factorial(count) for share in shares]
    both = [(one + other) / 2 for one, other in zip(loo, alone, strict=True)]
    return {"loo": loo, "alone": alone, "both-ends": both, "shapley": shapley}


TEXTS = {
    **{name: (case.model, case.text) for name, case in CASES.items()},
    "twice the lock": ("and", "lock key lock"),
    "one cue": ("redundant", "Wonderful, a film"),
    "good without not": ("negation", "good and good"),
    "votes tied": ("majority", "yes no no yes"),
    "copied from the end": ("copying", "colour cup colour blue"),
    "nothing to copy": ("copying", "red colour"),
}


def test_every_model_has_a_rule_and_a_case() -> None:
    assert set(RULES) == set(CIRCUITS) == {case.model for case in CASES.values()}


@pytest.mark.parametrize("name", TEXTS)
def test_a_network_computes_its_rule_on_every_subset(name: str) -> None:
    planted, text = TEXTS[name]
    model, tokenizer = planted_model(planted)
    ids = tokenizer(text)["input_ids"]
    words = [text.lower()[start:end] for start, end in tokenizer(text, return_offsets_mapping=True)["offset_mapping"]]
    words = words[1:]  # [CLS] always stays
    masks = torch.tensor([(True, *kept) for kept in subsets(words)]).long()
    with torch.no_grad():
        logits = model(torch.tensor([ids]).expand(len(masks), -1), masks)
    wanted = torch.tensor([float(RULES[planted](words, kept)) for kept in subsets(words)], dtype=torch.float64)
    torch.testing.assert_close(logits, torch.stack([-wanted, wanted], 1), atol=1e-8, rtol=0)


@pytest.mark.parametrize("name", CASES)
def test_the_answers_stated_by_hand_are_those_of_all_orders(name: str) -> None:
    case = CASES[name]
    words = case.text.split()
    for method, wanted in literal(RULES[case.model], words).items():
        stated = [Fraction(case.known(method).get(word, 0)) for word in words]
        assert stated == wanted, method


def test_where_pairs_interact_both_ends_are_the_shapley_value_and_where_three_do_they_are_not() -> None:
    same = {case.model: numbers(case.known("both-ends"), words) == numbers(case.shapley, words)
            for case in CASES.values() if (words := case.text.split())}  # fmt: skip
    assert same == {
        "and": True,
        "redundant": True,
        "negation": True,
        "copying": True,
        "or": False,
        "needle": False,
        "majority": False,
    }


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("method", KNOWN)
def test_the_references_give_the_known_answer(name: str, method: str) -> None:
    planted, text = TEXTS[name]
    found = looprop.load(planted_model(planted)).explain(text, method, target="yes")
    words = [feature.lower() for feature in found.features[1:]]
    wanted = [float(value) for value in literal(RULES[planted], words)[method]]
    np.testing.assert_allclose(found.scores[1:], wanted, atol=1e-6)
    if name in CASES:  # without [CLS] a head that finds nothing has nowhere to look; here every head finds something
        assert abs(found.scores[0]) < 1e-6


def test_a_wrong_answer_is_found_out() -> None:
    case = CASES["negation"]
    right = measure_planted(load_spec("planted"), Task("negation", case))
    wrong = PlantedCase(case.model, case.text, case.lesson, case.loo, case.alone, {"good": -1})
    rows = measure_planted(load_spec("planted"), Task("negation", wrong))
    verdicts = []
    for found in (right, rows):
        run = read_run(RESULTS)
        verdicts.append([claim.holds for claim in known_answers(type(run)(run.folder, run.manifest, found))])
    assert verdicts == [[True] * 4, [True, True, True, False]]


def test_who_gives_every_word_the_same_has_no_r() -> None:
    rows = {row["method"]: row for row in measure_planted(load_spec("planted"), Task("x", CASES["two redundant cues"]))}
    assert math.isnan(rows["loo"]["r to shapley"])  # it says nothing of either cue
    assert math.isnan(rows["shapley"]["r to loo"])
    assert rows["shapley"]["r to shapley"] == pytest.approx(1.0)


def test_a_specification_of_ones_own(tmp_path: Path) -> None:
    own = """
name: own
kind: planted
question: five votes
methods: [loo, shapley]
cases:
  five votes: {model: majority, text: "yes yes yes no", lesson: "none decides", loo: {}, alone: {"yes": 1},
    shapley: {"yes": 5/12, "no": -1/4}}
"""
    (tmp_path / "own.yaml").write_text(own, encoding="utf-8")
    run = reproduce(tmp_path / "own.yaml", out=tmp_path / "run", progress=False)
    wanted = literal(RULES["majority"], "yes yes yes no".split())
    assert [claim.holds for claim in run.claims()] == [
        True,
        wanted["shapley"] == [Fraction(5, 12)] * 3 + [Fraction(-1, 4)],
    ]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("model: and", "model: nand", "unknown planted model of case 'x' 'nand'; did you mean 'and'"),
        ("loo: {key: 1}", "loo: {door: 1}", "loo is about 'door', which is not in 'key lock'"),
        ("loo: {key: 1}", "loo: {key: much}", "loo of 'key' must be a whole number or a fraction, got 'much'"),
        ("loo: {key: 1}", "loo: {key: 1/0}", "must be a whole number or a fraction, got '1/0'"),
        ("loo: {key: 1}", "loo: 1", "loo must map words to numbers, got 1"),
    ],
)
def test_a_case_names_what_is_wrong(old: str, new: str, message: str) -> None:
    case = "{model: and, text: key lock, lesson: none, loo: {key: 1}, alone: {}, shapley: {}}"
    assert old in case
    text = f"{{name: own, kind: planted, question: none, methods: [loo], cases: {{x: {case.replace(old, new)}}}}}"
    with pytest.raises((DataError, UnknownNameError), match=message):
        parse_spec(text, where="x")


def test_it_takes_no_model_or_data_of_others(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="planted has its own cases: it takes no data"):
        reproduce("planted", data="sst2", out=tmp_path / "run", progress=False)
    with pytest.raises(UnknownNameError, match="unknown planted model 'an'; did you mean 'and'"):
        planted_model("an")


def test_the_committed_run_is_that_of_these_models() -> None:
    run = read_run(RESULTS)
    assert run.finished
    assert run.computed == set(CASES)
    assert [claim.holds for claim in run.claims()] == [True] * len(KNOWN)
    spec = load_spec("planted")
    assert {row["method"] for row in run.rows} == set(spec.methods)
    assert {check_name(method) for method in spec.methods} >= {"loo", "shapley", "looprop", "attnlrp", "cp-lrp", "ig"}
    for name in ("negation", "majority"):
        kept = {row["method"]: row for row in run.rows if row["example"] == name}
        for row in measure_planted(spec, Task(name, CASES[name])):
            np.testing.assert_allclose(row["scores"], kept[row["method"]]["scores"], atol=1e-6, err_msg=row["method"])
