"""A report's tables as LaTeX, with booktabs."""

from collections.abc import Sequence

from looprop.study.report.grids import Grid

_SPELT = {
    "\\": r"\textbackslash{}",
    "–": "--",
    "−": "$-$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
}


def to_latex(grid: Grid) -> str:
    """A booktabs table."""
    header = grid.flat_header()
    caption = latex(f"{grid.title}. {grid.note}" if grid.note else grid.title)
    lines = [r"\begin{table}[t]", r"\centering", r"\small", rf"\caption{{{caption}}}"]
    lines += [
        rf"\begin{{tabular}}{{@{{}}l{'r' * (len(header) - 1)}@{{}}}}",
        r"\toprule",
        _ampersands(header),
        r"\midrule",
    ]
    lines += [_ampersands(row) for row in grid.flat_rows()]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _ampersands(cells: Sequence[str]) -> str:
    return " & ".join(latex(cell) for cell in cells) + r" \\"


def latex(text: str) -> str:
    """Text that LaTeX prints as it is; the square brackets stand in braces, so that no command takes them for an
    option.

    >>> latex("50 % of [CLS] & x_1")
    '50 \\\\% of {[}CLS{]} \\\\& x\\\\_1'
    """
    return "".join(_SPELT.get(c, f"\\{c}" if c in "&%$#_{}" else f"{{{c}}}" if c in "[]" else c) for c in text)
