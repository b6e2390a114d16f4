"""What is left to do, in shards: longest examples first, sized by estimated cost, tried three times.

    cost(example) = n^2,   n = tokens, estimated from characters: leave-one-out runs n variants of n positions each

What is quadratic in the attention of one variant is left out: n^2 (1 + n / (6 width)) is 11 % more at 512 tokens of
BERT-base.
"""

import traceback
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CHARACTERS = 4.0  # per token of English text
SPECIAL = 2.0  # tokens around a text
ATTEMPTS = 3
# A shard may take this many seconds of its worker: what a lost machine costs, and how long the driver hears nothing.
SECONDS = 20.0
EXAMPLES = 256


def estimated_cost(item: Any, *, longest: int | None = None) -> float:
    """The cost of an item, in squared tokens; whatever is not text counts as one. `longest`: where the model cuts
    texts.

    >>> estimated_cost("a" * 40), estimated_cost("a" * 40, longest=10), estimated_cost(3)
    (144.0, 100.0, 1.0)
    """
    content = getattr(item, "item", item)
    texts = [text for text in (content if isinstance(content, tuple) else (content,)) if isinstance(text, str)]
    if not texts:
        return 1.0
    tokens = SPECIAL + sum(map(len, texts)) / CHARACTERS
    return float(tokens if longest is None else min(tokens, longest)) ** 2


@dataclass(frozen=True, eq=False)
class Shard:
    """Items that go to one worker together. attempt: 1 the first time."""

    items: tuple[Any, ...]
    cost: float
    attempt: int = 1


class Shards:
    """Hands out shards, and takes back what was lost or failed. `failed`: examples that failed three times, with the
    last error.
    """

    def __init__(self, items: Iterable[Any], *, longest: int | None = None) -> None:
        self._items = list(items)
        self._costs = np.array([estimated_cost(item, longest=longest) for item in self._items])
        self._order = np.argsort(-self._costs, kind="stable")
        self._next = 0
        self._again: deque[Shard] = deque()
        self.left = float(self._costs.sum())
        self.failed: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._again) or self._next < len(self._items)

    def take(self, *, workers: int, speed: float | None) -> Shard:
        """The next shard: what was lost before, else the longest examples that are left.

        speed: cost per second of the worker that it is for; as long as nothing is known of it, it gets one example.
        Towards the end shards become smaller, at most half of a worker's share of what is left, so that nobody finishes
        long after the others.
        """
        if self._again:
            shard = self._again.popleft()
        else:
            target = 0.0 if speed is None else min(self.left / (2 * workers), speed * SECONDS)
            start, cost = self._next, 0.0
            while self._next < len(self._items) and self._next - start < EXAMPLES:
                own = float(self._costs[self._order[self._next]])
                if self._next > start and cost + own > target:
                    break
                cost += own
                self._next += 1
            shard = Shard(tuple(self._items[i] for i in self._order[start : self._next]), cost)
        self.left -= shard.cost
        return shard

    def give_back(self, shard: Shard) -> None:
        """A shard that was never begun, through no fault of its own."""
        self._again.append(shard)
        self.left += shard.cost

    def fail(self, shard: Shard, items: Sequence[Any], error: str) -> None:
        """Items of a shard that failed, or took their worker with them: each is tried again for itself, so that the
        guilty one is found.
        """
        for item in items:
            if shard.attempt >= ATTEMPTS:
                self.failed[str(getattr(item, "id", item))] = error
            else:
                self.give_back(Shard((item,), shard.cost / len(shard.items), shard.attempt + 1))


def said(error: BaseException) -> str:
    """An error in one line, with the place it came from."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{place}"
