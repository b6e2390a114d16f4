"""Random programs: looprop's relevance against the one by hand, and refusals where nothing else is right."""

import numpy as np
import torch
from torch import Tensor, nn

import looprop
from attacks.programs import attention, evasions, linear, pointwise
from attacks.programs.steps import Affine, Step, evaluate, propagate
from attacks.programs.workshop import Workshop
from attacks.verdict import Outcome, WrongError
from looprop.errors import LoopropError

MAKERS = [*linear.LINEAR.values()] * 2 + [*pointwise.POINTWISE.values()] * 2 + [attention.attention] * 4
METHODS = {"attnlrp": "attn", "cp-lrp": "cp"}
CLASSES, LARGEST = 3, 1e3


class Program(nn.Module):
    """The steps of a program as torch runs them on (B, T, D)."""

    def __init__(self, steps: list[Step], parameters: list[Tensor]) -> None:
        super().__init__()
        self.steps = steps
        self.kept = nn.ParameterList([p for p in parameters if isinstance(p, nn.Parameter)])

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        values = [x]
        for step in self.steps:
            values.append(step.write(*(values[i] for i in step.inputs)))
        return values[-1]


def program(seed: int, *, evading: bool) -> tuple[Workshop, Program]:
    """A random program; evading: with one step that hides a dependence from the engine.

    Products of products grow beyond what can be compared: then the dice are thrown again.
    """
    for throw in range(100):
        w = _thrown([seed, throw], evading)
        given = np.random.default_rng(0).normal(size=w.shape)
        if evading or max(float(np.abs(value).max()) for value in evaluate(w.steps, given)) < LARGEST:
            break
    return w, Program(w.steps, w.parameters)


def _thrown(seed: list[int], evading: bool) -> Workshop:
    w = Workshop(seed)
    length = int(w.dice.integers(2, 8))
    hidden_at = int(w.dice.integers(length)) if evading else -1
    for at in range(length):
        if at == hidden_at:
            evasions.evasion(w)
            w.tensor = lambda: len(w.steps)  # type: ignore[method-assign]  # from here on nothing goes around it
        else:
            w.pick(MAKERS)(w)
    _read_out(w)
    return w


def _read_out(w: Workshop) -> None:
    """Logits of the last tensor: of its mean, its first row or all of it."""
    last = len(w.steps)
    rows, width = w.shape_of(last)
    name = w.pick(["mean", "first", "all"])
    inner = rows * width if name == "all" else width
    weight = w.numbers(CLASSES, inner)
    bias = w.numbers(CLASSES)
    tensor, plus = w.parameter(weight), w.parameter(bias)
    chosen = {"mean": np.full((1, rows), 1 / rows), "first": np.eye(1, rows), "all": np.eye(rows)}[name]
    write = {
        "mean": lambda x: x.mean(1) @ tensor.T + plus,
        "first": lambda x: nn.functional.linear(x[:, 0], tensor, plus),
        "all": lambda x: nn.functional.linear(x.flatten(1), tensor, plus),
    }[name]
    whole = weight @ np.kron(chosen, np.eye(width))
    w.add((last,), Affine((CLASSES,), [whole], bias), (CLASSES,), f"read-out of {name}", write)


def matters(w: Workshop, model: Program, x: Tensor) -> bool:
    """Whether what the evasion hides has a say in the output."""
    (cut,) = (step.cut for step in w.steps if step.cut)
    with torch.no_grad():
        before = model(x)
        cut[0] = 1.25
        after = model(x)
        cut[0] = 1.0
    return not torch.allclose(before, after, rtol=1e-6, atol=1e-9)


def described(w: Workshop) -> str:
    """The program in one line."""
    return f"{w.shape} " + "; ".join(f"{i + 1}={s.label}{list(s.inputs)}" for i, s in enumerate(w.steps))


def case(seed: int) -> Outcome:
    """One program under both methods."""
    w, model = program(seed, evading=seed % 5 == 0)
    batch = int(w.dice.integers(1, 4))
    x = torch.tensor(w.numbers(batch, *w.shape))
    target = int(w.dice.integers(CLASSES))
    method = w.pick(list(METHODS))
    hides = seed % 5 == 0
    if hides:
        hides = _defined(model, x) and matters(w, model, x)
    try:
        found = looprop.attribute(model, x, method, target=target).numpy()
    except LoopropError as error:
        return Outcome("refused", str(error).split(". ")[0])
    if seed % 5 == 0:
        if hides:
            raise WrongError(f"{method} must refuse and gave numbers: {described(w)}")
        return Outcome("right", "an evasion without a say")
    for row, given in enumerate(x.numpy()):
        values = evaluate(w.steps, given)
        with torch.no_grad():
            plain = model(torch.tensor(given)[None])[0].numpy()
        largest_value = max(float(np.abs(value).max()) for value in values)
        if largest_value > 1e6:
            return Outcome("right", "too large to be compared", tries=0)
        if not np.abs(plain - values[-1]).max() <= 1e-10 * max(1.0, largest_value**2):
            raise AssertionError(f"the campaign itself is wrong: two values of one program: {described(w)}")
        if _cancels(w.steps, values):
            return Outcome("right", "a sum that cancels has no share", tries=0)
        truth, largest = propagate(w.steps, values, target, METHODS[method])
        off = np.abs(found[row] - truth).max()
        if not off <= 1e-9 * largest:
            raise WrongError(f"{method} is off by {off:.3g} (shares up to {largest:.3g}): {described(w)}")
    return Outcome("right")


def _cancels(steps: list[Step], values: list[np.ndarray]) -> bool:
    """Does some sum of the program cancel to nothing?"""
    sums = ((step, value) for step, value in zip(steps, values[1:], strict=True) if isinstance(step.kind, Affine))
    return any(step.kind.cancels([values[i] for i in step.inputs], value) for step, value in sums)


def _defined(model: Program, x: Tensor) -> bool:
    """Whether the program has a finite value at all."""
    with torch.no_grad():
        return bool(torch.isfinite(model(x)).all())
