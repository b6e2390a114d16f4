"""`looprop tune`: a plan for one model, chosen on training texts, as a file."""

import json
from pathlib import Path
from typing import Annotated

import typer

from looprop.cli.arguments import check_place, read_data
from looprop.cli.options import Debug, Json, Limit, Model, Seed, Split, TextColumn
from looprop.cli.shell import command, load_reader, progress, say

# Of a named data set, the texts that the model was trained on: what is reported elsewhere chooses nothing.
TRAINING = "train"
TEXTS = 80

Data = Annotated[
    str, typer.Option(help="Training texts: sst2, imdb, demo, or a file (.txt, .csv, .tsv, .jsonl, .parquet).")
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan (.yaml).", show_default=False)
]
Reference = Annotated[str, typer.Option(help="loo, or shapley, which costs much more.")]
Budget = Annotated[int, typer.Option(min=5, metavar="N", help="How many plans are tried at most.")]
Special = Annotated[bool, typer.Option("--special", help="Count special tokens as well.")]


@command
def tune(
    data: Data,
    model: Model = None,
    limit: Limit = None,
    output: Output = None,
    reference: Reference = "loo",
    budget: Budget = 80,
    special: Special = False,
    split: Split = None,
    column: TextColumn = None,
    seed: Seed = 0,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Search a plan of relevance propagation for a model.

    Plans are compared on one half of the texts; the best is reported on the other, beside the best standard method,
    with the interval of its gain. lrp[plan=FILE] uses what --output writes.
    """
    check_place(output, ".yaml")
    from looprop.inputs.datasets import SPLITS

    split = TRAINING if split is None and data in SPLITS else split
    texts = read_data(data, split=split, column=column, limit=limit or TEXTS, seed=seed)
    with progress("loading the model"):
        bench = load_reader(model)
    from looprop.tuning.tune import STANDARDS, most_passes
    from looprop.tuning.tune import tune as search

    most = most_passes(bench, texts.texts, reference=reference, budget=budget)
    say(f"{texts.title}: at most {most:,.0f} forward passes, {most / len(texts):,.0f} for each text")
    with progress("searching", len(texts) + budget + len(STANDARDS)) as advance:
        found = search(
            bench, texts, reference=reference, budget=budget, with_special=special, seed=seed, progress=advance
        )
    typer.echo(json.dumps(found.to_dict(), indent=1) if json_ else str(found))
    if output is not None:
        say(f"wrote {found.save(output)}: use it as lrp[plan={output}]")
