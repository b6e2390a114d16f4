"""A forward pass that ran under a plan: what methods read relevance, gradients and attention sites off."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from looprop.models.target import Target
from looprop.propagation.tape import Tape, unseen


@dataclass(frozen=True, eq=False)
class Traced:
    """One batch that has run, inside the `with` block of `Adapter.traced`.

    tape: hands out relevances, gradients and attention sites. inputs: as the model got them, the explained one watched.
    logits: (B, K, C).
    """

    tape: Tape
    inputs: Mapping[str, Tensor]
    logits: Tensor

    def value(self, target: Target) -> Tensor:
        """The target's value for each row, (B,); the engine does not look at how it is read off."""
        with unseen():
            return target.value(self.logits)

    @property
    def attention(self) -> tuple[int, int]:
        """How many attention sites and attention layers the pass has met."""
        sites = self.tape.sites
        return len(sites), sites[-1].layer if sites else 0
