"""A subject: a model bound to one input, one target and one partition into features."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.errors import TargetError
from looprop.intercept.attention import SiteBias
from looprop.models.adapter import Adapter
from looprop.models.agreement import AGREEMENT, ROUTE, another_answer, rounding
from looprop.models.answer_rows import FIRST_ROW, AnswerRows
from looprop.models.answers import Answer
from looprop.models.encoded import Encoded
from looprop.models.features import FeaturesLike, divide
from looprop.models.layout import Within
from looprop.models.ledger import SHORTEST_PROOF, CheckCost
from looprop.models.predicting import PlanFor, in_batches, predict_together
from looprop.models.prediction import Predict, Prediction, Resolved
from looprop.models.prompts import language_model
from looprop.models.target import Continuation, Target, TargetForm, TargetLike, Token, short_form
from looprop.models.trying import reach
from looprop.models.version import version_of

T = TypeVar("T")
# A class token and a distillation token; more rows are a mean.
FEW = 2


@dataclass
class Values:
    """Values of the set function under one kind of removal and precision.

    by_subset: the parts of the target's value (`Target.parts`) by kept positions, packed: targets of one continuation
    that count other tokens of it share them. told: values that were computed elsewhere, with what counted.
    asked, computed: how many subsets were asked for, and how many had to be computed. quick: which of them came from a
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


@dataclass(frozen=True)
class ReadOut:
    """Which rows of the sequence one input is answered from.

    answer_rows: as a rule for any length. rows: their numbers, counted with the positions that are no features (class
    tokens of images). a_part: many rows, more than the target asks for, and yet not all: a mean that leaves some out?
    """

    answer_rows: AnswerRows
    rows: list[int]
    a_part: bool


@dataclass
class Cache:
    """What was computed for one input so far. Methods and metrics that are given one cache share it.

    values: of the set function, by removal and precision. found: where the answer is read from.
    biases: what attention adds to the scores of each site, once it was looked for; None where that is not known.
    spread: how much the logits move when half of the input is another; looked for where they are small.
    checks: what checking cost.
    """

    values: dict[tuple[str, str], Values] = field(default_factory=dict)
    found: "ReadOut | None" = None
    biases: list[SiteBias] | None = None
    biases_sought: bool = False
    spread: float | None = None
    checks: CheckCost = field(default_factory=CheckCost)

    def once(self, name: Literal["found", "spread"], find: Callable[[], T]) -> T:
        """An entry, looked for once."""
        if getattr(self, name) is None:
            setattr(self, name, find())
        value: T = getattr(self, name)
        return value


