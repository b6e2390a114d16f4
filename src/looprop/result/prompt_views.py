"""What is shown of an explanation whose details say how its prompt is laid out and what was answered."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from looprop.display.data import number
from looprop.display.prompt_data import PromptView, Said, Section, shortened
from looprop.display.prompts import prompt_frame, prompt_page
from looprop.naming import split_name

if TYPE_CHECKING:
    from looprop.result.explanation import Explanation

LOST_WITHOUT = frozenset({"loo", "looprop", "coarse-to-fine"})
"""Methods whose score is what the answer's log-probability loses when a feature goes."""

Scores = Sequence[Sequence[float]]
"""One row per feature, of one number or one per token of the answer."""


def has_prompt(e: "Explanation") -> bool:
    """Do the details of an explanation hold an answer and the layout of its prompt?"""
    return isinstance(e.details.get("prompt"), Mapping) and isinstance(e.details.get("answer"), Mapping)


def prompt_html(e: "Explanation", scores: Scores | None = None, *, framed: bool = False) -> str:
    """The page, or the frame of a notebook. scores: by default those of the explanation."""
    view = prompt_view(e, scores)
    title = f"What made the model say “{shortened(e.label.strip())}”?"
    footer = "Scores are in log-probability: above zero speaks for the answer. What is dimmed was always kept."
    return prompt_frame(title, view) if framed else prompt_page(title, view, footer=footer)


def prompt_view(e: "Explanation", scores: Scores | None = None) -> PromptView:
    """What is shown of these scores, by default those of the explanation."""
    laid, answer = e.details["prompt"], e.details["answer"]
    start, stop = answer.get("part", (0, len(answer["tokens"])))
    others = answer.get("alternatives") or [[]] * len(answer["tokens"])
    tokens = [
        Said(token, math.nan if logprob is None else logprob, [(word, value) for word, value in place if word != token])
        for token, logprob, place in list(zip(answer["tokens"], answer["logprobs"], others, strict=True))[start:stop]
    ]
    turns, documents = ([Section(*part) for part in laid.get(kind, ())] for kind in ("turns", "documents"))
    levels, unopened = e.details.get("levels") or (), e.details.get("not_opened") or {}
    notes = {
        i: f"{levels[i]} as a whole, not looked into: {unopened[str(i)]}"
        for i in range(min(len(e.features), len(levels)))
        if str(i) in unopened
    }
    effects = split_name(e.method)[0] in LOST_WITHOUT
    shown = e.scores[:, None].tolist() if scores is None else scores
    return PromptView(e.text, e.offsets, e.features, shown, tokens, turns, documents, effects, _facts(e), notes)


def _facts(e: "Explanation") -> list[tuple[str, str]]:
    pairs = [
        ("model", e.model),
        ("method", e.method),
        ("log-probability of the answer", number(e.output)),
        ("cost", f"{number(e.cost, signed=False)} forward passes" if e.cost > 0 else ""),
        ("time", f"{e.seconds:.1f} s" if e.seconds > 0 else ""),
        ("interrupted", str(e.details.get("interrupted") or "")),
    ]
    return [(name, value) for name, value in pairs if value]
