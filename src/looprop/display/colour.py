"""A diverging scale that colour-blind readers can tell apart: blue speaks against the target, orange for it, zero is
the paper.

A value v in [-1, 1] is the paper's colour mixed with the end of its side, linearly in Oklab:  c(v) = (1 - |v|) zero +
|v| end(sign v). Browsers compute the same with `color-mix(in oklab, ...)`. Oklab: B. Ottosson, "A perceptual color
space for image processing", 2020.
"""

import math
from dataclasses import dataclass

RGB = tuple[float, float, float]


@dataclass(frozen=True)
class Scale:
    """Colours as #rrggbb: both ends, the middle, and one text colour that can be read on all of them."""

    negative: str
    zero: str
    positive: str
    text: str


LIGHT = Scale(negative="#4292d8", zero="#ffffff", positive="#ee7a30", text="#12161c")
"""The scale of pages and pictures on white."""

DARK = Scale(negative="#1c6cb8", zero="#1d2229", positive="#b5500e", text="#ffffff")
"""The scale of pages in dark colours."""

TERMINAL = Scale(negative="#4a9ae0", zero="#a9adb3", positive="#f08236", text="#000000")
"""The scale of terminals, which have a background of their own: chips start at a grey that stands out on any."""


def parse(colour: str) -> RGB:
    return int(colour[1:3], 16) / 255, int(colour[3:5], 16) / 255, int(colour[5:7], 16) / 255


def format_hex(rgb: RGB) -> str:
    """#rrggbb, each part clipped to what a screen can show."""
    return "#" + "".join(f"{round(255 * min(1.0, max(0.0, part))):02x}" for part in rgb)


def linear(part: float) -> float:
    """One sRGB component as light (IEC 61966-2-1)."""
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)


def gamma(part: float) -> float:
    return part * 12.92 if part <= 0.0031308 else 1.055 * float(part ** (1 / 2.4)) - 0.055


def to_oklab(rgb: RGB) -> RGB:
    """Lightness and two opponent colours."""
    r, g, b = map(linear, rgb)
    long = math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
    medium = math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
    short = math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
    return (
        0.2104542553 * long + 0.7936177850 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.8086757660 * short,
    )


def from_oklab(lab: RGB) -> RGB:
    lightness, a, b = lab
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        gamma(4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short),
        gamma(-1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short),
        gamma(-0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short),
    )


def mix(first: str, second: str, share: float) -> str:
    """`first` mixed with `share` of `second`, in Oklab."""
    pairs = zip(to_oklab(parse(first)), to_oklab(parse(second)), strict=True)
    lightness, a, b = ((1 - share) * x + share * y for x, y in pairs)
    return format_hex(from_oklab((lightness, a, b)))


def colour_of(value: float, scale: Scale = LIGHT) -> str:
    """The colour of a value in [-1, 1]; values outside are clipped, NaN has the colour of zero.

    >>> colour_of(0.0), colour_of(1.0) == LIGHT.positive, colour_of(-7.0) == LIGHT.negative
    ('#ffffff', True, True)
    """
    if math.isnan(value):
        return scale.zero
    return mix(scale.zero, scale.positive if value > 0 else scale.negative, min(1.0, abs(value)))
