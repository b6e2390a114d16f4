"""What the commands make of an evaluation: its summary as a table, and what failed."""

from typing import TYPE_CHECKING

from looprop.cli.shell import output, say

if TYPE_CHECKING:
    from looprop.evaluation import Evaluation


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
