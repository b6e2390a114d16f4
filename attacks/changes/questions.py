"""What is asked of a model between its changes, by old objects or by new ones, and answers in one plain form."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import looprop
from attacks.changes.structure import inner
from attacks.changes.worlds import LABELS, WIDTH, Dice, World, Wrapped
from looprop.captum import LRP
from looprop.methods import make_method
from looprop.removal import SetFunction

TEXTS = (
    "the film is not good",
    "this movie was fun and great",
    "a very bad movie",
    "the film",
    "not great , Goody film",
    "was it good ? great fun",
)
METHODS = (
    None, "loo", "attnlrp", "cp-lrp", "grad-x-input", "ig[steps=4]", "rollout", "shapley", "alone", "both-ends",
    "looprop", "value-zeroing", "lrp[cp=1]", "gim", "libragrad", "pa-lrp", "generic-attention", "attention-norm",
    "kernel-shap[samples=12]", "lime[samples=12]", "fast-shapley", "loo[removal=mask-token]", "looprop[rows=all]",
    "loo[removal=delete]",
)  # fmt: skip
OFTEN = (None, "loo", "looprop", "attnlrp", "cp-lrp", "shapley")
OF_TENSORS = ("attnlrp", "cp-lrp", "grad-x-input", "ig[steps=4]", "loo", "alone")


@dataclass(frozen=True)
class Question:
    """What is asked, and of which module. kept: by an object that was made at the first such question."""

    kind: str
    on: str = "main"
    text: str = TEXTS[0]
    method: str | None = None
    target: Any = None
    more: int = 0
    kept: bool = False

    def __str__(self) -> str:
        by = " by a kept object" if self.kept else ""
        return f"{self.kind}({self.text!r}, {self.method}, target={self.target}, {self.more}) of {self.on}{by}"


@dataclass(frozen=True)
class Reading:
    """An answer in plain form. numbers: the scores; more: other numbers that belong to them."""

    names: tuple[str, ...]
    label: str
    output: float
    numbers: NDArray[Any]
    more: NDArray[Any]


class Embedded(nn.Module):
    """The model as a function of word embeddings."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Logits (B, C), of the last token where there are several."""
        output = self.model(inputs_embeds=x)
        logits: Tensor = getattr(output, "logits", output)
        return logits[:, -1] if logits.dim() == 3 else logits


@dataclass
class Asker:
    """A world with the objects that were made to ask about it."""

    world: World
    objects: dict[tuple[Any, ...], Any]

    def bench(self, on: str, fresh: bool = False) -> Any:
        """The workbench of that module, which is kept as long as the module stays."""
        module = self.world.module(on)
        key = ("bench", on, id(module))
        if fresh or key not in self.objects or self.objects[key][0] is not module:
            self.objects[key] = (module, looprop.load((module, self.world.tokenizer)))
        return self.objects[key][1]

    def refresh(self) -> None:
        """Call `refresh` on all workbenches, as docs/what-is-checked.md asks after a write that cannot be seen."""
        for key, (_, bench) in self.objects.items():
            if key[0] == "bench":
                bench.refresh()

    def kept(self, q: Question, make: Callable[[], Any]) -> Any:
        """An object that was made for the same question before, where kept ones are asked."""
        if not q.kept:
            return make()
        module = self.world.module(q.on)  # an answer may go to another model; what is bound to one stays with it
        of = () if q.kind == "answer" else (id(module),)
        key = (q.kind, q.on, q.text, str(q.target), q.method, q.more, *of)
        if key not in self.objects:
            self.objects[key] = (module, make())  # with the module, so that no other takes its id
        return self.objects[key][1]

    def ask(self, q: Question, **options: Any) -> list[Reading]:
        """All answers to one question. options: of the workbench's explain."""
        return KINDS[q.kind](self, q, options)


def _reading(e: Any) -> Reading:
    check = [] if getattr(e, "check", None) is None else list(e.check.values)
    return Reading(tuple(e.features), str(e.label), float(e.output), np.array(e.scores), np.array(check))


def _plain(numbers: Any, label: str = "", output: float = 0.0) -> list[Reading]:
    return [Reading((), label, output, np.array(numbers, dtype=float).ravel(), np.array([]))]


