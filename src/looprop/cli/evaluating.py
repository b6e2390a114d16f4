"""`looprop evaluate`: methods on a data set, measured against what the model does when features are removed; and
`looprop demo`, the same on 24 sentences with every method there is.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from looprop.cli import options
from looprop.cli.shell import command, hand_out, load_reader, output, progress, say
from looprop.methods.names import COMPARED
from looprop.naming import split_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from looprop.evaluation import Evaluation
    from looprop.evaluation.setup import Setup
    from looprop.inputs import Dataset
    from looprop.workbench import Workbench

LONG = 20.0
"""Seconds from which on a run says beforehand what it will cost."""

Data = Annotated[str, typer.Argument(help="sst2, imdb, demo, or a file of texts (.txt, .csv, .tsv, .jsonl, .parquet).")]
Metrics = Annotated[
    list[str] | None,
    typer.Option("--metric", metavar="NAME", help="A metric; repeat for more. [default: those of the paper]"),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME",
        help="loo or shapley, whose correlations come first; repeat for both, or write loo,shapley. Shapley values are "
        "dear: shapley[samples=64] limits them. [default: loo]",
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="NAME",
        help="A folder or a hub id; repeat to compare models. [default: the embedded sentiment model]",
    ),
]
Curves = Annotated[str, typer.Option(help="What the curves remove step by step: token, word or chunk:N.")]
Removal = Annotated[
    str | None, typer.Option(help="attention-mask, mask-token, pad-token or delete. [default: attention-mask]")
]
Protocol = Annotated[str, typer.Option(help="raw, or paper: maps normalised to sum to one.")]
Yardsticks = Annotated[bool, typer.Option("--yardsticks", help="Add random scores, token position and token length.")]
Out = Annotated[
    Path | None,
    typer.Option(help="Keep rows and summary in this folder. Stopped, the same command goes on.", metavar="FOLDER"),
]


@command
def evaluate(
    data: Data,
    method: options.Methods = None,
    metric: Metrics = None,
    reference: References = None,
    model: Models = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    split: options.Split = None,
    column: options.TextColumn = None,
    curves: Curves = "token",
    removal: Removal = None,
    protocol: Protocol = "raw",
    yardsticks: Yardsticks = False,
    out: Out = None,
    engine: options.Engine = "local",
    address: options.Address = None,
    workers: options.Workers = None,
    html: options.Html = None,
    json_: options.Json = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Measure methods on a data set.

    Correlation with leave-one-out or Shapley values, removal curves, time and cost. Without --method: loo, looprop,
    attnlrp, cp-lrp and random.
    """
    methods = options.check_methods(method or list(COMPARED))
    options.check_place(html, ".html")
    options.check_out(out)
    chosen = options.choose_engine(engine, address, workers)
    texts = options.read_data(data, split=split, column=column, limit=limit, seed=seed)
    with progress("loading the model"):
        benches = [load_reader(name) for name in model] if model else [load_reader(None)]
    from looprop.evaluation.evaluate import evaluate_tasks, tasks_of
    from looprop.evaluation.setup import make_setup
    from looprop.running.engines import describe

    setup = make_setup(
        methods,
        metric,
        references=None if reference is None else [name for given in reference for name in split_names(given)],
        yardsticks=yardsticks,
        protocol=protocol,
        curve_features=curves,
        removal=removal,
        seed=seed,
    )
    for dear in setup.dear:
        say(f"the metrics need {dear}")
    say_cost(benches, texts, setup)
    with progress("explaining and measuring", len(texts.examples) * len(benches)) as advance:
        models: Any = benches if len(benches) > 1 else benches[0]
        keep = None if out is None else Path(f"{out.resolve()}.unfinished")
        run: dict[str, Any] = {"engine": chosen, "progress": advance, "keep": keep}
        result: Any = evaluate_tasks(models, tasks_of(texts), setup, texts.title, **run)
    for own in result.values() if len(benches) > 1 else [result]:
        if account := own.about.get("engine"):
            say(f"computed on {describe(account)}")
    _check_success(result)
    done = hand_out(result, out, html, json_=json_)
    if keep is not None:
        shutil.rmtree(keep)
    if not done:
        _show_summary(result, no_color=no_color)


def say_cost(benches: "Sequence[Workbench]", texts: "Dataset", setup: "Setup") -> None:
    """What a long run will cost at most, from one forward pass of a text of middling length; of a short one nothing."""
    from looprop.errors import LoopropError
    from looprop.measure import estimate_run, spoken

    count = len(texts.examples)
    middling = sorted((example.text for example in texts.examples), key=lambda text: len(str(text)))[count // 2]
    seconds = passes = 0.0
    for bench in benches:
        try:
            subject = bench.subject(middling, truncation=True)
            curves = bool(setup.needs & {"morf_curve", "lerf_curve", "player_curve"})
            found = estimate_run(subject, list(setup.made.values()), curves=curves, texts=count)
        except LoopropError:  # the run itself will say what is wrong
            return
        seconds, passes = seconds + found.seconds, passes + found.passes
    if seconds >= LONG:
        said = f"at most {passes:,.0f} forward passes, about {spoken(seconds)} on this machine"
        say(f"{count} texts by {len(setup.made)} methods: {said}; --limit N takes fewer")


@command
def demo(
    html: Annotated[Path, typer.Option(help="Where the page goes.", metavar="FILE")] = Path("looprop-demo.html"),
    model: options.Model = None,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Explain 24 sentences with every method: a table and a page."""
    options.check_place(html, ".html")
    with progress("loading the model"):
        bench = load_reader(model)
    from looprop.evaluation.evaluate import evaluate, gallery_page
    from looprop.files import write_whole
    from looprop.inputs import demo_sentences
    from looprop.methods.registry import CATALOGUE

    methods = [entry.demo or entry.example or entry.name for entry in CATALOGUE.values()]
    data = demo_sentences()
    with progress("explaining and measuring", len(data)) as advance:
        result = evaluate(bench, data, methods=methods, progress=advance)
    _check_success(result)
    write_whole(html, gallery_page(bench, data, result).encode())
    _show_summary(result, no_color=no_color)
    say(f"wrote {html}")


def _show_summary(result: "Evaluation", *, no_color: bool) -> None:
    """The table."""
    from looprop.display.terminal import data_table

    console = output(no_color=no_color)
    console.print(result.title, style="bold", markup=False)
    console.print(data_table(*result.table))
    for note in result.notes:
        console.print(note, style="dim", markup=False)


def _check_success(result: "Evaluation") -> None:
    """Says which methods failed; raises where none was measured on any example."""
    result.check()
    if failed := ", ".join(f"{method} ({count})" for method, count in result.failed.items()):
        say(f"looprop: warning: failed on some examples: {failed}; the first error: {result.first_error}")
