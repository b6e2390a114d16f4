"""What is explained: one number read off a model's logits. Targets of language models are also objects:

Token(" Paris") is " Paris"; Contrast(" Paris", " Lyon") is (" Paris", " Lyon"); Continuation(" Paris.") is
"continuation: Paris.". A continuation can also be given by its tokens, which are then never made anew from its text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from looprop.errors import ModelError, TargetError, UnknownNameError


@dataclass(frozen=True)
class Token:
    """The logit of one token (or of one class), by its text or its number."""

    token: int | str


@dataclass(frozen=True)
class Contrast:
    """The logit of one token or class, less that of another.

    plus, minus: a class by its number or label, a token by its number or text.
    """

    plus: int | str
    minus: int | str


@dataclass(frozen=True)
class Continuation:
    """The log-probability of a whole output: of each of its tokens given those before it, summed.

    text: as it is shown, and split into tokens where none are given. ids: its tokens, as they were generated.
    first: so many of them were said before: they are context and do not count.

    >>> Continuation(" Paris")
    Continuation(text=' Paris', ids=None, first=0)
    """

    text: str
    ids: tuple[int, ...] | None = None
    first: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TargetError(f"a continuation must be a text, got {type(self.text).__name__}")
        if self.ids is not None and not 0 <= self.first < len(self.ids):
            raise TargetError(f"first must be a token of the continuation, 0 to {len(self.ids) - 1}, got {self.first}")


TargetForm = Token | Contrast | Continuation
"""A target as an object."""

TargetLike = int | str | tuple[int | str, ...] | TargetForm | None
"""A class or token by number or text, a pair of them, an object, or None for what is predicted."""


@dataclass(frozen=True)
class Target:
    """One number read off the logits (B, K, C) of the last K positions that the model answers.

    index: a class, or the token ids of a continuation. against: the class to subtract, for a contrast.
    named: its label, not the class alone, says what is asked (a token's label, a span).
    counted: of a continuation, the tokens whose log-probabilities count (first, after the last); None for all.
    key: what results call this target. positions: how many of the last positions' logits it reads.
    """

    index: tuple[int, ...]
    label: str
    against: int | None = None
    continuation: bool = False
    named: bool = False
    counted: tuple[int, int] | None = None
    key: int | tuple[int, int] | str = field(init=False)
    positions: int = field(init=False)

    def __post_init__(self) -> None:
        single = self.index[0] if self.against is None else (self.index[0], self.against)
        object.__setattr__(self, "key", self.label if self.continuation or self.named else single)
        object.__setattr__(self, "positions", len(self.index) + 1 if self.continuation else 1)

    def value(self, logits: Tensor) -> Tensor:
        """A logit, a difference of two, or a summed log-probability for each row. (B, K, C) -> (B,)"""
        return self.total(self.parts(logits))

    def parts(self, logits: Tensor) -> Tensor:
        """What the value is the sum of: the log-probability of every token of a continuation, counted or not; of other
        targets the value itself. (B, K, C) -> (B, P)
        """
        if self.continuation:
            scores = logits[:, :-1].log_softmax(-1)  # (B, K - 1, C): position k predicts token k
            wanted = torch.tensor(self.index, device=logits.device)[None, :, None].expand(len(logits), -1, 1)
            return scores.gather(2, wanted).squeeze(2)
        last = logits[:, -1]
        value = last[:, self.index[0]] if self.against is None else last[:, self.index[0]] - last[:, self.against]
        return value[:, None]

    def total(self, parts: Tensor) -> Tensor:
        """The value from its parts: the sum of those that count. (B, P) -> (B,)"""
        return parts[:, slice(*(self.counted or (None, None)))].sum(1)

    def probability(self, logits: Tensor) -> float | None:
        """How likely the model finds it, from logits (K, C) of one input of which one class is true: of a class by the
        softmax, of a continuation by its log-probability; None for contrasts, and where there is one class only.
        """
        if self.continuation:
            return float(self.value(logits[None])[0].exp())
        if self.against is not None or logits.shape[-1] < 2:
            return None
        return float(logits[-1].double().softmax(-1)[self.index[0]])

    def each(self) -> "list[Target]":
        """One target for every token of a continuation that counts; all of them read the same logits."""
        if not self.continuation:
            raise TargetError("only a continuation or an answer has tokens of which each can be a target")
        first, stop = self.counted or (0, len(self.index))
        return [replace(self, counted=(k, k + 1)) for k in range(first, stop)]


def short_form(target: TargetLike) -> TargetLike:
    """A token or a contrast given as an object, in its short form; anything else as it is."""
    if isinstance(target, Token):
        return target.token
    return (target.plus, target.minus) if isinstance(target, Contrast) else target


def resolve_target(target: TargetLike, logits: Tensor, labels: dict[int, str]) -> Target:
    """The target that a user named: a class by number or label, a pair of them, or None for the predicted one.

    logits: (C,) of the intact input.
    """
    return choose(target, logits, lambda name: _index(name, len(logits), labels), lambda i: labels.get(i, str(i)))


def choose(
    target: Any, logits: Tensor, find: Callable[[Any], int], label: Callable[[int], str], kind: str = "classes"
) -> Target:
    """A class or token that `find` knows, a contrast of two, or None for the likeliest. logits: (C,)."""
    if target is None:
        index = int(logits.argmax()) if len(logits) > 1 else 0
        return Target((index,), label(index))
    if not isinstance(target, tuple):
        index = find(target)
        return Target((index,), label(index))
    if len(target) != 2:
        raise TargetError(f"a contrast is a pair (for, against), got {target!r}")
    plus, minus = map(find, target)
    if plus == minus:
        raise TargetError(f"a contrast needs two different {kind}, got {target!r}")
    return Target((plus,), f"{label(plus)} - {label(minus)}", against=minus)


def labels_of(config: Any) -> dict[int, str]:
    """The names of the classes by number, as a configuration has them under id2label; none where it has none."""
    given = getattr(config, "id2label", None)
    if not given:
        return {}
    found: dict[int, str] = {}
    for key, label in given.items() if isinstance(given, Mapping) else ():
        try:
            number = int(key)
        except (TypeError, ValueError):
            break
        if number in found:
            raise ModelError(f"id2label names class {number} twice: {found[number]!r} and {label!r}")
        found[number] = str(label)
    else:
        if found:
            return found
    raise ModelError(f"id2label must name classes by number, such as {{0: 'negative', 1: 'positive'}}, got {given!r}")


def _index(target: Any, classes: int, labels: dict[int, str]) -> int:
    if isinstance(target, str):
        target = _named(target, labels)
    elif isinstance(target, bool) or not isinstance(target, Integral):
        raise TargetError(f"a target must be a class number, a label, a pair of them or None, got {target!r}")
    if not 0 <= target < classes:
        named = f" ({labels[target]!r})" if target in labels else ""
        raise TargetError(
            f"target {target}{named} does not exist: this model has {classes} classes, 0 to {classes - 1}"
        )
    return int(target)


def _named(name: str, labels: dict[int, str]) -> int:
    """The class of this label: written exactly so, else the only one that differs in nothing but case."""
    exact = [index for index, label in labels.items() if label == name]
    found = exact or [index for index, label in labels.items() if label.casefold() == name.casefold()]
    if len(found) == 1:
        return found[0]
    if found:
        each = ", ".join(f"{index} ({labels[index]!r})" for index in found)
        raise TargetError(f"label {name!r} names more than one class: {each}; give the number of the class")
    if name.strip().isdecimal():
        raise TargetError(f"no class is called {name!r}; the class of that number is target={name.strip()}, no text")
    if not labels:
        raise TargetError(f"this model has no labels, and so none called {name!r}: give the number of the class")
    raise UnknownNameError("label", name, labels.values())
