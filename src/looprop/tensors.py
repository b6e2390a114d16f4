"""`looprop.attribute`: explain any module on a float tensor."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from looprop.errors import InputError
from looprop.methods.base import Method
from looprop.methods.registry import make_method
from looprop.models.loading import adapt_module
from looprop.models.subject import bind
from looprop.models.target import TargetLike


def attribute(
    module: nn.Module | Callable[[Tensor], Tensor],
    x: Tensor,
    method: str | Method = "attnlrp",
    *,
    target: TargetLike | Tensor = None,
    **options: Any,
) -> Tensor:
    """Scores of every element of x, in x's shape.

    module: maps (B, ...) to (B,) or (B, C). x: (B, ...). method: a name or a `Method`; options: of the method.
    target: a class for all rows, a tensor with one class per row, or None for each row's predicted class.

    >>> def product(x):
    ...     return (x[:, 0] * x[:, 1]) * x[:, 2]
    >>> attribute(product, torch.tensor([[2.0, 3.0, 4.0]]))
    tensor([[ 6.,  6., 12.]])
    """
    chosen = make_method(method, **options)
    if not isinstance(x, Tensor) or x.dim() < 2:
        raise InputError(
            "x must be a tensor (B, ...) with a batch dimension, got "
            f"{tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__}"
        )
    if not len(x):
        raise InputError(f"the batch is empty: shape {tuple(x.shape)}")
    if isinstance(target, Tensor):
        if target.shape != (len(x),):
            raise InputError(
                f"a target tensor must have one class per row: {len(x)} rows, target of shape {tuple(target.shape)}"
            )
        targets: list[TargetLike] = [int(t) for t in target]
    else:
        targets = [target] * len(x)
    adapter = adapt_module(module)
    subjects = [bind(adapter, row, target=t) for row, t in zip(x, targets, strict=True)]
    scores = np.stack([a.scores for a in chosen.attribute(subjects)])
    return torch.from_numpy(scores).to(x).reshape(x.shape)
