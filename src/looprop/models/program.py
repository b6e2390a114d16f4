"""Whether what is proven of a model on one input can be trusted on others that run the same operations."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from looprop.intercept.program import PoisonMode, ProgramMode
from looprop.models.adapter import Adapter
from looprop.models.encoded import Encoded


@dataclass(frozen=True)
class Program:
    """What was seen in one forward pass.

    decides: do activations choose what is computed (a branch, a comparison, a maximum), or is the answer read from
    rows that happen to have no slope? reads_ids: are token ids compared or counted, besides being looked up?
    """

    decides: bool
    reads_ids: bool

    @property
    def fixed(self) -> bool:
        """Is it the same function of embeddings and mask for all inputs that run these operations?"""
        return not (self.decides or self.reads_ids)


def program_of(adapter: Adapter, encoded: Encoded, *, sites: int, read: list[int], positions: int = 1) -> Program:
    """Looks on at a forward pass of all rows with their places given, and tries who reads rows that should not be read.

    sites: attention sites of a pass, 0 where they are not known. read: the rows that the answer is read from.
    """
    length = adapter.leading_positions(encoded) + len(encoded)
    try:
        seen = _look_on(adapter, encoded, length, positions)
        hidden = False
        if sites and len(read) < length:
            with torch.no_grad(), adapter.evaluating(), PoisonMode(sites, read):
                hidden = not torch.isfinite(adapter.logits(encoded.inputs, positions=positions)).all()
    except Exception:  # a model that cannot be looked at in this way is not known to be simple
        return Program(decides=True, reads_ids=True)
    return Program(seen.decides or bool(hidden), seen.reads_ids)


@torch.inference_mode(False)
@torch.enable_grad()
def _look_on(adapter: Adapter, encoded: Encoded, length: int, positions: int) -> ProgramMode:
    batch: dict[str, Tensor]
    placed: AbstractContextManager[object]
    if adapter.runs_rows:
        batch, placed = adapter.at_rows(encoded, torch.arange(length, device=adapter.device)[None])
    else:
        batch, placed = adapter.whole(encoded, 1), nullcontext()
    batch = {key: value.clone() for key, value in batch.items()}  # what was made in inference mode knows no gradients
    floats = [value.requires_grad_() for value in batch.values() if value.is_floating_point()]
    ids = [batch["input_ids"]] if "input_ids" in batch else []
    mode = ProgramMode(ids, None if floats else adapter.explained_weight)
    with adapter.evaluating(), placed, mode:
        adapter.logits(batch, positions=positions)
    return mode


def values_leave(adapter: Adapter, encoded: Encoded, *, positions: int = 1) -> bool:
    """Do values of activations leave to Python, where one of them may decide for a whole batch?"""
    try:
        return _look_on(adapter, encoded, adapter.leading_positions(encoded) + len(encoded), positions).leaves
    except Exception:  # a model that cannot be looked at in this way: its batches are compared when they run
        return False
