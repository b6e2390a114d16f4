"""`looprop explain`: one text, one or more methods, shown, written or handed on."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from looprop.cli import options
from looprop.cli.shell import command, hand_out, load_reader, output, progress, say
from looprop.errors import InputError, TargetError
from looprop.methods.names import DEFAULT
from looprop.naming import split_name

if TYPE_CHECKING:
    from rich.console import Console

    from looprop.models.subject import Subject
    from looprop.models.target import TargetLike
    from looprop.result.explanation import Explanations
    from looprop.workbench import Workbench

UNASKED = 128
"""Leave-one-out is added to several methods without being asked for up to so many forward passes."""

FEW = 40
"""Forward passes up to which nothing is said of the cost before it is spent."""
LONG = 10.0
"""Seconds from which on something is."""

Text = Annotated[str | None, typer.Argument(help="The text to explain; - reads standard input.")]
Target = Annotated[
    str | None,
    typer.Option(help="A label, class number or token; A,B: the contrast of two. [default: what is predicted]"),
]
Features = Annotated[str, typer.Option(help="token, word or chunk:N.")]
Loo = Annotated[
    bool | None,
    typer.Option(
        "--loo/--no-loo", help="Compare with leave-one-out. [default: with two or more methods, up to 128 features]"
    ),
]
Check = Annotated[
    int | None,
    typer.Option(metavar="N", help="Say how far to trust each method: N true leave-one-out values, 8 for instance."),
]
Interacting = Annotated[
    bool, typer.Option("--interactions", help="What pairs of features do that their parts do not; says its cost first.")
]
Pair = Annotated[str | None, typer.Option(help="The second text of a pair.")]
Truncate = Annotated[bool, typer.Option("--truncate", help="Cut a text that is longer than the model takes.")]
Prompt = Annotated[str | None, typer.Option(help="The user's turn, instead of a text; - reads standard input.")]
Chat = Annotated[
    bool, typer.Option("--chat/--no-chat", help="Put the prompt into the model's chat template, if it has one.")
]
Continuation = Annotated[str | None, typer.Option(help="Explain the log-probability of this continuation.")]
Generate = Annotated[
    int | None, typer.Option(min=1, help="Explain the model's own continuation, of at most N tokens.", metavar="N")
]
Png = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture; also .svg, .pdf.")]


@command
def explain(
    text: Text = None,
    method: options.Methods = None,
    model: options.Model = None,
    target: Target = None,
    features: Features = "token",
    loo: Loo = None,
    check: Check = None,
    interactions: Interacting = False,
    pair: Pair = None,
    truncate: Truncate = False,
    prompt: Prompt = None,
    system: options.System = None,
    chat: Chat = True,
    continuation: Continuation = None,
    generate: Generate = None,
    html: options.Html = None,
    png: Png = None,
    json_: options.Json = False,
    no_color: options.NoColor = False,
    trust_remote_code: options.RemoteCode = False,
    debug: options.Debug = False,
) -> None:
    """Explain what a model makes of a text.

    Without --method: looprop, an estimate of leave-one-out, or leave-one-out itself where that takes no longer.
    Colours, or numbers where there are none, show what speaks for the target and what against it.
    """
    if (text is None) == (prompt is None):
        raise typer.BadParameter("give a text, or a prompt with --prompt" + ("" if text is None else ", not both"))
    if sum(given is not None for given in (target, continuation, generate)) > 1:
        raise typer.BadParameter("--target, --continuation and --generate exclude each other")
    if prompt is None and system is not None:
        raise typer.BadParameter("--system goes with --prompt")
    methods = options.check_methods(method or [DEFAULT])
    options.check_place(html, ".html")
    options.check_picture(png)
    given = options.read_text(text if prompt is None else prompt)  # type: ignore[arg-type]
    if not given.strip():
        raise InputError("the text is empty: nothing to explain")

    with progress("loading the model"):
        bench = load_reader(model, trust_remote_code=trust_remote_code)
    from looprop.models.prompts import language_model

    if prompt is not None:
        language_model(bench.adapter, "--prompt")
        given = bench.chat(given, system) if chat else given
    asked: dict[str, Any] = {
        "item": (given, pair) if pair is not None else given,
        "target": _wanted(bench, given, target, continuation, generate),
        "features": features,
        "truncation": truncate,
    }
    subject = bench.subject(**asked)
    methods = _with_loo(methods, loo, passes=len(subject.features))
    _say_cost(subject, methods)
    found = _explained(bench, asked, methods, check, by_default=not method)
    if interactions:  # the same for all methods: they go into the details of the first explanation
        from looprop.interacting import interactions_of, planned

        say(f"interactions of {planned(subject)}")
        with progress("pairs"):
            pairs = interactions_of(subject)
        found[0] = replace(found[0], details={**found[0].details, "interactions": pairs.to_dict()})
    show(found, html=html, png=png, json_=json_, no_color=no_color)


def _with_loo(methods: list[str], wanted: bool | None, *, passes: int) -> list[str]:
    """The methods with leave-one-out before them, if it is wanted and not among them; unasked only where it is cheap.

    passes: what it takes, a forward pass for each feature.
    """
    if "loo" in {split_name(name)[0] for name in methods} or not (len(methods) > 1 if wanted is None else wanted):
        return methods
    if wanted is None and passes > UNASKED:
        say(
            f"leave-one-out, to compare with, would take {passes} forward passes and is left out: --loo adds it, "
            "--features word or chunk:16 makes it cheaper"
        )
        return methods
    return ["loo", *methods]


def _say_cost(subject: "Subject", methods: list[str]) -> None:
    """Say what long work will cost before it begins: forward passes of each method, and seconds timed by one."""
    from looprop.measure import one_pass, spoken, stated_cost
    from looprop.methods.registry import make_method

    passes = {name: stated_cost(subject, make_method(name))[0] + _compared_with(name, methods) for name in methods}
    if sum(passes.values()) < FEW:
        return
    seconds = sum(passes.values()) * one_pass(subject)
    if seconds >= LONG:
        each = ", ".join(f"{name} {count:.0f}" for name, count in passes.items())
        say(f"at most {sum(passes.values()):.0f} forward passes ({each}), about {spoken(seconds)}")


def _compared_with(name: str, methods: list[str]) -> bool:
    """Are other methods compared with this one? It then has to say whether anything matters, by one pass more."""
    return len(methods) > 1 and split_name(name)[0] == "loo"


def _wanted(
    bench: "Workbench", given: str, target: str | None, continuation: str | None, generate: int | None
) -> "TargetLike":
    """The target that --target, --continuation or --generate asks for."""
    from looprop.models.prompts import language_model, parse_target

    if continuation is not None:
        language_model(bench.adapter, "--continuation")
        return f"continuation:{options.read_text(continuation)}"
    if generate is None:
        return parse_target(target, bench.adapter)
    with progress("generating a continuation"):
        said = bench.generate(given, max_new_tokens=generate)
    if not said:
        raise TargetError(
            "the model ends its answer at once: there is no continuation to explain; give one with --continuation"
        )
    say(f"the model continues: {said}")
    return f"continuation:{said}"


def _explained(
    bench: "Workbench", asked: dict[str, Any], methods: list[str], check: int | None, *, by_default: bool
) -> "Explanations":
    """One explanation per method, named as it was asked for; by_default: nobody asked for the default by its name."""
    from looprop.methods.registry import make_method
    from looprop.metrics.trust import LEAST
    from looprop.result.explanation import Explanations

    # All of them are made before the first one runs: a wrong option of the last must not cost the time of the others.
    made = [None if by_default and name == DEFAULT else make_method(name) for name in methods]
    found = Explanations()
    with progress(methods[0], len(methods)) as advance:
        for i, (name, one) in enumerate(zip(methods, made, strict=True)):
            values = LEAST if check is None and _compared_with(name, methods) else check
            explanation = bench.explain(method=one, check=values, **asked)
            found.append(explanation if one is None else replace(explanation, method=name))
            advance(methods[i + 1] if i + 1 < len(methods) else "")
    return found


def show_interactions(found: "Explanations", console: "Console") -> None:
    """The strongest pairs, where they were asked for."""
    from looprop.display.terminal import data_table
    from looprop.result.pairs import Interactions

    for explanation in found:
        if "interactions" in explanation.details:
            pairs = Interactions.from_dict(explanation.details["interactions"])
            console.print()
            console.print(data_table(*pairs.table()))
            console.print(pairs.note, style="dim", markup=False)


def show(found: "Explanations", *, html: Path | None, png: Path | None, json_: bool, no_color: bool) -> None:
    """Files, then JSON, or the explanations in colour."""
    if hand_out(found[0] if len(found) == 1 else found, html, png, json_=json_):
        return
    from looprop.display import terminal

    console = output(no_color=no_color)
    colour = terminal.has_colour(console)
    if len(found) == 1:
        console.print(terminal.explanation(found[0].strip(), colour=colour))
        show_interactions(found, console)
        return
    first = found[0].strip()
    facts = (f"{name} {value}" for name, value in first.facts if name in ("model", "target", "output"))
    console.print("  ".join(facts), style="dim", markup=False)
    console.print()
    console.print(terminal.comparison([view.tokens for views in found.views() for view in views], colour=colour))
    for note in found.notes():
        console.print(note, style="dim", markup=False)
    show_interactions(found, console)
