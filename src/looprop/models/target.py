"""What is explained: one number read off a model's logits."""

from dataclasses import dataclass, field
from numbers import Integral

import torch
from torch import Tensor

from looprop.errors import TargetError, UnknownNameError

TargetLike = int | str | tuple[int | str, ...] | None


@dataclass(frozen=True)
class Target:
    """One number read off the logits (B, K, C) of the last K positions that the model answers.

    index: a class, or the token ids of a continuation. against: the class to subtract, for a contrast.
    named: its label, not the class alone, says what is asked (a token's label, a span).
    key: what results call this target. positions: how many of the last positions' logits it reads.
    """

    index: tuple[int, ...]
    label: str
    against: int | None = None
    continuation: bool = False
    named: bool = False
    key: int | tuple[int, int] | str = field(init=False)
    positions: int = field(init=False)

    def __post_init__(self) -> None:
        single = self.index[0] if self.against is None else (self.index[0], self.against)
        object.__setattr__(self, "key", self.label if self.continuation or self.named else single)
        object.__setattr__(self, "positions", len(self.index) + 1 if self.continuation else 1)

    def value(self, logits: Tensor) -> Tensor:
        """The target's value for each row: a logit, a difference of two, or a summed
        log-probability. (B, K, C) -> (B,)
        """
        if self.continuation:
            scores = logits[:, :-1].log_softmax(-1)  # (B, K - 1, C): position k predicts token k
            wanted = torch.tensor(self.index, device=logits.device)[None, :, None].expand(len(logits), -1, 1)
            return scores.gather(2, wanted).squeeze(2).sum(1)
        last = logits[:, -1]
        return last[:, self.index[0]] if self.against is None else last[:, self.index[0]] - last[:, self.against]


def resolve_target(target: TargetLike, logits: Tensor, labels: dict[int, str]) -> Target:
    """The target that a user named: a class by number or label, a pair of them, or None for the predicted one.

    logits: (C,) of the intact input.
    """
    if target is None:
        index = int(logits.argmax()) if len(logits) > 1 else 0
        return Target((index,), _label(index, labels))
    if isinstance(target, tuple):
        if len(target) != 2:
            raise TargetError(f"a contrast is a pair (for, against), got {target!r}")
        plus, minus = (_index(part, len(logits), labels) for part in target)
        if plus == minus:
            raise TargetError(f"a contrast needs two different classes, got {target!r}")
        return Target((plus,), f"{_label(plus, labels)} - {_label(minus, labels)}", against=minus)
    index = _index(target, len(logits), labels)
    return Target((index,), _label(index, labels))


def _label(index: int, labels: dict[int, str]) -> str:
    return labels.get(index, str(index))


def _index(target: int | str, classes: int, labels: dict[int, str]) -> int:
    if isinstance(target, str):
        for index, label in labels.items():
            if label.lower() == target.lower():
                return index
        raise UnknownNameError("label", target, labels.values())
    if isinstance(target, bool) or not isinstance(target, Integral):
        raise TargetError(f"a target must be a class number, a label, a pair of them or None, got {target!r}")
    if not 0 <= target < classes:
        raise TargetError(f"target {target} does not exist: this model has {classes} classes, 0 to {classes - 1}")
    return int(target)
