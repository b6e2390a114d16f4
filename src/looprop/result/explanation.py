"""An explanation: one score per feature, with everything needed to read, repeat and compare it; how far it can be
trusted; and several of them, methods on the same text side by side, texts below each other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from looprop.display.data import Strip, number, two_decimals
from looprop.display.strips import View, comparison_fragment, comparison_page, explanation_fragment, explanation_page
from looprop.errors import DataError, InputError
from looprop.files import check_schema
from looprop.metrics.correlation import pearson
from looprop.result.codec import Count, Vector
from looprop.result.pairs import cards_of
from looprop.result.views import (
    compared,
    footer_of,
    has_prompt,
    note_of,
    nothing_matters,
    other_removal,
    prompt_html,
    shortened,
    strip_of,
    subtitle_of,
    target_said,
    title_of,
    tokens_read,
    view_of,
)
from looprop.result.writers import Record, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REPR = 6  # so many of the strongest features stand in an explanation's repr


@dataclass(frozen=True)
class Check:
    """An estimate of r to leave-one-out with its interval [low, high], and the true values that it rests on.

    places: the features whose leave-one-out is known, in order of position; values: theirs. bought: how many of them
    were computed for the check, the others by the method. cost: of the check, in forward passes. removal: how features
    were removed. exact: all are known, so that r is no estimate (docs/trust.md). matters: whether any true value is at
    least 5 % of what all features do together; None where that is not known. itself: scores are leave-one-out itself.
    """

    r: float
    low: float
    high: float
    confidence: float
    places: tuple[Count, ...]
    values: tuple[float, ...]
    bought: Count
    cost: float
    removal: str
    exact: bool
    matters: bool | None = None
    itself: bool = False

    def __post_init__(self) -> None:
        if not len(set(self.places)) == len(self.places) == len(self.values):
            raise InputError(f"a check has one value per place, got {len(self.values)} for {list(self.places)}")

    @property
    def known(self) -> dict[int, float]:
        return dict(zip(self.places, self.values, strict=True))

    @property
    def verdict(self) -> str:
        """What there is to say, in the words that follow "r to leave-one-out"."""
        if not self.places:
            return "undefined: fewer than 3 features, or scores that are not numbers"
        count, (r, low, high) = f"{len(self.places)} true values", map(two_decimals, (self.r, self.low, self.high))
        nothing = f"nothing matters by itself (of {count} none reaches 5 % of what all features do together)"
        if self.itself:
            return "exact: these are its values" + (f"; but {nothing}" if self.matters is False else "")
        if self.matters is False:
            return f"not told: {nothing}"
        if math.isnan(self.r):
            return f"undefined ({count})"
        return f"{r}, exact (all {count})" if self.exact else f"about {r} ({low} to {high}, {count})"


@dataclass(frozen=True, eq=False)
class Explanation(Result):
    """The scores of one input under one method.

    features: the text of each feature (token, word, chunk), in order of position.
    scores: one float per feature; positive speaks for the target.
    offsets: character span of each feature in `text`, None where a feature has none (special tokens).
    special: True for features that the tokenizer added. word_ids: for each feature the number of its word, if any.
    output: the target's value on the intact input (a logit, a difference or a log-probability).
    residual: output minus the sum of scores, for methods that promise completeness; else None.
    cost: in forward passes, counted as docs/protocol.md says. outside_scale: True for features that are shown but have
    no say in the colour scale (attention sinks). check: how far the scores can be trusted, if that was asked for.

    >>> e = Explanation(
    ...     features=["not", "bad"], scores=np.array([1.5, -0.5]), method="loo", output=1.0, target=1, label="positive"
    ... )
    >>> e
    Explanation of 'positive' +1.00 by loo: 'not' +1.50, 'bad' −0.500
    >>> len(e), e.to_dict()["scores"]
    (2, [1.5, -0.5])
    """

    SCHEMA = "looprop.explanation"

    features: list[str]
    scores: Vector
    method: str
    output: float
    target: int | tuple[int, int] | str
    label: str
    text: str = ""
    offsets: list[tuple[Count, Count] | None] = field(default_factory=list)
    special: list[bool] = field(default_factory=list)
    word_ids: list[int | None] = field(default_factory=list)
    residual: float | None = None
    cost: float = 0.0
    seconds: float = 0.0
    model: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    outside_scale: list[bool] = field(default_factory=list)
    check: Check | None = None

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores, dtype=np.float64)
        if scores.ndim != 1 or len(scores) != len(self.features):
            raise InputError(
                f"scores must be one number per feature: {len(self.features)} features, scores of shape {scores.shape}"
            )
        object.__setattr__(self, "scores", scores)
        n = len(self.features)
        for name, default in (("offsets", None), ("special", False), ("word_ids", None), ("outside_scale", False)):
            if not (given := getattr(self, name)):
                object.__setattr__(self, name, [default] * n)
            elif len(given) != n:
                raise InputError(f"{name} must have one entry per feature: {n} features, got {len(given)}")
        if self.check is not None and max(self.check.places, default=-1) >= n:
            raise InputError(f"the check has true values of features beyond the last of {n}")

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        strongest = np.argsort(-np.abs(np.nan_to_num(self.scores)), kind="stable")[:REPR]
        shown = ", ".join(f"{self.features[i]!r} {number(float(self.scores[i]))}" for i in strongest)
        more = f" and {len(self) - REPR} more" if len(self) > REPR else ""
        return f"Explanation of {self.label!r} {number(self.output)} by {self.method}: {shown}{more}"

    def top(self, count: int = 3) -> list[tuple[str, float]]:
        """The features that speak most for the target, with their scores."""
        order = np.argsort(-np.nan_to_num(self.scores, nan=-np.inf), kind="stable")[:count]
        return [(self.features[i], float(self.scores[i])) for i in order]

    def words(self) -> "Explanation":
        """The same explanation with the pieces of each word merged: a word's score is the sum of its pieces'."""
        groups: list[list[int]] = []
        for i, word in enumerate(self.word_ids):
            if groups and word is not None and self.word_ids[groups[-1][-1]] == word:
                groups[-1].append(i)
            else:
                groups.append([i])
        features, offsets = [], []
        for group in groups:
            spans = [s for i in group if (s := self.offsets[i]) is not None]
            span = (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else None
            offsets.append(span)
            # A feature of one piece keeps its name: the text may differ from it in case or accents.
            whole = self.text[span[0] : span[1]] if span and self.text and len(group) > 1 else ""
            features.append(whole or "".join(self.features[i] for i in group))
        return replace(
            self,
            features=features,
            scores=np.array([self.scores[group].sum() for group in groups]),
            offsets=offsets,
            special=[self.special[group[0]] for group in groups],
            word_ids=[self.word_ids[group[0]] for group in groups],
            outside_scale=[any(self.outside_scale[i] for i in group) for group in groups],
            check=self.check if len(groups) == len(self) else None,  # true values are those of single features
        )

    def correlation(self, other: "Explanation", *, special: bool = True) -> float:
        """Pearson's r between the scores of two explanations of the same features, special tokens among them or not;
        NaN where it is undefined.
        """
        if len(self) != len(other):
            raise InputError(
                f"only explanations of the same features can be correlated, got {len(self)} and {len(other)} features"
            )
        kept = [i for i in range(len(self)) if special or not self.special[i]]
        own, others = self.scores[kept], other.scores[kept]
        return pearson(own, others) if np.isfinite([own, others]).all() else math.nan

    def records(self) -> list[Record]:
        """One row per feature: position, feature, score, start, end, special, word; true_value if there is a check."""
        rows: list[Record] = []
        for i, (feature, span) in enumerate(zip(self.features, self.offsets, strict=True)):
            start, end = span or (None, None)
            row = {"position": i + 1, "feature": feature, "score": float(self.scores[i]), "start": start, "end": end}
            row |= {"special": self.special[i], "word": self.word_ids[i]}
            rows.append(row if self.check is None else row | {"true_value": self.check.known.get(i, math.nan)})
        return rows

    def page(self) -> str:
        if has_prompt(self):
            return prompt_html(self)
        about = {"subtitle": subtitle_of(self), "note": note_of(self), "footer": footer_of(self)}
        return explanation_page(title_of(self), view_of(self), **about, more=cards_of([self.details]))

    def figure(self) -> "Figure":
        """The text in colour, or the heat map of an image, as a matplotlib picture."""
        from looprop.display.figures import strip_figure

        return strip_figure(self.strip(), title=title_of(self))

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw one bar per feature and return the matplotlib axis; without `ax` on a new figure, `e.plot().figure`."""
        from looprop.display.figures import bars

        return bars(self.strip(), ax)

    def strip(self, *, r: float | None = None) -> Strip:
        """What the display layer shows of this explanation; `r` is its correlation with leave-one-out."""
        return strip_of(self, r=r)

    def _repr_html_(self) -> str:
        if has_prompt(self):
            return prompt_html(self, framed=True)
        return explanation_fragment(title_of(self), view_of(self), note=note_of(self), plain=repr(self))


