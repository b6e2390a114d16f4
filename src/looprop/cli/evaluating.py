"""`looprop evaluate`: methods on a data set, measured against what the model does when features are removed."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from looprop.cli.arguments import check_methods, check_place
from looprop.cli.explaining import load_bench
from looprop.cli.options import (
    Address,
    Debug,
    Engine,
    Html,
    Json,
    Limit,
    Methods,
    Model,
    NoColor,
    Seed,
    Workers,
    choose_engine,
)
from looprop.cli.shell import command, progress, say
from looprop.cli.summaries import check_success, counting, show_summary, summary_html
from looprop.errors import UnknownNameError

if TYPE_CHECKING:
    from looprop.inputs.examples import Dataset

# Named in the help of the command.
METHODS = ["loo", "looprop", "attnlrp", "cp-lrp", "random"]


@command
def evaluate(
    data: Annotated[
        str, typer.Argument(help="sst2, imdb, demo, or a file of texts (.txt, .csv, .tsv, .jsonl, .parquet).")
    ],
    method: Methods = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME",
            help="A metric; repeat for more. [default: those of the paper]",
            show_default=False,
        ),
    ] = None,
    model: Model = None,
    limit: Limit = None,
    seed: Seed = 0,
    split: Annotated[str | None, typer.Option(help="The part of a named data set.", show_default=False)] = None,
    column: Annotated[str | None, typer.Option(help="The column of the texts in a file.", show_default=False)] = None,
    curves: Annotated[str, typer.Option(help="What the curves remove step by step: token, word or chunk:N.")] = "token",
    removal: Annotated[
        str | None,
        typer.Option(
            help="attention-mask, mask-token, pad-token or delete. [default: attention-mask]", show_default=False
        ),
    ] = None,
    protocol: Annotated[str, typer.Option(help="raw, or paper: maps normalised to sum to one.")] = "raw",
    yardsticks: Annotated[
        bool, typer.Option("--yardsticks", help="Add random scores, token position and token length.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Keep rows and summary in this folder.", metavar="FOLDER", show_default=False)
    ] = None,
    engine: Engine = "local",
    address: Address = None,
    workers: Workers = None,
    html: Html = None,
    json_: Json = False,
    no_color: NoColor = False,
    debug: Debug = False,
) -> None:
    """Measure methods on a data set.

    Correlation with leave-one-out, removal curves, time and cost. Without --method: loo, looprop, attnlrp, cp-lrp and
    random.
    """
    methods = check_methods(method or METHODS)
    check_place(html, ".html")
    chosen = choose_engine(engine, address, workers)
    texts = read_data(data, split=split, column=column, limit=limit, seed=seed)
    with progress("loading the model"):
        bench = load_bench(model)
    from looprop.evaluation.evaluate import evaluate as measure

    here = engine == "local"
    with progress("explaining and measuring", len(texts)) if here else nullcontext(lambda what: None) as advance:
        result = measure(
            bench,
            texts,
            methods=methods,
            metrics=metric,
            yardsticks=yardsticks,
            protocol=protocol,  # type: ignore[arg-type]
            curve_features=curves,
            removal=removal,  # type: ignore[arg-type]
            seed=seed,
            engine=counting(advance) if here else chosen,
            progress=not here and sys.stderr.isatty(),
        )
    if account := result.about.get("engine"):
        from looprop.running.engines import describe

        say(f"computed on {describe(account)}")
    check_success(result)
    if out is not None:
        say(f"wrote {result.save(out)}")
    if html is not None:
        from looprop.display.html import card, page
        from looprop.files import write_whole

        body = card(summary_html(result), title="Methods, the one closest to leave-one-out first")
        say(f"wrote {write_whole(html, page(result.title, body, subtitle=bench.adapter.name).encode())}")
    if json_:
        from looprop.files import to_json

        typer.echo(to_json(result.to_dict()).decode("ascii"), nl=False)
    else:
        show_summary(result, no_color=no_color)


def read_data(
    data: str, *, split: str | None, column: str | None, limit: int | None, seed: int, also: tuple[str, ...] = ()
) -> "Dataset":
    """A data set by name, or the texts of a file. also: what the command takes beside them, for the error of an unknown
    name.
    """
    if Path(data).suffix or Path(data).exists():
        if split is not None:
            raise typer.BadParameter("--split is for data sets by name, and this is a file")
        from looprop.inputs.files import read_texts

        return read_texts(data, column=column, limit=limit, seed=seed)
    if column is not None:
        raise typer.BadParameter("--column is for files")
    if data == "demo":
        if split is not None:
            raise typer.BadParameter("the demo sentences have no split")
        from looprop.inputs.demo import demo_sentences
        from looprop.inputs.examples import make_dataset

        whole = demo_sentences()
        return make_dataset(whole.name, whole.split, whole.examples, limit=limit, seed=seed)
    from looprop.inputs.datasets import SPLITS, load_dataset

    if data not in SPLITS:
        raise UnknownNameError("data set", data, ("demo", *SPLITS, *also))
    return load_dataset(data, split=split, limit=limit, seed=seed)
