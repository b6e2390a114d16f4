"""Leave-one-out from coarse to fine: by document or paragraph first, then by sentence inside what mattered, then by
token, within a budget.

Every score is exact: what the target loses when that part, and nothing else, is removed. What was not opened keeps the
score of its group, and the result says so. A part that is small as a whole is not looked into: two sentences that
cancel each other stay unseen.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from looprop.errors import InputError
from looprop.explained import explanation_of
from looprop.measure import Outcome
from looprop.methods.loo import LeaveOneOut
from looprop.models.adapter import Removal
from looprop.models.features import Divided, FeaturesLike, divide
from looprop.models.layout import Within
from looprop.models.subject import Subject
from looprop.removal.value import SetFunction
from looprop.result.explanation import Explanation

LEVELS = ("document", "paragraph", "sentence", "token")
"""From coarse to fine; what an input does not have is left out."""


@dataclass(frozen=True)
class Piece:
    """A part of the input with its score. level: at which it was removed."""

    positions: tuple[int, ...]
    name: str
    span: tuple[int, int] | None
    level: int
    score: float


@dataclass(frozen=True)
class Limits:
    """What may be spent. budget: removals in all. seconds: of time. share: a part is looked into if its score is at
    least this share of the largest of the first level.
    """

    budget: int | None
    seconds: float | None
    share: float

    def __post_init__(self) -> None:
        if self.budget is not None and (type(self.budget) is not int or self.budget < 1):
            raise InputError(f"budget must be an integer >= 1 or None, got {self.budget!r}")
        if self.seconds is not None and not self.seconds > 0:
            raise InputError(f"seconds must be above 0 or None, got {self.seconds!r}")
        if not 0 <= self.share <= 1:
            raise InputError(f"share must be from 0 to 1, got {self.share!r}")


class _Search:
    """The pieces found so far, and what was spent on them."""

    def __init__(self, subject: Subject, levels: Sequence[str], divided: Sequence[Divided], removal: Removal | None):
        self.subject, self.levels, self.divided, self.removal = subject, levels, divided, removal
        # For every level the group of each position.
        self.group_of = [{p: n for n, group in enumerate(d.groups) for p in group} for d in divided]
        self.removals, self.start = 0, time.perf_counter()
        self.report: dict[str, Any] = {}

    def inside(self, positions: Sequence[int], level: int) -> list[tuple[list[int], int]]:
        """The groups of a level that some positions fall into, each with its number; what falls into none (space) goes
        with the group before it.
        """
        found: list[tuple[list[int], int]] = []
        waiting: list[int] = []
        for position in positions:
            number = self.group_of[level].get(position)
            if number is None and not found:
                waiting.append(position)
            elif number is None or (found and found[-1][1] == number):
                found[-1][0].append(position)
            else:
                found.append(([*waiting, position], number))
                waiting = []
        return found

    def finer(self, piece: Piece) -> tuple[list[tuple[list[int], int]], int]:
        """What a piece is made of, at the first level that parts it, and that level; nothing where none does."""
        for level in range(piece.level + 1, len(self.levels)):
            if len(found := self.inside(piece.positions, level)) > 1:
                return found, level
        return [], len(self.levels)

    def measure(self, groups: Sequence[tuple[list[int], int]], level: int) -> list[Piece]:
        """Leave-one-out of some groups."""
        parts = tuple(tuple(positions) for positions, _ in groups)
        value = SetFunction(_with_features(self.subject, parts), removal=self.removal)
        scores = self.subject.output - value(~np.eye(len(parts), dtype=bool))
        self.removals += len(parts)
        self.report = value.report()
        return [self._piece(parts[i], groups[i][1], level, float(scores[i])) for i in range(len(parts))]

    def _piece(self, positions: tuple[int, ...], number: int, level: int, score: float) -> Piece:
        divided, encoded = self.divided[level], self.subject.encoded
        if divided.names is not None and divided.spans is not None:
            return Piece(positions, divided.names[number], divided.spans[number], level, score)
        spans = [s for p in positions if (s := encoded.offsets[p]) is not None]
        span = (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else None
        return Piece(positions, " ".join(encoded.names[p] for p in positions), span, level, score)

    def stops(self, limits: Limits, more: int) -> str:
        """Why so many more removals may not be made; nothing where they may."""
        if limits.budget is not None and self.removals + more > limits.budget:
            return "budget"
        spent = time.perf_counter() - self.start
        if limits.seconds is not None and spent * (1 + more / max(self.removals, 1)) > limits.seconds:
            return "seconds"
        return ""


def coarse_to_fine(
    subject: Subject,
    *,
    within: Within = None,
    levels: Sequence[str] | None = None,
    limits: Limits,
    removal: Removal | None = None,
) -> Explanation:
    """The parts that matter, each at the finest level that was reached, and everything else in the groups it is in.

    subject: with tokens as features. levels: kinds of features by name, from coarse to fine.
    """
    names, divided = _levels(subject, levels, within)
    search = _Search(subject, names, divided, removal)
    first = [(list(group), number) for number, group in enumerate(divided[0].groups)]
    if limits.budget is not None and len(first) > limits.budget:
        raise InputError(
            f"the first level has {len(first)} parts and the budget is {limits.budget} removals: begin with a coarser "
            "level, or allow more"
        )
    pieces = search.measure(first, 0)
    least = limits.share * max(abs(piece.score) for piece in pieces)
    reasons: dict[tuple[int, ...], str] = {}
    while True:
        closed = [p for p in pieces if p.positions not in reasons and abs(p.score) >= least and search.finer(p)[0]]
        if not closed:
            break
        piece = max(closed, key=lambda p: abs(p.score))
        groups, level = search.finer(piece)
        if reason := search.stops(limits, len(groups)):
            reasons[piece.positions] = reason
            continue
        place = pieces.index(piece)
        pieces[place : place + 1] = search.measure(groups, level)
    return _result(search, pieces, reasons, limits)


def _levels(subject: Subject, levels: Sequence[str] | None, within: Within) -> tuple[list[str], list[Divided]]:
    """The levels that an input has, and its division at each."""
    layout = subject.encoded.layout
    has_documents = layout is not None and bool(layout.documents)
    wanted = list(levels or [level for level in LEVELS if level != "document" or has_documents])
    if not wanted or not all(isinstance(level, str) for level in wanted):
        raise InputError(f"levels must be kinds of features by name, from coarse to fine, got {levels!r}")
    kinds: list[FeaturesLike] = list(wanted)
    return wanted, [divide(subject.encoded, kind, within) for kind in kinds]


def _with_features(subject: Subject, features: tuple[tuple[int, ...], ...], **more: Any) -> Subject:
    """The subject with these features; all else of it always stays."""
    inside = {position for group in features for position in group}
    fixed = frozenset(position for position in range(subject.length) if position not in inside)
    return replace(subject, encoded=replace(subject.encoded, fixed=fixed), features=features, **more)


def _result(search: _Search, pieces: list[Piece], reasons: dict[tuple[int, ...], str], limits: Limits) -> Explanation:
    shown = _with_features(
        search.subject,
        tuple(piece.positions for piece in pieces),
        names=tuple(piece.name for piece in pieces),
        spans=tuple(piece.span or (0, 0) for piece in pieces),
    )
    details = {
        "levels": [search.levels[piece.level] for piece in pieces],
        # What could still be looked into, and why it was not.
        "not_opened": {
            str(number): reasons.get(piece.positions, "small")
            for number, piece in enumerate(pieces)
            if search.finer(piece)[0]
        },
        "removals": search.removals,
        "removal": search.report,
    }
    scores, seconds = np.array([piece.score for piece in pieces]), time.perf_counter() - search.start
    method = LeaveOneOut(removal=search.removal)
    measured = Outcome(scores, float(search.removals), seconds, details=details, options=method.options)
    found = explanation_of(shown, measured, method)
    options = {"levels": list(search.levels), "removal": search.removal, **vars(limits)}
    return replace(found, method="coarse-to-fine", options=options)
