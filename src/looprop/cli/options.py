"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from looprop.methods.names import method_names

if TYPE_CHECKING:
    from looprop.running.engines import Engine as EngineFunction


def complete_method(start: str) -> list[str]:
    """Names for the shell's completion."""
    return [name for name in method_names() if name.startswith(start)]


Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        autocompletion=complete_method,
        show_default=False,
        help="A method, with options in brackets; repeat for more. [default: see above]",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="A folder or a hub id. [default: the embedded sentiment model]", show_default=False
    ),
]
Limit = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="How many examples, drawn by the seed.", show_default=False)
]
Split = Annotated[str | None, typer.Option(help="The part of a named data set.", show_default=False)]
TextColumn = Annotated[str | None, typer.Option(help="The column of the texts in a file.", show_default=False)]
Seed = Annotated[int, typer.Option(min=0, help="Draws the examples and random scores.")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page.", show_default=False)]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable, on standard output.")]
NoColor = Annotated[
    bool, typer.Option("--no-color", help="Numbers and signs instead of colours, as when piped or with NO_COLOR set.")
]
Engine = Annotated[str, typer.Option(metavar="NAME", help="Who computes: local, or ray for a cluster.")]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="The head of the Ray cluster. [default: one known here, else a new one]",
        show_default=False,
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="At most so many Ray workers. [default: all]", show_default=False)
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and all warnings.")]


def choose_engine(name: str, address: str | None, workers: int | None) -> "EngineFunction":
    """The engine that --engine, --address and --workers ask for, checked before anything is loaded."""
    from looprop.running.engines import get_engine

    return get_engine(name, address=address, workers=workers)
