"""Plain data for pages, terminals and figures: strips of features, tables of cells, and the format of numbers."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from looprop.metrics.statistics import Estimate


@dataclass(frozen=True)
class PatchedImage:
    """An image in base64 and its patches: their rows and columns from the top left, the share of its width and height
    that they cover, and the cells of each feature, by number.
    """

    png: str
    rows: int
    columns: int
    wide: float = 1.0
    high: float = 1.0
    cells: Sequence[Sequence[int]] = ()

    def fits(self, features: int) -> bool:
        """Whether there are cells for so many features, each inside the grid."""
        inside = all(0 <= cell < self.rows * self.columns for cells in self.cells for cell in cells)
        return len(self.cells) == features and inside


@dataclass(frozen=True)
class Mark:
    """One feature of a `Strip`, ready to be drawn. fraction: its place on the colour scale in [-1, 1], None for one
    without colour (outside the scale, NaN). tip: its score, on hover.
    """

    text: str
    fraction: float | None
    tip: str
    joined: bool
    special: bool
    known: bool
    breaks: int


@dataclass(frozen=True)
class Strip:
    """Features in order of position, one score each.

    special: features that the tokenizer added, shown in a quieter way. joined: no space before this feature (a piece
    that continues a word). breaks: line breaks before each feature. outside_scale: shown, but without a say in the
    colour scale (attention sinks). known: true leave-one-out by feature, where some was computed to check the scores;
    verdict: what they say of r. name: the method; facts: what is printed beside it; r, r_shapley: its correlations with
    leave-one-out and with the Shapley value. removal: how that leave-one-out removes, where otherwise than the method.
    alike: its scores are in the unit of the target. picture: what features are patches of, if they are.
    """

    features: Sequence[str]
    scores: Sequence[float]
    special: Sequence[bool] = ()
    joined: Sequence[bool] = ()
    outside_scale: frozenset[int] = frozenset()
    name: str = ""
    facts: Sequence[tuple[str, str]] = field(default_factory=tuple)
    r: float | None = None
    r_shapley: float | None = None
    known: Mapping[int, float] = field(default_factory=dict)
    verdict: str = ""
    breaks: Sequence[int] = ()
    removal: str = ""
    alike: bool = True
    picture: PatchedImage | None = None

    @property
    def scale(self) -> float:
        """The score that gets the full colour: the largest magnitude inside the scale; 0 if there is none."""
        inside = (abs(s) for i, s in enumerate(self.scores) if i not in self.outside_scale and math.isfinite(s))
        return max(inside, default=0.0)

    def marks(self) -> list[Mark]:
        full, marks = self.scale, []
        for i, (feature, score) in enumerate(zip(self.features, self.scores, strict=True)):
            fraction = max(-1.0, min(1.0, score / full)) if full > 0 else 0.0
            has_colour = i not in self.outside_scale and not math.isnan(score)
            joined, special = (bool(flags) and flags[i] for flags in (self.joined, self.special))
            breaks = self.breaks[i] if self.breaks else 0
            shown = fraction if has_colour else None
            marks.append(Mark(feature, shown, self._tip(i), joined, special, i in self.known, breaks))
        return marks

    def _tip(self, index: int) -> str:
        tip = number(self.scores[index])
        if self.picture is not None:
            tip = f"patch {self.features[index]}: {tip}"
        else:
            outside = index in self.outside_scale
            tip += " (outside the colour scale)" if outside else f" · position {index + 1} of {len(self.features)}"
        return tip + (f" · true value {number(self.known[index])}" if index in self.known else "")

    def strongest_first(self) -> list[int]:
        """Positions by magnitude of score; ties and NaN in order of position, NaN last."""
        ranks = [1.0 if math.isnan(score) else -abs(score) for score in self.scores]
        return sorted(range(len(ranks)), key=ranks.__getitem__)


@dataclass(frozen=True)
class Column:
    """A column of a table. bars: on pages each number is also drawn from zero, on the column's own scale; tip: explains
    the heading; order: "ascending" or "descending" if rows come sorted by it; under: small below the heading, on pages.
    """

    name: str
    bars: bool = False
    tip: str = ""
    order: str = "none"
    under: str = ""


@dataclass(frozen=True)
class Cell:
    """A number, with an interval where there is one; `text` is shown in its stead if given, `under` small below it,
    `tip` on hover, `best` in bold.
    """

    value: float
    low: float | None = None
    high: float | None = None
    text: str | None = None
    tip: str = ""
    best: bool = False
    under: str = ""

    @property
    def numbers(self) -> list[float]:
        """The value and the ends of the interval, as far as they are finite."""
        return [v for v in (self.value, self.low, self.high) if v is not None and math.isfinite(v)]


def estimated(e: "Estimate", *, best: bool = False) -> Cell:
    """The cell of a mean over examples: its interval below it, and on hover the number of examples behind it."""
    tip = f"{number(e.low)} to {number(e.high)}, n = {e.count}"
    tip += f", undefined on {e.undefined}" if e.undefined else ""
    known = math.isfinite(e.low) and math.isfinite(e.high)
    under = f"[{two_decimals(e.low)}, {two_decimals(e.high)}]" if known else ""
    return Cell(e.mean, e.low, e.high, text=two_decimals(e.mean), tip=tip, best=best, under=under)


def spans(rows: Sequence[Sequence[str | Cell]]) -> list[tuple[float, float]]:
    """The lowest and highest number of every column, zero always between them."""
    found = []
    for column in zip(*rows, strict=True):
        numbers = [number for cell in column if isinstance(cell, Cell) for number in cell.numbers]
        found.append((min([0.0, *numbers]), max([0.0, *numbers])))
    return found


def texts(rows: Sequence[Sequence[str | Cell]]) -> list[list[str]]:
    """The text of every cell; numbers without one get as many digits as the largest of their column asks for."""

    def text(cell: str | Cell, scale: float) -> str:
        if isinstance(cell, str):
            return cell
        return aligned(cell.value, scale, signed=False) if cell.text is None else cell.text

    largest = [max(map(abs, span)) for span in spans(rows)]
    return [list(map(text, row, largest)) for row in rows]


def number(value: float | None, *, signed: bool = True) -> str:
    """Three significant digits with a true minus sign; nothing known is a dash.

    >>> number(0.12345), number(-1234.4), number(0.0), number(float("nan")), number(2.0, signed=False)
    ('+0.123', '−1234', '0', '–', '2.00')
    """
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    if 999.5 <= abs(value) < 999_999.5:
        return f"{value:{'+' if signed else ''}.0f}".replace("-", "−")
    return f"{value:{'+' if signed else ''}#.3g}".rstrip(".").replace("-", "−").replace("e−0", "e−")


def unpadded(value: float) -> str:
    """A round number of an axis, without padding zeros.

    >>> unpadded(0.5), unpadded(-20.0)
    ('0.5', '−20')
    """
    return "0" if abs(value) < 1e-12 else number(value).rstrip("0").rstrip(".").removeprefix("+")


def aligned(value: float | None, scale: float, *, signed: bool = True) -> str:
    """A number of a column, with as many decimals as give the column's largest magnitude, `scale`, three digits.

    >>> aligned(0.0123, 1.5), aligned(-1.5, 1.5), aligned(0.0123, 0.05), aligned(7.0, 1234.0)
    ('+0.01', '−1.50', '+0.0123', '+7')
    """
    if value is None or not math.isfinite(value) or not 1e-5 <= scale < 1e6:
        return number(value, signed=signed)
    decimals = max(0, 2 - math.floor(math.log10(scale)))
    shown = f"{value:{'+' if signed else ''}.{decimals}f}"
    # What rounds to zero has no sign.
    return shown.replace("-", "−") if float(shown) else shown.lstrip("+-")


def chance(probability: float) -> str:
    """A probability in per cent, never rounded to certainty.

    >>> chance(0.9746), chance(0.99999), chance(0.00001), chance(0.0312)
    ('97.5 %', '> 99.9 %', '< 0.1 %', '3.1 %')
    """
    share = 100 * probability
    return "> 99.9 %" if share > 99.95 else "< 0.1 %" if share < 0.05 else f"{share:.1f} %"


def two_decimals(value: float) -> str:
    """A number of a summary; a dash where there is none.

    >>> two_decimals(-0.125), two_decimals(float("nan"))
    ('−0.12', '–')
    """
    return "–" if math.isnan(value) else f"{value:.2f}".replace("-", "−")


def agreements(shown: Strip) -> list[tuple[str, str]]:
    """The agreement of a strip with the references: the name of each and r.

    >>> agreements(Strip(["a"], [1.0], r=0.5)), agreements(Strip(["a"], [1.0], r=1.0, r_shapley=-0.25))
    ([('r to LOO', '+0.50')], [('r to LOO', '+1.00'), ('r to Shapley', '−0.25')])
    """
    loo = f"r to LOO by {shown.removal}" if shown.removal else "r to LOO"
    known = ((loo, shown.r), ("r to Shapley", shown.r_shapley))
    return [(name, correlation(r)) for name, r in known if r is not None]


def correlation(r: float | None) -> str:
    """An r with two decimals, or the word for one that does not exist.

    >>> correlation(0.714), correlation(-0.08), correlation(float("nan")), correlation(None)
    ('+0.71', '−0.08', 'undefined', '–')
    """
    if r is None:
        return "–"
    return "undefined" if math.isnan(r) else f"{r:+.2f}".replace("-", "−")


class _Visible(dict[int, str]):
    """For `str.translate`: what stands for a character, found when it is first met."""

    def __missing__(self, code: int) -> str:
        shown = character = chr(code)
        # Cf holds the direction marks, Cs lone surrogates; joiners stay, as emoji and Indic scripts are built with
        # them. The last two codes of every plane are no characters, and no XML may hold the first pair of them.
        hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} and character not in "\u200c\u200d"
        if code < 0x20:
            shown = "↵" if character == "\n" else chr(0x2400 + code)
        elif hidden or code & 0xFFFE == 0xFFFE:
            shown = f"⟨U+{code:04X}⟩"
        self[code] = shown
        return shown


VISIBLE = _Visible()


def cut(text: str, longest: int) -> str:
    """The beginning of a text, with three dots where more follows.

    >>> cut("attribution", 6), cut("method", 6)
    ('attri…', 'method')
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"


def visible(text: str) -> str:
    """The text with every control, direction and line character replaced by a sign that can be seen.

    >>> visible("a\\nb\\x00\\u202ec")
    'a↵b␀⟨U+202E⟩c'
    """
    return text.translate(VISIBLE)
