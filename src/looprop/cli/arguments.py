"""What the command line says, checked before anything heavy is loaded."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from looprop.errors import InputError
from looprop.methods.names import check_name

if TYPE_CHECKING:
    from looprop.inputs import Dataset


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
    from looprop.inputs import reading

    try:
        reading.check_options(data, split=split, column=column)
    except InputError as error:
        raise typer.BadParameter(f"--{error}") from None
    return reading.read_data(data, split=split, column=column, limit=limit, seed=seed, also=also)
