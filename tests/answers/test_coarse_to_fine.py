"""Coarse to fine: every score against leave-one-out of the same group, and a needle that was planted by hand."""

import random
import resource

import numpy as np
import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers

import looprop
from looprop.errors import InputError
from looprop.workbench import Workbench
from tiny import CHAT, byte_level, tiny_decoder

NEEDLE, ASKS = "needle", "answer"


@pytest.fixture(scope="module")
def decoder() -> Workbench:
    tokenizer = byte_level()
    tokenizer.chat_template = CHAT
    return looprop.load(tiny_decoder(tokenizer, n_positions=256))


DOCUMENTS = ["the film is good. It was not bad.", "A movie.", "the great the good. Very bad. Fun and it."]


def test_every_score_is_leave_one_out_of_its_part(decoder: Workbench) -> None:
    answer = decoder.context(DOCUMENTS, "is it?", max_new_tokens=3)
    found = decoder.coarse_to_fine(answer, share=0.3)
    assert set(found.details["levels"]) <= {"document", "paragraph", "sentence", "token"}
    assert found.method == "coarse-to-fine"
    subject = decoder.subject(answer, features="token")
    value = decoder.set_function(answer, features="token")
    place = {p: n for n, (p,) in enumerate(subject.features)}
    covered: list[int] = []
    for number, span in enumerate(found.offsets):
        assert span is not None
        # The tokens of a part by their characters, read off the text and not off the partition; a lone space goes
        # with the word after it.
        lone = span[0] - 1 if found.details["levels"][number] != "token" else span[0]
        start = lone if answer.prompt[lone] == " " else span[0]
        tokens = [p for p in place if (s := subject.encoded.offsets[p]) and s[0] < span[1] and s[1] > start]
        covered += tokens
        keep = np.ones((1, len(place)), dtype=bool)
        keep[0, [place[p] for p in tokens]] = False
        assert found.scores[number] == pytest.approx(subject.output - value(keep)[0], abs=1e-4)
    assert len(covered) == len(set(covered)), "no token is in two parts"


def test_nothing_is_opened_that_is_small(decoder: Workbench) -> None:
    answer = decoder.context(DOCUMENTS, "is it?", max_new_tokens=3)
    by_document = decoder.explain(answer, "loo", features="document")
    closed = decoder.coarse_to_fine(answer, share=1.0, levels=["document", "sentence"])
    largest = int(np.abs(by_document.scores).argmax())
    sentences = [1 + d.count(". ") for d in DOCUMENTS]
    assert len(closed) == len(DOCUMENTS) - 1 + sentences[largest]
    for name, score in zip(by_document.features, by_document.scores, strict=True):
        if name in closed.features:
            assert closed.scores[closed.features.index(name)] == pytest.approx(score, abs=1e-5)
    assert set(closed.details["not_opened"].values()) <= {"small"}
    everything = decoder.coarse_to_fine(answer, share=0.0, levels=["document", "sentence"], budget=None)
    by_sentence = decoder.explain(answer, "loo", features="sentence")
    assert len(everything) == len(by_sentence)
    assert everything.scores == pytest.approx(by_sentence.scores, abs=1e-4)


def test_budgets(decoder: Workbench) -> None:
    answer = decoder.context(DOCUMENTS, "is it?", max_new_tokens=3)
    found = decoder.coarse_to_fine(answer, share=0.0, budget=7)
    assert found.details["removals"] <= 7
    assert found.cost == found.details["removals"]
    assert "budget" in found.details["not_opened"].values()
    hurried = decoder.coarse_to_fine(answer, share=0.0, seconds=1e-9)
    assert hurried.features == ["document 1", "document 2", "document 3"]
    assert set(hurried.details["not_opened"].values()) == {"seconds"}
    with pytest.raises(InputError, match="the first level has 3 parts and the budget is 2"):
        decoder.coarse_to_fine(answer, budget=2)
    for wrong in ({"budget": 0}, {"seconds": 0}, {"share": 2.0}, {"levels": [3]}, {"levels": ["syllable"]}):
        with pytest.raises(InputError):
            decoder.coarse_to_fine(answer, **wrong)  # type: ignore[arg-type]


def planted(words: list[str]) -> Workbench:
    """A random Llama of two layers, one head of which looks for the needle wherever the answer is asked for."""
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(["<unk>", NEEDLE, ASKS, ".", *words]))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    fast = hf.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<unk>")
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=8192,
        rope_parameters={"rope_type": "default", "rope_theta": 1e12},  # the slowest pair hardly turns
        pad_token_id=0,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = hf.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        table = model.model.embed_tokens.weight.normal_()
        attention, still = model.model.layers[0].self_attn, 7
        for projection, token in ((attention.k_proj, NEEDLE), (attention.q_proj, ASKS)):
            projection.weight[:16] = 0
            projection.weight[still] = 1.2 * table[vocabulary[token]] / table[vocabulary[token]].norm()
        attention.v_proj.weight[:16] *= 20
        attention.o_proj.weight[:, :16] *= 20
    return looprop.load((model, fast))


@pytest.mark.slow
def test_a_needle_in_four_thousand_tokens() -> None:
    chosen = random.Random(0)
    words = [f"w{i}" for i in range(300)]
    paragraphs = [[[chosen.choice(words) for _ in range(19)] for _ in range(8)] for _ in range(25)]
    paragraphs[13][5][7] = NEEDLE
    text = "\n\n".join(" ".join(" ".join(s).capitalize() + "." for s in p) for p in paragraphs)
    text = text.replace(NEEDLE.capitalize(), NEEDLE)
    bench = planted([*words, *(w.capitalize() for w in words)])
    answer = bench.answer(f"{text} {ASKS}", answer=words[3])
    assert 4000 <= len(answer.encoded) <= 4100
    span = (0, len(text))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = bench.coarse_to_fine(answer, within=span, budget=None)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    best = int(np.abs(found.scores).argmax())
    assert found.features[best] == NEEDLE
    assert found.details["levels"][best] == "token"
    assert found.details["removals"] < 0.05 * len(answer.encoded)
    # One variant takes attention of T x T while it runs; were it kept for each, it would be as many times as much.
    one = len(answer.encoded) ** 2 * 4 * 4 / 2**20
    assert grown < 6 * one < found.details["removals"] * one
