"""What the commands make of an evaluation: files, its summary as a table or as JSON, and what failed."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from looprop.cli.shell import output, say

if TYPE_CHECKING:
    from looprop.evaluation import Evaluation


def hand_out(result: "Evaluation", *, out: Path | None, html: Path | None, json_: bool, no_color: bool) -> None:
    """Files first, so that they are whole whatever becomes of standard output."""
    for place in (out, html):
        if place is not None:
            say(f"wrote {result.save(place)}")
    if json_:
        from looprop.files import to_json

        typer.echo(to_json(result.to_dict()).decode("ascii"), nl=False)
    else:
        show_summary(result, no_color=no_color)


def show_summary(result: "Evaluation", *, no_color: bool) -> None:
    """The table."""
    from looprop.display.terminal import data_table

    console = output(no_color=no_color)
    console.print(result.title, style="bold", markup=False)
    console.print(data_table(*result.table))
    for note in result.notes:
        console.print(note, style="dim", markup=False)


def check_success(result: "Evaluation") -> None:
    """Says which methods failed; raises where none was measured on any example."""
    result.check()
    if failed := ", ".join(f"{method} ({count})" for method, count in result.failed.items()):
        say(f"looprop: warning: failed on some examples: {failed}; the first error: {result.first_error}")
