"""`looprop explain`: one text, one or more methods, shown, written or handed on."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from looprop.cli.arguments import check_methods, check_place, read_text
from looprop.cli.options import Debug, Html, Json, Methods, Model, NoColor
from looprop.cli.shell import command, output, progress, quiet_libraries, say
from looprop.errors import InputError
from looprop.naming import split_name

if TYPE_CHECKING:
    from looprop.explanation import Explanations
    from looprop.models.target import TargetLike
    from looprop.workbench import Workbench


@command
def explain(
    text: Annotated[
        str | None, typer.Argument(help="The text to explain; - reads standard input.", show_default=False)
    ] = None,
    method: Methods = None,
    model: Model = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="A label, class number or token; A,B: the contrast of two. [default: what is predicted]",
            show_default=False,
        ),
    ] = None,
    features: Annotated[str, typer.Option(help="token, word or chunk:N.")] = "token",
    loo: Annotated[
        bool | None,
        typer.Option(
            "--loo/--no-loo", help="Compare with leave-one-out. [default: with two or more methods]", show_default=False
        ),
    ] = None,
    pair: Annotated[str | None, typer.Option(help="The second text of a pair.", show_default=False)] = None,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Cut a text that is longer than the model takes.")
    ] = False,
    prompt: Annotated[
        str | None,
        typer.Option(help="The user's turn, instead of a text; - reads standard input.", show_default=False),
    ] = None,
    system: Annotated[str | None, typer.Option(help="The system's turn before it.", show_default=False)] = None,
    chat: Annotated[
        bool, typer.Option("--chat/--no-chat", help="Put the prompt into the model's chat template, if it has one.")
    ] = True,
    continuation: Annotated[
        str | None, typer.Option(help="Explain the log-probability of this continuation.", show_default=False)
    ] = None,
    generate: Annotated[
        int | None,
        typer.Option(
            min=1, help="Explain the model's own continuation, of at most N tokens.", metavar="N", show_default=False
        ),
    ] = None,
    html: Html = None,
    png: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture.", show_default=False)] = None,
    json_: Json = False,
    no_color: NoColor = False,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Let a model from the hub run its own code.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Explain what a model makes of a text.

    Without --method: cp-lrp. Colours, or numbers where there are none, show what speaks for the target and what against
    it.
    """
    if (text is None) == (prompt is None):
        raise typer.BadParameter("give a text, or a prompt with --prompt" + ("" if text is None else ", not both"))
    if sum(given is not None for given in (target, continuation, generate)) > 1:
        raise typer.BadParameter("--target, --continuation and --generate exclude each other")
    if prompt is None and system is not None:
        raise typer.BadParameter("--system goes with --prompt")
    methods = check_methods(method or ["cp-lrp"])
    if (len(methods) > 1 if loo is None else loo) and not any(split_name(name)[0] == "loo" for name in methods):
        methods = ["loo", *methods]
    check_place(html, ".html")
    check_place(png, ".png")
    given = read_text(text if prompt is None else prompt)  # type: ignore[arg-type]
    if not given.strip():
        raise InputError("the text is empty: nothing to explain")

    with progress("loading the model"):
        bench = load_bench(model, trust_remote_code=trust_remote_code)
    from looprop.models import prompts

    adapter = prompts.text_adapter(bench.adapter)
    if prompt is not None and prompts.language_model(adapter, "--prompt") and chat:
        given = prompts.chat_text(adapter.tokenizer, given, system)
    wanted = prompts.parse_target(target, adapter)
    if continuation is not None:
        prompts.language_model(adapter, "--continuation")
        wanted = f"continuation:{read_text(continuation)}"
    elif generate is not None:
        with progress("generating a continuation"):
            said = prompts.generated(prompts.language_model(adapter, "--generate"), given, generate)
        say(f"the model continues: {said}")
        wanted = f"continuation:{said}"
    found = explain_by(bench, (given, pair) if pair is not None else given, methods, wanted, features, truncate)
    show(found, html=html, png=png, json_=json_, no_color=no_color)


def load_bench(model: str | None, *, trust_remote_code: bool = False) -> "Workbench":
    """The workbench of a model, loaded without chatter."""
    quiet_libraries(online=model is not None and not Path(model).is_dir())
    from looprop.workbench import load

    return load(model, trust_remote_code=trust_remote_code)


def explain_by(
    bench: "Workbench",
    item: str | tuple[str, str],
    methods: list[str],
    target: "TargetLike",
    features: str,
    truncate: bool,
) -> "Explanations":
    """One explanation per method, named as it was asked for."""
    from dataclasses import replace

    from looprop.explanation import Explanations
    from looprop.methods.registry import make_method

    # All of them are made before the first one runs: a wrong option of the last must not cost the time of the others.
    made = [make_method(name) for name in methods]
    found = Explanations()
    with progress(methods[0], len(methods)) as advance:
        for i, (name, one) in enumerate(zip(methods, made, strict=True)):
            explanation = bench.explain(item, one, target=target, features=features, truncation=truncate)
            found.append(replace(explanation, method=name))
            advance(methods[i + 1] if i + 1 < len(methods) else "")
    return found


def show(found: "Explanations", *, html: Path | None, png: Path | None, json_: bool, no_color: bool) -> None:
    """Files first, so that they are whole whatever becomes of standard output."""
    result = found[0] if len(found) == 1 else found
    for place in (html, png):
        if place is not None:
            result.save(place)
            say(f"wrote {place}")
    if json_:
        from looprop.files import to_json

        typer.echo(to_json(result.to_dict()).decode("ascii"), nl=False)
        return
    from looprop.display import terminal

    console = output(no_color=no_color)
    colour = terminal.has_colour(console)
    if len(found) == 1:
        console.print(terminal.explanation(found[0].strip(), colour=colour))
        return
    first = found[0].strip()
    facts = (f"{name} {value}" for name, value in first.facts if name in ("model", "target", "output"))
    console.print("  ".join(facts), style="dim", markup=False)
    console.print()
    console.print(terminal.comparison([view.tokens for views in found.views() for view in views], colour=colour))
