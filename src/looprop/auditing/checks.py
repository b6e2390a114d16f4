"""Sanity checks of the field, as changes to the model or to the way it is asked.

Randomised parameters: Adebayo et al. 2018. Input shift: Kindermans et al. 2019. Completeness: Bach et al. 2015,
Sundararajan et al. 2017.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from looprop.auditing.rewrites.changes import Changes
from looprop.auditing.rewrites.observing import Observation
from looprop.methods.base import Attribution
from looprop.models.adapter import Adapter
from looprop.models.subject import Subject


def layers_from_the_end(observed: Observation) -> list[nn.Module]:
    """Modules with parameters of their own, the last that was called first; one that is never called goes with the
    module around it.
    """
    place = {module: float(i) for i, module in enumerate(observed.order)}
    names = {name: module for module, name in observed.names.items()}
    found: list[tuple[float, nn.Module]] = []
    for name, module in names.items():
        if any(parameter is not None for parameter in module._parameters.values()):
            around = name
            while around and names[around] not in place:
                around = around.rpartition(".")[0]
            found.append((place.get(module, place.get(names[around], 0.0) + 0.5), module))
    return [module for _, module in sorted(found, key=lambda item: -item[0])]


def shuffle(modules: Sequence[nn.Module], changes: Changes, *, seed: int = 0) -> None:
    """Shuffle the entries of every parameter: the same numbers, in places that mean nothing."""
    generator = torch.Generator().manual_seed(seed)
    for module in modules:
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                order = torch.randperm(parameter.numel(), generator=generator).to(parameter.device)
                data = changes.edit(module, name)
                data.copy_(data.flatten()[order].view_as(data))


def shift_input(adapter: Adapter, subjects: Sequence[Subject], changes: Changes, *, seed: int = 0) -> list[Subject]:
    """Move the zero of the explained tensor by a constant and let the model take it off again: x' = x + c, f'(x') =
    f(x' - c).

    The constant is drawn per dimension of the embedding (texts) or for the whole input, as large as the input itself.
    """
    weight = adapter.explained_weight
    if weight is not None:
        embedding: nn.Module = adapter.model.get_input_embeddings()  # type: ignore[operator]
        generator = torch.Generator().manual_seed(seed)
        shift = (
            torch.randn(weight.shape[1], generator=generator, dtype=torch.float64).to(weight) * weight.detach().std()
        )
        changes.edit(embedding, "weight").add_(shift)
        moved = embedding._parameters["weight"]
        assert moved is not None
        changes.run_under(adapter.model, lambda: _TakenOff(moved, shift))
        return [Subject(adapter, s.encoded, s.target, s.features) for s in subjects]
    name = next(iter(subjects[0].encoded.inputs))
    size = float(torch.cat([s.encoded.inputs[name].flatten() for s in subjects]).std())
    constant = size if size > 0 else 1.0
    forward = adapter.model.forward

    def taken_off(*args: Any, **kwargs: Any) -> Any:
        if args:
            return forward(args[0] - constant, *args[1:], **kwargs)
        return forward(**{**kwargs, name: kwargs[name] - constant})

    changes.set_forward(adapter.model, taken_off)
    found = []
    for subject in subjects:
        inputs = {**subject.encoded.inputs, name: subject.encoded.inputs[name] + constant}
        found.append(Subject(adapter, replace(subject.encoded, inputs=inputs), subject.target, subject.features))
    return found


class _TakenOff(TorchFunctionMode):
    def __init__(self, weight: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.weight, self.shift = weight, shift

    def __torch_function__(
        self, function: Any, types_: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = function(*args, **(kwargs or {}))
        looked_up = getattr(function, "__name__", "") == "embedding" and len(args) > 1 and args[1] is self.weight
        return out - self.shift if looked_up else out


def residual(subjects: Sequence[Subject], found: Sequence[Attribution]) -> float:
    """Median over inputs of |f - sum of scores| / |f|; a method that states its own residual (from a baseline) is taken
    at its word.
    """
    shares = []
    for subject, attribution in zip(subjects, found, strict=True):
        left = (
            attribution.residual
            if attribution.residual is not None
            else subject.output - float(attribution.scores.sum())
        )
        shares.append(abs(left) / abs(subject.output) if subject.output else float("nan"))
    return float(np.median(shares))