class Explanations(list[Explanation], Result):
    """A list of explanations; in a notebook it shows itself as a comparison, methods on the same text side by side."""

    SCHEMA = "looprop.explanations"

    def views(self) -> list[list[View]]:
        """What is shown: explanations of one text together, each with its r to the references among them."""
        groups: dict[tuple[Any, ...], list[Explanation]] = {}
        for explanation in self:
            groups.setdefault(_input(explanation), []).append(explanation)
        return [compared(group, models=len({e.model for e in self}) > 1) for group in groups.values()]

    def notes(self) -> list[str]:
        said = []
        if any(map(nothing_matters, self)):
            said.append("No single feature matters here by itself: r to leave-one-out is made of noise.")
        read = filter(None, map(tokens_read, self))
        said += dict.fromkeys(f"The text was cut to what the model takes: {some} tokens are read." for some in read)
        said += [told for e in self if (told := other_removal(e, [o for o in self if _input(o) == _input(e)]))]
        return said

    def to_dict(self) -> dict[str, Any]:
        return {"schema": self.SCHEMA, "version": self.VERSION, "explanations": [e.to_dict() for e in self]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], **apart: Any) -> Self:
        check_schema(data, cls.SCHEMA, cls.VERSION)
        if not isinstance(data.get("explanations"), list):
            raise DataError("a list of explanations lacks 'explanations'")
        return cls(map(Explanation.from_dict, data["explanations"]), **apart)

    def records(self) -> list[Record]:
        """The rows of all explanations, with the number of the explanation and its method in front."""
        return [{"explanation": i, "method": e.method, **row} for i, e in enumerate(self) for row in e.records()]

    def page(self) -> str:
        texts, models = self._each("text"), self._each("model")
        text = shortened(texts[0]) if len(texts) == 1 else f"{len(texts)} texts"
        subtitle = ": ".join(filter(None, (", ".join(filter(None, models)), text)))
        more = cards_of([e.details for e in self])
        return comparison_page(self._title(), self.views(), notes=self.notes(), subtitle=subtitle, more=more)

    def figure(self) -> "Figure":
        """The texts in colour, methods below each other, as a matplotlib picture."""
        from looprop.display.figures import comparison_figure

        return comparison_figure([view.tokens for views in self.views() for view in views], title=self._title())

    def _title(self) -> str:
        labels, methods = list(dict.fromkeys(map(target_said, self))), self._each("method")
        title = ", ".join(labels) if len(labels) <= 3 else f"{len(labels)} targets"
        return f"{title}, by " + (", ".join(methods) if len(methods) <= 4 else f"{len(methods)} methods")

    def _each(self, name: str) -> list[str]:
        return list(dict.fromkeys(getattr(e, name) for e in self))

    def _repr_html_(self) -> str:
        return comparison_fragment(self.views(), notes=self.notes(), plain="\n".join(map(repr, self)))


def _input(e: Explanation) -> tuple[Any, ...]:
    """What explanations of the same input have in common."""
    picture = e.details.get("picture")
    return e.text, tuple(e.features), picture.get("png") if isinstance(picture, Mapping) else None
