"""What all commands share: two consoles, errors in one line, exit codes, warnings, progress after two seconds.

Exit codes: 0 done, 1 looprop could not do it, 2 wrong usage, 130 interrupted. What was asked for goes to standard
output, all talk to standard error.
"""

import functools
import gc
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

import typer

from looprop.display import visible
from looprop.errors import LoopropError

if TYPE_CHECKING:
    from rich.console import Console

    from looprop.progress import Advance
    from looprop.result.writers import Result
    from looprop.workbench import Workbench

P = ParamSpec("P")

# What takes longer than this shows that it is at work.
PATIENCE = 1.5  # seconds

# How an option of the Python functions is called here.
_SPELLINGS = {
    "pass truncation=True": "use --truncate",
    "features='token'": "--features token",
    "(question, context)": "QUESTION --pair CONTEXT",
    "without the template": "without the template, with --no-chat",
}


def output(*, no_color: bool = False) -> "Console":
    """Where results go."""
    from rich.console import Console

    class Output(Console):
        def on_broken_pipe(self) -> None:
            # Rich would end with exit code 1; `command` knows better.
            raise BrokenPipeError

    return Output(no_color=no_color or None, color_system=None if no_color else "auto", highlight=False)


def say(message: str) -> None:
    """One line of talk."""
    print(visible(message), file=sys.stderr, flush=True)


def hand_out(result: "Result", *places: Path | None, json_: bool) -> bool:
    """Write the files, then JSON on standard output if it is asked for, and return whether it was. Files come first, so
    that they are whole whatever becomes of standard output.
    """
    for place in places:
        if place is not None:
            say(f"wrote {result.save(place)}")
    if json_:
        from looprop.files import to_json

        typer.echo(to_json(result.to_dict()).decode("ascii"), nl=False)
    return json_


def command(function: Callable[P, None]) -> Callable[P, None]:
    """A command that ends with the right exit code and, unless `debug` is set, never with a traceback."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        debug = bool(kwargs.get("debug"))
        try:
            with _warnings(debug):
                function(*args, **kwargs)
                sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except BrokenPipeError:
            # Whoever read has gone, with all that they wanted: nothing is left to say, also at interpreter exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except KeyboardInterrupt:
            say("looprop: interrupted")
            raise typer.Exit(130) from None
        except Exception as error:
            _fail(error, debug)

    return run


def _fail(error: Exception, debug: bool) -> NoReturn:
    if debug:
        traceback.print_exception(error)
    text = " ".join(str(error).split()) or type(error).__name__
    for python, here in _SPELLINGS.items():
        text = text.replace(python, here)
    if isinstance(error, LoopropError):
        say(f"looprop: {text}")
    elif isinstance(error, OSError):
        say(f"looprop: {error.strerror or text}{f': {error.filename}' if error.filename else ''}")
    else:
        hint = "" if debug else " (--debug shows where)"
        say(f"looprop: unexpected {type(error).__name__}: {text[:500]}{hint}")
    raise typer.Exit(1)


@contextmanager
def _warnings(debug: bool) -> Iterator[None]:
    """Our own warnings as lines of talk; those of other packages only under --debug."""

    def show(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        if debug or category.__module__.startswith("looprop"):
            say(f"looprop: warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = show
        yield


def progress(what: str, total: int | None = None) -> "AbstractContextManager[Advance]":
    """A bar on standard error, on terminals, after a moment; gives a function that says "one more" and what is next."""
    from looprop.progress import progress_bar

    return progress_bar("", total, note=what, show=sys.stderr.isatty(), patience=PATIENCE, transient=True)


def load_bench(model: str | None, *, trust_remote_code: bool = False) -> "Workbench":
    """The workbench of a model, loaded without chatter."""
    with _nothing_is_garbage():
        quiet_libraries(online=model is not None and not Path(model).is_dir())
        from looprop.workbench import load

        return load(model, trust_remote_code=trust_remote_code)


def load_reader(model: str | None, *, trust_remote_code: bool = False) -> "Workbench":
    """The same of a model that reads texts; any other raises."""
    bench = load_bench(model, trust_remote_code=trust_remote_code)
    from looprop.models.prompts import check_reads_texts

    check_reads_texts(bench.adapter)
    return bench


@contextmanager
def _nothing_is_garbage() -> Iterator[None]:
    """Modules and models stay until the process ends: looking for garbage among them, while they are loaded, later and
    at the exit, was a third of the CPU time of `looprop explain`.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()


def quiet_libraries(*, online: bool) -> None:
    """No chatter from transformers; its progress bars only where something may be downloaded."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not online:
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        from transformers.utils import logging

        logging.disable_progress_bar()


def tolerant_streams() -> None:
    """Characters that a terminal's encoding does not have are replaced; closed streams are as if nobody read them."""
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open for as long as the process runs
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
