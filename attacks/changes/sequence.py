"""A sequence of changes and questions from a number, the state of a model, and what an explanation left on it."""

import pkgutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import torch

import looprop
from attacks.changes import settings, structure, weights  # noqa: F401  (they fill the table)
from attacks.changes.questions import Asker, Question, question
from attacks.changes.registry import CHANGES
from attacks.changes.worlds import FAMILIES, World, _tokenizer, family, world

# Changes of numbers only: what another thread, or a function that is called on the way, may do to a model.
QUIET = (
    "data add_", "data copy_", "numpy", "in place", "one element of data", "load state dict", "attribute changed",
    "new parameter", "labels swapped", "back and forth", "hook", "adapter", "same head anew",
)  # fmt: skip
LONG = ("explain", "list", "answer", "set function", "attribute", "interactions")
LOOSE = ("Adam", "AdamW fused", "AdamW foreach", "Adagrad")  # divide by gradients that may be nothing but rounding
ON = ("main", "main", "main", "copy", "wrap")


@dataclass(frozen=True)
class Step:
    """A change, or a question. during: "thread" or "progress", the way in which `name` comes while the question runs.

    name: the change; "" where nothing changes. A question with `during` and no change is asked beside another thread
    that explains.
    """

    name: str
    seed: int
    on: str = "main"
    question: Question | None = None
    during: str = ""

    def change(self, world: World) -> str:
        """Change the world; what went wrong, if anything did."""
        torch.manual_seed(self.seed)
        try:
            CHANGES[self.name](world, world.module(self.on), np.random.default_rng(self.seed))
        except Exception as error:
            return type(error).__name__
        return ""

    def __str__(self) -> str:
        if not self.question:
            return f"{self.name} on {self.on}"
        meanwhile = f" while {self.name or 'another explains'} by {self.during}" if self.during else ""
        return f"{self.question}{meanwhile}"


def steps(seed: int) -> list[Step]:
    """Three to eight steps, the last of them a question."""
    dice = np.random.default_rng([seed, 11])
    kind = FAMILIES[family(seed)][0]
    count, made = int(dice.integers(3, 9)), list[Step]()
    names = list(CHANGES)
    while len(made) < count:
        number, on = int(dice.integers(2**31)), str(dice.choice(ON))
        asks = len(made) == count - 1 or (len(made) == 0 and dice.random() < 0.7) or dice.random() < 0.25
        if not asks:
            made.append(Step(names[int(dice.integers(len(names)))], number, on))
            continue
        earlier = [s.question for s in made if s.question]
        same = earlier and dice.random() < 0.6
        q = earlier[int(dice.integers(len(earlier)))] if same else question(kind, on, dice)
        during, name = "", ""
        if dice.random() < 0.08 and q.kind in LONG:
            during = str(dice.choice(["thread", "progress"] if q.kind in ("explain", "list") else ["thread"]))
            name = "" if during == "thread" and dice.random() < 0.4 else QUIET[int(dice.integers(len(QUIET)))]
        made.append(Step(name, number, q.on, q, during))
    return made


def started(seed: int) -> Asker:
    """The world before anything changed."""
    return Asker(world(seed), {})


def _tensors(module: Any) -> dict[str, torch.Tensor]:
    named = [*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False)]
    return {name: tensor for name, tensor in named if tensor is not None}


def _marks(module: Any) -> dict[str, Any]:
    """What can be left on a model, beside other numbers."""
    found: dict[str, Any] = {}
    for name, m in module.named_modules():
        hooks = (len(m._forward_hooks), len(m._forward_pre_hooks), len(m._backward_hooks))
        found[name] = (type(m).__name__, m.training, sorted(vars(m)), hooks)
    for name, p in module.named_parameters():
        found[f"{name} of parameters"] = (p.requires_grad, p.grad is None, str(p.dtype))
    return found


def state(asker: Asker, on: str, done: list[Step]) -> Any:
    """The model as it is: copies of its tensors, its marks, and whether rounding may have grown."""
    module = asker.world.module(on)
    copies = {name: tensor.detach().clone() for name, tensor in _tensors(module).items()}
    return copies, _marks(module), any(step.name in LOOSE for step in done)


def restored(module: Any, state: Any) -> str:
    """Load a state; says what differed before, which is what explanations have left on the model."""
    copies, marks, loose = state
    mine = _tensors(module)
    found = [name for name in {*mine, *copies} if name not in mine or name not in copies]
    for name in mine.keys() & copies.keys():
        if mine[name].shape != copies[name].shape or mine[name].dtype != copies[name].dtype:
            found.append(name)
            continue
        with torch.no_grad():
            if not loose and not torch.allclose(mine[name], copies[name], rtol=1e-3, atol=1e-4, equal_nan=True):
                found.append(f"numbers of {name}")
            mine[name].data.copy_(copies[name])
    here = _marks(module)
    other = [key for key in here.keys() | marks.keys() if here.get(key) != marks.get(key)]
    found += [f"{key}: {marks.get(key)} instead of {here.get(key)}" for key in other]
    return "; ".join(found[:3])


def beside(work: Callable[[], Any], other: Callable[[], Any], delay: float) -> Any:
    """Do some work while another thread does something else, a moment later."""

    def late() -> None:
        time.sleep(delay)
        other()

    thread = threading.Thread(target=late)
    thread.start()
    try:
        return work()
    finally:
        thread.join()


def imported() -> None:
    """Everything that cases import, so that children need not; and the first model of each family."""
    for module in pkgutil.walk_packages(looprop.__path__, "looprop."):
        if not any(part in module.name for part in (".cli", ".ray", ".serving", "__main__", ".study", ".auditing")):
            import_module(module.name)
    for kind, tokens, make in FAMILIES.values():
        model = make(len(_tokenizer(tokens)) + 6, 0.0, 1).eval()
        with torch.no_grad():
            model(input_ids=torch.tensor([[5, 6, 7]]))
        del model, kind
