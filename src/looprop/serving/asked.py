"""A question bound to its model: the model's output without some features, and the explanations by several methods.

Explaining is a job of many steps: the cheapest method first, leave-one-out a few features at a time.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from looprop.errors import InputError, ModelError, UnknownNameError
from looprop.explained import explain_subjects, named_features
from looprop.methods.base import Method
from looprop.methods.looprop.spending import true_values
from looprop.models.answers import Answer
from looprop.models.prompts import check_reads_texts, language_model, parse_target
from looprop.models.subject import Subject, bind
from looprop.models.target import TargetLike
from looprop.models.token_targets import CONTINUATION, token_text
from looprop.removal.plain import plain_runner
from looprop.removal.value import SetFunction
from looprop.serving.pictures import Pictures
from looprop.serving.requests import Question
from looprop.serving.worker import Level
from looprop.workbench import Workbench

MOST_FEATURES = 2_000


@dataclass(frozen=True, eq=False)
class Asked:
    """A question bound to its model."""

    question: Question
    subject: Subject
    answer: Answer | None
    value: SetFunction

    @property
    def count(self) -> int:
        """The number of features."""
        return len(self.subject.features)

    def describe(self) -> dict[str, Any]:
        """The input with its features, the target and its value."""
        subject, encoded = self.subject, self.subject.encoded
        spans, names = named_features(subject)
        first_leans = subject.adapter.causal and self.count > 1
        return {
            "question": asdict(self.question),
            "text": encoded.text,
            "features": names,
            "spans": [None if span is None else list(span) for span in spans],
            "special": subject.special,
            # The first token of a causal model is an attention sink: by itself it is not on the colour scale.
            "outside": [first_leans and group == (0,) for group in subject.features],
            "label": subject.target.label,
            "kind": self._kind,
            "probability_of": self._probability_of,
            "tokens": len(encoded),
            "removal": self.value.removal,
            "answer": None if self.answer is None else self.answer.text,
            "said": None if self.answer is None else list(self.answer.tokens),
            "part": None if self.answer is None else list(self.answer.part),
            "picture": self._picture(),
            **self._outcome([]),
        }

    @property
    def _kind(self) -> str:
        """The name of the value."""
        if self.subject.target.continuation:
            return "log-probability"
        return "logit" if self.subject.target.against is None else "difference of logits"

    @property
    def _probability_of(self) -> str:
        """The probability that is shown beside the value."""
        target = self.subject.target
        if target.continuation:
            return "per token" if len(target.each()) > 1 else ""
        return f"for {_name(self.subject, target.index[0])}" if target.against is not None else ""

    def _picture(self) -> dict[str, Any] | None:
        adapter, encoded = self.subject.adapter, self.subject.encoded
        if not self.question.image or not (shown := adapter.picture(encoded)):
            return None
        height, width = encoded.inputs["pixel_values"].shape[-2:]
        patch = list(adapter.patch)  # type: ignore[attr-defined]
        grid = {"rows": shown["rows"], "columns": shown["columns"], "patch": patch}
        return {"data": f"data:image/png;base64,{shown['png']}", "height": height, "width": width, **grid}

    def without(self, struck: list[int]) -> dict[str, Any]:
        """The value without some features, measured, and the effect of each of them by itself."""
        if len(struck) == self.count and self.value.removal != "zero" and not self.subject.something_stays:
            raise InputError("at least one feature must stay")
        said = self._outcome(struck)
        joint = self.subject.output - said["value"]
        each = [joint] if len(struck) == 1 else self.effects(struck)
        return {
            **said,
            "struck": struck,
            "change": -joint,
            "effects": each,
            "interaction": joint - sum(each) if len(struck) > 1 else None,
        }

    def effects(self, which: list[int], value: SetFunction | None = None) -> list[float]:
        """Leave-one-out of some features."""
        if not which:
            return []
        effects: list[float] = true_values(value or self.value, np.array(which)).tolist()
        return effects

    def new_answer(self, struck: list[int]) -> dict[str, Any]:
        """A language model's answer to the prompt without some features."""
        if self.answer is None:
            raise InputError("only an answer can be given anew")
        if not struck:
            return {"answer": self.answer.text}
        return {"answer": self.answer.without(*struck, features=self.question.features).text}

    def _outcome(self, struck: list[int]) -> dict[str, Any]:
        """The target's value by one plain pass, and its probability where it has one."""
        subject = self.subject
        rows = torch.ones(1, subject.length, dtype=torch.bool)
        for feature in struck:
            rows[0, list(subject.features[feature])] = False
        with subject.adapter.evaluating(), torch.inference_mode():
            logits = plain_runner(subject, self.value.removal)(rows.to(subject.adapter.device)).float().cpu()
        value = float(subject.target.value(logits)[0])
        if not math.isfinite(value):
            raise ModelError(f"{subject.adapter.name} answers with NaN or infinite logits when this is removed")
        return {"value": value, **_probabilities(subject, logits[0], value)}


