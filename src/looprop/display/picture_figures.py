"""Images under their heat map as matplotlib pictures, one beside the other."""

import base64
import io
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import imread

from looprop.display.colour import LIGHT, parse
from looprop.display.data import Strip, visible

STRENGTH = 0.75
"""Of the heat map over the picture, at the strongest patch."""
LUMINANCE = np.array([0.2126, 0.7152, 0.0722])
"""How bright red, green and blue are (ITU-R BT.709)."""
SIDE = 3.0  # inches
ACROSS = 4


def picture_axes(shown: Strip, axes: Axes, *, title: str) -> Axes:
    """An image with its heat map: orange speaks for the target, blue against it."""
    drawn = shown.picture
    assert drawn is not None
    image = imread(io.BytesIO(base64.b64decode(drawn.png)), format="png")
    height, width = image.shape[:2]
    heat = np.zeros((drawn.rows, drawn.columns, 4))
    for index, cells in enumerate(drawn.cells):
        fraction = shown.fraction(index) or 0.0
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


def picture_figure(named: Sequence[tuple[str, Strip]], *, title: str = "") -> Figure:
    """Images of several methods, at most four in a row."""
    across = min(ACROSS, len(named))
    down = -(-len(named) // across)
    size = (SIDE * across + 0.3, (SIDE + 0.35) * down + (0.4 if title else 0.0))
    figure = Figure(figsize=size, layout="constrained", facecolor="white")
    for place, (name, shown) in enumerate(named):
        picture_axes(shown, figure.add_subplot(down, across, place + 1), title=name)
    if title:
        figure.suptitle(visible(title), fontsize=11, fontweight="bold", color=LIGHT.text, parse_math=False)
    return figure
