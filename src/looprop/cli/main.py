"""The command `looprop`, and `looprop methods`: what there is to choose from."""

import json
import os
import shutil
import sys
import textwrap
from dataclasses import asdict
from importlib import import_module
from typing import Annotated

import typer

from looprop.cli.asking import context
from looprop.cli.auditing import audit
from looprop.cli.evaluating import demo, evaluate
from looprop.cli.experiments import report, reproduce
from looprop.cli.explaining import explain
from looprop.cli.options import Debug, Json
from looprop.cli.serving import serve
from looprop.cli.shell import command, tolerant_streams
from looprop.errors import LoopropError

# Threads that spin while they wait take the cores from whatever else runs. torch reads this once, when it is loaded,
# which no command has done yet.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

app = typer.Typer(
    name="looprop",
    help=(
        "Explain any PyTorch Transformer, and measure every explanation against what the model does when a feature is "
        "left out."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@command
def methods(json_: Json = False, debug: Debug = False) -> None:
    """List the methods, with what each costs and its options."""
    # Nothing is loaded for it, rich included: it starts in a third of a second.
    from looprop.methods.registry import CATALOGUE, options_of

    if json_:
        found = [
            {"name": e.name, "summary": e.summary, "cost": e.cost, "options": list(map(asdict, options_of(e)))}
            for e in CATALOGUE.values()
        ]
        typer.echo(json.dumps({"schema": "looprop.methods", "version": 1, "methods": found}, indent=1))
        return
    rows = [("method", "cost", "what it is", "")]
    rows += [(e.name, e.cost, e.summary, ", ".join(map(str, options_of(e)))) for e in CATALOGUE.values()]
    first, second = (2 + max(len(row[column]) for row in rows) for column in (0, 1))
    width = max(shutil.get_terminal_size().columns - first - second, 30)
    for name, cost, summary, options in rows:
        lines = textwrap.wrap(summary, width)
        lines += textwrap.wrap(options, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
        typer.echo(f"{name:{first}}{cost:{second}}" + ("\n" + " " * (first + second)).join(lines))
    typer.echo("\nCost in forward passes; F: features, T: tokens, S: special ones. Options with their defaults stand")
    typer.echo("below each method, and in brackets after its name: ig[steps=20;baseline=pad], lrp[cp=4-6].")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"looprop {import_module('looprop').__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


for _function in (explain, context, evaluate, audit, reproduce, report, serve, methods, demo):
    app.command()(_function)


@app.command(hidden=True, context_settings={"ignore_unknown_options": True})
@command
def tune(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """Removed: no search for a plan was shown to gain anything."""
    raise LoopropError(
        "`looprop tune` was removed, because no plan that it found was shown to gain anything: compare methods on your "
        "texts with `looprop evaluate DATA -m loo -m attnlrp -m cp-lrp`"
    )


def main() -> None:
    """The entry point of the console script."""
    tolerant_streams()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
