"""What can be tried: plans to begin with, and plans that differ from one in one respect."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from typing import Any

from looprop.propagation.plan import GRADIENT, AttentionRule, Plan
from looprop.propagation.plan_file import OPTIONS, Readout

RULES: tuple[AttentionRule, ...] = ("attnlrp", "cp", "gradient")
# What is tried of each option, in this order; the rest of a plan stays as it is.
VALUES: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("norm", ("constant-std", "gradient")),
    ("activation", ("identity", "gradient")),
    ("temperature", (1.0, 2.0, 4.0)),
    ("bias", ("keep", "shared")),
    ("product", ("halves", "gradient")),
    ("linear", ("epsilon", "gamma")),
    ("readout", ("word", "sum")),
)


@dataclass(frozen=True)
class Candidate:
    """A plan and where its relevance is read."""

    plan: Plan
    readout: Readout = "word"

    @property
    def key(self) -> str:
        """The same for candidates that are one."""
        return repr((sorted(self.plan.to_dict().items(), key=str), self.readout))

    def __str__(self) -> str:
        """Options that are not at their default."""
        usual, said = Plan(), []
        for name in OPTIONS:
            value = getattr(self.plan, name)
            if name == "otherwise" or value == getattr(usual, name):
                continue
            said.append(f"{name}={_layers(value) if isinstance(value, Mapping) else value}")
        said += [] if self.readout == "word" else [f"readout={self.readout}"]
        return ", ".join(said) or "attnlrp"


def _layers(rules: Mapping[int, str]) -> str:
    """Rules by layer, `cp in 1-3, gradient in 4`."""
    found = []
    for rule, group in groupby(sorted(rules), key=lambda layer: rules[layer]):
        layers = list(group)
        found.append(f"{rule} in {layers[0]}" + (f"-{layers[-1]}" if len(layers) > 1 else ""))
    return ", ".join(found)


Step = Callable[[Candidate], list[Candidate]]
"""Candidates that differ from one in one respect."""

# Where first and last layers may be parted, and how many parts of a model may have a rule of their own.
ENDS, PARTS = 6, 12

STARTS = (
    Candidate(Plan()),
    Candidate(Plan(attention="cp")),
    Candidate(Plan(temperature=2.0, activation="gradient", product="gradient")),  # GIM
    Candidate(Plan(norm="gradient")),
    Candidate(GRADIENT),
)


def with_layers(candidate: Candidate, first: int, last: int, rule: AttentionRule, layers: int) -> Candidate:
    """The same with another rule in layers first to last."""
    rules = {n: rule if first <= n <= last else candidate.plan.rule(n) for n in range(1, layers + 1)}
    same = set(rules.values())
    attention: Any = rules if len(same) > 1 else same.pop()
    return replace(candidate, plan=replace(candidate.plan, attention=attention))


def neighbours(layers: int) -> Iterator[Step]:
    """What can be changed, one respect after the other: the rule of the first or last layers, an option, some layers.

    Deep models are cut into blocks of layers, so that the number of steps does not grow with them.
    """
    ends = [last for _, last in blocks(layers, ENDS)][:-1]
    yield lambda c: [
        with_layers(c, first, last, rule, layers)
        for rule in RULES
        for end in ends
        for first, last in ((1, end), (end + 1, layers))
    ]
    for name, values in VALUES:
        yield partial(_with_option, name=name, values=values)
    for first, last in blocks(layers, PARTS):
        yield partial(_with_rules, first=first, last=last, layers=layers)


def _with_rules(candidate: Candidate, *, first: int, last: int, layers: int) -> list[Candidate]:
    return [with_layers(candidate, first, last, rule, layers) for rule in RULES]


def _with_option(candidate: Candidate, *, name: str, values: tuple[Any, ...]) -> list[Candidate]:
    if name == "readout":
        return [replace(candidate, readout=value) for value in values]
    # A linear rule has its own place for biases.
    also = {"linear": {"bias": "keep"}, "bias": {"linear": "epsilon"}}.get(name, {})
    changes = [{name: value, **(also if value not in ("keep", "epsilon") else {})} for value in values]
    return [replace(candidate, plan=replace(candidate.plan, **change)) for change in changes]


def blocks(layers: int, most: int) -> list[tuple[int, int]]:
    """Layers 1 to n in at most so many blocks, (first, last) each.

    >>> blocks(3, 6), blocks(10, 4)
    ([(1, 1), (2, 2), (3, 3)], [(1, 2), (3, 5), (6, 8), (9, 10)])
    """
    count = min(layers, most)
    ends = [round(layers * n / count) for n in range(count + 1)]
    return [(low + 1, high) for low, high in pairwise(ends)]
