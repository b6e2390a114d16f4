"""Features against the tokens of an answer: what each part of a prompt did for each token that was said."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from looprop.display.data import number
from looprop.display.prompt_views import has_prompt
from looprop.errors import DataError, InputError
from looprop.explanation import Explanation
from looprop.files import check_schema, file_kind, plain, read_json, to_json, write_whole
from looprop.inputs.splitting import part_of

if TYPE_CHECKING:
    import pandas

SCHEMA = "looprop.explanation-matrix"
SCHEMA_VERSION = 1


@dataclass(frozen=True, eq=False)
class ExplanationMatrix:
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

    explanation: Explanation
    matrix: NDArray[np.float64]
    answer: str
    tokens: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]
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
        """The names of the rows."""
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
        return replace(
            self.explanation,
            scores=self.matrix[:, start:stop].sum(1),
            output=float(sum(self.logprobs[start:stop])),
            target=said,
            label=said,
            residual=None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "explanation": self.explanation.to_dict(),
            "matrix": plain(self.matrix, "matrix"),
            "answer": self.answer,
            "tokens": list(self.tokens),
            "spans": [list(span) for span in self.spans],
            "logprobs": plain(list(self.logprobs), "logprobs"),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "ExplanationMatrix":
        """The inverse of `to_dict`; anything else raises a DataError that says what is wrong."""
        check_schema(data, SCHEMA, SCHEMA_VERSION)
        names = ("explanation", "matrix", "answer", "tokens", "spans", "logprobs")
        if missing := [name for name in names if name not in data]:
            raise DataError(f"the matrix lacks {', '.join(map(repr, missing))}")
        try:
            rows = [[float("nan") if value is None else float(value) for value in row] for row in data["matrix"]]
            width = len(data["tokens"])
            return cls(
                Explanation.from_dict(data["explanation"]),
                np.array(rows, dtype=np.float64).reshape(len(rows), width if not rows else len(rows[0])),
                str(data["answer"]),
                tuple(map(str, data["tokens"])),
                tuple((int(start), int(stop)) for start, stop in data["spans"]),
                tuple(map(float, data["logprobs"])),
            )
        except (InputError, TypeError, ValueError) as error:
            raise DataError(f"the matrix is not in the form of its schema: {error}") from error

    def to_pandas(self) -> "pandas.DataFrame":
        """One row per feature, one column per token (by number, since tokens repeat), the sum last."""
        import pandas

        table = pandas.DataFrame(self.matrix, columns=range(len(self.tokens)))
        table.insert(0, "feature", self.features)
        table["sum"] = self.scores
        return table

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes .json, or as .html the page of the prompt beside its answer; returns the path."""
        if file_kind(path, (".json", ".html")) == ".json":
            return write_whole(path, to_json(self.to_dict()))
        if not has_prompt(self.explanation.details):
            raise InputError("the page needs an answer: make one with m.answer or m.context, or save as .json")
        return write_whole(path, self.explanation.shown().html(self.matrix.tolist()).encode())

    def _repr_html_(self) -> str | None:
        if not has_prompt(self.explanation.details):
            return None  # a notebook shows the text
        return self.explanation.shown().html(self.matrix.tolist(), framed=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "ExplanationMatrix":
        """Reads what `save` wrote."""
        return cls.from_dict(read_json(path))


def matrix_of(
    columns: Sequence[Explanation],
    answer: str,
    tokens: Sequence[str],
    spans: Sequence[tuple[int, int]],
    logprobs: Sequence[float],
    *,
    cost: float,
) -> ExplanationMatrix:
    """From one explanation for each token: scores and times add up. cost: of all of them together."""
    matrix = np.stack([column.scores for column in columns], 1)
    whole = replace(
        columns[0],
        scores=matrix.sum(1),
        output=float(sum(logprobs)),
        target=answer,
        label=answer,
        residual=None if columns[0].residual is None else sum(column.residual or 0.0 for column in columns),
        cost=cost,
        seconds=sum(column.seconds for column in columns),
    )
    return ExplanationMatrix(whole, matrix, answer, tuple(tokens), tuple(spans), tuple(logprobs))
