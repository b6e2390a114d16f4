"""What a page asks, checked, and what it is told: a text with its features, what each method says of them, and what the
model answers without some of them.
"""

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import torch

from looprop.errors import InputError, UnknownNameError
from looprop.explained import explain_subjects
from looprop.methods.base import Method
from looprop.methods.names import CATALOGUE
from looprop.methods.registry import make_method
from looprop.models.answers import Answer
from looprop.models.prompts import parse_target
from looprop.models.subject import Subject, bind, named_features
from looprop.models.token_targets import token_text
from looprop.naming import split_name
from looprop.removal.plain import plain_runner
from looprop.removal.set_function import SetFunction
from looprop.workbench import Workbench

LONGEST_TEXT = 20_000
"""Characters."""
MOST_FEATURES = 2_000
MOST_TOKENS = 200
"""Of a generated answer."""
MOST_METHODS = 12
FEATURES = ("token", "word", "sentence", "paragraph", "line", "turn")
TOGETHER = 8
"""So many features of the reference are computed before others have their turn."""
REFERENCE = "loo"


@dataclass(frozen=True)
class Question:
    """What a page asks about.

    target: as on the command line; empty for what is predicted. answer: of a language model, explain what it says next
    to the prompt, in so many tokens at most; 0 for a text as it is.
    """

    model: str
    text: str
    target: str = ""
    features: str = "token"
    answer: int = 0

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise InputError("the text is empty: nothing to explain")
        if len(self.text) > LONGEST_TEXT:
            raise InputError(f"a text may have {LONGEST_TEXT:,} characters here, this one has {len(self.text):,}")
        if self.features not in FEATURES:
            raise UnknownNameError("features", self.features, FEATURES)
        if not 0 <= self.answer <= MOST_TOKENS:
            raise InputError(f"an answer may have 0 to {MOST_TOKENS} tokens, got {self.answer}")


def read_question(data: Any) -> Question:
    """A question from JSON; anything else raises."""
    known = {f.name: f.type for f in fields(Question)}
    if not isinstance(data, Mapping):
        raise InputError("a question must be a JSON object")
    for name, value in data.items():
        if name not in known:
            raise UnknownNameError("field of a question", str(name)[:40], known)
        if type(value) is not (int if name == "answer" else str):
            raise InputError(f"{name} must be {'a whole number' if name == 'answer' else 'a text'}")
    if "text" not in data or "model" not in data:
        raise InputError("a question needs a model and a text")
    return Question(**data)


def read_places(data: Any, count: int) -> list[int]:
    """Numbers of features, each once; anything else raises."""
    if not isinstance(data, list) or any(type(i) is not int for i in data):
        raise InputError("struck features must be a list of whole numbers")
    if any(not 0 <= i < count for i in data):
        raise InputError(f"features are numbered 0 to {count - 1}")
    return sorted(set(data))


def read_methods(data: Any) -> dict[str, Method]:
    """Methods by name; anything else raises. Files and plans of one's own are nothing that a page may name."""
    if not isinstance(data, list) or not all(isinstance(name, str) for name in data) or len(data) > MOST_METHODS:
        raise InputError(f"methods must be a list of at most {MOST_METHODS} names")
    for name in data:
        if split_name(name)[0] not in CATALOGUE or "plan" in split_name(name)[1]:
            raise UnknownNameError("method", name[:60], CATALOGUE)
    return {name: make_method(name) for name in data}


@dataclass(frozen=True, eq=False)
class Asked:
    """A question bound to its model."""

    question: Question
    subject: Subject
    answer: Answer | None
    value: SetFunction

    @property
    def count(self) -> int:
        """How many features there are."""
        return len(self.subject.features)

    def describe(self) -> dict[str, Any]:
        """The text with its features, the target and its value."""
        subject, encoded = self.subject, self.subject.encoded
        spans, names = named_features(subject)
        every = np.ones((1, self.count), dtype=bool)
        said = self._outcome(every)
        return {
            "question": asdict(self.question),
            "text": encoded.text,
            "features": names,
            "spans": [None if span is None else list(span) for span in spans],
            "special": [all(encoded.special[i] for i in group) for group in subject.features],
            "label": subject.target.label,
            "tokens": len(encoded),
            "removal": self.value.removal,
            "answer": None if self.answer is None else self.answer.text,
            **said,
        }

    def without(self, struck: list[int]) -> dict[str, Any]:
        """What the model really says without some features, and what each of them does by itself."""
        if len(struck) == self.count and self.value.removal != "zero" and not self.subject.encoded.fixed:
            raise InputError("at least one feature must stay")
        keep = np.ones((1, self.count), dtype=bool)
        keep[0, struck] = False
        said = self._outcome(keep)
        each = self.effects(struck)
        joint = self.subject.output - said["value"]
        return {
            **said,
            "struck": struck,
            "change": -joint,
            "effects": each,
            "interaction": joint - sum(each) if len(struck) > 1 else None,
        }

    def effects(self, which: list[int]) -> list[float]:
        """Leave-one-out of some features."""
        if not which:
            return []
        keep = np.ones((len(which), self.count), dtype=bool)
        keep[np.arange(len(which)), which] = False
        effects: list[float] = (self.subject.output - self.value(keep)).tolist()
        return effects

    def new_answer(self, struck: list[int]) -> dict[str, Any]:
        """What a language model says to the prompt without some features."""
        if self.answer is None:
            raise InputError("only an answer can be given anew")
        if not struck:
            return {"answer": self.answer.text}
        return {"answer": self.answer.without(*struck, features=self.question.features).text}

    def _outcome(self, keep: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any]:
        """The target's value by one plain pass, and its probability where it has one."""
        subject = self.subject
        rows = torch.ones(1, len(subject.encoded), dtype=torch.bool)
        for feature in np.flatnonzero(~keep[0]):
            rows[0, list(subject.features[feature])] = False
        with subject.adapter.evaluating(), torch.inference_mode():
            logits = plain_runner(subject, self.value.removal)(rows.to(subject.adapter.device)).float().cpu()
        value = float(subject.target.value(logits)[0])
        return {"value": value, **_probabilities(subject, logits[0], value)}