def ask(
    benches: Mapping[str, Workbench], question: Question, pictures: Pictures, answer: Answer | None = None
) -> Asked:
    """Bind a question to its model, which must be one of those that were given on the command line.

    answer: the model's answer to this prompt, where it is known.
    """
    bench = bench_of(benches, question)
    item: Any = question.text
    if question.answer:
        whole = answer or bench.answer(question.text, max_new_tokens=question.answer)
        item = answer = whole[question.span]
        subject = bench.subject(answer, features=question.features)
    else:
        if question.image:
            item = pictures.read(question.image)
        answer = None
        subject = bind(bench.adapter, item, target=target_of(bench, question), features=features_of(question))
    if len(subject.features) > MOST_FEATURES:
        raise InputError(
            f"{len(subject.features):,} features are too many for a page, which shows {MOST_FEATURES:,}: choose larger "
            "ones, such as sentences"
        )
    return Asked(question, subject, answer, SetFunction(subject))


def bench_of(benches: Mapping[str, Workbench], question: Question) -> Workbench:
    """The model of a question, if it reads what is asked about."""
    if question.model not in benches:
        raise UnknownNameError("model", question.model[:60], benches)
    bench = benches[question.model]
    if reads_images(bench) != bool(question.image):
        raise InputError(f"{question.model} reads {bench.adapter.noun}: give it one of those")
    return bench


def reads_images(bench: Workbench) -> bool:
    """Whether a model reads images; raise for one that reads neither images nor texts."""
    if bench.adapter.noun == "images":
        return True
    check_reads_texts(bench.adapter)
    return False


def generates(bench: Workbench) -> bool:
    """Whether a model generates text."""
    try:
        language_model(bench.adapter, "an answer")
    except InputError:
        return False
    return True


def features_of(question: Question) -> str:
    """Patches of images are its tokens."""
    return "token" if question.image else question.features


def target_of(bench: Workbench, question: Question) -> TargetLike:
    """The target as it was written."""
    if question.target.startswith(CONTINUATION):
        return question.target
    return parse_target(question.target or None, bench.adapter)


def _probabilities(subject: Subject, logits: torch.Tensor, value: float) -> dict[str, Any]:
    """The probability of the target, of several tokens the geometric mean, and the likeliest classes or tokens."""
    if subject.target.continuation:
        return {"probability": math.exp(min(0.0, value) / len(subject.target.each())), "likeliest": []}
    last = logits[-1]
    if len(last) < 2:
        return {"probability": None, "likeliest": []}
    shares = last.softmax(-1)
    best = shares.topk(min(3, len(shares)))
    return {
        "probability": float(shares[subject.target.index[0]]),
        "likeliest": [[_name(subject, int(i)), float(p)] for p, i in zip(best.values, best.indices, strict=True)],
    }


def _name(subject: Subject, index: int) -> str:
    """The name of an output: the label of a class, the text of a token."""
    adapter = subject.adapter
    if adapter.target_words == "token":
        return token_text(getattr(adapter, "tokenizer", None), index)
    return adapter.labels.get(index, str(index))


LOO, SHAPLEY = "loo", "shapley"
REFERENCES = (LOO, SHAPLEY)
"""The methods that others are compared with."""
TOGETHER = 8
"""So many features of leave-one-out are computed before others have their turn."""


@dataclass(eq=False)
class Explaining:
    """A job: every method on one question, in order of cost.

    rows: how many inputs were run through models so far, by level.
    """

    asked: Asked
    methods: Mapping[str, Method]
    rows: Mapping[Level, int]
    _now: tuple[str, int] | None = field(default=None, init=False)
    _told: int = field(default=0, init=False)

    @property
    def level(self) -> Level:
        """Shapley values take so long that everything else goes before them."""
        return Level.REFERENCE if SHAPLEY in self.methods else Level.METHODS

    @property
    def order(self) -> list[str]:
        """The methods, the cheapest first; those of one cost as they were asked for."""
        return sorted(self.methods, key=lambda name: self.methods[name].passes(self.asked.subject))

    def steps(self) -> Iterator[dict[str, Any]]:
        """The job itself."""
        for name in self.order:
            if name == LOO:
                yield from self._leave_one_out()
            else:
                yield self._found(name)

    def progress(self) -> dict[str, Any] | None:
        """How many variants the current method has run, of about how many at most; None for nothing new."""
        now = self._now
        if now is None:
            return None
        name, before = now
        computed, most = self.rows[self.level] - before, self.methods[name].passes(self.asked.subject)
        if computed == self._told or not math.isfinite(most):
            return None
        self._told = computed
        return {"method": name, "computed": computed, "most": max(most, computed)}

    def _found(self, name: str) -> dict[str, Any]:
        self._now = (name, self.rows[self.level])
        try:
            (found,) = explain_subjects([self.asked.subject.alone()], self.methods[name])
        except Exception as error:  # one method that does not fit a model says so, and the others go on
            return {"method": name, "error": " ".join(str(error).split())[:500]}
        finally:
            self._now = None
        return {
            "method": name,
            "scores": [float(score) if math.isfinite(score) else None for score in found.scores],
            "cost": float(found.cost),
            "seconds": float(found.seconds),
            "unsigned": self.methods[name].kind == "weight",
            "error_of_sampling": found.details.get("largest_error"),
        }

    def _leave_one_out(self) -> Iterator[dict[str, Any]]:
        value = SetFunction(self.asked.subject)  # its own: a strike-out may come in between
        count = self.asked.count
        for start in range(0, count, TOGETHER):
            which = list(range(start, min(start + TOGETHER, count)))
            yield {"method": LOO, "from": start, "scores": self.asked.effects(which, value), "of": count}
