"""docs/benchmarks.md in two screens, and the passage of the README: what was measured, in a reader's words. Every
figure there is a figure of the JSON.
"""

import re
from collections.abc import Mapping
from typing import Any

from benchmarks.render import measured_on, number, table
from benchmarks.targets import Target, targets

Result = Mapping[str, Any]
BLOCK = re.compile(r"(<!-- figures: python -m benchmarks --render -->\n).*?(<!-- end of figures -->)", re.DOTALL)

HEAD = """
# Beside its peers

<!-- Written by `python -m benchmarks`; every figure is in benchmarks/results/peers.json and start_up.json. -->

The same weights, inputs and torch, in the same run, taking turns: looprop beside captum, lxt, interpreto, ferret-xai,
Quantus, shap and ContextCite, each in an environment of its own. CPU time of the process, as ratios within one run.
`make bench` measures all of it anew and writes this page.

**These speeds were measured with matrix products by oneDNN, which looprop no longer uses ([why](speed.md)).** They wait
for a new run; without oneDNN the lead is smaller.

[Every figure, with versions and agreement](benchmarks-in-detail.md).
"""
FIGURE = """
## Cell by cell

![CPU time of each peer over ours](images/benchmarks.svg)

A row is a model, a length and a batch; a mark is how many times our CPU time a peer takes for the same work. Sides
that explain something else at the same cost (ContextCite's random ablations, shap's evaluations) are counted by forward
passes of a variant. Agreement of the numbers, memory, growth with length and the parts on their own are among the
[details](benchmarks-in-detail.md).
"""
PASSAGE = """
## Beside its peers

One run, the same weights, inputs and torch, CPU time on {machine}
([in a figure](docs/benchmarks.md), [in every figure](docs/benchmarks-in-detail.md)). The measured speeds were made
with matrix products that looprop no longer uses ([why](docs/speed.md)); they are left out here until they are measured
again:

"""
# What a reader wants to know of each target; those without a line stay on the page.
WORDS = {
    "agreement": (
        "The same numbers where the same is meant: relevance, gradients, leave-one-out and curves agree with {cases} "
        "computations of lxt, captum, interpreto, ferret-xai and Quantus to {value} of the largest score."
    ),
    "start": "`looprop explain` from start to end: {value} s of CPU time, most of which is importing torch and "
    "transformers.",
}


def summary(result: Result, start_up: Result | None) -> str:
    """The page."""
    parts = [HEAD, measured_on(result["sections"], versions_too=False), _targets(targets(result, start_up)), FIGURE]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def render_passage(result: Result, start_up: Result | None, readme: str) -> str:
    """The README with the passage between its two marks written anew."""
    return BLOCK.sub(lambda match: match[1] + passage(result, start_up) + match[2], readme)


def passage(result: Result, start_up: Result | None) -> str:
    """One line per target that a reader asks about."""
    sections = result["sections"]
    where = next(iter(sections.values()))["machine"]
    evaluated = next((row for row in sections.get("evaluation", {"rows": []})["rows"] if "error" not in row), {})
    more = {"texts": evaluated.get("texts"), "metrics": len(evaluated.get("metrics", ()))}
    lines = []
    for target in targets(result, start_up):
        if target.key in WORDS:
            middle = "" if target.median is None else figure(target.median)
            said = {"value": figure(target.value), "median": middle, "cases": target.cases, "where": target.where}
            lines.append(f"- {WORDS[target.key].format(**said, **more)}\n")
    return PASSAGE.lstrip().format(machine=f"{where['cores']} cores") + "".join(lines)


def figure(value: float) -> str:
    """Two digits after the point; small figures by their power of ten."""
    return f"{value:.0e}" if value < 0.01 else number(value)


def _targets(found: list[Target]) -> str:
    lines = []
    for t in found:
        bar = f"{'at least' if t.higher else 'at most'} {t.bar:g}"
        middle = "" if t.median is None else figure(t.median)
        lines.append((t.what, t.where, str(t.cases), middle, figure(t.value), bar, "yes" if t.met else "**no**"))
    head = ("what", "worst cell", "cells", "median", "worst", "wanted", "met")
    return "## Targets\n\n" + table(head, lines, left=2) if lines else ""
