"""`looprop audit`: does an explanation depend on how the model is written?"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from looprop.auditing.catalogue import CATALOGUE, check_rewrites, steps
from looprop.cli import options
from looprop.cli.shell import command, hand_out, load_reader, output, progress, quiet_libraries, say
from looprop.study.kinds import AUDIT_CASES

if TYPE_CHECKING:
    from rich.console import Console

    from looprop.auditing.result import Audit
    from looprop.inputs.examples import Dataset


def _complete(start: str) -> list[tuple[str, str]]:
    return [(entry.name, entry.summary) for entry in CATALOGUE.values() if entry.name.startswith(start)]


Data = Annotated[
    str,
    typer.Argument(
        help="sst2, imdb, demo, a file of texts (.txt, .csv, .tsv, .jsonl, .parquet); "
        "or the paper's own product or mnist."
    ),
]
Rewrites = Annotated[
    list[str] | None,
    typer.Option(
        "--rewrite",
        "-r",
        metavar="NAME",
        autocompletion=_complete,
        help=f"A rewrite; repeat for more. [default: all of {', '.join(CATALOGUE)}]",
    ),
]
WithChecks = Annotated[bool, typer.Option("--checks/--no-checks", help="Sanity checks beside the rewrites.")]


@command
def audit(
    data: Data,
    method: options.Methods = None,
    rewrite: Rewrites = None,
    model: options.Model = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    split: options.Split = None,
    column: options.TextColumn = None,
    precision: Annotated[
        str, typer.Option(help="float64: a copy of the model in float64; model: the model as it is.")
    ] = "float64",
    checks: WithChecks = True,
    engine: options.Engine = "local",
    address: options.Address = None,
    workers: options.Workers = None,
    html: options.Html = None,
    json_: options.Json = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Write the model in other ways that compute the same, and see whose explanations change.

    Without --method: all, integrated gradients with 5 steps. A rewrite that cannot be proven to compute the same is
    refused.
    """
    methods = options.check_methods(method) if method else None
    rewrites = check_rewrites(rewrite or CATALOGUE)
    options.check_place(html, ".html")
    chosen = options.choose_engine(engine, address, workers)
    subject, inputs, title = _question(data, model=model, split=split, column=column, limit=limit, seed=seed)
    from looprop.auditing.audit import audit as run_audit

    with progress("the model as it is", steps(len(rewrites), checks=checks)) as advance:
        result = run_audit(
            subject,
            inputs,
            methods=methods,
            rewrites=rewrites,
            precision=precision,  # type: ignore[arg-type]
            checks=checks,
            advance=advance,
            engine="local" if engine == "local" else chosen,
            title=title,
        )
    if account := result.about.get("engine"):
        from looprop.running.engines import describe

        say(f"computed on {describe(account)}")
    if not hand_out(result, html, json_=json_):
        show_audit(result, no_color=no_color)


def _question(
    data: str, *, model: str | None, split: str | None, column: str | None, limit: int | None, seed: int
) -> "tuple[Any, Dataset | Sequence[Any], str | None]":
    """The model, the inputs and their title (None: the inputs have one): texts, or one of the paper's cases."""
    if data not in AUDIT_CASES:
        texts = options.read_data(data, split=split, column=column, limit=limit, seed=seed, also=AUDIT_CASES)
        with progress("loading the model"):
            return load_reader(model), texts, None
    if model is not None or split is not None or column is not None:
        raise typer.BadParameter(f"{data} brings its own model and inputs: it takes no --model, --split or --column")
    with progress("training the network" if data == "mnist" else "loading the model"):
        quiet_libraries(online=False)
        from looprop.study import audit_case

        case = audit_case(data, limit=limit, seed=seed)
    return case.model, case.inputs, case.title


def show_audit(result: "Audit", *, no_color: bool) -> None:
    """Verdicts, the table of changes, the checks, and what was refused or left alone."""
    from looprop.auditing.result import change_text, is_blind, sign_of
    from looprop.display.data import correlation

    console = output(no_color=no_color)
    console.print(f"{result.about['model']} on {result.title}", style="bold", markup=False)
    if "truncated" in result.about:
        console.print(result.about["truncated"], style="dim", markup=False)
    console.print()
    for name, verdict in result.verdicts.items():
        blind = "; but it is blind to the model" if is_blind(name, verdict) else ""
        console.print(f"{sign_of(name, verdict)} {name}: {verdict.sentence}{blind}", markup=False)
        for flag in verdict.flags:
            console.print(f"    ! {flag}", markup=False)
    changes: dict[str, list[str]] = {}
    for effect in result.rows:
        text = "refused" if effect.refused else change_text(effect.change, result.tolerance)
        changes.setdefault(effect.method, []).append(text)
    columns = {method: changes[method] for method in result.methods if set(changes.get(method, [])) - {"refused"}}
    # One line per rewrite: there are more rewrites than a terminal is wide.
    lines = [[rewrite, *(column[i] for column in columns.values())] for i, rewrite in enumerate(result.applied)]
    if lines:
        _show_table(console, "Largest change of scores in %", ["rewrite", *columns], lines)
    lines = [[check.method, *map(correlation, check.randomised)] for check in result.checks if check.randomised]
    heading = "Mean r while weights are shuffled from the last layer down: a third, two thirds, all"
    if lines:
        _show_table(console, heading, ["method", "1/3", "2/3", "all"], lines)
    console.print()
    for attempt in result.attempts:
        if attempt.status == "refused":
            console.print(f"refused: {attempt.rewrite}: {attempt.reason}", markup=False)
    nothing = [attempt.rewrite for attempt in result.attempts if attempt.status == "nothing to change"]
    if nothing:
        console.print(f"nothing to change for: {', '.join(nothing)}", style="dim", markup=False)
    for attempt in result.attempts:
        if attempt.unsupported:
            more = f" (and {len(attempt.unsupported) - 1} more)" if len(attempt.unsupported) > 1 else ""
            console.print(f"left alone by {attempt.rewrite}: {attempt.unsupported[0]}{more}", style="dim", markup=False)


def _show_table(console: "Console", heading: str, columns: list[str], lines: list[list[str]]) -> None:
    from looprop.display.terminal import table

    console.print()
    console.print(heading, style="bold", markup=False)
    console.print(table(columns, lines, numeric=frozenset(range(1, len(columns)))))
