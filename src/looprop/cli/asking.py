"""`looprop context`: which part of a prompt made a language model say what it says."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from looprop.cli import options
from looprop.cli.shell import command, hand_out, load_bench, output, progress, say
from looprop.errors import InputError
from looprop.naming import split_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from looprop.methods.base import Method
    from looprop.models.answers import Answer
    from looprop.models.subject import Subject
    from looprop.result.explanation import Explanation
    from looprop.result.matrix import ExplanationMatrix
    from looprop.workbench import Workbench

SHOWN = 5
LOO = "loo"
LONG = 60.0  # seconds; from here on the estimate names a cheaper way

Documents = Annotated[
    list[str] | None, typer.Option(metavar="FILE...", help="Texts that the question is about; one after the other.")
]
More = Annotated[list[Path] | None, typer.Argument(help="More documents, as a shell expands *.txt.")]
Question = Annotated[str | None, typer.Option(help="The question about the documents.")]
PromptFile = Annotated[str | None, typer.Option(metavar="FILE", help="The user's turn; - reads standard input.")]
MessagesFile = Annotated[
    str | None,
    typer.Option(
        "--messages", metavar="FILE", help='JSON messages, [{"role": "user", "content": ...}]; - reads standard input.'
    ),
]
Given = Annotated[str | None, typer.Option("--answer", help="An answer of your own, to be explained.")]
Generate = Annotated[int, typer.Option(min=1, metavar="N", help="Let the model say at most N tokens.")]
Features = Annotated[
    str, typer.Option(help="document, paragraph, sentence, line, turn, word, token, chunk:N or regex:PATTERN.")
]
Within = Annotated[str | None, typer.Option(help="Where features are sought: user, documents, all, ...")]
OneMethod = Annotated[str, typer.Option("--method", "-m", metavar="NAME", help="A method, with options in brackets.")]


@command
def context(
    more: More = None,
    documents: Documents = None,
    question: Question = None,
    prompt_file: PromptFile = None,
    messages: MessagesFile = None,
    system: options.System = None,
    answer: Given = None,
    generate: Generate = 50,
    features: Features = "sentence",
    within: Within = None,
    method: OneMethod = LOO,
    model: options.Model = None,
    html: options.Html = None,
    json_: options.Json = False,
    no_color: options.NoColor = False,
    trust_remote_code: options.RemoteCode = False,
    debug: options.Debug = False,
) -> None:
    """Say which parts of a prompt made a language model give its answer.

    Of documents with a question, of a prompt, or of JSON messages; question, system and chat template are always kept.
    What it will cost is said before it starts. Ctrl-C ends it with what is known so far (exit code 130).
    """
    options.check_methods([method])
    options.check_place(html, ".html")
    if model is None:
        raise typer.BadParameter("--model names the language model to ask: a folder or a hub id")
    asked = _asked([*(documents or []), *map(str, more or [])], question, prompt_file, messages)
    with progress("loading the model"):
        bench = load_bench(model, trust_remote_code=trust_remote_code)
    with progress("answering"):
        said = asked(bench, answer=answer, system=system, max_new_tokens=generate)
    say(f"the model says: {said.text}" if said.generated else f"the answer given: {said.text}")
    if _show(_explained(bench, said, method, features, within), html=html, json_=json_, no_color=no_color):
        raise typer.Exit(130)


def _asked(
    documents: list[str], question: str | None, prompt: str | None, messages: str | None
) -> "Callable[..., Answer]":
    """Read what was given, which must be one of three: how a workbench is asked that."""
    ways = [bool(documents) or question is not None, prompt is not None, messages is not None]
    if sum(ways) != 1:
        raise typer.BadParameter("give --documents with --question, or --prompt-file, or --messages")
    if ways[0]:
        if not documents or question is None:
            raise typer.BadParameter("--documents and --question go together")
        names = [Path(path).name for path in documents]
        named = names if len(set(names)) == len(names) else documents
        texts, asked = dict(zip(named, map(_read, documents), strict=True)), options.read_text(question)
        return lambda bench, **more: bench.context(texts, asked, **more)
    turns: Any = _read(messages or "") if prompt is None else _read(prompt)
    if prompt is None:
        try:
            turns = json.loads(turns)
        except (ValueError, RecursionError) as error:
            raise InputError(f"--messages must be JSON: {error}") from error
        if not isinstance(turns, list):
            raise InputError('--messages must be a list of turns, [{"role": "user", "content": "..."}]')
    return lambda bench, **more: bench.answer(turns, **more)


def _read(path: str) -> str:
    if path == "-":
        return options.read_text(path)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be UTF-8, got byte 0x{error.object[error.start]:02x}") from None
    if not text.strip():
        raise InputError(f"{path} is empty")
    return text.strip("\r\n")


def _explained(
    bench: "Workbench", said: "Answer", name: str, features: str, within: str | None
) -> "Explanation | ExplanationMatrix":
    """The explanation, by leave-one-out token by token, as that costs nothing more."""
    from looprop.methods.registry import make_method

    method = make_method(name)
    subject = bench.subject(said, features=features, within=within)
    _tell_cost(subject, method)
    if split_name(name)[0] != LOO:
        with progress(name):
            return bench.explain(said, method, features=features, within=within)
    with progress("leaving out one after the other", len(subject.features)) as advance:
        done = 0

        def report(now: int, _: int) -> None:
            nonlocal done
            advance("", now - done)
            done = now

        return bench.explain(said, method, output="each", features=features, within=within, progress=report)


def _tell_cost(subject: "Subject", method: "Method") -> None:
    """What is to come, from one forward pass that is timed."""
    from looprop.measure import one_pass

    passes, where = method.passes(subject), f"{len(subject.features)} features, {subject.length} tokens"
    seconds = passes * one_pass(subject)
    hint = "; -m looprop or -m attnlrp is cheaper, --features paragraph has fewer" if seconds > LONG else ""
    say(f"{where}: {passes:.0f} forward passes, at most about {max(1, round(seconds))} s{hint}")


def _show(result: "Explanation | ExplanationMatrix", *, html: Path | None, json_: bool, no_color: bool) -> bool:
    """Hand out the result; return whether it is one of an interruption."""
    from looprop.result.explanation import Explanation

    whole = result if isinstance(result, Explanation) else result.explanation
    if not hand_out(result, html, json_=json_):
        from looprop.display import terminal
        from looprop.result.views import prompt_view

        console = output(no_color=no_color)
        console.print(terminal.prompt_ranking(prompt_view(whole), colour=terminal.has_colour(console), limit=SHOWN))
    return "interrupted" in whole.details
