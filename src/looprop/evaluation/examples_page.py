"""Examples of an evaluation on a page: folded, in the order of disagreement, to be filtered and sorted."""

from collections.abc import Mapping, Sequence

from looprop.display import comparison, escape, facts, number
from looprop.display.data import chance
from looprop.evaluation.examples import Disagreement, said_of
from looprop.evaluation.summary import by_example
from looprop.result.explanation import Explanation
from looprop.running.parts import Row

OPEN = 1
"""So many are open at first."""
LONGEST = 280


def examples_html(
    frames: Mapping[str, Explanation], rows: Sequence[Row], order: Sequence[Disagreement], *, by: str
) -> str:
    """The examples whose texts are known, each with what all methods said of it. by: what the metric is called by which
    they are ordered.
    """
    of_example = by_example(rows)
    places = {name: place for place, name in enumerate(of_example)}
    shown = [one for one in order if one.example in frames]
    parts = [
        _example(one, by, frames[one.example], of_example[one.example], places[one.example], opened=i < OPEN)
        for i, one in enumerate(shown)
    ]
    if not parts:
        return ""
    return f'<div class="examples">{_tools(sorted({frames[one.example].label for one in shown}))}{"".join(parts)}</div>'


def _tools(labels: Sequence[str]) -> str:
    kinds = "".join(f'<option value="{escape(label)}">{escape(label)}</option>' for label in labels)
    kind = f'<label>predicted <select class="kind"><option value="">any</option>{kinds}</select></label>'
    return (
        '<div class="tools"><label>find <input type="search" class="search" placeholder="words of a text"></label>'
        f'{kind if len(labels) > 1 else ""}<label>first <select class="order">'
        '<option value="rank">where methods disagree most</option><option value="-rank">where they agree</option>'
        '<option value="place">in the order of the data</option><option value="-length">the longest</option>'
        '<option value="length">the shortest</option></select></label><span class="count"></span></div>'
    )


def _example(one: Disagreement, by: str, frame: Explanation, rows: Sequence[Row], place: int, *, opened: bool) -> str:
    text = " ".join(frame.text.split()) or one.example
    short = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
    apart = f"{by}: {one.worst} {number(one.lowest)}, {one.best} {number(one.highest)}"
    noise = "; no feature matters by itself here, so that this is noise" if one.matters is False else ""
    known: list[tuple[str, str]] = [("example", one.example), ("predicted", frame.label)]
    if isinstance(probability := frame.details.get("probability"), float):
        known.append(("probability", chance(probability)))
    known.append(("output", number(frame.output)))
    inside = "".join(comparison(views) for views in said_of(frame, rows).views())
    rank = -one.gap if one.matters is not False else 10 - one.gap
    return (
        f'<details class="example linking" data-text="{escape(text)}" data-kind="{escape(frame.label)}" '
        f'data-rank="{rank:.6f}" data-place="{place}" data-length="{len(frame)}"{" open" if opened else ""}>'
        f"<summary>{escape(short)}<small>{escape(apart + noise)}</small></summary>{facts(known)}{inside}</details>"
    )
