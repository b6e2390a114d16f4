"""`looprop methods`: what there is to choose from, without loading anything, rich included: it starts in a third of a
second.
"""

import json
import shutil
import textwrap

import typer

from looprop.cli.options import Debug, Json
from looprop.cli.shell import command
from looprop.methods.names import CATALOGUE


@command
def methods(json_: Json = False, debug: Debug = False) -> None:
    """List the methods, with what each costs."""
    if json_:
        found = [{"name": e.name, "summary": e.summary, "cost": e.cost} for e in CATALOGUE.values()]
        typer.echo(json.dumps({"schema": "looprop.methods", "version": 1, "methods": found}, indent=1))
        return
    rows = [("method", "cost", "what it is"), *((e.name, e.cost, e.summary) for e in CATALOGUE.values())]
    first, second = (2 + max(len(row[column]) for row in rows) for column in (0, 1))
    width = max(shutil.get_terminal_size().columns - first - second, 30)
    for name, cost, summary in rows:
        typer.echo(
            f"{name:{first}}{cost:{second}}"
            + textwrap.fill(summary, width).replace("\n", "\n" + " " * (first + second))
        )
    typer.echo("\nCost in forward passes; F: features, T: tokens.")
    typer.echo(
        "Options stand in brackets: ig[steps=20], lrp[cp=4-6], lrp[plan=FILE], cp-lrp[linear=gamma],\n"
        "gim[baseline=space], looprop[rows=16]."
    )
