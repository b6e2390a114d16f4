"""An image with a heat map of its patches over it: each can be hovered, a slider sets how strong the map is."""

from looprop.display.data import Picture, Strip, number
from looprop.display.html import escape


def picture(shown: Strip, *, share: float = 1.0) -> str:
    """The image of a strip whose features are patches. share: of the scale that all methods have together."""
    drawn = shown.picture
    assert drawn is not None
    patches = [""] * (drawn.rows * drawn.columns)
    for index, cells in enumerate(drawn.cells):
        for cell in cells:
            patches[cell] = _patch(shown, index)
    grid = "".join(patch or '<span class="patch"></span>' for patch in patches)
    return (
        f'<div class="picture" style="--share:{share:.4f}"><img alt="the image that is explained" '
        f'src="data:image/png;base64,{escape(drawn.png)}"><div class="grid" style="--columns:{drawn.columns};'
        f'--wide:{drawn.wide:.4f};--high:{drawn.high:.4f}">{grid}</div></div>'
    )


def _patch(shown: Strip, index: int) -> str:
    fraction = shown.fraction(index)
    side = "" if fraction is None else " n" if fraction < 0 else " p"
    tip = f"patch {shown.features[index]}: {number(shown.scores[index])}"
    tip += f" · true value {number(shown.known[index])}" if index in shown.known else ""
    strength = 0.0 if fraction is None else abs(fraction)
    return f'<span class="patch{side}" style="--a:{strength:.3f}" data-feature="t{index}" title="{escape(tip)}"></span>'


def strength_slider() -> str:
    """How strong the heat maps of a page are."""
    return (
        '<label class="strength-of">picture <input type="range" class="strength" min="0" max="100" value="75" '
        'aria-label="strength of the heat map"> heat map</label>'
    )


def fits(drawn: Picture, features: int) -> bool:
    """Do the cells of a picture stand for so many features, each inside its grid?"""
    inside = all(0 <= cell < drawn.rows * drawn.columns for cells in drawn.cells for cell in cells)
    return len(drawn.cells) == features and inside
