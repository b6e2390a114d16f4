"""Pictures for papers and slides, made with matplotlib's objects and without pyplot: no global state, no window."""

import base64
import io
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import FancyBboxPatch

from looprop.display.colour import LIGHT, colour_of, parse
from looprop.display.data import Mark, Strip, agreements, cut, number, visible

QUIET, EDGE = "#5b6470", "#c9ced6"
LINE_HEIGHT = 0.36  # inches
FONT_SIZE = 13
LONGEST = 40  # characters of a feature beside its bar
STRENGTH = 0.75  # of the heat map over an image, at the strongest patch
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])  # how bright red, green and blue are (ITU-R BT.709)
SIDE = 3.0  # inches of an image
ACROSS = 4  # images in a row
METADATA = {"svg": {"Date": None}, "png": {"Software": "looprop"}, "pdf": {"CreationDate": None, "Creator": "looprop"}}
"""Metadata of files, without a date."""


@cache
def fonts() -> list[str]:
    """The standard font, and what this machine has for other scripts."""
    noto = ["Noto Sans", *(f"Noto Sans {script}" for script in ("CJK SC", "CJK JP", "Arabic", "Devanagari"))]
    have = set(font_manager.get_font_names())
    return ["DejaVu Sans", *(name for name in (*noto, "Noto Emoji", "Segoe UI Emoji") if name in have)]


@contextmanager
def style() -> Iterator[None]:
    """Our fonts and reproducible SVG with text kept as text; a character that no font has is drawn as a box, without a
    warning.
    """
    options = {"font.family": fonts(), "svg.fonttype": "none", "svg.hashsalt": "looprop", "axes.unicode_minus": True}
    with mpl.rc_context(options), warnings.catch_warnings():  # type: ignore[arg-type]
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from")
        yield


def strip_figure(shown: Strip, *, title: str = "", width: float = 9.0) -> Figure:
    """The text in colour, wrapped to `width` inches, with a legend below; of an image its heat map."""
    if shown.picture is not None:
        return _pictures([(shown.name, shown)], title)
    return _strips(((None, shown),), shown.scale, title=title, width=width)


def comparison_figure(strips: Sequence[Strip], *, title: str = "", width: float = 9.0) -> Figure:
    """Methods below each other, each on its own scale, with its r to each reference where that is known."""
    named = [("   ".join([shown.name, *(f"{name} {r}" for name, r in agreements(shown))]), shown) for shown in strips]
    if all(shown.picture is not None for shown in strips) and strips:
        return _pictures(named, title)
    return _strips(named, None, title=title, width=width)


class ShownAxes(Axes):
    """Axes that a notebook shows: the picture of their figure."""

    name = "looprop"

    def _repr_png_(self) -> bytes:
        figure = self.get_figure(root=True)
        assert figure is not None
        return to_bytes(figure, "png", dpi=120)


@style()
def _strips(named: Sequence[tuple[str | None, Strip]], scale: float | None, *, title: str, width: float) -> Figure:
    figure = Figure(figsize=(width, 4.0), facecolor="white")
    canvas = FigureCanvasAgg(figure)
    flows = [_flow(shown, canvas, width - 0.5) for _, shown in named]
    top = 0.45 if title else 0.15
    rows = sum(lines for _, lines in flows) + sum(name is not None for name, _ in named)
    height = top + rows * LINE_HEIGHT + 0.75
    figure.set_size_inches(width, height)
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    if title:
        _write(axes, 0.25, 0.28, title, fontsize=12, fontweight="bold", color=LIGHT.text)
    for (name, shown), (placed, lines) in zip(named, flows, strict=True):
        if name is not None:
            _write(axes, 0.25, top + 0.6 * LINE_HEIGHT, name, fontsize=9, color=QUIET)
            top += LINE_HEIGHT
        for mark, (x, line, length) in zip(shown.marks(), placed, strict=True):
            _chip(axes, mark, 0.25 + x, top + (line + 0.5) * LINE_HEIGHT, length)
        top += lines * LINE_HEIGHT
    _legend(figure, scale, width, height)
    return figure


def _flow(shown: Strip, canvas: FigureCanvasAgg, width: float) -> tuple[list[tuple[float, int, float]], int]:
    """(left, line, length) of every feature in inches, and the number of lines."""
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    font = font_manager.FontProperties(family=fonts(), size=FONT_SIZE)
    placed, left, line = [], 0.0, 0
    for mark in shown.marks():
        length = renderer.get_text_width_height_descent(visible(mark.text) or " ", font, False)[0] / renderer.dpi + 0.1
        left += 0.0 if left == 0 else 0.015 if mark.joined else 0.07
        if left > 0 and left + length > width:
            left, line = 0.0, line + 1
        placed.append((left, line, length))
        left += length
    return placed, line + 1


def _write(axes: Axes, x: float, y: float, text: str, *, va: str = "center", **look: Any) -> None:
    """Write text as it is, without formulas, every control character made visible."""
    axes.text(x, y, visible(text), va=va, parse_math=False, **look)


def _chip(axes: Axes, mark: Mark, left: float, middle: float, length: float) -> None:
    filled, edge = ("none", EDGE) if mark.fraction is None else (colour_of(mark.fraction, LIGHT), "none")
    look: dict[str, Any] = {"facecolor": filled, "edgecolor": edge, "linewidth": 0.8}
    shape = "round,pad=0,rounding_size=0.05"
    axes.add_patch(FancyBboxPatch((left, middle - 0.135), length, 0.27, shape, **look))
    quiet = mark.fraction is None or (mark.special and abs(mark.fraction) < 0.3)
    ink = QUIET if quiet else LIGHT.text
    _write(axes, left + length / 2, middle, mark.text, fontsize=FONT_SIZE, color=ink, ha="center", va="center_baseline")


