"""What is shown of an explanation whose details say how its prompt is laid out and what was answered."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from looprop.display.data import number
from looprop.display.prompt_data import PromptView, Said, Section, Span, shortened
from looprop.display.prompts import prompt_frame, prompt_page
from looprop.naming import split_name

LOST_WITHOUT = frozenset({"loo", "looprop", "coarse-to-fine"})
"""Methods whose score is what the answer's log-probability loses when a feature goes."""


def has_prompt(details: Mapping[str, Any]) -> bool:
    """Do the details of an explanation hold an answer and the layout of its prompt?"""
    return isinstance(details.get("prompt"), Mapping) and isinstance(details.get("answer"), Mapping)


def prompt_view(
    details: Mapping[str, Any],
    *,
    text: str,
    spans: Sequence[Span | None],
    names: Sequence[str],
    scores: Sequence[Sequence[float]],
    method: str,
    facts: Sequence[tuple[str, str]],
) -> PromptView:
    """The view of an explanation: text, spans and names as it has them, one row of scores per feature."""
    laid, answer = details["prompt"], details["answer"]
    start, stop = answer.get("part", (0, len(answer["tokens"])))
    others = answer.get("alternatives") or [[]] * len(answer["tokens"])
    tokens = [
        Said(token, math.nan if logprob is None else logprob, [(word, value) for word, value in place if word != token])
        for token, logprob, place in list(zip(answer["tokens"], answer["logprobs"], others, strict=True))[start:stop]
    ]
    turns, documents = ([Section(*part) for part in laid.get(kind, ())] for kind in ("turns", "documents"))
    levels, unopened = details.get("levels") or (), details.get("not_opened") or {}
    notes = {
        i: f"{levels[i]} as a whole, not looked into: {unopened[str(i)]}"
        for i in range(min(len(names), len(levels)))
        if str(i) in unopened
    }
    effects = split_name(method)[0] in LOST_WITHOUT
    return PromptView(text, spans, names, scores, tokens, turns, documents, effects, facts, notes)


@dataclass(frozen=True, eq=False)
class Shown:
    """An explanation of an answer, as far as it is shown; the fields are those of `Explanation`."""

    details: Mapping[str, Any]
    text: str
    spans: Sequence[Span | None]
    names: Sequence[str]
    method: str
    model: str
    output: float
    cost: float
    seconds: float
    label: str

    def html(self, scores: Sequence[Sequence[float]], *, framed: bool = False) -> str:
        """The page, or the frame of a notebook; scores: one row per feature, of one number or one per token."""
        view = self.view(scores)
        title = f"What made the model say “{shortened(self.label.strip())}”?"
        footer = "Scores are in log-probability: above zero speaks for the answer. What is dimmed was always kept."
        return prompt_frame(title, view) if framed else prompt_page(title, view, footer=footer)

    def view(self, scores: Sequence[Sequence[float]]) -> PromptView:
        """What is shown of these scores."""
        return prompt_view(
            self.details,
            text=self.text,
            spans=self.spans,
            names=self.names,
            scores=scores,
            method=self.method,
            facts=self._facts(),
        )

    def _facts(self) -> list[tuple[str, str]]:
        pairs = [
            ("model", self.model),
            ("method", self.method),
            ("log-probability of the answer", number(self.output)),
            ("cost", f"{number(self.cost, signed=False)} forward passes" if self.cost > 0 else ""),
            ("time", f"{self.seconds:.1f} s" if self.seconds > 0 else ""),
        ]
        pairs += [("interrupted", str(said))] if (said := self.details.get("interrupted")) else []
        return [(name, value) for name, value in pairs if value]
