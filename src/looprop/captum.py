"""The interface of captum's LRP, with our engine behind it: existing captum code can switch by changing one import.

captum itself is not needed. Unlike captum's, this LRP needs no rules attached to modules: it propagates through
attention, norms and whatever else has a rule in the plan, and refuses what has none.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from looprop.errors import InputError, TargetError
from looprop.propagation.modules import evaluating
from looprop.propagation.plan import Plan
from looprop.propagation.tape import relevance, unseen

__all__ = ["LRP"]

Inputs = Tensor | tuple[Tensor, ...]
TargetIndex = int | tuple[int, ...] | Tensor | list[int] | list[tuple[int, ...]] | None


class LRP:
    """Relevance of a module's inputs, under a plan (AttnLRP by default).

    >>> layer = nn.Linear(2, 2, bias=False)
    >>> _ = layer.weight.data.copy_(torch.tensor([[3.0, -1.0], [0.0, 0.0]]))
    >>> LRP(layer).attribute(torch.tensor([[2.0, 5.0]]), target=0)
    tensor([[ 6., -5.]])
    """

    def __init__(self, model: nn.Module, plan: Plan | None = None) -> None:
        self.model, self.plan = model, plan or Plan()

    def has_convergence_delta(self) -> bool:
        """Yes: how far the relevances are from adding up to the output."""
        return True

    def attribute(
        self,
        inputs: Inputs,
        target: TargetIndex = None,
        additional_forward_args: Any = None,
        return_convergence_delta: bool = False,
    ) -> Any:
        """The relevance of every element of the inputs, in the form of the inputs.

        inputs: a floating-point tensor (B, ...), or a tuple of them.
        target: one output index for all rows (an int, or a tuple for outputs with more dimensions), or one per row (a
            list or a tensor); None where the module gives one number per row.
        additional_forward_args: further arguments of the module, which are not explained.
        return_convergence_delta: return (relevance, output - sum of relevance per row).
        """
        given = inputs if isinstance(inputs, tuple) else (inputs,)
        more = additional_forward_args if isinstance(additional_forward_args, tuple) else (additional_forward_args,)
        more = () if additional_forward_args is None else more
        for tensor in given:
            if not isinstance(tensor, Tensor) or tensor.dim() < 1 or len(tensor) != len(given[0]):
                raise InputError("inputs must be a tensor (B, ...) or a tuple of tensors with one batch size")
        with evaluating(self.model), relevance(self.model, self.plan) as tape:
            watched = [tape.watch(tensor) for tensor in given]
            output = self.model(*watched, *more)
            if not isinstance(output, Tensor):
                raise InputError(
                    f"the module must return a tensor, got {type(output).__name__}: wrap it, `lambda x: "
                    "model(x).logits`"
                )
            tape.check(output)
            with unseen():
                values = select(output, target)
            gradients = tape.gradients(values, watched)
        found = tuple(tensor.detach() * gradient for tensor, gradient in zip(given, gradients, strict=True))
        answer = found if isinstance(inputs, tuple) else found[0]
        if not return_convergence_delta:
            return answer
        explained = torch.stack([part.flatten(1).sum(1) if part.dim() > 1 else part for part in found]).sum(0)
        return answer, values.detach() - explained


def select(output: Tensor, target: TargetIndex) -> Tensor:
    """The explained number of each row: (B, ...) -> (B,).

    >>> select(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), [0, 1])
    tensor([1., 4.])
    """
    rows = len(output)
    if target is None:
        if output.numel() != rows:
            raise TargetError(f"a target is needed: the module gives {tuple(output.shape[1:])} numbers per row")
        return output.reshape(rows)
    if isinstance(target, Tensor):
        target = target.reshape(-1).tolist()
    if isinstance(target, list) and len(target) == 1:
        target = target[0]
    each: Sequence[Any] = target if isinstance(target, list) else [target] * rows
    if len(each) != rows:
        raise TargetError(f"there must be one target, or one per row: {rows} rows, {len(each)} targets")
    picked = []
    for row, index in zip(output, each, strict=True):
        place = index if isinstance(index, tuple) else (index,)
        if len(place) != row.dim() or any(not -size <= i < size for i, size in zip(place, row.shape, strict=False)):
            raise TargetError(f"target {index!r} does not exist: each row of the output has shape {tuple(row.shape)}")
        picked.append(row[place])
    return torch.stack(picked)
