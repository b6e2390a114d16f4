"""The figure of docs/benchmarks.md: for every cell of the bench, how many times our CPU time each peer takes."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from benchmarks.targets import PLAIN, cells, named

Row = Mapping[str, Any]
# Peers that can be told apart without colours, too: a colour and a shape each.
MARKS = {
    "captum": ("captum", "#0b6fb8", "circle"),
    "lxt_efficient": ("lxt", "#c2410c", "square"),
    "lxt_explicit": ("lxt, explicit", "#f59e6c", "square"),
    "interpreto": ("interpreto", "#15803d", "diamond"),
    "ferret": ("ferret-xai", "#7e22ce", "triangle"),
    "quantus": ("Quantus", "#0f766e", "cross"),
    "shap": ("shap", "#64748b", "diamond"),
    "context_cite": ("ContextCite", "#be185d", "triangle"),
    "plain": ("plain loop, or forward + gradient", "#111827", "bar"),
}
WIDTH, LABELS, ROW, HEADING, TOP, GAP = 480, 200, 15, 24, 64, 20
LOW, HIGH = 0.5, 8.0  # what lies beyond stands at the edge, and its title says where
TICKS = (0.5, 1, 2, 4, 8)


@dataclass(frozen=True)
class Line:
    """A cell: its name, and for each side how many times our CPU time it takes."""

    label: str
    times: tuple[tuple[str, float], ...]


def panels(result: Mapping[str, Any]) -> tuple[list[tuple[str, list[Line]]], list[tuple[str, list[Line]]]]:
    """Left: what runs backward. Right: what removes, and the whole evaluation."""
    sections = {
        name: [row for row in section["rows"] if "error" not in row] for name, section in result["sections"].items()
    }
    speed, many, prompts = (sections.get(name, []) for name in ("speed", "many_texts", "prompts"))
    left = [
        ("AttnLRP, one text or batches of 16", list(_lines(speed, "explanation", "AttnLRP"))),
        ("Integrated gradients, per step", list(_lines(speed, "explanation", "IG, per step"))),
    ]
    removing = [
        ("Leave-one-out, per variant", list(_lines(speed, "loo", "LOO"))),
        ("Leave-one-out of many texts", list(_lines(many, "set", "LOO"))),
        ("MoRF and LeRF, per state", list(_lines(speed, "curves", "MoRF + LeRF"))),
        (
            "Sentences of a prompt, of a context",
            [line for group in ("prompt", "context") for line in _lines(prompts, group, "LOO by sentence")],
        ),
        (
            "A whole evaluation",
            [Line(f"{row['texts']} sentences", (("captum", row["ratio"]),)) for row in sections.get("evaluation", [])],
        ),
    ]
    return [part for part in left if part[1]], [part for part in removing if part[1]]


def _lines(rows: Sequence[Row], group: str, job: str) -> Iterator[Line]:
    for cell, own in cells(list(rows), group).items():
        ours = next((row["ratio"] for row in own if row["side"] == "looprop" and row["job"] == job), None)
        if ours is None:
            continue
        times = []
        for row in own:
            plain = (
                row["side"] == "looprop" and row["job"] in PLAIN[1:] and (job == "AttnLRP" or group != "explanation")
            )
            peer = row["side"] != "looprop" and ("step" in row["job"]) == ("step" in job)
            if plain or peer:
                times.append(("plain" if plain else row["side"], row["ratio"] / ours))
        _, tokens, batch = cell
        yield Line(f"{batch} texts of {tokens} tokens" if group == "set" else named(*cell), tuple(times))


def draw(result: Mapping[str, Any]) -> str:
    """The figure as SVG. A mark right of the line at 1 takes longer than we do."""
    both = panels(result)
    used = {side for panel in both for _, lines in panel for line in lines for side, _ in line.times}
    height = TOP + max(sum(HEADING + ROW * len(lines) + 6 for _, lines in panel) for panel in both) + 30
    total = 2 * WIDTH + GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" width="{total}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="11" role="img">',
        "<title>CPU time of each peer over ours, cell by cell</title>",
        f'<rect width="{total}" height="{height}" rx="6" fill="#ffffff"/>',
        '<text x="14" y="22" font-size="14" font-weight="600" fill="#111827">'
        "CPU time over ours, the same work, the same run: right of 1 takes longer than looprop</text>",
        *_legend(used),
    ]
    for start, panel in ((0, both[0]), (WIDTH + GAP, both[1])):
        parts += _panel(start, panel, height)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _legend(used: set[str]) -> Iterator[str]:
    x = 20
    for side, (name, colour, shape) in MARKS.items():
        if side in used:
            yield _mark(x, 42, colour, shape)
            yield f'<text x="{x + 9}" y="46" fill="#374151">{escape(name)}</text>'
            x += 24 + 6 * len(name)


def _panel(start: int, panel: list[tuple[str, list[Line]]], height: int) -> Iterator[str]:
    for tick in TICKS:
        x = _place(start, tick)
        strong = 'stroke="#111827" stroke-width="1"' if tick == 1 else 'stroke="#e5e7eb" stroke-width="1"'
        yield f'<line x1="{x:.1f}" y1="{TOP - 4}" x2="{x:.1f}" y2="{height - 24}" {strong}/>'
        yield f'<text x="{x:.1f}" y="{height - 10}" text-anchor="middle" fill="#6b7280">{tick:g}</text>'
    y = float(TOP)
    for title, lines in panel:
        y += HEADING - 8
        yield f'<text x="{start + 14}" y="{y:.0f}" font-weight="600" fill="#111827">{escape(title)}</text>'
        y += 8
        for line in lines:
            y += ROW
            label = f'x="{start + LABELS - 8}" y="{y:.0f}" text-anchor="end" fill="#374151"'
            yield f"<text {label}>{escape(line.label)}</text>"
            for side, times in line.times:
                _, colour, shape = MARKS[side]
                about = f"{MARKS[side][0]}: {times:.2f} times"
                yield _mark(_place(start, times), y - 4, colour, shape, f"<title>{escape(about)}</title>")
        y += 6


def _place(start: int, times: float) -> float:
    share = math.log(min(max(times, LOW), HIGH) / LOW) / math.log(HIGH / LOW)
    return start + LABELS + share * (WIDTH - LABELS - 20)


def _mark(x: float, y: float, colour: str, shape: str, inside: str = "") -> str:
    shapes = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">',
        "square": f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{colour}">',
        "diamond": f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z" fill="{colour}">',
        "triangle": f'<path d="M{x:.1f} {y - 5:.1f}l5 9h-10z" fill="{colour}">',
        "cross": f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke="{colour}" stroke-width="2.5" fill="none">',
        "bar": f'<path d="M{x:.1f} {y - 5:.1f}v10" stroke="{colour}" stroke-width="2.5" fill="none">',
    }
    opened = shapes[shape]
    return f"{opened}{inside}</{opened[1:].split()[0]}>"
