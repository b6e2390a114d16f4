"""docs/benchmarks-in-detail.md from the JSON of a run. Every figure there is a figure of the JSON."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.targets import PLAIN

Row = Mapping[str, Any]
NAMES = {
    "looprop": "**looprop**",
    "lxt_efficient": "lxt",
    "lxt_explicit": "lxt",
    "captum": "captum",
    "interpreto": "interpreto",
    "ferret": "ferret-xai",
    "quantus": "Quantus",
    "shap": "shap",
    "context_cite": "ContextCite",
}
GROUPS = {
    "explanation": "Explanations: CPU time of one text, in forward passes",
    "loo": "Leave-one-out: CPU time of one variant, in forward passes",
    "set": "Leave-one-out of a set of texts: CPU time of one variant, in forward passes",
    "prompt": "Sentences of a prompt: CPU time of one of them, in forward passes",
    "context": "Sentences of a context: CPU time of one of them, in forward passes",
    "curves": "MoRF and LeRF: CPU time of one state, in forward passes",
}

HEAD = """
# The bench in detail

<!-- Written by `python -m benchmarks`; every figure is in benchmarks/results/peers.json. -->

The short form, with its targets, is [beside its peers](benchmarks.md). One bench for all: the same weights, the same
inputs, the same torch, in the same run, taking turns. `make bench` makes one environment per peer under `.bench/`,
exchanges models as safetensors and inputs as numpy files, and writes both pages.

The unit is one plain forward pass of the same text (without gradients, in our environment) in the same round. A ratio
is the median over rounds of CPU times of the process, with its quartiles in brackets. Memory is what a run adds at
its peak to the process at rest, also given in units of the forward pass, both times with the weights of the model.
"""
SAMPLES = """
At every length a sample of variants, states and steps is timed, as large for all sides. In a batch so many texts run
at a time that 2048 positions are not exceeded, for all sides alike; one such part is timed. States of curves at 512
tokens and more remove chunks of 16; interpreto, which knows no chunks, removes as many tokens at once. A variant may
cost less than a forward pass: variants run in batches, and the set function leaves out rows that nobody reads. A step
of integrated gradients, ours and captum's, includes its share of both ends of the line, which say how exact it is.
"""
GROWTH = """
## Growth

Cost grows as size to the power of the exponent. CPU time of a random BERT, 256 wide: 4 layers where the length grows,
64 tokens where the layers do.
"""
LIMIT = """
## How near the limit

