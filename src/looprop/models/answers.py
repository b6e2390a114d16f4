"""What a language model says to a prompt, as an object: its tokens as they were generated, never made anew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from looprop.errors import InputError
from looprop.inputs.splitting import part_of
from looprop.models.checking import tokenizer_named
from looprop.models.conversation import WITH_TEMPLATE, WITHOUT_TEMPLATE, Messages, context_prompt, laid_out
from looprop.models.encoded import Encoded
from looprop.models.features import FeaturesLike, divide
from looprop.models.heads.causal_lm import CausalLanguageModel
from looprop.models.heads.encoder_decoder import EncoderDecoder
from looprop.models.layout import Part, Span, Within
from looprop.models.prediction import Resolved
from looprop.models.prompts import generated_ids
from looprop.models.target import Continuation
from looprop.models.token_targets import token_text
from looprop.models.trying import in_one_version
from looprop.models.version import state_of

LanguageModel = CausalLanguageModel | EncoderDecoder

# So many of the likeliest tokens are kept for every place.
ALTERNATIVES = 5


@dataclass(frozen=True, eq=False)
class Answer:
    """An answer to a prompt, generated or given; `m.explain(answer)` says which parts of the prompt made it.

    prompt: the text that the model read, its chat template included. text: the answer.
    ids: its tokens as generated, without the token that ended it. tokens: their texts. offsets: their characters in
    `text`. logprobs: the log-probability of each. alternatives: for each place the likeliest tokens with theirs.
    end: the id of the token that ended the answer, None where it was cut off or given.
    part: which of the tokens are asked for; all of them unless the answer was cut: a[3:7] by tokens, a["12:40"] by
    characters. cutting: how the tokenizer cut texts then.
    """

    adapter: LanguageModel = field(repr=False)
    encoded: Encoded = field(repr=False)
    text: str
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    offsets: tuple[tuple[int, int], ...]
    logprobs: tuple[float, ...]
    alternatives: tuple[tuple[tuple[str, float], ...], ...] = field(repr=False)
    end: int | None
    part: tuple[int, int]
    generated: bool
    max_new_tokens: int = field(repr=False)
    resolved: Resolved = field(repr=False)
    cutting: object = field(repr=False)

    @property
    def prompt(self) -> str:
        """The text that the model read."""
        return self.encoded.text

    @property
    def logprob(self) -> float:
        """The log-probability of what is asked for: what an explanation of it explains."""
        return sum(self.logprobs[slice(*self.part)])

    @property
    def asked(self) -> str:
        """The text of what is asked for."""
        start, stop = self.part
        return self.text[self.offsets[start][0] : self.offsets[stop - 1][1]]

    @property
    def target(self) -> Continuation:
        """What is asked for, as a target: what was said before it is context, what comes after is left out."""
        start, stop = self.part
        return Continuation(self.asked, self.ids[:stop], start)

    @property
    def usual_features(self) -> str:
        """Documents where the prompt has any, else sentences."""
        return "document" if self.encoded.layout is not None and self.encoded.layout.documents else "sentence"

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        cut = "" if self.part == (0, len(self.ids)) else f", asked for {self.asked!r}"
        return f"Answer({self.text!r}{cut}, log-probability {self.logprob:.3f}, {len(self)} tokens)"

    def __getitem__(self, which: str | int | slice) -> "Answer":
        """The same answer, asked for tokens a[3:7], or characters a["12:40"], snapped to the tokens that hold them."""
        part = part_of(which, self.text, self.offsets)
        return replace(self, part=part)

    def without(
        self,
        *which: int | str,
        features: FeaturesLike | None = None,
        within: Within = None,
        max_new_tokens: int | None = None,
    ) -> "Answer":
        """Remove and answer again: what the model says when some features are cut out of the prompt.

        which: numbers of features, in their order, or their names. Their tokens are cut out, and those after them move
        up. features, within: as for `explain`.
        """
        divided = divide(self.encoded, features or self.usual_features, within)
        names = divided.names or tuple(" ".join(self.encoded.names[i] for i in group) for group in divided.groups)
        gone: set[int] = set()
        for one in which:
            found = [n for n, name in enumerate(names) if name == one] if isinstance(one, str) else [one]
            if len(found) != 1 or not 0 <= found[0] < len(names):
                raise InputError(
                    f"{one!r} is not the name of one feature: give its number, 0 to {len(names) - 1}, or one of "
                    f"{', '.join(repr(name[:40]) for name in names[:6])}"
                )
            gone |= set(divided.groups[found[0]])
        if not gone:
            raise InputError("name at least one feature to remove")
        left = self.encoded.only([i for i in range(len(self.encoded)) if i not in gone])
        return answer_to(self.adapter, left, max_new_tokens=max_new_tokens or self.max_new_tokens)

    def of(self, adapter: LanguageModel) -> "Answer":
        """The same answer to the same prompt, with what another model makes of its tokens, or this one by now."""
        if adapter.tokenizer is self.adapter.tokenizer and state_of(adapter.tokenizer) != self.cutting:
            raise InputError(f"the tokenizer of {adapter.name} has changed since this answer: ask again")
        ids = [*self.encoded.inputs["input_ids"][0].tolist(), *self.ids]
        with tokenizer_named(adapter.name):
            theirs, own = (one.tokenizer.convert_ids_to_tokens(ids) for one in (self.adapter, adapter))
        if theirs != own:
            raise InputError(
                f"the answer is of {self.adapter.name}, whose tokens are not those of {adapter.name}: ask the model "
                "itself, with m.answer(prompt, answer=text)"
            )
        given = answer_to(adapter, self.encoded, given=self.ids, max_new_tokens=self.max_new_tokens)
        return replace(
            given, text=self.text, offsets=self.offsets, end=self.end, part=self.part, generated=self.generated
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data: text, tokens, offsets, log-probabilities, alternatives and what is asked for."""
        return {
            "text": self.text,
            "ids": list(self.ids),
            "tokens": list(self.tokens),
            "offsets": [list(span) for span in self.offsets],
            "logprobs": list(self.logprobs),
            "alternatives": [[[token, value] for token, value in place] for place in self.alternatives],
            "part": list(self.part),
            "end": self.end,
            "generated": self.generated,
        }


