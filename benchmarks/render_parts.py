"""The last chapter of docs/benchmarks-in-detail.md: parts of looprop measured on their own, each from
the JSON of its benchmark.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.compare import TOLERANCE, compare, ratios
from benchmarks.render import number, table

Result = Mapping[str, Any]

HEAD = """
## Parts on their own

Beside what everyone would write, or beside what is counted; each has a program of its own under `benchmarks/` and its
JSON under `benchmarks/results/`. Ratios are of CPU time, from turns taken in one run.
"""


def render_parts(folder: Path) -> str:
    """The chapter, as far as there are results."""
    paths = {folder / f"{name}.json": part for name, part in PARTS.items()}
    found = [part(json.loads(path.read_text(encoding="utf-8"))) for path, part in paths.items() if path.exists()]
    for twice in (("peers", "peers_second"), ("quick_first", "quick_second")):
        runs = [folder / f"{name}.json" for name in twice]
        if all(path.exists() for path in runs):
            found.append(_stability(*(json.loads(path.read_text(encoding="utf-8")) for path in runs)))
            break
    return "\n\n".join(part.strip() for part in (HEAD, *found)) + "\n" if found else ""


def _set_function(result: Result) -> str:
    lines = []
    for row in result["rows"]:
        if "least_ratio" in row:
            times = ", ".join(f"{who} {number(of['cpu'], 1)}" for who, of in row["milliseconds_per_variant"].items())
            lines.append((row["title"], times, number(row["least_ratio"]), number(row["bar"])))
    text = """### The set function

Random BERT-base and Llama (12 layers, 512 wide); the loop over attention masks and captum's FeatureAblation each at
its best batch size. The ratio is the quickest rival's time over ours."""
    return f"{text}\n\n{table(('work', 'ms of CPU time per variant', 'ratio', 'wanted'), lines, left=2)}"


def _remedy_cost(result: Result) -> str:
    lines = []
    for row in result["rows"]:
        lines.append(
            (
                str(row["tokens"]),
                f"`{row['method']}`",
                number(row["counted"], 1),
                number(row["cpu"], 1),
                number(row["ratio"]),
            )
        )
    text = f"""### Does `looprop` cost what it says?

In forward passes, random BERT-base; measured over counted should be at most {number(result["bar"], 1)}."""
    return f"{text}\n\n{table(('tokens', 'method', 'counted', 'measured', 'ratio'), lines, left=2)}"


def _relevance_cost(result: Result) -> str:
    lines = [(str(r["tokens"]), r["name"], number(r["cpu_ratio"]), number(r["memory_ratio"])) for r in result["rows"]]
    text = f"""### Relevance beside forward and gradient

Random BERT-base; at most {result["bars"]["cpu"]:g} of the time and {result["bars"]["memory"]:g} of the peak memory
are wanted."""
    return f"{text}\n\n{table(('tokens', 'method', 'time', 'peak memory'), lines, left=2)}"


def _experiments_cost(result: Result) -> str:
    layers, baselines = (number(result["cpu"][name], 0) for name in ("layers", "baselines"))
    return f"""### The layer-wise study beside the baselines

{result["sentences"]} sentences of SST-2, embedded model: `layers` {layers} s of CPU time, `baselines` {baselines} s:
ratio {number(result["ratio"])}, below {result["bar"]:g} wanted. Leave-one-out and the values of the curves are shared
between plans."""


def _stability(first: Result, second: Result) -> str:
    count, apart = len(dict(ratios(first))), len(compare(first, second))
    minutes = " and ".join(
        number(sum(section["seconds"] for section in run["sections"].values()) / 60, 1) for run in (first, second)
    )
    command = "python -m benchmarks --quick" if first["quick"] else "python -m benchmarks"
    return f"""### Two runs

`{command}`, twice ({minutes} minutes): {count - apart} of {count} ratios of CPU time are within
{100 * TOLERANCE:.0f} % of each other."""


def _start_up(result: Result) -> str:
    lines = [(name, number(of["cpu"]), number(of["wall"])) for name, of in result["starts"].items()]
    lines += [
        (f"leave-one-out of a long text, {name}", number(result["loo"][of]["cpu"]), number(result["loo"][of]["wall"]))
        for name, of in (("idle machine", "alone"), ("beside a busy core", "beside"))
    ]
    return (
        "### From start to end\n\nThe command line on the embedded model, a fresh process each, seconds. Where "
        "`PYTHONDONTWRITEBYTECODE` forbids byte code,\nwhat the installation has compiled is used.\n\n"
        + table(("", "CPU", "wall"), lines)
    )


def _precision(result: Result) -> str:
    models = list(dict.fromkeys(row["model"] for row in result["rows"]))
    lines = []
    for way in dict.fromkeys(row["precision"] for row in result["rows"]):
        own = {row["model"]: row for row in result["rows"] if row["precision"] == way}
        both = (f"{number(own[m]['r'], 4)}, {number(own[m]['speed'])}" if m in own else "-" for m in models)
        lines.append((way, *both))
    bars = result["bars"]
    kept = [way for way, of in result["verdict"].items() if of["kept"]]
    verdict = f"Kept: {', '.join(kept)}." if kept else "None of them is: leave-one-out stays in float32."
    return (
        "### Would less than float32 do for leave-one-out?\n\nPearson's r to leave-one-out in float32, and speed in "
        "units of torch's own float32, by a batched loop over masks.\n"
        f"A lower precision would be kept at r {bars['r']:g} and {bars['speed']:g} times the speed of the quicker "
        f'float32 on all three models. {verdict}\n`precision="bfloat16"` is there for who asks for it.\n\n'
        + table(("", *models), lines)
    )


def _default_cost(result: Result) -> str:
    rows = result["rows"]
    lines = [
        (
            str(row["tokens"]),
            number(row["passes"], 1),
            number(1000 * row["loo"], 0),
            number(1000 * row["looprop"], 0),
            number(row["ratio"], 2),
        )
        for row in rows
    ]
    head = ("tokens", "passes", "leave-one-out, ms", "`looprop`, ms", "ratio")
    return (
        "### Is exact leave-one-out ever quicker than `looprop`?\n\n"
        "CPU time, embedded model, nothing said; short texts get leave-one-out itself. The ratio should be at most "
        f"{number(result['bar'], 2)}, which allows for noise.\n\n" + table(head, lines)
    )


PARTS: dict[str, Callable[[Result], str]] = {
    "set_function": _set_function,
    "remedy_cost": _remedy_cost,
    "default_cost": _default_cost,
    "relevance_cost": _relevance_cost,
    "experiments_cost": _experiments_cost,
    "precision": _precision,
    "start_up": _start_up,
}
