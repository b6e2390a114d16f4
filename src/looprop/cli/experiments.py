"""`looprop reproduce`: an experiment into a folder; `looprop report`: a folder into tables, a figure and a page."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from looprop.cli import options
from looprop.cli.shell import command, progress, quiet_libraries, say
from looprop.errors import DataError, UnknownNameError
from looprop.study import experiment_names


def _complete(start: str) -> list[str]:
    return [name for name in experiment_names() if name.startswith(start)]


LooFrom = Annotated[
    Path | None,
    typer.Option(help="A run of the same model and texts: its leave-one-out is taken over.", metavar="FOLDER"),
]
References = Annotated[
    Path | None,
    typer.Option(
        help="A file of Shapley values and leave-one-out of the same model and texts, taken over by `truths`.",
        metavar="FILE",
    ),
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Compute examples again on which something failed.")]
WithReport = Annotated[bool, typer.Option("--report/--no-report", help="Write the report when the run is finished.")]


@command
def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            help=f"{', '.join(experiment_names())}, a YAML file of your own, or a folder of your own with its code.",
            autocompletion=_complete,
        ),
    ],
    model: options.Model = None,
    data: Annotated[str | None, typer.Option(help="One of the experiment's data sets, or a file of texts.")] = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="The run folder. [default: runs/EXPERIMENT-DATA]", metavar="FOLDER")
    ] = None,
    loo_from: LooFrom = None,
    references: References = None,
    retry_failed: RetryFailed = False,
    engine: options.Engine = "local",
    address: options.Address = None,
    workers: options.Workers = None,
    report_: WithReport = True,
    debug: options.Debug = False,
) -> None:
    """Run an experiment of the paper, or one of your own.

    Given again, the command goes on where it was stopped, also with another --engine or, on texts, a larger --limit.
    --model paper is the model that the paper used.
    """
    with progress("loading"):
        quiet_libraries(online=model is not None and not Path(model).is_dir())
        from looprop.study import reproduce as run_experiment
    chosen = options.choose_engine(engine, address, workers)
    try:
        shown = sys.stderr.isatty()
        run = run_experiment(
            experiment,
            model=model,
            data=data,
            limit=limit,
            seed=seed,
            out=out,
            loo_from=loo_from,
            references=references,
            retry_failed=retry_failed,
            progress=shown,
            engine=chosen,
        )
    except KeyboardInterrupt:
        say("what is finished is kept: give the same command again to go on")
        raise
    say(f"finished: {run.title}")
    if errors := {row["example"]: row["error"] for row in run.rows if row["error"]}:
        first = next(iter(errors.values()))
        say(
            f"looprop: warning: something failed on {len(errors)} of {len(run.computed)} examples; --retry-failed "
            f"tries these again. The first error: {first}"
        )
    if report_:
        _write([run.folder], None)
    typer.echo(run.folder)


@command
def report(
    run: Annotated[list[Path], typer.Argument(help="Run folders of one experiment, shown together.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where the files go. [default: the first run]")
    ] = None,
    experiment: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The folder of the experiment, where it is neither of the package nor of this clone. Its code is run.",
        ),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Write tables, figure and page of a run."""
    if experiment is not None:
        from looprop.study import load_kind

        load_kind(experiment)
    try:
        _write(run, out)
    except UnknownNameError as error:
        raise DataError(f"{error}; the folder of an experiment of your own is named by --experiment FOLDER") from error


def _write(runs: list[Path], out: Path | None) -> None:
    with progress("writing the report"):
        from looprop.study import write_report
        from looprop.study.run import read_run

        written = write_report(*runs, out=out)
    for path in written:
        say(f"wrote {path}")
    for run in map(read_run, runs):
        for claim in run.claims():
            say(f"{claim.verdict}: {claim.claim} ({claim.ours})")