def ask(benches: Mapping[str, Workbench], question: Question) -> Asked:
    """Bind a question to its model, which must be one of those that were given on the command line."""
    if question.model not in benches:
        raise UnknownNameError("model", question.model[:60], benches)
    bench = benches[question.model]
    answer: Answer | None = None
    if question.answer:
        answer = bench.answer(question.text, max_new_tokens=question.answer)
        subject = bench.subject(answer, features=question.features)
    else:
        target = parse_target(question.target or None, bench.adapter)
        subject = bind(bench.adapter, question.text, target=target, features=question.features)
    if len(subject.features) > MOST_FEATURES:
        raise InputError(
            f"{len(subject.features):,} features are too many for a page, which shows {MOST_FEATURES:,}: choose larger "
            "ones, such as sentences"
        )
    return Asked(question, subject, answer, SetFunction(subject))


def explained(asked: Asked, methods: Mapping[str, Method]) -> Iterator[dict[str, Any]]:
    """A job: the cheapest method first, then the others, then leave-one-out, a few features at a time."""
    for name in sorted(methods, key=lambda name: (_passes(methods[name], asked), list(methods).index(name))):
        if split_name(name)[0] == REFERENCE:
            continue
        try:
            (found,) = explain_subjects([asked.subject.alone()], methods[name])
        except Exception as error:  # one method that does not fit a model says so, and the others go on
            yield {"method": name, "error": str(error)[:500]}
            continue
        yield {
            "method": name,
            "scores": [float(score) for score in found.scores],
            "cost": float(found.cost),
            "seconds": float(found.seconds),
            "unsigned": CATALOGUE[split_name(name)[0]].kind == "weight",
        }
    for start in range(0, asked.count, TOGETHER):
        which = list(range(start, min(start + TOGETHER, asked.count)))
        yield {"method": REFERENCE, "from": start, "scores": asked.effects(which), "of": asked.count}


def _passes(method: Method, asked: Asked) -> float:
    """About how many passes a method takes, for the order in which methods run."""
    options = {name: value for name, value in method.options.items() if isinstance(value, int | float)}
    special = sum(all(asked.subject.encoded.special[i] for i in group) for group in asked.subject.features)
    known = {"F": asked.count, "T": len(asked.subject.encoded), "S": special, **options}
    try:
        return _worth(ast.parse(method.cost.removeprefix("at most "), mode="eval").body, known)
    except (KeyError, TypeError, ZeroDivisionError, SyntaxError):  # an option that is no number: it goes last
        return math.inf


def _worth(node: ast.expr, known: Mapping[str, float]) -> float:
    """A sum of products, as a method states its cost."""
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.Name):
        return float(known[node.id])
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_worth(node.left, known), _worth(node.right, known))
    raise TypeError(f"no cost: {ast.dump(node)}")


_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def _probabilities(subject: Subject, logits: torch.Tensor, value: float) -> dict[str, Any]:
    """The probability of the target, and the likeliest classes or tokens with theirs."""
    if subject.target.continuation:
        return {"probability": math.exp(min(0.0, value)), "likeliest": []}
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
    """What an answer of a model is called: a class by its label, a token by its text."""
    adapter = subject.adapter
    if adapter.target_words == "token":
        return token_text(getattr(adapter, "tokenizer", None), index)
    return adapter.labels.get(index, str(index))


def interruptible(bench: Workbench, check: Callable[[], None]) -> Workbench:
    """The same workbench, which asks before every pass through its model whether anybody still waits for it."""
    adapter = bench.adapter
    forward = adapter.forward

    def checked(*arguments: Any, **options: Any) -> torch.Tensor:
        check()
        return forward(*arguments, **options)

    adapter.forward = checked  # type: ignore[method-assign]
    return bench