GFLOP per second of CPU time: leave-one-out through the set function (only rows that are computed count), a plain
forward pass of one text, and the bare matrix products of the same layer sizes on as many rows as one batch of the set
function holds.
"""


def render(result: Mapping[str, Any]) -> str:
    """The whole page."""
    sections = result["sections"]
    parts = [HEAD, measured_on(sections)]
    parts += [part(sections[name]["rows"]) for name, part in PARTS.items() if name in sections]
    parts.append(
        _failures([(name, row) for name, section in sections.items() for row in section["rows"] if "error" in row])
    )
    timed = [row for name in ("speed", "many_texts", "prompts") if name in sections for row in sections[name]["rows"]]
    if timed:
        parts.append(_all_times(timed))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> str:
    """A Markdown table: the first columns to the left, the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * left + " ---: |" * (len(head) - left)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def number(value: float | None, digits: int = 2) -> str:
    """A figure with so many digits after the point; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def milliseconds(seconds: float | None) -> str:
    """Three digits that count.

    >>> milliseconds(0.0123456), milliseconds(12.3456)
    ('12.3', '12346')
    """
    if seconds is None:
        return "-"
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def name_of(row: Row) -> str:
    """Who and what."""
    return str(row["job"]) if row["job"] in PLAIN else f"{NAMES[row['side']]} {row['job']}"


def measured_on(sections: Mapping[str, Any], *, versions_too: bool = True) -> str:
    """The machine, how long it took, and the versions of all sides."""
    about = next(iter(sections.values()), None)
    if about is None:
        return ""
    versions: dict[str, str] = {}
    for section in sections.values():
        versions |= {
            NAMES[side]: ", ".join(f"{package} {version}" for package, version in of.items())
            for side, of in section["versions"].items()
        }
    minutes = sum(section["seconds"] for section in sections.values()) / 60
    where = about["machine"]
    line = (
        f"{where['processor']}, {where['cores']} cores, {where['threads']} threads, {where['system']}, Python "
        f"{where['python']}"
    )
    said = f"Measured on: {line}; {minutes:.0f} minutes in all."
    return said + ("\n\n" + table(("side", "versions"), versions.items(), left=2) if versions_too else "")


def _agreement(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        if "error" not in row:
            verdict = "differs by definition" if row["bar"] is None else "yes" if row["met"] else "**no**"
            lines.append(
                (row["what"], row["peer"], verdict, row["why"], f"{row['difference']:.1e}", number(row["r"], 6))
            )
    text = (
        "## Agreement\n\nThe largest difference of a score in units of the largest score of the same text; the bar is "
        "1e-4."
    )
    return text + "\n\n" + table(("what", "peer", "agrees", "what to know", "difference", "r"), lines, left=4)


def _speed(rows: list[Row]) -> str:
    parts = ["## Speed and memory", SAMPLES.strip(), *_groups(rows)]
    return "\n\n".join(parts)


def _groups(rows: list[Row]) -> Iterator[str]:
    for group, title in GROUPS.items():
        for model, batch in dict.fromkeys((row["model"], row["batch"]) for row in rows if row["group"] == group):
            own = [row for row in rows if (row["group"], row["model"], row["batch"]) == (group, model, batch)]
            several = "" if batch == 1 else f", {batch} texts" if group == "set" else f", batch of {batch}"
            yield f"### {title}: {model}{several}\n\n" + _by_length(own)


def _by_length(rows: list[Row]) -> str:
    lengths = list(dict.fromkeys(row["tokens"] for row in rows))
    lines = []
    for name in dict.fromkeys(map(name_of, rows)):
        own = {row["tokens"]: row for row in rows if name_of(row) == name}
        lines.append((name, *(_cell(own.get(tokens)) for tokens in lengths)))
    return table(("", *(f"{tokens} tokens" for tokens in lengths)), lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    if "error" in row:
        return "failed"
    if row["job"] == "forward pass":
        return f"1 = {milliseconds(row['cpu'])} ms"
    return f"{number(row['ratio'])} [{number(row['spread'][0])}, {number(row['spread'][1])}]" if "ratio" in row else "-"


def _all_times(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        if "error" not in row:
            case = (row["group"], row["model"], str(row["tokens"]), str(row["batch"]))
            memory = (number(row.get("megabytes"), 1), number(row.get("memory_ratio")))
            lines.append(
                (name_of(row), *case, milliseconds(row["cpu"]), milliseconds(row["wall"]), str(row["rounds"]), *memory)
            )
    head = (
        "",
        "group",
        "model",
        "tokens",
        "batch",
        "CPU ms",
        "wall ms",
        "rounds",
        "added MB",
        "memory, in forward passes",
    )
    return "## All times of explanations, variants and states\n\n" + table(head, lines, left=3)


def _evaluation(rows: list[Row]) -> str:
    parts = ["### A whole evaluation"]
    for row in rows:
        if "error" in row:
            continue
        low, high = (number(q) for q in row["spread"])
        parts.append(
            "`looprop.evaluate` against the script that a researcher would write with captum (`benchmarks/script.py`: "
            "batched,\n"
            "leave-one-out computed once). Fifty steps of integrated gradients are the same arithmetic on both sides, "
            "and the largest "
            "part of ours.\n"
            f"Data: {row['data']}. Methods: {', '.join(row['methods'])}. {len(row['metrics'])} metrics. "
            f"The script takes {number(row['ratio'])} times our CPU time [{low}, {high}], "
            f"{number(row['wall_ratio'])} times our wall time.\n"
            f"The numbers that both compute differ by {row['median_difference']:.1e} in the median, at most by "
            f"{row['largest_difference']:.1e}."
        )
        lines = [
            (NAMES[side], milliseconds(of["cpu"]), milliseconds(of["wall"]))
            for side, of in row["seconds_per_text"].items()
        ]
        parts.append(table(("", "CPU ms per text", "wall ms per text"), lines))
    return "\n\n".join(parts)


def _growth(rows: list[Row]) -> str:
    fits = [row for row in rows if row["group"] == "exponent"]
    lines = [
        (
            name_of(row),
            row["against"],
            f"{row['from']} to {row['to']}",
            number(row["exponent"]),
            number(row["upper_exponent"]),
        )
        for row in fits
    ]
    many = [row for row in rows if row["group"] == "examples" and "error" not in row]
    texts = [(f"{row['size']:,}", milliseconds(row["cpu"]), number(row["megabytes"], 0)) for row in many]
    more = "Texts of a tiny model through `looprop.evaluate`, with one cheap method and exact leave-one-out:"
    first = table(("", "against", "range", "exponent", "exponent, upper half"), lines, left=3)
    return "\n\n".join(
        [GROWTH.strip(), first, more, table(("texts", "CPU ms per text", "MB added at the peak"), texts)]
    )


def _faithfulness(rows: list[Row]) -> str:
    good = sorted((row for row in rows if "error" not in row), key=lambda row: -row["r_no_special"])
    lines = []
    for row in good:
        figures = (
            number(row["cost"], 1),
            number(row["passes"], 1),
            number(row["r"], 3),
            number(row["r_no_special"], 3),
        )
        lines.append((f"{NAMES[row['side']]} {row['method']}", *figures))
    text = f"""## Faithfulness per cost

Mean Pearson's r with exact leave-one-out (attention mask) on {good[0]["data"] if good else "nothing"}, embedded model.
Cost is counted in forward passes of a text (a backward pass is two); CPU time is measured in the same unit. Peers
that give special tokens no score have an r without them only."""
    return text + "\n\n" + table(("", "counted cost", "CPU time", "r", "r without special tokens"), lines)


def _limit(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        if "error" not in row:
            speeds = (number(row[f"{name}_cpu"], 1) for name in ("set_function", "forward", "products"))
            lines.append((str(row["tokens"]), *speeds, f"{100 * row['share']:.0f} %"))
    return (
        LIMIT.strip()
        + "\n\n"
        + table(("tokens", "set function", "forward pass", "matrix products", "of the limit"), lines)
    )


def _failures(errors: list[tuple[str, Row]]) -> str:
    found = {}
    for section, row in errors:
        who = NAMES.get(row.get("side", ""), row.get("peer", ""))
        what = row.get("job") or row.get("method") or row.get("what") or row["group"]
        found[
            section,
            f"{who} {what}".strip(),
            "`" + row["error"].replace("\n", " ").replace("|", "/").replace("`", "'") + "`",
        ] = True
    return "## What failed\n\n" + table(("section", "what", "error"), found, left=3) if found else ""


def _more_cells(rows: list[Row]) -> str:
    return "\n\n".join(_groups(rows))


PARTS = {
    "agreement": _agreement,
    "speed": _speed,
    "many_texts": _more_cells,
    "prompts": _more_cells,
    "evaluation": _evaluation,
    "growth": _growth,
    "faithfulness": _faithfulness,
    "limit": _limit,
}
