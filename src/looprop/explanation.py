"""An explanation: one score per feature, with everything needed to read, repeat and compare it."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import DataError, InputError

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

SCHEMA = "looprop.explanation"
SCHEMA_VERSION = 1


@dataclass(frozen=True, eq=False)
class Explanation:
    """The scores of one input under one method.

    features: the text of each feature (token, word, chunk), in order of position.
    scores: one float per feature; positive speaks for the target.
    offsets: character span of each feature in `text`, None where a feature has none (special tokens).
    special: True for features that the tokenizer added.
    word_ids: for each feature the number of the word it belongs to, None for special tokens.
    output: the target's value on the intact input (a logit, a difference or a log-probability).
    residual: output minus the sum of scores, for methods that promise completeness; else None.
    cost: in forward passes, counted as docs/protocol.md says.
    """

    features: list[str]
    scores: NDArray[np.float64]
    method: str
    output: float
    target: int | tuple[int, int] | str
    label: str
    text: str = ""
    offsets: list[tuple[int, int] | None] = field(default_factory=list)
    special: list[bool] = field(default_factory=list)
    word_ids: list[int | None] = field(default_factory=list)
    residual: float | None = None
    cost: float = 0.0
    seconds: float = 0.0
    model: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        scores = np.asarray(self.scores, dtype=np.float64)
        if scores.ndim != 1 or len(scores) != len(self.features):
            raise InputError(f"scores must be one number per feature: {len(self.features)} features, scores of shape {scores.shape}")
        object.__setattr__(self, "scores", scores)
        n = len(self.features)
        for name, default in (("offsets", None), ("special", False), ("word_ids", None)):
            if not getattr(self, name):
                object.__setattr__(self, name, [default] * n)
            elif len(getattr(self, name)) != n:
                raise InputError(f"{name} must have one entry per feature: {n} features, got {len(getattr(self, name))}")

    def __len__(self) -> int:
        return len(self.features)

    def words(self) -> "Explanation":
        """The same explanation with the pieces of each word merged: a word's score is the sum of its pieces'."""
        groups: list[list[int]] = []
        for i, word in enumerate(self.word_ids):
            same = groups and word is not None and self.word_ids[groups[-1][-1]] == word
            groups[-1].append(i) if same else groups.append([i])
        return self._merged(groups)

    def _merged(self, groups: list[list[int]]) -> "Explanation":
        features, offsets = [], []
        for group in groups:
            spans = [s for i in group if (s := self.offsets[i]) is not None]
            span = (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else None
            offsets.append(span)
            features.append(self.text[span[0] : span[1]] if span and self.text else "".join(self.features[i] for i in group))
        from dataclasses import replace

        return replace(
            self,
            features=features,
            scores=np.array([self.scores[group].sum() for group in groups]),
            offsets=offsets,
            special=[self.special[group[0]] for group in groups],
            word_ids=[self.word_ids[group[0]] for group in groups],
        )
