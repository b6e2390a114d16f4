"""Options that several commands share, and what they say, checked before anything heavy is loaded."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from looprop.errors import InputError
from looprop.methods.names import check_name, method_names

if TYPE_CHECKING:
    from looprop.inputs import Dataset
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
        help="A method, with options in brackets; repeat for more. [default: see above]",
    ),
]
Model = Annotated[
    str | None, typer.Option(metavar="NAME", help="A folder or a hub id. [default: the embedded sentiment model]")
]
Limit = Annotated[int | None, typer.Option(min=1, metavar="N", help="How many examples, drawn by the seed.")]
Split = Annotated[str | None, typer.Option(help="The part of a named data set.")]
TextColumn = Annotated[str | None, typer.Option(help="The column of the texts in a file.")]
Seed = Annotated[int, typer.Option(min=0, help="Draws the examples and random scores.")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page.")]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable, on standard output.")]
NoColor = Annotated[
    bool, typer.Option("--no-color", help="Numbers and signs instead of colours, as when piped or with NO_COLOR set.")
]
Engine = Annotated[str, typer.Option(metavar="NAME", help="Who computes: local, or ray for a cluster.")]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="The head of the Ray cluster. [default: one known here, else a new one]"),
]
Workers = Annotated[int | None, typer.Option(min=1, metavar="N", help="At most so many Ray workers. [default: all]")]
System = Annotated[str | None, typer.Option(help="The system's turn before it.")]
RemoteCode = Annotated[bool, typer.Option("--trust-remote-code", help="Let a model from the hub run its own code.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and all warnings.")]


def choose_engine(name: str, address: str | None, workers: int | None) -> "EngineFunction":
    """The engine that --engine, --address and --workers ask for, checked before anything is loaded."""
    from looprop.running.engines import get_engine

    return get_engine(name, address=address, workers=workers)


def check_methods(methods: list[str]) -> list[str]:
    """The methods in order, each once; an unknown one raises."""
    for method in methods:
        check_name(method)
    return list(dict.fromkeys(method.strip() for method in methods))


def check_place(path: Path | None, *endings: str) -> None:
    """Raise now if a file cannot be written later, or its name has none of these endings."""
    if path is None:
        return
    from looprop import files  # which needs numpy

    files.file_kind(path, endings)
    files.check_place(path)


def check_picture(path: Path | None) -> None:
    """Raise now if a picture cannot be written later."""
    if path is not None:
        from looprop.result import WRITERS

        check_place(path, *(ending for ending, writer in WRITERS.items() if writer.view == "figure"))


def check_out(path: Path | None) -> None:
    """Raise now if an evaluation cannot be saved there later."""
    if path is not None:
        from looprop.evaluation import Evaluation

        Evaluation.check_place(path)


def read_text(text: str) -> str:
    """The text itself, or standard input for `-`; what is not Unicode raises."""
    if text == "-":
        try:
            text = sys.stdin.buffer.read().decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(
                f"standard input must be UTF-8, got byte 0x{error.object[error.start]:02x} at place {error.start}"
            ) from None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"the text must be Unicode, got something else at place {error.start}") from None
    return text


def read_data(
    data: str, *, split: str | None, column: str | None, limit: int | None, seed: int, also: tuple[str, ...] = ()
) -> "Dataset":
    """The texts that the argument DATA names; an option that does not go with them is wrong usage."""
    from looprop.inputs import datasets

    try:
        datasets.check_options(data, split=split, column=column)
    except InputError as error:
        raise typer.BadParameter(f"--{error}") from None
    return datasets.read_data(data, split=split, column=column, limit=limit, seed=seed, also=also)
