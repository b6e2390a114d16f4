"""A subject: a model bound to one input, one target and one partition into features."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.errors import TargetError
from looprop.intercept.attention import SiteBias
from looprop.models.adapter import Adapter, Intact
from looprop.models.agreement import AGREEMENT, ROUTE, another_answer, rounding
from looprop.models.answer_rows import AnswerRows
from looprop.models.answers import Answer
from looprop.models.encoded import Encoded
from looprop.models.facts import SHORTEST_PROOF
from looprop.models.features import FeaturesLike, divide
from looprop.models.layout import Within
from looprop.models.target import Target, TargetLike, short_form
from looprop.models.target_forms import Continuation, Token

# A class token and a distillation token; more rows are a mean.
FEW = 2


@dataclass
class Values:
    """Values of the set function under one kind of removal and precision.

    by_subset: what the target's value is the sum of (`Target.parts`), by kept positions, packed: targets of one
    continuation that count other tokens of it share them. told: values that were computed elsewhere, with what counted.
    asked, computed: how many subsets were asked for, and how many had to be computed. quick: which of them by a
    shortcut.
    """

    by_subset: dict[bytes, Tensor] = field(default_factory=dict)
    told: dict[tuple[bytes, tuple[int, int] | None], float] = field(default_factory=dict)
    quick: set[bytes] = field(default_factory=set)
    asked: int = 0
    computed: int = 0

    @property
    def saved(self) -> int:
        """Subsets that were known already."""
        return self.asked - self.computed


@dataclass
class Known:
    """What is known of a subject already, shared by every method and metric that asks.

    output: the target's value on the intact input. parts: what that is the sum of (P,). size, dtype: of its largest
    logit. path: the sequence of operations that gave it. answer_rows: where it is read from.
    values: of the set function, by removal and precision. probability: of the target, where the model gives one.
    biases: what attention adds to the scores of each site, once it was sought; None where that is not known.
    """

    output: float | None = None
    size: float = 0.0
    dtype: torch.dtype = torch.float32
    path: int | None = None
    answer_rows: AnswerRows | None = None
    values: dict[tuple[str, str], Values] = field(default_factory=dict)
    biases: list[SiteBias] | None = None
    biases_sought: bool = False
    parts: Tensor | None = None
    probability: float | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """What a method explains.

    features: groups of positions; one score is asked for each. names, spans: what features are called and which
    characters they hold, where their tokens do not say it (sentences, documents). about: the answer and the parts of
    the prompt as plain data, for results. intact: what the model answers to the input as it is, where that is kept.
    """

    adapter: Adapter
    encoded: Encoded
    target: Target
    features: tuple[tuple[int, ...], ...]
    known: Known = field(default_factory=Known)
    names: tuple[str, ...] | None = None
    spans: tuple[tuple[int, int], ...] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    intact: Intact | None = None

    def afresh(self, **changes: Any) -> Self:
        """The same subject, or one with changes, of which nothing is known."""
        return replace(self, known=Known(), **changes)

    def alone(self) -> Self:
        """The same subject, of which only the output is known: what others asked must make no method look cheaper."""
        own = self.output
        known = self.known
        kept = Known(own, known.size, known.dtype, known.path, parts=known.parts, probability=known.probability)
        return replace(self, known=kept)

    def learn(self, intact: Intact) -> None:
        """Note what the model answers to the input as it is."""
        parts = self.target.parts(intact.logits[None]).double().cpu()
        self.known.parts, self.known.output = parts[0], float(self.target.total(parts)[0])
        own = self.known.output
        self.known.size, self.known.dtype = max(float(intact.logits.abs().max()), abs(own)), intact.logits.dtype
        self.known.path = intact.path
        self.known.probability = self.target.probability(intact.logits) if self.adapter.one_is_true else None

    @property
    def output(self) -> float:
        """The target's value on the intact input."""
        if self.known.output is None:
            self.learn(self.adapter.intact(self.encoded, positions=self.target.positions))
            assert self.known.output is not None
        return self.known.output

    @property
    def parts(self) -> Tensor:
        """What the target's value on the intact input is the sum of: (P,)."""
        if self.known.parts is None:
            self.learn(self.adapter.intact(self.encoded, positions=self.target.positions))
            assert self.known.parts is not None
        return self.known.parts

    def each(self) -> list[Self]:
        """One subject for every token of the continuation. They share one input, and with it a forward pass where a
        method allows it, and whatever removals were computed for any of them.
        """
        intact = (
            self.adapter.intact(self.encoded, positions=self.target.positions) if self.intact is None else self.intact
        )
        self.learn(intact)
        found = []
        for target in self.target.each():
            own = replace(self, target=target, known=Known(values=self.known.values))
            own.learn(intact)
            found.append(own)
        return found

    @property
    def path(self) -> int:
        """The sequence of operations that the intact input takes through the model, as one number."""
        if self.known.path is None:
            self.learn(self.adapter.intact(self.encoded, positions=self.target.positions))
            assert self.known.path is not None
        return self.known.path

    def differs(self, value: float, *, relative: float = AGREEMENT) -> bool:
        """Is a value that some route gives for the intact input another than the model's own?"""
        own = self.output
        return not abs(value - own) <= rounding(self.known.size, self.known.dtype, relative=relative)

    def check_route(self, value: float, route: str) -> None:
        """Raise where a route gives the intact input another value than the model itself does."""
        if self.differs(value, relative=ROUTE):
            raise another_answer(self.adapter.name, route, self.output, value)

    @property
    def answer_rows(self) -> AnswerRows:
        """Which rows of the sequence the answer is read from.

        Looked for once per sequence of operations, and on each input where it may be elsewhere: one row at one end of a
        short input may have been looked for, a class token is none that moves.
        """
        if self.known.answer_rows is None:
            self.known.answer_rows = AnswerRows(first=1) if len(self.encoded) < 2 else self._find_answer_rows()
        return self.known.answer_rows

    def _find_answer_rows(self) -> AnswerRows:
        facts = self.adapter.facts
        if not facts.moves and (known := facts.answer_rows.get(self.path)) is not None:
            return known
        try:
            rows = self.adapter.answer_rows(self.encoded, positions=self.target.positions)
        except (RuntimeError, MemoryError):  # too large for the engine
            return AnswerRows(first=1)
        if rows.everything or (rows == AnswerRows(first=1) and len(self.encoded) > SHORTEST_PROOF):
            facts.answer_rows[self.path] = rows
        return rows

    @property
    def something_stays(self) -> bool:
        """Is something always kept that the answer can be read from, so that all features may go? What comes after the
        place where a decoder begins to answer does not count.
        """
        length = len(self.encoded)
        last = length - self.target.positions if self.adapter.causal else length - 1
        return any(position <= last for position in self.encoded.fixed)

    @property
    def rows_read(self) -> list[int]:
        """Their numbers, counted with the positions that are no features (class tokens of images)."""
        return self.answer_rows.rows(self.adapter.leading_positions(self.encoded) + len(self.encoded))

    @property
    def reads_a_part(self) -> bool:
        """Is the answer read from many rows, more than the target asks for, and yet not from all: a mean that leaves
        some out?
        """
        return not self.answer_rows.everything and len(self.rows_read) > max(FEW, self.target.positions)

    def group(self, token_scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of features from scores of positions: a feature's score is the sum of its positions'."""
        return np.array([token_scores[list(group)].sum() for group in self.features])


def named_features(subject: Subject) -> tuple[list[tuple[int, int] | None], list[str]]:
    """Which characters each feature holds, None where it has none, and what it is called."""
    encoded = subject.encoded
    spans: list[tuple[int, int] | None] = list(subject.spans or ())
    for group in subject.features if subject.spans is None else ():
        own = [s for i in group if (s := encoded.offsets[i]) is not None]
        spans.append((min(s[0] for s in own), max(s[1] for s in own)) if own else None)
    if subject.names is not None:
        return spans, list(subject.names)
    names = []
    for group, span in zip(subject.features, spans, strict=True):
        whole = encoded.text[slice(*span)] if span else " ".join(encoded.names[i] for i in group)
        names.append(encoded.names[group[0]] if len(group) == 1 else whole)
    return spans, names


def bind(
    adapter: Adapter,
    item: Any,
    *,
    target: TargetLike = None,
    features: FeaturesLike | None = None,
    within: Within = None,
    truncation: bool = False,
) -> Subject:
    """Encode an input, fix its target on the intact model, and split it into features.

    item: what the adapter takes, or an `Answer`, which is its own target. features: None is tokens, and of an answer
    its documents or sentences. within: where features are sought; everything else is kept and gets no score.
    """
    if isinstance(item, Answer):
        return _bind_answer(item, target, features or item.usual_features, within)
    return bind_encoded(adapter, adapter.encode(item, truncation=truncation), target, features, within)


def bind_encoded(
    adapter: Adapter,
    encoded: Encoded,
    target: TargetLike,
    features: FeaturesLike | None = None,
    within: Within = None,
) -> Subject:
    """The same for an input that is encoded already."""
    if isinstance(target, Continuation | Token) and adapter.target_words != "token":
        raise TargetError(f"a {type(target).__name__} is a target of language models, and {adapter.name} is none")
    encoded, resolved = adapter.resolve(encoded, short_form(target))
    # What was computed to find the target is the model's own answer.
    intact = adapter.take_intact(encoded, resolved.positions)
    return _divided(adapter, encoded, resolved, features or "token", within, intact)


def _bind_answer(answer: Answer, target: TargetLike, features: FeaturesLike, within: Within) -> Subject:
    if target is not None:
        raise TargetError("an answer is its own target: ask for a part of it, a[3:7] or a['12:40'], without target=")
    encoded, intact = answer.resolved
    resolved = Target(answer.ids, answer.text, continuation=True)
    known: Intact | None = intact
    if answer.part != (0, len(answer)):
        encoded, resolved = answer.adapter.resolve(answer.encoded, answer.target)
        known = None
    subject = _divided(answer.adapter, encoded, resolved, features, within, known)
    return replace(subject, about={**subject.about, "answer": answer.to_dict()}, intact=known)


def _divided(
    adapter: Adapter,
    encoded: Encoded,
    target: Target,
    features: FeaturesLike,
    within: Within,
    intact: Intact | None,
) -> Subject:
    divided = divide(encoded, features, within)
    about = {} if encoded.layout is None else {"prompt": encoded.layout.to_dict()}
    subject = Subject(
        adapter, divided.encoded, target, divided.groups, names=divided.names, spans=divided.spans, about=about
    )
    if intact is not None:
        subject.learn(intact)
    return subject
