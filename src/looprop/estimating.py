"""What an explanation will cost, before it is begun: forward passes as the method states them, and seconds from one."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from looprop.methods.base import Method
from looprop.models.subject import Subject


@dataclass(frozen=True)
class Estimate:
    """passes: forward passes of the input, as the method states its cost (docs/limits.md). seconds: so many times what
    one took just now; checks come on top, and what is shared between removals makes it less. at_most: is it a bound?

    >>> print(Estimate(40.0, 120.0, at_most=True))
    at most 40 forward passes, about 120 s
    """

    passes: float
    seconds: float
    at_most: bool = False

    def __str__(self) -> str:
        return f"{'at most ' if self.at_most else ''}{self.passes:g} forward passes, about {self.seconds:.3g} s"


def one_pass(subject: Subject) -> float:
    """The seconds that one forward pass of a subject takes just now."""
    start = time.perf_counter()
    with subject.adapter.evaluating(), torch.inference_mode():
        subject.adapter.logits(subject.encoded.inputs, positions=subject.target.positions)
    return time.perf_counter() - start


def estimate(subject: Subject, method: Method, *, each: bool = False) -> Estimate:
    """The cost of a method on a subject. each: of a matrix, in which every answer token is explained by itself."""
    passes, at_most = stated_cost(subject, method, each=each)
    return Estimate(passes, passes * one_pass(subject), at_most=at_most)


def stated_cost(subject: Subject, method: Method, *, each: bool = False) -> tuple[float, bool]:
    """Forward passes as a method states them for a subject, and whether that is a bound."""
    passes = method.passes(subject)
    if each:
        tokens = len(subject.target.each())
        if method.plan_for(subject) is not None:
            passes += (tokens - 1) * (passes - 1)  # the forward pass is shared
        elif not method.shares_removals:
            passes *= tokens
    return passes, method.cost.startswith("at most")


def estimate_run(subject: Subject, methods: Sequence[Method], *, curves: bool, texts: int) -> Estimate:
    """What an evaluation of so many texts like this one will cost: the methods, leave-one-out to compare with, and two
    removal curves a method. A bound: what two of them ask for is computed once.
    """
    count = len(subject.features)
    passes = count + sum(stated_cost(subject, method)[0] for method in methods if method.name != "loo")
    passes += 2 * (count - 1) * len(methods) if curves else 0
    one_pass(subject)  # the first one is slower than those after it
    return Estimate(texts * passes, texts * passes * one_pass(subject), at_most=True)


def spoken(seconds: float) -> str:
    """A time as one says it.

    >>> spoken(8.2), spoken(100), spoken(4000)
    ('8 s', '2 min', '1.1 h')
    """
    return (
        f"{seconds:.0f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 3600
        else f"{seconds / 3600:.1f} h"
    )
