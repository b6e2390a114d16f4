"""The command `looprop`."""

import os
import sys
from importlib import import_module
from typing import Annotated

import typer

from looprop.cli.asking import context
from looprop.cli.auditing import audit
from looprop.cli.demonstration import demo
from looprop.cli.evaluating import evaluate
from looprop.cli.experiments import report, reproduce
from looprop.cli.explaining import explain
from looprop.cli.listing import methods
from looprop.cli.serving import serve
from looprop.cli.shell import tolerant_streams
from looprop.cli.tuning import tune

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


for _function in (explain, context, evaluate, tune, audit, reproduce, report, serve, methods, demo):
    app.command()(_function)


def main() -> None:
    """The entry point of the console script."""
    tolerant_streams()
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
