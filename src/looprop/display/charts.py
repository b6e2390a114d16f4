"""Lines in a small chart, drawn as SVG inside the page: each with its name at its end, the others grey until picked."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from looprop.display.data import unpadded
from looprop.display.html import escape

WIDTH, HEIGHT = 460, 270
LEFT, RIGHT, TOP, BOTTOM = 44, 104, 12, 40
APART = 13.5  # pixels between two names
COLOURS = 7  # so many lines have a colour of their own
LONGEST = 15


@dataclass(frozen=True)
class Line:
    """A named line; values that are not finite are left out. strong: drawn in a colour of its own."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    strong: bool = True


def line_chart(title: str, lines: Sequence[Line], *, across: str, up: str) -> str:
    """A chart of lines whose x goes from 0 to 1. title, across, up: plain text, of the chart and its axes."""
    finite = [y for line in lines for y in line.y if math.isfinite(y)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    high = high if high > low else low + 1.0
    ticks = _ticks(low, high)
    low, high = min(low, ticks[0]), max(high, ticks[-1])

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + x * (WIDTH - LEFT - RIGHT), TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM)

    strong = [line.name for line in lines if line.strong][:COLOURS]
    heights = _parted({line.name: place(1.0, _last(line))[1] for line in lines if line.name in strong})
    curves = []
    for line in sorted(lines, key=lambda line: line.name in strong):  # grey ones below
        places = [place(x, y) for x, y in zip(line.x, line.y, strict=True) if math.isfinite(y)]
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
        curves.append((line.name, points, heights.get(line.name, place(1.0, _last(line))[1])))
    drawn = _axes(ticks, place)
    for name, points, end in curves:
        colour = f"line-{strong.index(name)}" if name in strong else "other"
        short = name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
        drawn += (
            f'<g class="{colour}" data-line="{escape(name)}"><polyline class="curve" points="{points}"></polyline>'
            f'<polyline class="hit" points="{points}"></polyline>'
            f'<text class="name" x="{WIDTH - RIGHT + 6}" y="{end + 4:.1f}">{escape(short)}</text></g>'
        )
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    drawn += f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(across)}</text>'
    picture = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">{drawn}</svg>'
    return f'<div class="chart"><h3>{escape(title)}</h3><p class="up">{escape(up)}</p>{picture}</div>'


def _last(line: Line) -> float:
    return next((y for y in reversed(line.y) if math.isfinite(y)), 0.0)


def _axes(ticks: Sequence[float], place: Callable[[float, float], tuple[float, float]]) -> str:
    drawn = ""
    for tick, text in zip(ticks, [unpadded(tick) for tick in ticks], strict=True):
        left, height = place(0.0, tick)
        drawn += f'<line class="axis" x1="{left}" y1="{height:.1f}" x2="{WIDTH - RIGHT}" y2="{height:.1f}"></line>'
        drawn += f'<text x="{left - 6}" y="{height + 4:.1f}" text-anchor="end">{text}</text>'
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        across, _ = place(share, ticks[0])
        drawn += f'<text x="{across:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{100 * share:.0f} %</text>'
    return drawn


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from low to high, four to six of them."""
    size = 10.0 ** math.floor(math.log10(max((high - low) / 4, sys.float_info.min)))
    step = next(size * m for m in (1, 2, 2.5, 5, 10) if (high - low) / (size * m) <= 5)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first
    return [step * (first + i) for i in range(count + 1)] or [low, high]


def _parted(wanted: dict[str, float]) -> dict[str, float]:
    """Heights of names, pushed apart where they would stand on each other, inside the chart."""
    order = sorted(wanted, key=lambda name: wanted[name])
    found: dict[str, float] = {}
    last = -math.inf
    for name in order:
        last = max(wanted[name], last + APART)
        found[name] = last
    lowest = float(HEIGHT - BOTTOM)
    for name in reversed(order):
        found[name] = min(found[name], lowest)
        lowest = found[name] - APART
    return found
