"""docs/benchmarks.md in two screens, and the passage of the README: what was measured, in a reader's words. Every
figure there is a figure of the JSON.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.common import RESULTS
from benchmarks.render import measured_on, number, table
from benchmarks.targets import Target, cells, targets

Result = Mapping[str, Any]
# LOOPROP_PRODUCTS=torch python -m benchmarks --only evaluation --output benchmarks/results/evaluation_torch.json
BY_TORCH = RESULTS / "evaluation_torch.json"
BLOCK = re.compile(r"(<!-- figures: python -m benchmarks --render -->\n).*?(<!-- end of figures -->)", re.DOTALL)

HEAD = """
# Beside its peers

<!-- Written by `python -m benchmarks`; every figure is in benchmarks/results/peers.json and start_up.json. -->

The same weights, inputs and torch, in the same run, taking turns: looprop beside captum, lxt, interpreto, ferret-xai,
Quantus, shap and ContextCite, each in an environment of its own. CPU time of the process, as ratios within one run.
`make bench` measures all of it anew and writes this page.
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
([in a figure](docs/benchmarks.md), [in every figure](docs/benchmarks-in-detail.md)). On an AMD processor such as this
one looprop multiplies by oneDNN, which torch brings along and does not use by itself;
[what of these ratios comes from that](docs/speed.md):

"""
# What a reader wants to know of each target; those without a line stay on the page.
WORDS = {
    "agreement": (
        "The same numbers where the same is meant: relevance, gradients, leave-one-out and curves agree with {cases} "
        "computations of lxt, captum, interpreto, ferret-xai and Quantus to {value} of the largest score."
    ),
    "attnlrp": (
        "AttnLRP takes {median} times the CPU time of a forward pass with its gradient, from 8 to 512 tokens, one text "
        "or sixteen, encoder or decoder (at most {value})."
    ),
    "ig": "A step of integrated gradients takes {median} times captum's (at most {value}).",
    "loo": (
        "Exact leave-one-out: the quickest other library takes {median} times as long (at least {value}: {where})."
    ),
    "set": "Exact leave-one-out of many short texts at once: {median} times as long (at least {value}).",
    "curves": "Removal curves: {median} times as long (at least {value}).",
    "evaluation": (
        "A whole evaluation, five methods and {metrics} metrics on {texts} sentences: a careful script written with "
        "captum takes {value} times as long."
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
    lines += [f"- {line}\n" for line in _contexts(sections.get("prompts", {"rows": []})["rows"])]
    lines += [f"- {line}\n" for line in _without_onednn()]
    return PASSAGE.lstrip().format(machine=f"{where['cores']} cores") + "".join(lines)


def _without_onednn() -> Iterator[str]:
    """The whole evaluation once more with torch's own products, where that was measured."""
    if BY_TORCH.exists():
        for row in json.loads(BY_TORCH.read_text(encoding="utf-8"))["sections"]["evaluation"]["rows"]:
            yield (
                "With torch's own products in place of oneDNN (`LOOPROP_PRODUCTS=torch`) the script of the whole "
                f"evaluation takes {figure(row['ratio'])} times as long. No Intel processor was tried."
            )


def _contexts(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """How many times our CPU time others take to say which sentences of a context an answer rests on."""
    for own in cells([row for row in rows if "error" not in row], "context").values():
        ratios = {row["side"]: row["ratio"] for row in own if row["job"] != "forward pass"}
        if {"looprop", "captum", "context_cite"} <= ratios.keys():
            captum, cite = (figure(ratios[side] / ratios["looprop"]) for side in ("captum", "context_cite"))
            yield (
                f"Which of {own[0]['sentences']} sentences of a context an answer rests on, by leaving each out: "
                f"captum takes {captum} times as long, ContextCite {cite} times for as many random ablations."
            )


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
