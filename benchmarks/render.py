"""docs/benchmarks.md from the JSON of a run. Nothing here measures: every figure of the page is a figure of the JSON."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
NAMES = {
    "looprop": "**looprop**", "lxt_efficient": "lxt", "lxt_explicit": "lxt", "captum": "captum", "interpreto": "interpreto",
    "ferret": "ferret-xai", "quantus": "Quantus", "shap": "shap",
}  # fmt: skip


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table: first column to the left, the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def number(value: float | None, digits: int = 2) -> str:
    """A figure with so many digits after the point; a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f}"


def milliseconds(seconds: float | None) -> str:
    """Three digits that count."""
    return "-" if seconds is None else f"{1e3 * seconds:.3g}"


def name_of(row: Row) -> str:
    """Who and what."""
    return (
        row["job"]
        if row["job"] in ("forward pass", "forward + gradient", "plain loop over masks")
        else f"{NAMES[row['side']]} {row['job']}"
    )


def render(result: Mapping[str, Any]) -> str:
    """The whole page."""
    sections = result["sections"]
    parts = [HEAD, _measured_on(sections)]
    for name, part in PARTS.items():
        if name in sections:
            parts.append(part(sections[name]["rows"]))
    errors = [(name, row) for name, section in sections.items() for row in section["rows"] if "error" in row]
    parts.append(_errors(errors))
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


HEAD = """
# Side by side with its peers

<!-- Written by `python -m benchmarks`; every figure is in benchmarks/results/peers.json. -->

One bench for all: the same weights, the same inputs, the same torch, in the same run, taking turns. `make bench` makes one environment
per peer under `.bench/`, exchanges models as safetensors and inputs as numpy files, and writes this page. Given are medians of the CPU
time of the process, with wall time beside it; a ratio is the median over rounds of the CPU time in units of one plain forward pass of
the same text (without gradients, in our environment) in the same round, with its quartiles. Memory is what a run adds at its peak to the process at rest, in units of the
forward pass both times with the weights.
"""


def _measured_on(sections: Mapping[str, Any]) -> str:
    about = next(iter(sections.values()), None)
    if about is None:
        return ""
    where, versions = about["machine"], {}
    for section in sections.values():
        versions |= section["versions"]
    minutes = sum(section["seconds"] for section in sections.values()) / 60
    line = f"{where['processor']}, {where['cores']} cores, {where['threads']} threads, {where['system']}, Python {where['python']}; {minutes:.0f} minutes in all."
    rows = [(NAMES[side], ", ".join(f"{package} {version}" for package, version in of.items())) for side, of in versions.items()]
    return f"Measured on: {line}\n\n" + table(("side", "versions"), dict(rows).items()).replace("| ---: |", "| --- |")


def _agreement(rows: list[Row]) -> str:
    lines = []
    for row in rows:
        if "error" not in row:
            verdict = "differs by definition" if row["bar"] is None else "yes" if row["met"] else "**no**"
            lines.append((row["what"], row["peer"], f"{row['difference']:.1e}", number(row["r"], 6), verdict, row["why"]))
    text = """## Agreement

The largest difference between our score and theirs, in units of the largest score of the same text. The bar is 1e-4."""
    return text + "\n\n" + table(("what", "peer", "difference", "r", "agrees", "what is different"), lines)


def _speed(rows: list[Row]) -> str:
    parts = ["## Speed and memory"]
    titles = {
        "explanation": "Explanations: CPU time of one text, in forward passes",
        "loo": "Leave-one-out: CPU time of one variant, in forward passes",
        "curves": "MoRF and LeRF: CPU time of one state, in forward passes",
    }
    for group, title in titles.items():
        for model, batch in dict.fromkeys((row["model"], row["batch"]) for row in rows if row["group"] == group):
            own = [row for row in rows if (row["group"], row["model"], row["batch"]) == (group, model, batch)]
            several = f", batch of {batch}" if batch > 1 else ""
            parts.append(f"### {title}: {model}{several}\n\n" + _by_length(own))
    parts.append(
        "A sample of variants and states is timed at every length, the same for all. In a batch, texts run so many at a time that 4096 positions are not exceeded, "
        "for all sides alike. States of curves at 512 tokens remove chunks of 16; interpreto, which knows no chunks, removes as many tokens at once. "
        "A variant that the set function answers may cost less than a forward pass: it runs in a batch, and rows that nobody reads are left out."
    )
    return "\n\n".join(parts)


def _by_length(rows: list[Row]) -> str:
    lengths = list(dict.fromkeys(row["tokens"] for row in rows))
    lines = []
    for name in dict.fromkeys(map(name_of, rows)):
        cells = []
        for tokens in lengths:
            row = next((r for r in rows if name_of(r) == name and r["tokens"] == tokens), None)
            cells.append(_cell(row))
        lines.append((name, *cells))
    return table(("", *(f"{tokens} tokens" for tokens in lengths)), lines)


