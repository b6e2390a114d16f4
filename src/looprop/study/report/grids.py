"""Tables as plain data, which the kinds of experiments hand to a report, and what they call methods and metrics."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from looprop.methods.registry import CATALOGUE
from looprop.metrics import Estimate, get_metric, metric_names
from looprop.naming import split_name
from looprop.running.engines import describe
from looprop.study.claims import JudgedClaim
from looprop.study.run import Run


@dataclass(frozen=True)
class Measured:
    """Our number with its interval and number of examples, and the paper's beside it where it printed one."""

    value: float
    low: float = math.nan
    high: float = math.nan
    count: int | None = None
    paper: float | None = None
    digits: int = 2
    best: bool = False

    @classmethod
    def of(cls, e: Estimate, **options: Any) -> "Measured":
        """A mean with its interval."""
        return cls(e.mean, e.low, e.high, e.count, **options)

    @property
    def interval(self) -> str:
        """[low, high], or nothing."""
        return "" if math.isnan(self.low) else f"[{self.shown(self.low)}, {self.shown(self.high)}]"

    @property
    def difference(self) -> str:
        """Ours minus the paper's."""
        if self.paper is None or math.isnan(self.value):
            return ""
        return f"{self._rounded(self.value - self.paper):+.{self.digits}f}"

    def shown(self, value: float | None) -> str:
        """A value in the digits of this number; a dash where there is none."""
        return "–" if value is None or math.isnan(value) else f"{self._rounded(value):.{self.digits}f}"

    def _rounded(self, value: float) -> float:
        return round(value, self.digits) + 0.0  # no minus sign before a zero


Cells = list[str | Measured]


@dataclass(frozen=True)
class Grid:
    """A table: names of columns, rows of texts and numbers.

    compared: columns that also show the paper's cell and the difference. sortable: by a click on a column, in a page.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | Measured]]
    note: str = ""
    compared: frozenset[str] = field(default_factory=frozenset)
    sortable: bool = True

    def flat_header(self) -> list[str]:
        """The header with two more columns after each compared one."""
        return [name for h in self.header for name in ((h, "paper", "diff.") if h in self.compared else (h,))]

    def flat_rows(self) -> list[list[str]]:
        """Everything as text, in the columns of `flat_header`."""
        rows = []
        for row in self.rows:
            cells: list[str] = []
            for name, cell in zip(self.header, row, strict=True):
                if isinstance(cell, str):
                    cells += [cell, "", ""] if name in self.compared else [cell]
                    continue
                cells.append(f"{cell.shown(cell.value)} {cell.interval}".strip())
                if name in self.compared:
                    cells += [cell.shown(cell.paper), cell.difference or "–"]
            rows.append(cells)
        return rows


# Forms of methods that the experiments ask for, and what is no method.
FORMS = {
    "rollout[residual=false]": "Rollout (as printed)",
    "attnlrp[epsilon=1e-6]": "AttnLRP",
    "loo[removal=mask-token]": "LOO by [MASK] token",
    "loo[removal=delete]": "LOO by deletion",
    "position": "token position",
    "length": "token length",
}


def name_of(method: str) -> str:
    """What tables call a method.

    >>> name_of("lrp[cp=:3]"), name_of("lrp[cp=4]"), name_of("ig"), name_of("ig[steps=20]")
    ('L:3', 'L4', 'IG', 'ig[steps=20]')
    """
    if method in CATALOGUE:
        return CATALOGUE[method].label()
    name, options = split_name(method)
    if name == "lrp" and options.startswith("cp="):
        return "L" + options.removeprefix("cp=")
    return FORMS.get(method, method)


def title_of(metric: str) -> str:
    """What tables call a metric; one that is not known here keeps its name.

    >>> title_of("loo-r"), title_of("delta"), title_of("of another time")
    ('r to LOO, special tokens too', 'delta', 'of another time')
    """
    return get_metric(metric).label if metric in metric_names() else metric


@dataclass(frozen=True, eq=False)
class Contents:
    """A run with its tables, and that of the paper's claims if there are any."""

    run: Run
    claims: list[Grid]
    tables: list[Grid]


def contents_of(run: Run) -> Contents:
    """What there is to say of a run."""
    claims = run.claims()
    return Contents(run, [claims_table(claims, run.kind.claims_title)] if claims else [], run.tables())


def claims_table(claims: list[JudgedClaim], title: str) -> Grid:
    """Claims with what the paper prints, where it prints something, our numbers, and the verdict."""
    printed = any(claim.paper for claim in claims)
    rows = [[one.verdict, one.claim, *([one.paper] if printed else []), one.ours] for one in claims]
    header = ["verdict", "claim", *(["paper"] if printed else []), "found here"]
    return Grid(title, header, rows, sortable=False)


def run_facts(run: Run) -> list[tuple[str, str]]:
    """Where the numbers come from."""
    identity, sessions = run.manifest["identity"], run.manifest["sessions"]
    last = sessions[-1] if sessions else {}
    facts = [("experiment", run.experiment), ("data", run.data_title), ("model", run.model)]
    facts.append(("examples", f"{len(run.computed)} of {run.manifest['tasks']}"))
    if weights := identity.get("model", {}).get("weights"):
        facts.append(("weights", weights[:12]))
    torch = str(last.get("versions", {}).get("torch", "not stated"))
    facts += [("seed", str(identity.get("seed", 0))), ("torch", torch)]
    facts += [("finished", last.get("finished") or "not yet"), ("sessions", str(len(sessions)))]
    taken_over: Counter[str] = Counter()
    for session in sessions:
        if other := session.get("loo_from"):
            taken_over[other["run"]] += other["examples"]
    facts += [("leave-one-out", f"of {count} examples from {other}") for other, count in taken_over.items() if count]
    engines = [session["engine"] for session in sessions if "engine" in session]
    facts += [(f"machines ({engine['name']})", describe(engine)) for engine in engines]
    unstated = dict.fromkeys(name for session in sessions for name in session.get("unstated", ()))
    troubles = {
        "failed examples": "; ".join(f"{example}: {error}" for example, error in run.failed.items()),
        "damaged parts computed anew": ", ".join(run.damaged),
        "not stated when the run was begun": ", ".join(unstated),
    }
    return facts + [(name, trouble) for name, trouble in troubles.items() if trouble]
