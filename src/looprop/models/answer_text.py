"""The text of an answer from its tokens: which characters each of them says."""

from collections.abc import Mapping, Sequence
from typing import Any

from looprop.models.token_targets import token_text

Span = tuple[int, int]


def spoken(
    tokenizer: Any, ids: Sequence[int], given: str | None = None
) -> tuple[tuple[str, ...], tuple[Span, ...], str]:
    """What each token says, its characters in the text, and the text itself.

    given: the text that the tokens were made of, where there is one. A character of several tokens belongs to the last
    of them, which completes it.
    """
    said = _decoded(tokenizer, ids)
    spans: list[Span] = []
    if given is not None and given != said:
        said, spans = given, _given_offsets(tokenizer, ids, given)
    if not spans:
        stop = 0
        for count in range(1, len(ids) + 1):
            start, stop = stop, max(stop, _alike(_decoded(tokenizer, ids[:count]), said))
            spans.append((start, stop))
        spans[-1] = (spans[-1][0], len(said))
    texts = [said[a:b] or token_text(tokenizer, i) for (a, b), i in zip(spans, ids, strict=True)]
    return tuple(texts), tuple(spans), said


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _decoded(tokenizer: Any, ids: Sequence[int]) -> str:
    text: str = tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


def _given_offsets(tokenizer: Any, ids: Sequence[int], text: str) -> list[Span]:
    """As the tokenizer says; nothing where it cannot, or makes other tokens of the text."""
    if not getattr(tokenizer, "is_fast", False):
        return []
    encoding = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return [tuple(span) for span in encoding["offset_mapping"]] if encoding["input_ids"] == list(ids) else []


def said_of(
    adapter: Any, ids: Sequence[int], text: str, about: Mapping[str, Any]
) -> tuple[tuple[str, ...], tuple[Span, ...], str]:
    """What each token of a target says, its characters, and the text: as the answer has them, where there is one.

    about: of the subject, with the answer as plain data.
    """
    answer = about.get("answer")
    if answer is None:
        return spoken(adapter.tokenizer, ids, text)
    first, stop = answer["part"]
    spans = answer["offsets"][first:stop]
    start, end = spans[0][0], spans[-1][1]
    tokens, moved = answer["tokens"][first:stop], ((a - start, b - start) for a, b in spans)
    return tuple(tokens), tuple(moved), answer["text"][start:end]
