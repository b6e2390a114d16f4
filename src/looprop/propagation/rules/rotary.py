"""Rotary positions that take their share: y = x c_t is a product of an activation and of what the position t turns it
by, and each gets half (PA-LRP, Bakish et al. 2025).  R_x = R_y / 2,  R_t = sum of R_y over all but t, / 2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from looprop.propagation.call import tensors_in, trace_of
from looprop.propagation.gradients import scale_gradient

if TYPE_CHECKING:
    from looprop.propagation.call import Call


def rotated(call: Call) -> Tensor:
    """The product of an activation and sines or cosines of positions, half of whose relevance goes to these."""
    (x,) = call.activations
    turn = next(t for t in tensors_in(call.args) if (trace := trace_of(t)) is not None and trace.held == "rotation")
    shares = call.mode.shares_of_positions(x)
    if shares is None:
        raise call.refuse("positions take their share only where the word embeddings of texts are explained")
    rows, length = shares.shape
    turn = turn.reshape(*[1] * (x.dim() - turn.dim()), *turn.shape)
    axes = [axis for axis in range(1, x.dim() - 1) if turn.shape[axis] == length]
    if len(axes) != 1 or x.shape[0] != rows or x.shape[axes[0]] != length:
        raise call.refuse(f"which of {tuple(x.shape)} are the {length} positions that it turns is not known")
    shape = [rows, *(length if axis == axes[0] else 1 for axis in range(1, x.dim()))]
    share = scale_gradient(shares.reshape(shape), 0.5)
    out: Tensor = call.run(*(scale_gradient(x, 0.5) if a is x else a for a in call.args)) * share
    return out
