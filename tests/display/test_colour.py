"""The scale is symmetric, ordered and readable; Oklab is inverted exactly."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looprop.display.colour import (
    DARK,
    LIGHT,
    TERMINAL,
    Scale,
    colour_of,
    format_hex,
    from_oklab,
    linear,
    parse,
    to_oklab,
)

SCALES = [LIGHT, DARK, TERMINAL]
VALUES = [step / 50 - 1 for step in range(101)]


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    r, g, b = map(linear, parse(colour))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(first: str, second: str) -> float:
    """Contrast ratio of two colours, 1 to 21; text is readable from 4.5 on (WCAG 2.2)."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scale", SCALES)
def test_text_can_be_read_on_every_colour(scale: Scale) -> None:
    assert min(contrast(colour_of(value, scale), scale.text) for value in VALUES) >= 4.5


@pytest.mark.parametrize("scale", SCALES)
def test_distance_from_zero_is_the_same_on_both_sides(scale: Scale) -> None:
    zero = to_oklab(parse(scale.zero))

    def share(value: float) -> float:
        """How far the colour has gone from zero to the end of its side."""
        end = to_oklab(parse(colour_of(1.0 if value > 0 else -1.0, scale)))
        here = to_oklab(parse(colour_of(value, scale)))
        return sum((h - z) * (e - z) for h, z, e in zip(here, zero, end, strict=True)) / sum(
            (e - z) ** 2 for z, e in zip(zero, end, strict=True)
        )

    for value in (0.25, 0.5, 0.75):
        assert share(value) == pytest.approx(share(-value), abs=0.02)
        assert share(value) == pytest.approx(value, abs=0.02)
    assert colour_of(0.0, scale) == scale.zero


@pytest.mark.parametrize("scale", SCALES)
def test_the_sides_differ_for_the_colour_blind(scale: Scale) -> None:
    # Red-green blindness leaves the blue-yellow axis of Oklab: the ends lie on its two sides.
    negative, positive = to_oklab(parse(scale.negative)), to_oklab(parse(scale.positive))
    assert negative[2] < -0.08
    assert positive[2] > 0.08


def test_light_colours_get_darker_and_dark_ones_lighter_away_from_zero() -> None:
    for side in (1, -1):
        light = [luminance(colour_of(side * step / 10, LIGHT)) for step in range(11)]
        dark = [luminance(colour_of(side * step / 10, DARK)) for step in range(11)]
        assert light == sorted(light, reverse=True)
        assert dark == sorted(dark)


@given(st.integers(0, 0xFFFFFF))
def test_oklab_there_and_back(number: int) -> None:
    colour = f"#{number:06x}"
    assert format_hex(from_oklab(to_oklab(parse(colour)))) == colour


def test_known_values() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#123456", "#123456") == pytest.approx(1.0)
    # Ottosson's table: white is (1, 0, 0); sRGB red is (0.628, 0.225, 0.126).
    assert to_oklab((1.0, 1.0, 1.0)) == pytest.approx((1.0, 0.0, 0.0), abs=1e-6)
    assert to_oklab((1.0, 0.0, 0.0)) == pytest.approx((0.628, 0.225, 0.126), abs=5e-4)


def test_values_outside_are_clipped_and_nan_is_zero() -> None:
    assert colour_of(9.0) == colour_of(1.0) == LIGHT.positive
    assert colour_of(-9.0) == colour_of(-1.0) == LIGHT.negative
    assert colour_of(float("nan")) == LIGHT.zero
