"""The result of an audit: all rewrites, their effect on each method, the sanity checks, a verdict per method.

NaN stands for "not measured" throughout, and "" for "not refused". In a saved audit NaN is null; verdicts are written
for readers of the file, and judged anew from the numbers when it is loaded.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

from looprop.auditing.verdicts import MethodVerdict, judge
from looprop.errors import DataError
from looprop.result.codec import to_data
from looprop.result.writers import Record, Result

Status = Literal["applied", "nothing to change", "refused"]


@dataclass(frozen=True)
class Attempt:
    """One rewrite of the model.

    places: what was changed. unsupported: what was met and left alone, with the reason. logits, gradient: the largest
    relative deviations of the proof, NaN where there was none. reason: of a refusal.
    """

    rewrite: str
    summary: str
    status: Status
    places: tuple[str, ...] = ()
    unsupported: tuple[str, ...] = ()
    logits: float = math.nan
    gradient: float = math.nan
    reason: str = ""


@dataclass(frozen=True)
class RewriteEffect:
    """The effect of one rewrite on the explanations of one method: see `asking.Agreement`.

    loo_r: mean r of the explanation after the rewrite with leave-one-out.
    refused: why there is no explanation to compare.
    """

    method: str
    rewrite: str
    r: float = math.nan
    lowest_r: float = math.nan
    change: float = math.nan
    top: float = math.nan
    loo_r: float = math.nan
    refused: str = ""


@dataclass(frozen=True)
class Checks:
    """The sanity checks of one method.

    residual: median over inputs of |f - sum of scores| / |f|, or of the residual that the method states.
    complete: it promises none.
    randomised: mean r with the explanation of the model whose weights are shuffled from the last layer down, by stages.
    shifted, shifted_r: largest relative change and mean r when the input's zero is moved and the model moves it back.
    batched: largest relative change between inputs explained alone and in one batch.
    slopes: by how much scores by rules differ from measured slopes of what the rules say (`slopes.slope_gap`).
    loo_r: mean r with leave-one-out.
    refused: why there are none.
    """

    method: str
    residual: float = math.nan
    complete: bool = False
    randomised: tuple[float, ...] = ()
    shifted: float = math.nan
    shifted_r: float = math.nan
    batched: float = math.nan
    slopes: float = math.nan
    loo_r: float = math.nan
    refused: str = ""


@dataclass(frozen=True, eq=False)
class Audit(Result):
    """Methods under equivalent rewrites of one model.

    attempts: what each rewrite did. rows: every method under every rewrite that was carried out. tolerance: up to this
    relative change, an explanation counts as the same.
    about: model, precision, and the manifest: versions, machine, hashes of weights and inputs.
    """

    SCHEMA = "looprop.audit"
    NAMES = MappingProxyType({"attempts": "rewrites"})
    DERIVED = ("verdicts",)

    attempts: tuple[Attempt, ...]
    rows: tuple[RewriteEffect, ...]
    checks: tuple[Checks, ...]
    title: str
    tolerance: float
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        """The methods, in the order they were asked for."""
        return [check.method for check in self.checks]

    @property
    def applied(self) -> list[str]:
        """The rewrites that were carried out and proven."""
        return [attempt.rewrite for attempt in self.attempts if attempt.status == "applied"]

    @cached_property
    def verdicts(self) -> dict[str, MethodVerdict]:
        """The verdict on each method, in a word and in a sentence."""
        return {
            check.method: judge([row for row in self.rows if row.method == check.method], check, self.tolerance)
            for check in self.checks
        }

    def row(self, method: str, rewrite: str) -> RewriteEffect:
        """One cell of the table."""
        for row in self.rows:
            if (row.method, row.rewrite) == (method, rewrite):
                return row
        raise DataError(
            f"there is no {method!r} under {rewrite!r}; methods: {', '.join(self.methods)}; rewrites: "
            f"{', '.join(self.applied)}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the verdicts; NaN becomes None."""
        data = super().to_dict()
        for check in data["checks"]:
            if check["slopes"] is None:  # audits of before there was this check stay as they were written
                del check["slopes"]
        return {**data, "verdicts": {method: to_data(found) for method, found in self.verdicts.items()}}

    def records(self) -> list[Record]:
        """One row per method and rewrite."""
        return [asdict(row) for row in self.rows]

    def page(self) -> str:
        """A page of HTML."""
        from looprop.auditing.page import audit_page

        return audit_page(self)

    def _repr_html_(self) -> str:
        from looprop.auditing.page import audit_fragment

        return audit_fragment(self)