def _explain(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    extra = {**options, **[{}, {"check": 4}, {"features": "word"}, {}][q.more % 4]}
    return [_reading(a.bench(q.on, q.more == 3).explain(q.text, q.method, target=q.target, **extra))]


def _list(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    texts = [q.text, *TEXTS[q.more % 3 : q.more % 3 + 2]]
    return [_reading(e) for e in a.bench(q.on).explain(texts, q.method, target=q.target, **options)]


def _targets(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    return [_reading(e) for e in a.bench(q.on).explain(q.text, q.method, target=[0, 1], **options)]


def _answer(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    ids = [60 + q.more, 70, 265]
    answer = a.kept(q, lambda: a.bench(q.on).answer(q.text, answer=ids))
    e = a.bench(q.on).explain(answer, q.method, output="each" if q.more % 2 else "sum", features="token", **options)
    if q.more % 2:
        return _plain(e.matrix) + _plain(e.logprobs)
    return [_reading(e)]


def _generated(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    answer = a.bench(q.on).answer(q.text, max_new_tokens=3)
    return _plain(answer.logprobs, str(answer.ids)) + _plain([], a.bench(q.on).generate(q.text, 2))


def _set_function(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    f = a.kept(q, lambda: a.bench(q.on).set_function(q.text, target=q.target or 0))
    keep = np.random.default_rng(q.more).random((6, len(a.bench(q.on).subject(q.text, target=0).features))) < 0.6
    keep[0] = True
    return _plain(f(keep))


def _subject(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    subject = a.kept(q, lambda: a.bench(q.on).subject(q.text, target=q.target or 0))
    if q.more % 2:
        return _plain(SetFunction(subject)(np.eye(len(subject.features), dtype=bool)))
    (found,) = make_method(q.method or "looprop").attribute([subject])
    return _plain(found.scores)


def _interactions(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    found = a.bench(q.on).interactions(q.text, target=q.target)
    return _plain(found.values, str(found.label), float(found.output)) + _plain(found.effects)


def _evaluate(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    found = looprop.evaluate(a.bench(q.on), [q.text], methods=["loo", "attnlrp"], target=q.target)
    if failed := [row["error"] for row in found.rows if row["error"]]:
        raise looprop.errors.ModelError(failed[0])
    return [r for row in found.rows for r in _plain([*row["scores"], *row["loo"]], row["label"], float(row["output"]))]


def _coarse(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    return [_reading(a.bench(q.on).coarse_to_fine(q.text, target=q.target))]


def _labels(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    return _plain([], str(a.bench(q.on).labels))


def _points(a: Asker, q: Question) -> tuple[Any, Tensor]:
    module = a.world.module(q.on)
    dtype = next(module.parameters()).dtype
    width = 8 if hasattr(module, "albert") else WIDTH
    x = torch.randn(2, 3, width, generator=torch.Generator().manual_seed(q.more))
    return module if not isinstance(module, Wrapped) else inner(module), x.to(dtype)


def _attribute(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    model, x = _points(a, q)
    net = a.kept(q, lambda: Embedded(model))
    method = q.method if q.method in OF_TENSORS else "attnlrp"
    return _plain(looprop.attribute(net, x, method, target=None if q.more % 2 else 0).detach().numpy())


def _captum(a: Asker, q: Question, options: dict[str, Any]) -> list[Reading]:
    model, x = _points(a, q)
    lrp = a.kept(q, lambda: LRP(Embedded(model)))
    return _plain(lrp.attribute(x, target=1).detach().numpy())


KINDS: dict[str, Callable[[Asker, Question, dict[str, Any]], list[Reading]]] = {
    "explain": _explain, "list": _list, "targets": _targets, "answer": _answer, "generated": _generated,
    "set function": _set_function, "subject": _subject, "interactions": _interactions, "evaluate": _evaluate,
    "coarse to fine": _coarse, "labels": _labels, "attribute": _attribute, "captum": _captum,
}  # fmt: skip
WEIGHTS = {
    "explain": 10, "list": 3, "targets": 1, "answer": 3, "generated": 1, "set function": 3, "subject": 2,
    "interactions": 1, "evaluate": 0.3, "coarse to fine": 0.5, "labels": 0.5, "attribute": 2, "captum": 0.7,
}  # fmt: skip
KEEPERS = ("answer", "set function", "subject", "attribute", "captum")


def _target(kind: str, dice: Dice) -> Any:
    one = float(dice.random())
    if one < 0.45:
        return None
    if kind == "tokens":
        return [(1, LABELS[0]), (1, LABELS[1], LABELS[2]), "film=good"][int(dice.integers(3))]
    if one < 0.7 or kind == "next":
        return [0, 1, (0, 1)][int(dice.integers(3))]
    return [LABELS[0], LABELS[2], (LABELS[0], LABELS[1]), LABELS[3], "class 1"][int(dice.integers(5))]


def question(kind: str, on: str, dice: Dice) -> Question:
    """A random question for a model of that kind."""
    names = [k for k in KINDS if kind == "next" or k not in ("answer", "generated")]
    names = [k for k in names if kind != "tokens" or k not in ("targets", "set function", "subject")]
    weights = np.array([WEIGHTS[k] for k in names])
    name = str(dice.choice(names, p=weights / weights.sum()))
    pool = OFTEN if dice.random() < 0.5 else METHODS
    method = pool[int(dice.integers(len(pool)))]
    if name in ("attribute", "captum"):
        method = OF_TENSORS[int(dice.integers(len(OF_TENSORS)))]
    few = TEXTS[:2] if name in KEEPERS else TEXTS
    text, target, more = few[int(dice.integers(len(few)))], _target(kind, dice), int(dice.integers(4))
    q = Question(name, on, text, method, target, more, kept=name in KEEPERS and bool(dice.integers(4)))
    if name in KEEPERS and isinstance(target, str | tuple):
        q = replace(q, target=int(dice.integers(2)))
    return q
