"""One visual language for terminals, notebooks, pages and figures; everything here is made from plain data.

`colour` has the scale, `data` what is shown and how numbers are written, `html` the parts of pages and notebook output,
`strips` the text or image in colour, `prompts` a prompt beside its answer, `terminal` rich renderables, `figures`
matplotlib pictures. The last two need rich and matplotlib, and are imported where they are used.
"""

from looprop.display.charts import Line, line_chart
from looprop.display.colour import DARK, LIGHT, TERMINAL, Scale, colour_of
from looprop.display.data import Cell, Column, Strip, aligned, correlation, estimated, number, two_decimals, visible
from looprop.display.html import card, escape, facts, fragment, heat_table, meanings, mixed, page, paragraph, table
from looprop.display.prompts import PromptView, Said, Section, prompt_frame, prompt_page
from looprop.display.strips import (
    View,
    comparison,
    comparison_fragment,
    comparison_page,
    explanation_fragment,
    explanation_page,
)

__all__ = [
    "DARK", "LIGHT", "TERMINAL", "Cell", "Column", "Line", "PromptView", "Said", "Scale", "Section", "Strip", "View",
    "aligned", "card", "colour_of", "comparison", "comparison_fragment", "comparison_page", "correlation", "escape",
    "estimated", "explanation_fragment", "explanation_page", "facts", "fragment", "heat_table", "line_chart",
    "meanings", "mixed", "number", "page", "paragraph", "prompt_frame", "prompt_page", "table", "two_decimals",
    "visible",
]  # fmt: skip
