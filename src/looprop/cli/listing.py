"""`looprop methods`: what there is to choose from, in a third of a second: nothing is loaded, rich included."""

import json
import shutil
import textwrap
from dataclasses import asdict

import typer

from looprop.cli.options import Debug, Json
from looprop.cli.shell import command


@command
def methods(json_: Json = False, debug: Debug = False) -> None:
    """List the methods, with what each costs and its options."""
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
