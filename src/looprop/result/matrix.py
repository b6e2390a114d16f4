"""Features against the tokens of an answer: what each part of a prompt did for each token that was said."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from looprop.display.data import number
from looprop.errors import InputError
from looprop.inputs.splitting import part_of
from looprop.result.codec import Count, Matrix
from looprop.result.explanation import Explanation
from looprop.result.views import has_prompt, prompt_html
from looprop.result.writers import Record, Result


@dataclass(frozen=True, eq=False)
class ExplanationMatrix(Result):
    """Scores of every feature for every token of an answer.

    explanation: of the whole answer; its scores are the sums of the rows. matrix: (features, tokens).
    answer: the text that is explained. tokens: of the answer, as they were generated. spans: their characters in the
    answer. logprobs: the log-probability of each, which is what its column explains.

    >>> whole = Explanation(["a", "b"], np.array([3.0, 1.0]), "loo", -2.0, "Hi!", "Hi!")
    >>> scores = np.array([[2.0, 1.0], [0.5, 0.5]])
    >>> m = ExplanationMatrix(whole, scores, "Hi!", ("Hi", "!"), ((0, 2), (2, 3)), (-1.5, -0.5))
    >>> m.top(1), m["2:3"].scores.tolist(), m[0].output
    ([('a', 3.0)], [1.0, 0.5], -1.5)
    """

    SCHEMA = "looprop.explanation-matrix"

    explanation: Explanation
    matrix: Matrix
    answer: str
    tokens: tuple[str, ...]
    spans: tuple[tuple[Count, Count], ...]
    logprobs: tuple[float, ...]

    def __post_init__(self) -> None:
        matrix = np.asarray(self.matrix, dtype=np.float64)
        if matrix.shape != (len(self.explanation), len(self.tokens)):
            raise InputError(
                f"the matrix must have a row for each of {len(self.explanation)} features and a column for each of "
                f"{len(self.tokens)} tokens, got {matrix.shape}"
            )
        if not len(self.tokens) == len(self.spans) == len(self.logprobs):
            raise InputError("every token needs its characters and its log-probability")
        object.__setattr__(self, "matrix", matrix)

    @property
    def features(self) -> list[str]:
        return self.explanation.features

    @property
    def scores(self) -> NDArray[np.float64]:
        """Of the whole answer: the sums of the rows."""
        return self.explanation.scores

    def __len__(self) -> int:
        return len(self.explanation)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name!r} {number(score)}" for name, score in self.top(3))
        return (
            f"ExplanationMatrix of {self.answer!r} {number(self.explanation.output)} by {self.explanation.method}, "
            f"{len(self)} features x {len(self.tokens)} tokens: {shown}"
        )

    def top(self, count: int = 3) -> list[tuple[str, float]]:
        """The features that speak most for the answer, with their scores."""
        return self.explanation.top(count)

    def __getitem__(self, which: str | int | slice) -> Explanation:
        """The explanation of a part of the answer: characters e["12:40"], tokens e[3:7], or one token e[3]."""
        start, stop = part_of(which, self.answer, self.spans)
        said = self.answer[self.spans[start][0] : self.spans[stop - 1][1]]
        scores, output = self.matrix[:, start:stop].sum(1), float(sum(self.logprobs[start:stop]))
        return replace(self.explanation, scores=scores, output=output, target=said, label=said, residual=None)

    def records(self) -> list[Record]:
        """One row per feature, one column per token (by number, since tokens repeat), the sum last."""
        rows = zip(self.features, self.matrix.tolist(), self.scores.tolist(), strict=True)
        return [{"feature": feature, **dict(enumerate(row)), "sum": total} for feature, row, total in rows]

    def page(self) -> str:
        if not has_prompt(self.explanation):
            raise InputError("the page needs an answer: make one with m.answer or m.context, or save as .json")
        return prompt_html(self.explanation, self.matrix.tolist())

    def _repr_html_(self) -> str | None:
        if not has_prompt(self.explanation):
            return None  # a notebook shows the text
        return prompt_html(self.explanation, self.matrix.tolist(), framed=True)
