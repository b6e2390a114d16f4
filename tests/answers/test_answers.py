"""Answers: their tokens are the generated ones, their numbers the model's own, their explanations literal removals."""

import re
import warnings

import numpy as np
import pytest
import torch

import looprop
from looprop import Continuation, Contrast, Token
from looprop.errors import InputError, TargetError
from looprop.workbench import Workbench
from tiny import CHAT, byte_level, tiny_classifier, tiny_decoder
from tiny_heads import bench as bench_of
from tiny_heads import text_of

PROMPT = "the film is good. It was not bad! Is it?"


@pytest.fixture(scope="module")
def decoder() -> Workbench:
    tokenizer = byte_level()
    tokenizer.chat_template = CHAT
    return looprop.load(tiny_decoder(tokenizer, n_positions=256))


@pytest.fixture(scope="module")
def plain() -> Workbench:
    return looprop.load(tiny_decoder(n_positions=256))


def test_tokens_are_the_generated_ones(decoder: Workbench) -> None:
    answer = decoder.answer(PROMPT, system="be kind", max_new_tokens=6)
    assert answer.prompt == f"<system>be kind<user>{PROMPT}<assistant>"
    ids = decoder.tokenizer(answer.prompt, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        made = decoder.model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=0)[0, ids.shape[1] :]
        scores = decoder.model(torch.cat([ids, made[None]], 1)).logits[0, ids.shape[1] - 1 : -1].log_softmax(-1)
    assert [*answer.ids, *([answer.end] if answer.end is not None else [])] == made.tolist()
    count = len(answer.ids)
    wanted = scores[torch.arange(count), made[:count]]
    assert answer.logprobs == pytest.approx(wanted.tolist(), abs=1e-5)
    assert answer.logprob == pytest.approx(float(wanted.sum()), abs=1e-5)
    assert answer.alternatives[0][0][1] == pytest.approx(float(scores[0].max()), abs=1e-5)
    assert [len(place) for place in answer.alternatives] == [5] * count
    assert answer.text == decoder.tokenizer.decode(list(answer.ids))
    assert "".join(answer.text[a:b] for a, b in answer.offsets) == answer.text


def test_an_answer_under_another_chat_template_is_refused() -> None:
    tokenizer = byte_level()
    tokenizer.chat_template = CHAT
    bench = looprop.load(tiny_decoder(tokenizer, n_positions=256))
    answer = bench.answer(PROMPT, max_new_tokens=4)
    assert bench.explain(answer, "attnlrp").output == pytest.approx(answer.logprob, abs=1e-4)
    tokenizer.chat_template = CHAT + "!"
    with pytest.raises(InputError, match="has changed since this answer"):
        bench.explain(answer, "attnlrp")


def test_an_answer_that_its_text_would_not_give_back(plain: Workbench) -> None:
    """'the' as single letters is another list of tokens than 'the' encoded anew: the explanation is of the first."""
    letters = [plain.tokenizer(c)["input_ids"][0] for c in "the"]
    assert plain.tokenizer("the")["input_ids"] != letters
    answer = plain.answer(PROMPT, answer=letters)
    assert (answer.text, answer.ids, answer.tokens) == ("the", tuple(letters), ("t", "h", "e"))
    ids = torch.tensor([plain.tokenizer(PROMPT)["input_ids"] + letters])
    with torch.no_grad():
        scores = plain.model(ids).logits[0, -4:-1].log_softmax(-1)
    wanted = sum(float(scores[k, i]) for k, i in enumerate(letters))
    assert plain.explain(answer, "attnlrp").output == pytest.approx(wanted, abs=1e-5)


def literal_loo(bench: Workbench, ids: list[int], said: list[int], groups: list[list[int]], part: slice) -> np.ndarray:
    """Leave-one-out by one forward pass each: keys masked, every position at its place."""
    whole = torch.tensor([ids + said])

    def value(gone: list[int]) -> float:
        mask = torch.ones_like(whole)
        mask[0, gone] = 0
        places = torch.arange(whole.shape[1])[None]
        with torch.no_grad():
            logits = bench.model(whole, attention_mask=mask, position_ids=places).logits[0, len(ids) - 1 : -1]
        scores = logits.log_softmax(-1)
        return sum(float(scores[k, said[k]]) for k in range(len(said))[part])

    return np.array([value([]) - value(group) for group in groups])


