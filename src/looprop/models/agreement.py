"""How far apart two computations of one number may be and still be the same: by rounding."""

import torch

from looprop.errors import ModelError

# What is left out, filled up or computed in a batch may change an answer by this much, relative to its size.
AGREEMENT = 2e-5
# By so many units of the last place single numbers differ however they are computed.
UNITS = 8
# What runs under the engine, or alone, computes in another order: a route that differs by more is another model.
ROUTE = 2e-4


def rounding(size: float, dtype: torch.dtype, *, relative: float = AGREEMENT) -> float:
    """The largest difference that is no difference, for numbers of a size."""
    return max(relative, 4 * torch.finfo(dtype).eps) * size


def least_rounding(size: float, dtype: torch.dtype) -> float:
    """Differences below this say nothing."""
    return UNITS * torch.finfo(dtype).eps * size


def another_answer(name: str, route: str, own: float, got: float) -> ModelError:
    """The error of a route on which a model answers the intact input differently than by itself."""
    return ModelError(
        f"{name} answers this input with {own:.6g}, but {route} with {got:.6g}: what would be explained is not the "
        "model's own answer. Look for dropout or noise that stays on in eval mode, for buffers that the forward pass "
        "changes, and for arguments that a wrapper does not hand on"
    )
