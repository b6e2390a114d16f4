"""Pictures: right bars, right colours, no pyplot, the same bytes twice."""

import io
import math
import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.patches import FancyBboxPatch

from looprop.display.colour import LIGHT, colour_of
from looprop.display.data import Strip
from looprop.display.figures import bars, colour_map, strip_figure, to_bytes

SHOWN = Strip(["not", "bad", "$x$", "日本", "\u202e", ""], [1.0, -2.0, 0.5, 0.0, math.nan, 0.3], name="loo")


def test_bars_have_the_scores_as_lengths_in_order_of_position() -> None:
    axes = bars(SHOWN)
    widths = [patch.get_width() for patch in axes.patches]
    assert widths == [1.0, -2.0, 0.5, 0.0, 0.0, 0.3]
    assert [label.get_text() for label in axes.get_yticklabels()][:3] == ["not", "bad", "$x$"]
    low, high = axes.get_xlim()
    assert low == -high
    assert to_hex(axes.patches[0].get_facecolor()) == LIGHT.positive
    assert to_hex(axes.patches[1].get_facecolor()) == LIGHT.negative


def test_bars_on_a_given_axis() -> None:
    axes = Figure().add_subplot()
    assert bars(SHOWN, axes) is axes


def test_long_input_keeps_the_strongest() -> None:
    shown = Strip([f"t{i}" for i in range(100)], [float(i) for i in range(100)])
    axes = bars(shown, limit=10)
    assert [patch.get_width() for patch in axes.patches] == [float(i) for i in range(90, 100)]
    assert "10 strongest of 100" in axes.get_title(loc="left")


def test_chips_have_the_colours_of_the_scale() -> None:
    shown = Strip(["a", "b", "sink"], [1.0, -0.5, 9.0], outside_scale=frozenset({2}))
    chips = [patch for patch in strip_figure(shown).axes[0].patches if isinstance(patch, FancyBboxPatch)]
    assert [to_hex(chip.get_facecolor()) for chip in chips[:2]] == [colour_of(1.0), colour_of(-0.5)]
    assert chips[2].get_facecolor()[3] == 0


def test_text_is_wrapped_inside_the_picture() -> None:
    figure = strip_figure(Strip(["word"] * 200, [1.0] * 200), width=5.0)
    chips = [patch for patch in figure.axes[0].patches if isinstance(patch, FancyBboxPatch)]
    assert all(chip.get_x() >= 0 and chip.get_x() + chip.get_width() <= 5.0 for chip in chips)
    assert len({round(chip.get_y(), 6) for chip in chips}) > 5
    heights = [chip.get_y() for chip in chips]
    assert heights == sorted(heights)


def test_the_same_bytes_for_the_same_picture() -> None:
    for kind in ("png", "svg"):
        assert to_bytes(strip_figure(SHOWN, title="$t$"), kind) == to_bytes(strip_figure(SHOWN, title="$t$"), kind)


def test_png_is_a_picture_and_svg_keeps_text() -> None:
    pixels = imread(io.BytesIO(to_bytes(strip_figure(SHOWN, title="a title"), "png")))
    assert pixels.ndim == 3
    assert np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0).shape[0] > 20
    svg = to_bytes(strip_figure(Strip(["<script>", "b"], [1.0, 2.0])), "svg").decode()
    assert "&lt;script&gt;" in svg
    assert "<script>" not in svg


def test_colour_map_is_white_in_the_middle() -> None:
    assert to_hex(colour_map()(0.5)) == "#ffffff"
    assert (to_hex(colour_map()(0.0)), to_hex(colour_map()(1.0))) == (LIGHT.negative, LIGHT.positive)


@pytest.mark.parametrize("scores", [[], [0.0], [math.nan]])
def test_degenerate_scores(scores: list[float]) -> None:
    shown = Strip(["x"] * len(scores), scores)
    assert to_bytes(strip_figure(shown), "png")
    assert len(bars(shown).patches) == len(scores)


def test_no_pyplot() -> None:
    script = (
        "import sys, looprop.display.figures as f; f.bars(f.Strip(['a'], [1.0])); sys.exit('matplotlib.pyplot' in "
        "sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