@pytest.mark.parametrize("part", [slice(0, 6), slice(1, 3), slice(5, 6)])
def test_scores_are_what_the_model_does_without_each_sentence(decoder: Workbench, part: slice) -> None:
    answer = decoder.answer(PROMPT, system="be kind", max_new_tokens=6)[part]
    explanation = decoder.explain(answer, "loo", within="user")
    assert explanation.features == ["the film is good.", "It was not bad!", "Is it?"]
    subject = decoder.subject(answer, within="user")
    groups = [list(group) for group in subject.features]
    ids = decoder.tokenizer(answer.prompt)["input_ids"]
    wanted = literal_loo(decoder, ids, list(answer.ids), groups, part)
    assert explanation.scores == pytest.approx(wanted, abs=1e-4)
    assert explanation.output == pytest.approx(answer.logprob, abs=1e-4)


def test_a_part_of_an_answer(plain: Workbench) -> None:
    answer = plain.answer(PROMPT, answer=" very good film")
    assert "".join(answer.tokens) == answer.text == " very good film"
    first, last = answer["0:5"], answer["11:"]
    assert (first.asked, last.asked) == (" very", " film")
    assert answer[0:1].part == (0, 1) == answer[0].part
    assert answer[-1].part == (len(answer) - 1, len(answer))
    assert answer[1:].logprob + answer[:1].logprob == pytest.approx(answer.logprob)
    for wrong in ("x", "40:41", slice(3, 3), 99, slice(0, 4, 2), 1.5):
        with pytest.raises(InputError):
            answer[wrong]  # type: ignore[index]


def test_the_rest_is_kept_and_gets_no_score(decoder: Workbench) -> None:
    answer = decoder.answer([{"role": "system", "content": "be kind"}, {"role": "user", "content": "is it good"}])
    assert [
        f.strip() for f in decoder.explain(answer, "attnlrp", features="word").features
    ] == "be kind is it good".split()
    assert decoder.explain(answer, "attnlrp", features="turn").features == ["system", "user"]
    assert decoder.explain(answer, "attnlrp", features="word", within="system").features[-1].strip() == "kind"
    every = decoder.explain(answer, "attnlrp", features="token", within="all")
    assert len(every) == len(answer.encoded)
    part = decoder.explain(answer, "attnlrp", features="token", within="user")
    start = answer.encoded.names.index(part.features[0], 5)
    assert part.scores == pytest.approx(every.scores[start : start + len(part)], abs=1e-5)


@pytest.mark.parametrize("method", ["loo", "alone", "both-ends", "shapley"])
def test_necessary_and_sufficient_with_the_rest_fixed(decoder: Workbench, method: str) -> None:
    answer = decoder.answer(PROMPT, max_new_tokens=3)
    found = decoder.explain(answer, method, within="user").scores
    value = decoder.set_function(answer, within="user")
    sets = np.array([[bool(k >> i & 1) for i in range(3)] for k in range(8)])
    f = dict(zip(map(tuple, sets.tolist()), value(sets), strict=True))

    def gain(i: int, before: set[int]) -> float:
        with_, without = (tuple(j in s for j in range(3)) for s in (before | {i}, before))
        return float(f[with_] - f[without])

    for i in range(3):
        j, k = sorted({0, 1, 2} - {i})
        last, alone = gain(i, {j, k}), gain(i, set())
        wanted = {
            "loo": last,
            "alone": alone,
            "both-ends": (last + alone) / 2,
            "shapley": last / 3 + alone / 3 + gain(i, {j}) / 6 + gain(i, {k}) / 6,
        }[method]
        assert found[i] == pytest.approx(wanted, abs=1e-5)


def test_remove_and_answer_again(decoder: Workbench) -> None:
    answer = decoder.answer(PROMPT, max_new_tokens=4)
    again = answer.without(1)
    cut = answer.prompt.replace(" It was not bad!", "")
    assert again.ids == decoder.answer(PROMPT.replace(" It was not bad!", ""), max_new_tokens=4).ids
    assert "".join(again.encoded.names) == cut
    assert answer.without("It was not bad!").ids == again.ids
    assert len(decoder.explain(again, "attnlrp")) == 2
    for wrong in ((7,), ("nonsense",), ()):
        with pytest.raises(InputError):
            answer.without(*wrong)


@pytest.mark.parametrize("chat", [True, False])
def test_a_question_about_documents(chat: bool, decoder: Workbench, plain: Workbench) -> None:
    bench = decoder if chat else plain
    documents = {"one": "the film is bad. Very bad.", "two": "a good movie."}
    answer = bench.context(documents, "is it good?", max_new_tokens=3)
    assert ("Question: is it good?\nAnswer:" in answer.prompt) != chat
    explanation = bench.explain(answer, "loo")
    assert explanation.features == ["one", "two"]
    assert [answer.prompt[slice(*span)] for span in explanation.offsets if span] == list(documents.values())
    by_sentence = bench.explain(answer, "attnlrp", features="sentence")
    assert by_sentence.features == ["the film is bad.", "Very bad.", "a good movie."]
    assert explanation.details["prompt"]["documents"] == [
        [name, answer.prompt.index(text), answer.prompt.index(text) + len(text)] for name, text in documents.items()
    ]
    assert bench.context(list(documents.values()), "is it good?", " yes").text == " yes"
    assert "bad" not in "".join(answer.without("one").encoded.names)
    for wrong in ([], ["a", ""], "a text", {"a": 3}):
        with pytest.raises(InputError, match="documents must be"):
            bench.context(wrong, "is it?")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"the template must hold \{question\} once"):
        bench.context(["a"], "is it?", template="{documents}")