@dataclass(frozen=True, eq=False)
class Subject:
    """What a method explains: a model's prediction for one input, one target read off it, and features.

    features: groups of positions; one score is asked for each. names, spans: what features are called and which
    characters they hold, where their tokens do not say it (sentences, documents). about: the answer and the parts of
    the prompt as plain data, for results. cache: values that methods and metrics share.
    output: the target's value. parts: what that is the sum of (P,). size, dtype: of the largest
    logit. path: the sequence of operations that gave it, as one number. length: in positions. special: which features
    are made of nothing but what the tokenizer added. probability: of the target, where the model gives probabilities.
    """

    adapter: Adapter
    encoded: Encoded
    target: Target
    features: tuple[tuple[int, ...], ...]
    prediction: Prediction
    cache: Cache = field(default_factory=Cache)
    names: tuple[str, ...] | None = None
    spans: tuple[tuple[int, int], ...] | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    output: float = field(init=False)
    parts: Tensor = field(init=False)
    size: float = field(init=False)
    dtype: torch.dtype = field(init=False)
    path: int = field(init=False)
    length: int = field(init=False)
    special: list[bool] = field(init=False)
    probability: float | None = field(init=False)

    def __post_init__(self) -> None:
        logits = self.prediction.logits
        parts = self.target.parts(logits[None]).double().cpu()
        output = float(self.target.total(parts)[0])
        chance = self.target.probability(logits) if self.prediction.one_is_true else None
        object.__setattr__(self, "dtype", logits.dtype)
        object.__setattr__(self, "path", self.prediction.path)
        object.__setattr__(self, "length", len(self.encoded.names))
        object.__setattr__(self, "output", output)
        object.__setattr__(self, "probability", chance)
        object.__setattr__(self, "special", [all(self.encoded.special[i] for i in g) for g in self.features])
        object.__setattr__(self, "parts", parts[0])
        object.__setattr__(self, "size", max(float(logits.abs().max()), abs(output)))

    def alone(self) -> Self:
        """A copy with an empty cache, so that no method is credited with another's work."""
        return replace(self, cache=Cache())

    def of(self, adapter: Adapter) -> Self:
        """The same question to another model, or to another writing of this one."""
        prediction = adapter.predict(self.encoded, positions=self.target.positions)
        return replace(self, adapter=adapter, prediction=prediction, cache=Cache())

    def each(self) -> list[Self]:
        """One subject for every token of the continuation. They share one input, and with it a forward pass where a
        method allows it, and whatever removals were computed for any of them.
        """
        shared = Cache(values=self.cache.values)
        return [replace(self, target=target, cache=shared) for target in self.target.each()]

    def differs(self, value: float, *, relative: float = AGREEMENT) -> bool:
        """Is a value that some route gives for the intact input another than the model's own?"""
        return self._beyond(abs(value - self.output), relative)

    def apart(self, logits: Tensor) -> bool:
        """Are these other logits than those of the prediction?"""
        return self._beyond(float((logits - self.prediction.logits).abs().max()), AGREEMENT)

    def _beyond(self, difference: float, relative: float) -> bool:
        """Is it more than rounding? Small logits may be differences of large numbers: how they move counts, too."""
        if difference <= rounding(self.size, self.dtype, relative=relative):
            return False
        spread = self.cache.once("spread", lambda: reach(self.adapter, self.encoded, self.prediction.logits))
        return not difference <= rounding(max(self.size, spread), self.dtype, relative=relative)

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
        return self.cache.once("found", self._read_out).answer_rows

    def _read_out(self) -> ReadOut:
        found = self._find_answer_rows()
        rows = found.rows(self.adapter.leading_positions(self.encoded) + self.length)
        return ReadOut(found, rows, not found.everything and len(rows) > max(FEW, self.target.positions))

    def _find_answer_rows(self) -> AnswerRows:
        if self.length < 2:
            return FIRST_ROW
        ledger = self.adapter.ledger
        if not ledger.moves and (known := ledger.answer_rows.get(self.path)) is not None:
            return known
        try:
            rows = self.adapter.answer_rows(self.encoded, positions=self.target.positions)
        except (RuntimeError, MemoryError):  # too large for the engine
            return FIRST_ROW
        if rows.everything or (rows == FIRST_ROW and self.length > SHORTEST_PROOF):
            ledger.answer_rows[self.path] = rows
        return rows

    @property
    def something_stays(self) -> bool:
        """Is something always kept that the answer can be read from, so that all features may go? What comes after the
        place where a decoder begins to answer does not count.
        """
        last = self.length - self.target.positions if self.adapter.causal else self.length - 1
        return any(position <= last for position in self.encoded.fixed)

    @property
    def rows_read(self) -> list[int]:
        """The numbers of these rows."""
        return self.cache.once("found", self._read_out).rows

    def rows_needed(self, keep: Tensor) -> Tensor:
        """Rows to compute for each variant: the kept ones and, unless it is a mean over these, the answer's. (B, T)"""
        needed = keep.clone()
        if not self.answer_rows.everything:
            needed[:, self.rows_read] = True
        return needed

    def count_rows(self, keep: Tensor) -> Tensor:
        """How many rows each variant needs: (B, T) -> (B,)."""
        return self.rows_needed(keep).sum(1)

    @property
    def reads_a_part(self) -> bool:
        """Is the answer read from a mean that leaves some rows out?"""
        return self.cache.once("found", self._read_out).a_part

    def group(self, token_scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores of features from scores of positions: a feature's score is the sum of its positions'."""
        return np.array([token_scores[list(group)].sum() for group in self.features])


def bind(
    adapter: Adapter,
    item: Any,
    *,
    target: TargetLike = None,
    features: FeaturesLike | None = None,
    within: Within = None,
    truncation: bool = False,
    plan_for: PlanFor | None = None,
) -> Subject:
    """Encode an input, fix its target on the intact model, and split it into features.

    item: what the adapter takes, or an `Answer`, which is its own target. features: None is tokens, and of an answer
    its documents or sentences. within: where features are sought; everything else is kept and gets no score.
    plan_for: gives the plan under which the method that will be asked runs the model, if it is one pass under a plan.
    """
    if isinstance(item, Answer):
        return _bind_answer(adapter, item, target, features or item.usual_features, within)
    encoded = adapter.encode(item, truncation=truncation)
    predict = partial(adapter.predict, plan_for=plan_for) if plan_for else None
    return bind_encoded(adapter, encoded, target, features, within, predict)


def bind_together(
    adapter: Adapter,
    items: Sequence[Any],
    targets: Sequence[TargetLike],
    *,
    plan_for: PlanFor,
    truncation: bool = False,
    features: FeaturesLike | None = None,
    within: Within = None,
) -> Iterator[dict[int, Subject]]:
    """Bind several inputs, in batches that are predicted by one pass under a plan: subjects by number of the input."""
    encoded = [adapter.encode(item, truncation=truncation) for item in items]
    for batch in in_batches(adapter, encoded):
        found = predict_together(adapter, [encoded[i] for i in batch], plan_for)
        known = dict(zip((id(encoded[i]) for i in batch), found, strict=False))

        def predict(one: Encoded, *, positions: int = 1, known: dict[int, Prediction] = known) -> Prediction:
            ready = known.get(id(one)) if positions == 1 else None
            return ready or adapter.predict(one, positions=positions)

        yield {i: bind_encoded(adapter, encoded[i], targets[i], features, within, predict) for i in batch}


def bind_encoded(
    adapter: Adapter,
    encoded: Encoded,
    target: TargetLike,
    features: FeaturesLike | None = None,
    within: Within = None,
    predict: Predict | None = None,
) -> Subject:
    """The same for an input that is encoded already."""
    if isinstance(target, Continuation | Token) and adapter.target_words != "token":
        raise TargetError(f"a {type(target).__name__} is a target of language models, and {adapter.name} is none")
    wanted = short_form(target) if isinstance(target, TargetForm) else target
    return _divided(adapter, adapter.resolve(encoded, wanted, predict), features or "token", within)


def new_subject(adapter: Adapter, encoded: Encoded, target: Target, features: tuple[tuple[int, ...], ...]) -> Subject:
    """A subject whose target and features are known already; the model is asked for its prediction."""
    return Subject(adapter, encoded, target, features, adapter.predict(encoded, positions=target.positions))


def _bind_answer(
    adapter: Adapter, answer: Answer, target: TargetLike, features: FeaturesLike, within: Within
) -> Subject:
    if target is not None:
        raise TargetError("an answer is its own target: ask for a part of it, a[3:7] or a['12:40'], without target=")
    if answer.adapter is not adapter or answer.resolved.prediction.version != version_of(adapter):
        answer = answer.of(language_model(adapter, "an answer"))
    if answer.part == (0, len(answer)):
        resolved = replace(answer.resolved, target=Target(answer.ids, answer.text, continuation=True))
    else:
        resolved = adapter.resolve(answer.encoded, answer.target)
    subject = _divided(adapter, resolved, features, within)
    return replace(subject, about={**subject.about, "answer": answer.to_dict()})


def _divided(adapter: Adapter, resolved: Resolved, features: FeaturesLike, within: Within) -> Subject:
    divided = divide(resolved.encoded, features, within)
    about = {} if resolved.encoded.layout is None else {"prompt": resolved.encoded.layout.to_dict()}
    return Subject(
        adapter,
        divided.encoded,
        resolved.target,
        divided.groups,
        resolved.prediction,
        names=divided.names,
        spans=divided.spans,
        about=about,
    )