def _cell(row: Row | None) -> str:
    if row is None:
        return "-"
    if "error" in row:
        return "failed"
    times = f"{milliseconds(row['cpu'])} ms, wall {milliseconds(row['wall'])}"
    if row["job"] == "forward pass":
        return f"1 ({times})"
    low, high = row["spread"]
    memory = f", memory {number(row.get('memory_ratio'))}" if "memory_ratio" in row else ""
    return f"**{number(row['ratio'])}** [{number(low)}, {number(high)}] ({times}{memory})"


def _evaluation(rows: list[Row]) -> str:
    parts = ["### A whole evaluation"]
    for row in rows:
        if "error" in row:
            continue
        ours, theirs = (row["seconds_per_text"][side] for side in ("looprop", "captum"))
        parts.append(
            f"`looprop.evaluate` against the script a researcher would write with captum (`benchmarks/script.py`: batched, leave-one-out computed once), on "
            f"{row['data']}, the embedded model, methods {', '.join(row['methods'])}, {len(row['metrics'])} metrics: "
            f"**{number(row['ratio'])} times as fast** by CPU time (quartiles over blocks of texts {number(row['spread'][0])} to {number(row['spread'][1])}), "
            f"{number(row['wall_ratio'])} times by wall time. Ours takes {milliseconds(ours['cpu'])} ms of CPU time per text (wall {milliseconds(ours['wall'])}), "
            f"the script {milliseconds(theirs['cpu'])} ms (wall {milliseconds(theirs['wall'])}). The numbers that both compute differ by {row['median_difference']:.1e} in the median."
        )
    return "\n\n".join(parts)


def _growth(rows: list[Row]) -> str:
    lines = [
        (f"{NAMES[row['side']]} {row['job']}" if row["job"] != "forward pass" else row["job"], row["against"], f"{row['from']} to {row['to']}",
         number(row["exponent"]), number(row["upper_exponent"]))
        for row in rows if row["group"] == "exponent"
    ]  # fmt: skip
    examples = [
        (f"{row['size']:,}", milliseconds(row["cpu"]), number(row["megabytes"], 0))
        for row in rows
        if row["group"] == "examples" and "error" not in row
    ]
    text = """## Growth

Cost grows as size to the power of the exponent; CPU time of a random BERT, 256 wide (4 layers where the length grows, 64 tokens where the layers do)."""
    more = "Texts of a tiny model through `looprop.evaluate`, with one cheap method and exact leave-one-out:"
    parts = [text, table(("", "against", "range", "exponent", "upper half"), lines), more]
    return "\n\n".join([*parts, table(("texts", "CPU ms per text", "MB added at the peak"), examples)])


def _faithfulness(rows: list[Row]) -> str:
    good = [row for row in rows if "error" not in row]
    lines = [
        (
            NAMES[row["side"]],
            row["method"],
            number(row["cost"], 1),
            number(row["passes"], 1),
            number(row["r"], 3),
            number(row["r_no_special"], 3),
        )
        for row in sorted(good, key=lambda row: -row["r_no_special"])
    ]
    data = good[0]["data"] if good else ""
    text = f"""## Faithfulness per cost

Mean Pearson's r with exact leave-one-out (attention mask) on {data}, embedded model. Cost is counted in forward passes of a text (a
backward pass is two); CPU time is measured in the same unit. Peers that give special tokens no score have an r without them only."""
    return text + "\n\n" + table(("", "method", "counted cost", "CPU time", "r", "r without special tokens"), lines)


def _limit(rows: list[Row]) -> str:
    lines = [
        (str(row["tokens"]), number(row["set_function_cpu"], 1), number(row["forward_cpu"], 1), number(row["products_cpu"], 1), f"{100 * row['share']:.0f} %")
        for row in rows if "error" not in row
    ]  # fmt: skip
    text = """## How near the limit

GFLOP per second of CPU time: leave-one-out through the set function (only rows that are computed count), a plain forward pass of one
text, and the bare matrix products of the same layer sizes on as many rows as one batch of the set function holds."""
    return text + "\n\n" + table(("tokens", "set function", "forward pass", "matrix products", "of the limit"), lines)


def _errors(errors: list[tuple[str, Row]]) -> str:
    if not errors:
        return ""
    found: dict[tuple[str, str, str], int] = {}
    for section, row in errors:
        who = NAMES.get(row.get("side", ""), row.get("peer", "")) + " " + str(row.get("job") or row.get("method") or row.get("what") or "")
        key = (section, who.strip(), row["error"].replace("\n", " ").replace("|", "/"))
        found[key] = found.get(key, 0) + 1
    return "## What failed\n\n" + table(("section", "what", "error"), [(s, w, f"`{e}`") for s, w, e in found]).replace("---:", "---")


PARTS = {
    "agreement": _agreement,
    "speed": _speed,
    "evaluation": _evaluation,
    "growth": _growth,
    "faithfulness": _faithfulness,
    "limit": _limit,
}
