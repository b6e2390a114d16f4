"""Prompts and targets as people give them to language models and classifiers."""

import re
from typing import Any

import torch

from looprop.errors import InputError, TargetError
from looprop.models.adapter import Adapter
from looprop.models.conversation import laid_out
from looprop.models.encoded import Encoded
from looprop.models.heads.causal_lm import CausalLanguageModel
from looprop.models.heads.encoder_decoder import EncoderDecoder
from looprop.models.target import TargetLike
from looprop.models.text import TextAdapter


def check_reads_texts(adapter: Adapter) -> None:
    """Raise unless the model reads texts."""
    if not isinstance(adapter, TextAdapter):
        page = "vision-transformer.md" if adapter.noun == "images" else "heads.md"
        raise InputError(
            f"{adapter.name} does not read texts: give it {adapter.noun} from Python, m.explain or looprop.evaluate, "
            f"see docs/how-to/{page}"
        )


def language_model(adapter: Adapter, what: str) -> CausalLanguageModel | EncoderDecoder:
    """The adapter of a model that says something; any other raises, with `what` was wanted of it."""
    if not isinstance(adapter, CausalLanguageModel | EncoderDecoder):
        raise InputError(
            f"{what} is for language models, and {adapter.name} is a {type(adapter.model).__name__}; give the text "
            "alone"
        )
    return adapter


def chat_text(tokenizer: Any, prompt: str, system: str | None = None) -> str:
    """The prompt as the user's turn in the model's own chat template; as it is where the model has none."""
    if not isinstance(prompt, str):
        raise InputError(f"a prompt must be a text, got {type(prompt).__name__}")
    return laid_out(tokenizer, prompt, system)[0]


def generated_ids(
    adapter: CausalLanguageModel | EncoderDecoder, encoded: Encoded, tokens: int
) -> tuple[list[int], int | None]:
    """The likeliest tokens, one after the other, that the model says next, and the one that ended them, if any did."""
    if not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1:
        raise InputError(f"max_new_tokens must be an integer >= 1, got {tokens!r}")
    if adapter.causal and adapter.longest is not None:
        if len(encoded) >= adapter.longest:
            raise InputError(f"the prompt has {len(encoded)} tokens, and the model takes {adapter.longest} in all")
        tokens = min(tokens, adapter.longest - len(encoded))
    with adapter.evaluating(), torch.inference_mode():
        answer = adapter.model.generate(  # type: ignore[operator]
            **encoded.inputs,
            max_new_tokens=tokens,
            do_sample=False,
            num_beams=1,
            pad_token_id=getattr(adapter.tokenizer, "pad_token_id", None) or 0,
        )
    before = len(adapter.start) if isinstance(adapter, EncoderDecoder) else len(encoded)
    ids: list[int] = answer[0, before:].tolist()
    config = getattr(adapter.model, "generation_config", None)
    ends = getattr(config, "eos_token_id", None)
    known = {*(ends if isinstance(ends, list) else [ends]), getattr(adapter.tokenizer, "eos_token_id", None)}
    return (ids[:-1], ids[-1]) if ids and ids[-1] in known else (ids, None)


def generated(adapter: CausalLanguageModel | EncoderDecoder, text: str, tokens: int) -> str:
    """What the model itself says next, by always taking the likeliest token; nothing if it ends its answer at once."""
    ids, _ = generated_ids(adapter, adapter.encode(text), tokens)
    said: str = adapter.tokenizer.decode(ids, skip_special_tokens=True)
    return said


def parse_target(text: str | None, adapter: Adapter) -> TargetLike:
    """A target as written: `positive`, `1`, `id:1`, `positive,negative`; for language models ` Paris`, ` Paris, Lyon`,
    `id:464`.

    Of a language model digits are text, and spaces count. The answer to a question and the label of a token are taken
    as they are: `in 1889`, `Paris=B-LOC`.
    """
    if text is None or adapter.target_words == "text":
        return text
    if adapter.target_words == "token":
        if "," not in text.strip(","):
            return _token(text)
        plus, _, minus = text.partition(",")
        return _token(plus), _token(minus)
    labels = adapter.labels
    commas = [place for place, character in enumerate(text) if character == ","]
    if text in labels.values() or "," not in text.strip(","):
        return _class(text, labels)
    pairs = [(text[:place], text[place + 1 :]) for place in commas]
    if len(pairs) > 1:  # labels may hold commas, too
        pairs = [pair for pair in pairs if all(_is_class(part, labels) for part in pair)]
    if len(pairs) != 1:
        raise TargetError(f"{text!r} is no pair of classes that can be told apart: write it with numbers, id:0,id:1")
    plus, minus = pairs[0]
    return _class(plus, labels), _class(minus, labels)


def _class(text: str, labels: dict[int, str]) -> int | str:
    """A class as written: its label, or its number where no label is written so."""
    name = text if text in labels.values() else text.strip()
    number = _number(name.removeprefix("id:"))
    if number is None:
        return name
    if name not in labels.values():
        return number
    others = [index for index, label in labels.items() if label == name and index != number]
    if others and number in labels:
        raise TargetError(
            f"{name!r} is the label of class {others[0]} and the number of the class {labels[number]!r}: "
            f"write id:{others[0]} or id:{number}"
        )
    return name


def _is_class(text: str, labels: dict[int, str]) -> bool:
    return text.strip() in labels.values() or _number(text.strip().removeprefix("id:")) is not None


def _number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None


def _token(text: str) -> int | str:
    number = _number(text.strip().removeprefix("id:"))
    return number if text.strip().startswith("id:") and number is not None else text