def test_targets_as_objects(plain: Workbench) -> None:
    for short, form in (
        ("continuation: good fun", Continuation(" good fun")),
        ((" good", " bad"), Contrast(" good", " bad")),
        (" good", Token(" good")),
        (5, Token(5)),
    ):
        one, other = (plain.explain("the film is", "attnlrp", target=t) for t in (short, form))
        assert (one.label, one.output, one.target) == (other.label, other.output, other.target)
        assert one.scores == pytest.approx(other.scores)


def test_targets_that_do_not_fit_are_refused(plain: Workbench) -> None:
    classifier = looprop.load(tiny_classifier())
    assert classifier.explain("good", "attnlrp", target=Contrast("positive", "negative")).label == "positive - negative"
    for target in (Continuation(" good"), Token("good")):
        with pytest.raises(TargetError, match="is a target of language models"):
            classifier.explain("good", target=target)
    with pytest.raises(InputError, match="an answer is for language models"):
        classifier.answer("good")
    answer = plain.answer("the film is", answer=" good")
    with pytest.raises(TargetError, match="an answer is its own target"):
        plain.explain(answer, target=" good")
    with pytest.raises(TargetError, match="vocabulary"):
        plain.answer("the film is", answer=[5, 100_000])
    with pytest.raises(InputError, match="the last message is the assistant's"):
        plain.answer([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
    with pytest.raises(InputError, match="a message must be"):
        plain.answer([{"role": "user"}])
    with pytest.raises(InputError, match="several turns needs a model with a chat template"):
        plain.answer([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])


def test_a_missing_space_is_told_with_the_rank_of_the_other(plain: Workbench) -> None:
    with torch.no_grad():
        logits = plain.model(**plain.tokenizer("the film is", return_tensors="pt")).logits[0, -1]
    words = ("good", "bad", "the", "great", "film", "not", "is")
    first = {w: plain.tokenizer(w)["input_ids"][0] for word in words for w in (word, f" {word}")}
    ranks = {w: int((logits > logits[i]).sum()) + 1 for w, i in first.items()}
    whole = [w for w in words if plain.tokenizer.decode([first[f" {w}"]]).strip()]
    for word in whole:
        likelier = ranks[f" {word}"] < ranks[word]
        for target in (f"continuation:{word}", Continuation(word)):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                plain.explain("the film is", "attnlrp", target=target)
            assert bool(told) == likelier
            if likelier:
                wanted = f"rank {ranks[word]} here; with the space, ' {word}', it has rank {ranks[f' {word}']}"
                assert re.search(re.escape(wanted), str(told[0].message))
    assert {ranks[f" {w}"] < ranks[w] for w in whole} == {True, False}, "both cases are met"


def test_what_a_template_does_to_turns_is_found_or_left_alone() -> None:
    tokenizer = byte_level()
    tokenizer.chat_template = CHAT.replace("turn.content }}", "turn.content | trim }}")
    bench = looprop.load(tiny_decoder(tokenizer, n_positions=256))
    answer = bench.answer("  is it good \n", max_new_tokens=2)
    assert answer.prompt == "<user>is it good<assistant>"
    named = bench.explain(answer, "attnlrp", features={"it": (5, 7)})
    assert [named.text[slice(*span)] for span in named.offsets if span] == ["it"]
    tokenizer.chat_template = CHAT.replace("turn.content }}", "turn.content | upper }}")
    answer = bench.answer("is it good", max_new_tokens=2)
    assert answer.encoded.layout is not None
    assert answer.encoded.layout.turns == ()
    with pytest.raises(InputError, match="names a turn or a document"):
        bench.explain(answer, "attnlrp", within="user")


def test_an_encoder_decoder_answers_too() -> None:
    bench = bench_of("t5")
    text = text_of("t5", 6)
    answer = bench.answer(text, max_new_tokens=3)
    explanation = bench.explain(answer, "loo", features="word")
    assert explanation.output == pytest.approx(answer.logprob, abs=1e-4)
    ids = bench.tokenizer(text, return_tensors="pt")["input_ids"]
    made = bench.model.generate(ids, max_new_tokens=3, do_sample=False, num_beams=1)[0, 1:].tolist()
    assert [*answer.ids, *([] if answer.end is None else [answer.end])] == made
