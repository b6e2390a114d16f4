"""Which examples of an evaluation were cut to what the model takes."""

from collections.abc import Sequence

from looprop.models.cutting import Cut, cut_of
from looprop.running.parts import Row

COLUMNS = ("tokens_read", "tokens")


def cut_columns(cut: tuple[int, int] | None) -> Row:
    """What the rows of an example say of it; those of a text that is whole say nothing."""
    return {} if cut is None else dict(zip(COLUMNS, cut, strict=True))


def cut_of_rows(rows: Sequence[Row]) -> Cut | None:
    """Over all examples; None where all texts are whole."""
    read, whole = COLUMNS
    by_example = {row["example"]: row for row in rows}
    known = ((row.get(read), row.get(whole)) for row in by_example.values())
    return cut_of([None if kept is None or there is None else (kept, there) for kept, there in known])
