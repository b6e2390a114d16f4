"""A model in float64 throughout, so that what differs differs because of the method and not because of rounding."""

from copy import deepcopy
from typing import Any, Literal

import torch
from torch import Tensor

from looprop.auditing.rewrites.changes import Changes
from looprop.errors import ModelError
from looprop.intercept.mode import InterceptMode
from looprop.models.adapter import Adapter

AuditPrecision = Literal["float64", "model"]
"""The model of an audit: a copy that computes in float64, or the model itself, as it is."""

# These take a dtype by position; everything else by name.
_CASTS = frozenset({"to", "type"})


class FullPrecision(InterceptMode):
    """Models cast to float32 in places (norms, softmax, rotary tables): here those casts are to float64."""

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "float":
            function = Tensor.double
        elif name in _CASTS:
            args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        if kwargs.get("dtype") is torch.float32:
            kwargs = {**kwargs, "dtype": torch.float64}
        return function(*args, **kwargs)


def in_float64(adapter: Adapter) -> Adapter:
    """An adapter of a copy of the model that computes in float64. The model itself is not touched."""
    try:
        model = deepcopy(adapter.model).double()
    except (RuntimeError, TypeError, NotImplementedError) as error:
        raise ModelError(f"{adapter.name} cannot be copied ({error}): use precision='model'") from error
    Changes().run_under(model, FullPrecision)
    return adapter.renewed(model)


def doubled(value: Any) -> Any:
    """Floating-point inputs in float64, everything else as it is."""
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value
