"""Interactions: what pairs of features do that their parts do not, with everything needed to read and repeat it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from looprop.display.data import Cell, Column, number, visible
from looprop.display.html import card, facts, fragment, page, paragraph, table
from looprop.errors import InputError
from looprop.result.codec import Count, Positive, Vector
from looprop.result.writers import Record, Result

SHOWN = 12  # so many of the strongest pairs are shown; files have all of them
WEAK = 0.05  # pairs below this share of the strongest one are not shown
ALL = "all pairs"
NEED, REPLACE = "need each other", "replace each other"


@dataclass(frozen=True, eq=False)
class Interactions(Result):
    """The joint effects of pairs of features beyond the effects of their parts.

        I_ij = f(x) - f(x without i) - f(x without j) + f(x without i and j)

    features: the text of each feature. pairs: positions of two features each. values: I of each pair. effects:
    leave-one-out of every feature, 0 for those that always stay. possible: how many pairs there are; chosen: how those
    that were asked for were chosen. stays: what always stays. cost: in forward passes.

    >>> found = Interactions(
    ...     ["not", "bad"], [(0, 1)], np.array([3.5]), np.array([3.0, 1.5]), output=1.0, target=1, label="positive"
    ... )
    >>> found
    Interactions for 'positive' +1.00, 1 of 1 pairs: 'not' with 'bad' +3.50 (need each other)
    """

    SCHEMA = "looprop.interactions"

    features: list[str]
    pairs: list[tuple[Count, Count]]
    values: Vector
    effects: Vector
    output: float
    target: int | tuple[int, int] | str
    label: str
    text: str = ""
    possible: Positive = 1
    chosen: str = ALL
    stays: list[str] = field(default_factory=list)
    removal: str = ""
    model: str = ""
    cost: float = 0.0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        for name, count in (("values", len(self.pairs)), ("effects", len(self.features))):
            array = np.asarray(getattr(self, name), dtype=np.float64)
            if array.shape != (count,):
                raise InputError(f"{name} must have length {count}, got shape {array.shape}")
            object.__setattr__(self, name, array)
        for pair in self.pairs:
            if len(pair) != 2 or not 0 <= min(pair) < max(pair) < len(self.features):
                raise InputError(f"a pair is two features of {len(self.features)}, got {pair}")

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{self.features[i]!r} with {self.features[j]!r} {number(self[i, j])} ({self.says(i, j)})"
            for i, j in self.strongest(3)
        )
        return f"Interactions for {self.label!r} {number(self.output)}, {self.asked}: {shown}"

    def __getitem__(self, pair: tuple[int, int]) -> float:
        """I of two features, by their positions."""
        i, j = sorted(pair)
        if (i, j) not in self.pairs:
            raise InputError(f"the pair {(i, j)} was not asked for: {self.asked}")
        return float(self.values[self.pairs.index((i, j))])

    @property
    def asked(self) -> str:
        """How many pairs of how many."""
        return f"{len(self)} of {self.possible} pairs"

    def strongest(self, count: int = SHOWN) -> list[tuple[int, int]]:
        """The pairs with the largest |I|, the largest first; none of less than a twentieth of the largest."""
        sizes = np.abs(np.nan_to_num(self.values))
        order = np.argsort(-sizes, kind="stable")[:count]
        return [self.pairs[k] for k in order if sizes[k] > 0 and sizes[k] >= WEAK * sizes.max()]

    def together(self, i: int, j: int) -> float:
        """What is lost without both: f(x) - f(x without i and j)."""
        return float(self.effects[i] + self.effects[j]) - self[i, j]

    def says(self, i: int, j: int) -> str:
        """Whether two features need each other or replace each other, see `note`."""
        return _relation(self[i, j], self.together(i, j))

    def records(self) -> list[Record]:
        rows: list[Record] = []
        for (i, j), value in zip(self.pairs, self.values.tolist(), strict=True):
            row = {"first": self.features[i], "second": self.features[j], "interaction": value}
            one, other = float(self.effects[i]), float(self.effects[j])
            both = one + other - value
            row |= {"first_gone": one, "second_gone": other, "both_gone": both, "they": _relation(value, both)}
            rows.append(row)
        return rows

    def page(self) -> str:
        return page(f"{self.label}: pairs", interactions_card(self, with_facts=True), subtitle=self.text[:160])

    def table(self, count: int = SHOWN) -> tuple[list[Column], list[list[str | Cell]]]:
        """The strongest pairs as columns and cells, for pages and terminals."""
        columns = [
            Column("pair"),
            Column("interaction", bars=True, tip="f(x) - f(-i) - f(-j) + f(-ij)"),
            Column("1st gone", tip="what is lost without the first"),
            Column("2nd gone", tip="without the second"),
            Column("both gone", tip="without both"),
            Column("they"),
        ]
        rows: list[list[str | Cell]] = []
        for i, j in self.strongest(count):
            effects = (self[i, j], float(self.effects[i]), float(self.effects[j]), self.together(i, j))
            cells = [Cell(value, text=number(value)) for value in effects]
            rows.append([f"{visible(self.features[i])} … {visible(self.features[j])}", *cells, self.says(i, j)])
        return columns, rows

    @property
    def note(self) -> str:
        """How many pairs were asked for, which, at what cost, and what the two words mean."""
        rest = "" if self.chosen == ALL else f", {self.chosen}"
        return (
            f"{self.asked} were asked for{rest}: {self.cost:g} forward passes. Two features that need each other lose "
            "already without one of them what they do together; of two that replace each other, such as words that say "
            "the same, one can go, and it is lost only without both."
        )

    def _repr_html_(self) -> str:
        return fragment(table(*self.table()) + paragraph(self.note))


def _relation(interaction: float, both_gone: float) -> str:
    return NEED if interaction * both_gone >= 0 else REPLACE


def interactions_card(found: Interactions, *, with_facts: bool = False) -> str:
    known = [("model", found.model), ("target", found.label), ("output", number(found.output))]
    about = facts((name, value) for name, value in known if value) if with_facts else ""
    shown = table(*found.table()) if found.pairs else ""
    return card(about + shown + paragraph(found.note), title="Pairs, the strongest first")


def cards_of(details: Sequence[Mapping[str, Any]]) -> str:
    """The sections of those explanations whose details have interactions."""
    found = (Interactions.from_dict(own["interactions"]) for own in details if "interactions" in own)
    return "".join(map(interactions_card, found))
