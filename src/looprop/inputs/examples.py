"""What every loader returns: a named set of texts, of which one may draw a subset that can be drawn again."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from looprop.errors import DataError, InputError


@dataclass(frozen=True)
class Example:
    """One text. The label is a number into `Dataset.labels`, or None where the set has no labels."""

    id: str
    text: str
    label: int | None = None


@dataclass(frozen=True)
class Dataset:
    """A set of texts, whole or drawn.

    labels: the names of the classes; empty for texts without labels.
    total: how many examples the set has before a subset is drawn.
    hash: SHA-256 over ids, texts and labels, in order.
    """

    name: str
    split: str
    examples: tuple[Example, ...]
    labels: tuple[str, ...]
    total: int
    hash: str

    @property
    def subset(self) -> bool:
        """True if examples were left out."""
        return len(self.examples) < self.total

    @property
    def texts(self) -> list[str]:
        return [example.text for example in self.examples]

    @property
    def title(self) -> str:
        """The name for tables and reports; a subset says that it is one."""
        whole = f"{self.name}/{self.split}"
        return f"{whole} (subset: {len(self.examples):,} of {self.total:,})" if self.subset else whole

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)


def make_dataset(
    name: str,
    split: str,
    examples: Sequence[Example],
    *,
    labels: Sequence[str] = (),
    limit: int | None = None,
    seed: int = 0,
) -> Dataset:
    """A data set of the examples, or of `limit` of them drawn by `seed`. Results are kept by id: no two may share one.

    >>> make_dataset("two", "all", [Example("a", "good"), Example("a", "bad")])
    Traceback (most recent call last):
    looprop.errors.DataError: two/all: examples need ids of their own, got 'a' twice
    """
    ids = [example.id for example in examples]
    if twice := [one for one, count in Counter(ids).items() if count > 1]:
        raise DataError(f"{name}/{split}: examples need ids of their own, got {twice[0]!r} twice")
    if len(set(labels)) != len(labels):
        raise DataError(f"{name}/{split}: every class needs a name of its own, got {', '.join(map(repr, labels))}")
    chosen = [examples[i] for i in draw(ids, limit=limit, seed=seed)]
    parts = (part for example in chosen for part in (example.id, example.text, str(example.label)))
    return Dataset(name, split, tuple(chosen), tuple(labels), len(examples), digest(parts))


def draw(ids: Sequence[str], *, limit: int | None, seed: int) -> list[int]:
    """The positions of a subset: the `limit` ids with the smallest SHA-256 of "seed:id", in order of position.

    It depends on seed, limit and ids only, not on a library's random numbers; a smaller limit gives a part of the
    larger subset.

    >>> draw(["a", "b", "c"], limit=None, seed=0)
    [0, 1, 2]
    >>> set(draw("abcdef", limit=2, seed=1)) <= set(draw("abcdef", limit=4, seed=1))
    True
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InputError(f"limit must be an integer >= 1 or None, got {limit!r}")
    if limit is None or limit >= len(ids):
        return list(range(len(ids)))

    def place(i: int) -> bytes:
        return hashlib.sha256(f"{seed}:{ids[i]}".encode("utf-8", "surrogatepass")).digest()

    return sorted(sorted(range(len(ids)), key=place)[:limit])


def digest(parts: Iterator[str]) -> str:
    """SHA-256 of a sequence of strings, each preceded by its length, so that no two sequences run together."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        total.update(f"{len(data)}:".encode() + data)
    return total.hexdigest()
