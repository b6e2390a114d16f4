"""Prompts in chat templates and what a language model says next, against the tokenizer's and the model's own words."""

import pytest
import torch

import looprop
from looprop.errors import InputError
from looprop.models.prompts import chat_text
from looprop.workbench import Workbench
from tiny import CHAT, byte_fallback, byte_level, tiny_classifier, tiny_decoder


@pytest.fixture(scope="module")
def decoder() -> Workbench:
    model, tokenizer = tiny_decoder()
    tokenizer.chat_template = CHAT
    return looprop.load((model, tokenizer))


@pytest.fixture(scope="module")
def classifier() -> Workbench:
    return looprop.load(tiny_classifier())


def test_a_prompt_in_the_template_of_the_model(decoder: Workbench) -> None:
    assert decoder.chat("is it good") == "<user>is it good<assistant>"
    assert decoder.chat("is it good", "be short") == "<system>be short<user>is it good<assistant>"
    assert looprop.load(tiny_decoder()).chat("is it good") == "is it good", "a model without a template"


@pytest.mark.parametrize("count", [1, 4])
def test_what_is_generated_is_the_likeliest_token_again_and_again(decoder: Workbench, count: int) -> None:
    ids = decoder.tokenizer("the film is", return_tensors="pt")["input_ids"]
    start = ids.shape[1]
    for _ in range(count):
        with torch.no_grad():
            likeliest = decoder.model(ids).logits[0, -1].argmax()
        ids = torch.cat([ids, likeliest[None, None]], dim=1)
        assert likeliest != decoder.tokenizer.eos_token_id, "or it would stop here"
    said = decoder.generate("the film is", max_new_tokens=count)
    assert said == decoder.tokenizer.decode(ids[0, start:], skip_special_tokens=True)


def test_what_is_generated_can_be_explained(decoder: Workbench) -> None:
    text = decoder.chat("is it good")
    said = decoder.generate(text, 3)
    explanation = decoder.explain(text, "attnlrp", target=f"continuation:{said}")
    assert (explanation.label, explanation.text) == (said, text)


@pytest.mark.parametrize("tokens", [0, -1, 1.5, True, "3"])
def test_the_number_of_tokens_is_checked(decoder: Workbench, tokens: object) -> None:
    with pytest.raises(InputError, match="max_new_tokens must be an integer >= 1, got"):
        decoder.generate("good", tokens)  # type: ignore[arg-type]


def test_other_models_do_neither(classifier: Workbench) -> None:
    with pytest.raises(InputError, match=r"a prompt is for language models, and .* is a BertFor"):
        classifier.chat("good")
    with pytest.raises(InputError, match="generating is for language models"):
        classifier.generate("good")


def test_a_template_that_begins_like_the_tokenizer_is_not_doubled() -> None:
    tokenizer = byte_fallback()  # puts <s> before every text
    tokenizer.chat_template = "{{ bos_token }}" + CHAT
    text = chat_text(tokenizer, "good")
    template = tokenizer.apply_chat_template(
        [{"role": "user", "content": "good"}], tokenize=True, add_generation_prompt=True
    )
    wanted = template if isinstance(template, list) else template["input_ids"]
    assert tokenizer(text)["input_ids"] == wanted
    assert wanted.count(tokenizer.bos_token_id) == 1


def test_a_template_that_tokens_cannot_follow_is_refused() -> None:
    tokenizer = byte_fallback()
    tokenizer.chat_template = CHAT  # without <s>, which the tokenizer adds
    with pytest.raises(InputError, match="without the template"):
        chat_text(tokenizer, "good")


def test_a_broken_template_is_named() -> None:
    tokenizer = byte_level()
    tokenizer.chat_template = "{{ raise_exception('no prompts today') }}"
    with pytest.raises(InputError, match="no prompts today"):
        chat_text(tokenizer, "good")


def test_a_system_turn_needs_a_template() -> None:
    with pytest.raises(InputError, match="a system turn needs a model with a chat template"):
        chat_text(byte_level(), "good", "be kind")
