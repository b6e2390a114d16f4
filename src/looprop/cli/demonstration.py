"""`looprop demo`: the main job on 24 sentences, with every method there is: a table and one page."""

from pathlib import Path
from typing import Annotated

import typer

from looprop.cli.arguments import check_place
from looprop.cli.options import Debug, Model, NoColor
from looprop.cli.shell import command, load_reader, progress, say
from looprop.cli.summaries import check_success, show_summary


@command
def demo(
    html: Annotated[Path, typer.Option(help="Where the page goes.", metavar="FILE")] = Path("looprop-demo.html"),
    model: Model = None,
    no_color: NoColor = False,
    debug: Debug = False,
) -> None:
    """Explain 24 sentences with every method: a table and a page."""
    check_place(html, ".html")
    with progress("loading the model"):
        bench = load_reader(model)
    from looprop.evaluation.evaluate import evaluate
    from looprop.evaluation.gallery import gallery_page
    from looprop.files import write_whole
    from looprop.inputs.demo import demo_sentences
    from looprop.methods.registry import CATALOGUE

    methods = [entry.demo or entry.example or entry.name for entry in CATALOGUE.values()]
    data = demo_sentences()
    with progress("explaining and measuring", len(data)) as advance:
        result = evaluate(bench, data, methods=methods, progress=advance)
    check_success(result)
    write_whole(html, gallery_page(bench, data, result).encode())
    show_summary(result, no_color=no_color)
    say(f"wrote {html}")
