"""What a run on planted models says: the known answers, r of every method to them, and the scores themselves."""

import math
from collections.abc import Sequence

from looprop.running.parts import Row
from looprop.study import Grid, JudgedClaim, Measured, Run
from looprop.study.report.grids import Cells, name_of

from .case import KNOWN, PlantedCase, numbers, spelt
from .measuring import SAME

TITLES = {"loo": "leave-one-out", "shapley": "the Shapley value"}


def planted_tables(run: Run) -> list[Grid]:
    """What is right, who agrees with it, and every score."""
    cases = {name: PlantedCase(**case) for name, case in run.spec["cases"].items()}
    rows = {name: [row for row in run.rows if row["example"] == name] for name in cases if name in run.computed}
    return [
        Grid(
            "What to learn", ["task", "lesson"], [[name, case.lesson] for name, case in cases.items()], sortable=False
        ),
        _answers(cases),
        *(_agreement(rows, reference) for reference in TITLES),
        *(_scores(name, cases[name], own) for name, own in rows.items()),
    ]


def known_answers(run: Run) -> list[JudgedClaim]:
    """Do the methods whose right answer is known give it?"""
    found = []
    for method in KNOWN:
        errors = {row["example"]: row[f"error to {method}"] for row in run.rows if row["method"] == method}
        if not errors:
            continue
        right = all(error < SAME for error in errors.values())  # not where it is undefined
        largest = max(errors.values(), key=lambda error: (math.isnan(error), error))
        ours = f"largest error of a score {largest:.1e}, {len(errors)} cases"
        claim = f"{method} gives the answer that is known by hand, to {SAME:g}"
        found.append(JudgedClaim(claim, "", ours, right))
    return found


def _answers(cases: dict[str, PlantedCase]) -> Grid:
    header = ["task", "text", "leave-one-out", "Shapley value", "both ends"]
    rows: list[Cells] = [
        [name, case.text, *(spelt(case.known(method)) for method in ("loo", "shapley", "both-ends"))]
        for name, case in cases.items()
    ]
    note = (
        "Words that are not named get nothing. Both ends are the mean of leave-one-out and of what a word says alone: "
        "the Shapley value wherever at most pairs interact."
    )
    return Grid("What is right", header, rows, note, sortable=False)


def _agreement(rows: dict[str, list[Row]], reference: str) -> Grid:
    methods = list(dict.fromkeys(row["method"] for own in rows.values() for row in own))
    table: list[Cells] = []
    for name, own in rows.items():
        by_method = {row["method"]: row for row in own}
        table.append([name, *(_cell(by_method.get(method), reference) for method in methods)])
    note = (
        "Of the words alone, without [CLS]. *the same*: the method gives every word the same, mostly nothing; a dash: "
        "the reference does, and the method does not, so that there is no r. The scores are below."
    )
    title = f"r to {TITLES[reference]}, as it is known by hand"
    return Grid(title, ["task", *map(name_of, methods)], table, note, sortable=False)


def _cell(row: Row | None, reference: str) -> str | Measured:
    if row is None or row["error"]:
        return "refused" if row else "–"
    words = row["scores"][1:]
    flat = max(words) - min(words) <= SAME
    return "the same" if flat else Measured(row[f"r to {reference}"])


def _scores(name: str, case: PlantedCase, rows: Sequence[Row]) -> Grid:
    words = rows[0]["words"].split()
    table: list[Cells] = [
        [f"known: {TITLES[reference]}", "", *(Measured(value) for value in numbers(case.known(reference), words))]
        for reference in TITLES
    ]
    table += [[name_of(row["method"]), *(Measured(score) for score in row["scores"])] for row in rows]
    refused = [f"{name_of(row['method'])} refuses it: {row['error']}" for row in rows if row["error"]]
    note = " ".join([f"{case.lesson} The answer is {rows[0]['output']:+.2f}.", *refused])
    return Grid(f"{name}: {case.text}", ["scores", "[CLS]", *words], table, note, sortable=False)