def _legend(figure: Figure, scale: float | None, width: float, height: float) -> None:
    ramp = figure.add_axes((0.4 / width, 0.36 / height, 2.4 / width, 0.13 / height))
    ramp.imshow(np.linspace(-1, 1, 256)[None, :], aspect="auto", cmap=colour_map(), extent=(-1, 1, 0, 1))
    ramp.set_yticks([])
    ramp.set_xticks([-1, 0, 1], ["against", "0", "for"] if scale is None else [number(-scale), "0", number(scale)])
    ramp.tick_params(labelsize=8, colors=QUIET, length=2)
    for spine in ramp.spines.values():
        spine.set_edgecolor(EDGE)
    note = "blue: against the target   orange: for the target"
    note += "   each method on its own scale" if scale is None else ""
    figure.text(3.15 / width, 0.425 / height, note, fontsize=8, color=QUIET, va="center")


@cache
def colour_map() -> ListedColormap:
    """The light scale as a matplotlib colour map; use it with limits that are symmetric around zero."""
    return ListedColormap([colour_of(value, LIGHT) for value in np.linspace(-1, 1, 257)], name="looprop")


def bars(shown: Strip, axes: Axes | None = None, *, limit: int = 40) -> Axes:
    """One horizontal bar per feature, from top to bottom in order of position; of long inputs the `limit` strongest. Of
    an image its heat map.
    """
    kept, marks = sorted(shown.strongest_first()[:limit]), shown.marks()
    scores = [0.0 if math.isnan(shown.scores[i]) else shown.scores[i] for i in kept]
    size = (6.0, 0.8 + 0.24 * max(len(kept), 3)) if shown.picture is None else (4.4, 4.6)
    with style() if shown.picture is None else nullcontext():
        axes = axes or Figure(figsize=size, layout="constrained").add_subplot(axes_class=ShownAxes)
        if shown.picture is not None:
            return _picture_axes(shown, axes, title=shown.name)
        colours = [LIGHT.positive if score > 0 else LIGHT.negative for score in scores]
        edges = ["#8b939e" if i in shown.outside_scale else "none" for i in kept]
        axes.barh(range(len(kept)), scores, color=colours, edgecolor=edges, height=0.72)
        axes.set_yticks(range(len(kept)))
        names = [cut(visible(shown.features[i]), LONGEST) for i in kept]  # long ones would leave no room for any bar
        for tick, i in zip(axes.set_yticklabels(names), kept, strict=True):
            tick.set_parse_math(False)
            tick.set_color(QUIET if marks[i].special else LIGHT.text)
        axes.invert_yaxis()
        axes.axvline(0, color=QUIET, linewidth=0.8)
        if shown.scale > 0:
            axes.set_xlim(-1.08 * shown.scale, 1.08 * shown.scale)
        axes.set_xlabel("score (right: for the target)", color=QUIET)
        some = f" ({limit} strongest of {len(shown.features)} features)" if len(kept) < len(shown.features) else ""
        axes.set_title(visible(shown.name) + some, loc="left", fontsize=11, parse_math=False)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
    return axes


def _picture_axes(shown: Strip, axes: Axes, *, title: str) -> Axes:
    """An image with its heat map: orange speaks for the target, blue against it."""
    drawn = shown.picture
    assert drawn is not None
    image = imread(io.BytesIO(base64.b64decode(drawn.png)), format="png")
    height, width = image.shape[:2]
    heat = np.zeros((drawn.rows, drawn.columns, 4))
    for mark, cells in zip(shown.marks(), drawn.cells, strict=False):
        fraction = mark.fraction or 0.0
        colour = parse(LIGHT.positive if fraction > 0 else LIGHT.negative)
        for cell in cells:
            heat[divmod(cell, drawn.columns)] = (*colour, STRENGTH * abs(fraction))
    grey = image if image.ndim == 2 else image[:, :, :3] @ LUMINANCE  # colours are the map's alone
    axes.imshow(grey, cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
    axes.imshow(heat, extent=(0, width * drawn.wide, height * drawn.high, 0), interpolation="nearest")
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")
    axes.set_title(visible(title), loc="left", fontsize=9, color=LIGHT.text, parse_math=False)
    return axes


@style()
def _pictures(named: Sequence[tuple[str, Strip]], title: str) -> Figure:
    """Images of several methods, at most four in a row."""
    across = min(ACROSS, len(named))
    down = -(-len(named) // across)
    size = (SIDE * across + 0.3, (SIDE + 0.35) * down + (0.4 if title else 0.0))
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    for place, (name, shown) in enumerate(named):
        _picture_axes(shown, figure.add_subplot(down, across, place + 1), title=name)
    if title:
        figure.suptitle(visible(title), fontsize=11, fontweight="bold", color=LIGHT.text, parse_math=False)
    return figure


def to_bytes(figure: Figure, kind: str, *, dpi: int = 200) -> bytes:
    """The picture as a file of `kind` "png", "svg" or "pdf", the same bytes for the same picture."""
    file = io.BytesIO()
    with style():
        figure.savefig(file, format=kind, dpi=dpi, metadata=METADATA[kind])
    return file.getvalue()