def answer_to(
    adapter: LanguageModel, encoded: Encoded, *, given: str | Sequence[int] | None = None, max_new_tokens: int = 50
) -> Answer:
    """The answer to a prompt that is encoded already: the likeliest token again and again, or one that is given."""
    ends: list[int | None] = [None]

    def find() -> Resolved:
        if given is not None:
            wanted = Continuation(given) if isinstance(given, str) else Continuation("", tuple(map(int, given)))
            return adapter.resolve(encoded, wanted)
        ids, ends[0] = generated_ids(adapter, encoded, max_new_tokens)
        if not ids:
            raise InputError("the model ends its answer at once: there is nothing to explain; give one with answer=...")
        return adapter.resolve(encoded, Continuation("", tuple(ids)))

    resolved = in_one_version(adapter, find)
    ids = list(resolved.target.index)
    tokens, offsets, said = spoken(adapter.tokenizer, ids, given if isinstance(given, str) else None)
    scores = resolved.prediction.logits[:-1].log_softmax(-1)  # (N, V)
    own = scores.gather(1, torch.tensor(ids, device=scores.device)[:, None])[:, 0].tolist()
    best = scores.topk(min(ALTERNATIVES, scores.shape[1]), dim=1)
    words = ([token_text(adapter.tokenizer, i) for i in row] for row in best.indices.tolist())
    likeliest = zip(words, best.values.tolist(), strict=True)
    return Answer(
        adapter=adapter,
        encoded=encoded,
        text=said,
        ids=tuple(ids),
        tokens=tokens,
        offsets=offsets,
        logprobs=tuple(own),
        alternatives=tuple(tuple(zip(names, values, strict=True)) for names, values in likeliest),
        end=ends[0],
        part=(0, len(ids)),
        generated=given is None,
        max_new_tokens=max_new_tokens,
        resolved=resolved,
        cutting=state_of(adapter.tokenizer),
    )


def answered(
    adapter: LanguageModel,
    prompt: str | Messages,
    *,
    system: str | None = None,
    given: str | Sequence[int] | None = None,
    max_new_tokens: int = 50,
) -> Answer:
    """The answer to a prompt, or to messages, in the model's own chat template."""
    with tokenizer_named(adapter.name):
        text, layout = laid_out(adapter.tokenizer, prompt, system)
    encoded = replace(adapter.encode(text), layout=layout)
    return answer_to(adapter, encoded, given=given, max_new_tokens=max_new_tokens)


def answered_from(
    adapter: LanguageModel,
    documents: Sequence[str] | Mapping[str, str],
    question: str,
    *,
    template: str | None = None,
    system: str | None = None,
    given: str | Sequence[int] | None = None,
    max_new_tokens: int = 50,
) -> Answer:
    """The answer to a question about documents, which are the features unless others are asked for."""
    chat = bool(getattr(adapter.tokenizer, "chat_template", None))
    prompt, parts = context_prompt(documents, question, template or (WITH_TEMPLATE if chat else WITHOUT_TEMPLATE))
    with tokenizer_named(adapter.name):
        text, layout = laid_out(adapter.tokenizer, prompt, system)
    shift = layout.counted_from
    moved = tuple(Part(part.name, part.start + shift, part.stop + shift) for part in parts)
    if chat and not layout.turns:
        raise InputError("the chat template changes the prompt, so that documents cannot be found in it again")
    encoded = replace(adapter.encode(text), layout=replace(layout, documents=moved))
    return answer_to(adapter, encoded, given=given, max_new_tokens=max_new_tokens)


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
