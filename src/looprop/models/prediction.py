"""What a model predicts for one input as it is, the reference of explanations, and a pass that ran under a plan."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor

from looprop.models.encoded import Encoded
from looprop.models.target import Target
from looprop.models.version import Version
from looprop.propagation.tape import Tape, unseen


@dataclass(frozen=True, eq=False)
class Traced:
    """One batch that has run, inside the `with` block of `Adapter.traced` or, later, of `again`.

    tape: hands out relevances, gradients and attention sites. inputs: as the model got them, the explained one watched.
    logits: (B, K, C). own: of a pass that predicts, the positions of each row's own tokens (B, longest); -1 is padding.
    """

    tape: Tape
    inputs: Mapping[str, Tensor]
    logits: Tensor
    own: Tensor | None = None

    @contextmanager
    def again(self) -> Iterator[Self]:
        """The pass once more, after its block has ended: relevance can be asked for as long as the graph is kept."""
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False):
            yield self

    def value(self, target: Target) -> Tensor:
        """The target's value for each row, (B,); the engine does not look at how it is read off."""
        with unseen():
            return target.value(self.logits)

    @property
    def attention(self) -> tuple[int, int]:
        """How many attention sites and attention layers the pass has met."""
        sites = self.tape.sites
        return len(sites), sites[-1].layer if sites else 0


@dataclass(frozen=True, eq=False)
class Prediction:
    """The logits (K, C) of one input, the sequence of operations that gave them as one number (0: not known), and the
    version of the model. one_is_true: are the logits those of classes of which one is true? kept: the pass under a
    plan, ready for relevance, until a method takes it. row: of this input in it.
    """

    logits: Tensor
    path: int
    version: Version
    one_is_true: bool = False
    kept: list[Traced] = field(default_factory=list)
    row: int = 0


@dataclass(frozen=True, eq=False)
class Resolved:
    """A target found on an input. The target may extend the input (a continuation) or mark it (a token's label)."""

    encoded: Encoded
    target: Target
    prediction: Prediction


Predict = Callable[..., Prediction]
"""(encoded, positions=1) -> its prediction."""
