"""Targets as users write them, for every head: what they mean, and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch

import looprop
from looprop.errors import InputError, ModelError, TargetError, UnknownNameError
from looprop.models.prompts import parse_target
from models.naive_heads import STARTS, ids_of, leave_out, value
from tiny import wordpiece
from tiny_heads import ANSWERERS, MASKED, TAGGERS, TWO_STACKS, bench, model_of, text_of

TEXT = "the film is not very good and this movie was a bad movie"
QUESTION = ("what was bad", "the film was good and the movie was bad fun")


def answers(name: str, item: Any) -> Any:
    """What the model alone says."""
    ids = ids_of(bench(name), item)
    with torch.no_grad():
        return bench(name).model(input_ids=ids, attention_mask=torch.ones_like(ids))


# ----- encoder-decoders


@pytest.mark.parametrize("name", TWO_STACKS)
def test_a_whole_output_is_the_sum_of_its_log_probabilities(name: str) -> None:
    own, item = bench(name), text_of(name, 9)
    said = own.tokenizer("good fun .", add_special_tokens=False)["input_ids"]
    e = own.explain(item, "loo", target="continuation:good fun .")
    ids = ids_of(own, item)
    with torch.no_grad():
        assert e.output == pytest.approx(float(value(name, own, ids, torch.ones_like(ids), said)), rel=1e-9)
    wanted = leave_out(name, own, item, [[i] for i in range(9)], said=said)
    np.testing.assert_allclose(e.scores, wanted, rtol=0, atol=1e-9)
    assert (e.label, e.target, len(e)) == ("good fun .", "good fun .", 9)


@pytest.mark.parametrize("name", TWO_STACKS)
def test_the_first_token_of_an_output(name: str) -> None:
    own, item = bench(name), text_of(name, 9)
    ids = ids_of(own, item)
    with torch.no_grad():
        said = torch.tensor([STARTS[name]])
        logits = own.model(input_ids=ids, attention_mask=torch.ones_like(ids), decoder_input_ids=said).logits[0, -1]
    assert own.explain(item, "random").target == int(logits.argmax())
    good, bad = (own.tokenizer.convert_tokens_to_ids(word) for word in ("good", "bad"))
    contrast = own.explain(item, "random", target=("good", "bad"))
    assert contrast.target == (good, bad)
    assert contrast.output == pytest.approx(float(logits[good] - logits[bad]))


@pytest.mark.parametrize("name", ["t5", "bart", "marian"])
def test_what_is_generated_is_the_likeliest(name: str) -> None:
    own, item = bench(name), text_of(name, 9)
    ids, said = ids_of(own, item), list(STARTS[name])
    for _ in range(4):
        with torch.no_grad():
            logits = own.model(input_ids=ids, decoder_input_ids=torch.tensor([said])).logits[0, -1]
        said.append(int(logits.argmax()))
        if said[-1] == 3:
            break
    wanted = own.tokenizer.decode(said[len(STARTS[name]) :], skip_special_tokens=True)
    assert own.generate(item, max_new_tokens=4) == wanted


def test_encoder_decoders_refuse() -> None:
    own = bench("t5")
    with pytest.raises(TargetError, match="continuation is empty"):
        own.explain("good", target="continuation:")
    with pytest.raises(TargetError, match="is not in the vocabulary"):
        own.explain("good", target="\u4e00")
    model = model_of("bart")
    for config in (model.config, model.generation_config):
        config.decoder_start_token_id = config.bos_token_id = None
    with pytest.raises(ModelError, match="does not say with which token its decoder starts"):
        looprop.load((model, wordpiece()))


# ----- masked places


@pytest.mark.parametrize("name", MASKED)
def test_the_masked_place(name: str) -> None:
    own, item = bench(name), "the film is [MASK] and fun"
    logits = answers(name, item).logits[0, 4]
    assert own.explain(item, "random").target == int(logits.argmax())
    e = own.explain(item, "random", target="good")
    assert (e.label, e.output) == ("good", pytest.approx(float(logits[own.tokenizer.convert_tokens_to_ids("good")])))
    contrast = own.explain(item, "random", target=("good", "bad"))
    assert contrast.label == "good - bad"


@pytest.mark.parametrize(
    ("text", "said"), [("good", "there is none"), ("[MASK] and [MASK]", "2 of them, at positions 1, 3")]
)
def test_one_mask_is_needed(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        bench("bert-mlm").explain(text)


# ----- labels of tokens


@pytest.mark.parametrize("name", TAGGERS)
def test_the_label_of_a_token(name: str) -> None:
    own = bench(name)
    logits = answers(name, TEXT).logits[0]
    good = ids_of(own, TEXT)[0].tolist().index(own.tokenizer.convert_tokens_to_ids("good"))
    for target in ("good=B-LOC", (good, "B-LOC"), (good, 1), ("good", "b-loc")):
        e = own.explain(TEXT, "random", target=target)
        assert (e.output, e.label, e.target) == (pytest.approx(float(logits[good, 1])), "good=B-LOC", "good=B-LOC")
    contrast = own.explain(TEXT, "random", target=(good, "B-LOC", "O"))
    assert contrast.output == pytest.approx(float(logits[good, 1] - logits[good, 0]))
    assert contrast.label == "good=B-LOC - O"


@pytest.mark.parametrize("name", TAGGERS)
def test_by_default_the_most_probable_label_but_o(name: str) -> None:
    own = bench(name)
    chances = answers(name, TEXT).logits[0].softmax(-1)
    best = max((float(chances[t, c]), t, c) for t in range(1, len(chances) - 1) for c in (1, 2))
    e = own.explain(TEXT, "random")
    word = own.tokenizer.decode([ids_of(own, TEXT)[0, best[1]]])
    assert e.label == f"{word}={own.labels[best[2]]}"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("movie=B-LOC", "stands at positions 9, 13"),
        ("fil=B-LOC", "is no word of this text"),
        ("B-LOC", "must say the token and its label"),
        (3, "must say the token and its label"),
        ((99, "B-LOC"), "position from 0 to"),
        ((True, "B-LOC"), "position from 0 to"),
        ((3, "O", "O"), "two different classes"),
    ],
)
def test_labels_that_are_refused(target: Any, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        bench("bert-ner").explain(TEXT, target=target)


def test_an_unknown_label_is_named() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'B-LOC'"):
        bench("bert-ner").explain(TEXT, target="good=B-LOCK")


# ----- spans


@pytest.mark.parametrize("name", ANSWERERS)
def test_a_span(name: str) -> None:
    own, output = bench(name), answers(name, QUESTION)
    starts, ends = output.start_logits[0], output.end_logits[0]
    ids = ids_of(own, QUESTION)[0].tolist()
    first = ids.index(own.tokenizer.convert_tokens_to_ids("good"))
    span = float(starts[first] + ends[first + 2])
    for target in ("good and the", f"{first}:{first + 2}", (first, first + 2)):
        e = own.explain(QUESTION, "random", target=target)
        assert (e.output, e.label, e.target) == (pytest.approx(span), "good and the", "good and the")
    assert own.explain(QUESTION, "random", target=("start", first)).output == pytest.approx(float(starts[first]))
    end = own.explain(QUESTION, "random", target=("end", first))
    assert (end.output, end.label) == (pytest.approx(float(ends[first])), "end at good")


@pytest.mark.parametrize("name", ANSWERERS)
def test_by_default_the_best_span_of_the_context(name: str) -> None:
    own, output = bench(name), answers(name, QUESTION)
    starts, ends = output.start_logits[0], output.end_logits[0]
    ids = ids_of(own, QUESTION)[0].tolist()
    context = range(ids.index(3) + 1, len(ids) - 1)
    best = max((float(starts[s] + ends[e]), s, e) for s in context for e in context if e >= s)
    assert own.explain(QUESTION, "random").output == pytest.approx(best[0])


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("the", "stands at 8:8, 13:13"),
        ("what", "does not stand in the context"),
        ("goo", "does not stand in the context"),
        ("8:6", "must not end before it starts"),
        ("8:60", "number from 0 to"),
        (("middle", 3), "must be the text of an answer"),
        (5, "must be the text of an answer"),
    ],
)
def test_spans_that_are_refused(target: Any, said: str) -> None:
    with pytest.raises(TargetError, match=said):
        bench("bert-qa").explain(QUESTION, target=target)


@pytest.mark.parametrize("item", ["the film was good", ("the film was good",)])
def test_a_question_needs_its_context(item: Any) -> None:
    with pytest.raises(InputError, match=r"answers questions: give it \(question, context\), got one text"):
        bench("bert-qa").explain(item, "loo")


def test_a_text_without_a_mask_is_told_where_to_put_one() -> None:
    with pytest.raises(InputError, match=r"write \[MASK\] in place of the token that is to be explained"):
        bench("bert-mlm").explain("the film was good", "loo")


def test_only_what_a_model_says_has_a_log_probability() -> None:
    """A span with a negative sum of logits has none."""
    spans = [bench("bert-qa").explain(QUESTION, "random", target=(place, place)) for place in range(6, 12)]
    assert min(e.output for e in spans) < 0
    assert not any("log-probability" in dict(e.strip().facts) for e in spans)
    said = bench("t5").explain("the film", "random", target="continuation:good")
    assert "log-probability" in dict(said.strip().facts)


# ----- on the command line, and what is cut out


@pytest.mark.parametrize(
    ("name", "written", "meant"),
    [
        ("t5", "good,bad", ("good", "bad")),
        ("bert-mlm", "id:17", 17),
        ("bert-ner", "good=B-LOC", "good=B-LOC"),
        ("bert-qa", "good, and bad", "good, and bad"),
    ],
)
def test_targets_as_written(name: str, written: str, meant: Any) -> None:
    assert parse_target(written, bench(name).adapter) == meant


@pytest.mark.parametrize("name", ["bert-mlm", "bert-ner", "bert-qa"])
def test_deleting_others_moves_the_place_along(name: str) -> None:
    """The value is read at the same token, which has moved up."""
    own, item = bench(name), text_of(name, 10)
    place = ids_of(own, item)[0].tolist().index(4) if name == "bert-mlm" else 7
    target: Any = {"bert-mlm": 17, "bert-ner": (7, 1), "bert-qa": ("start", 7)}[name]
    keep = np.ones((1, 10), dtype=bool)
    keep[0, 1] = False
    found = own.set_function(item, target=target, removal="delete")(keep)[0]
    ids = ids_of(own, item)
    left = torch.cat([ids[:, :1], ids[:, 2:]], 1)
    with torch.no_grad():
        output = own.model(input_ids=left, attention_mask=torch.ones_like(left))
    read = (
        output.start_logits[0, 6] if name == "bert-qa" else output.logits[0, place - 1, 17 if name == "bert-mlm" else 1]
    )
    assert found == pytest.approx(float(read))
    keep[0, 1], keep[0, place] = True, False
    with pytest.raises(InputError, match="use another removal than 'delete'"):
        own.set_function(item, target=target, removal="delete")(keep)
