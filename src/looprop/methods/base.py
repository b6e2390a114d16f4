"""What a method is."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from looprop.models.adapter import Adapter, Removal
from looprop.models.encoded import Encoded
from looprop.models.subject import Subject
from looprop.propagation.plan import Plan


@dataclass(frozen=True, eq=False)
class Attribution:
    """The scores of one subject, one per feature, the cost in forward passes of the intact input, and the
    residual (output minus sum of scores) of methods that promise completeness.
    """

    scores: NDArray[np.float64]
    cost: float
    residual: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Method(ABC):
    """A way to explain. The constructor stores validated options; subjects come to `attribute`.

    Catalogue, tables, reports, audits and contract tests read the attributes of the class. A method that is known by
    its name has, as plain literals of its own:

    name: small letters and hyphens, as its file is called; options follow in brackets. title: what headings call it,
        also its section in docs/limits.md. summary: one line.
    cost: for people, in forward passes of an input with F features on T tokens, S of them special; "at most ..." where
        it depends on the input. `passes` computes it.
    kind: what a score says: "effect", "share", "weight" or "none" (`names.SCORE_KINDS`).

    And where the default does not fit:

    short: what tables and figures call it. example: the form in which it is shown (`lrp[cp=2:]`). coarse: a cheaper
        form, for audits; demo: one for the demo.
    inputs: the kinds of input for which it has a meaning; it refuses others. removes_by: the removal whose effect its
        scores mean, where that is not the default of every kind of input.
    fixed: parameters of the constructor that are no options. text_options: options whose value in brackets stays text
        (`cp=2`). complete: scores add up to the output. reads_target: scores depend on the target. shares_removals:
        every token of an answer asks for the same removals, so that a matrix costs what one explanation costs.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    cost: ClassVar[str]
    kind: ClassVar[str]
    short: ClassVar[str] = ""
    example: ClassVar[str] = ""
    coarse: ClassVar[str] = ""
    demo: ClassVar[str] = ""
    inputs: ClassVar[tuple[str, ...]] = ("text", "image", "tensor")
    removes_by: ClassVar[Removal | None] = None
    text_options: ClassVar[frozenset[str]] = frozenset()
    fixed: ClassVar[frozenset[str]] = frozenset()
    complete: ClassVar[bool] = False
    reads_target: ClassVar[bool] = True
    shares_removals: ClassVar[bool] = False

    @classmethod
    def label(cls) -> str:
        return cls.short or cls.title

    def passes(self, subject: Subject) -> float:
        """What `attribute` costs on a subject, in forward passes; a bound where `cost` says "at most"."""
        return float(self.cost)

    @property
    def options(self) -> dict[str, Any]:
        """The options in force, as plain data."""
        return dict(vars(self))

    def plan_for(self, adapter: Adapter, encoded: Encoded) -> Plan | None:
        """The plan of whose backward pass the scores are R = x * g at the word embedding; None if they are not."""
        return None

    def for_each(self, subject: Subject) -> "tuple[Method, float]":
        """The method in which scores of an answer's tokens add up to those of the whole, and what finding it cost."""
        return self, 0.0

    @abstractmethod
    def attribute(self, subjects: Sequence[Subject]) -> list[Attribution]:
        """One attribution per subject; all subjects share one model."""
