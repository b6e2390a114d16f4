"""Find the modules that read the output of every norm, convolution and linear layer, in one forward pass.

Some rewrites move a factor or a constant from a module into the linear layers after it, which is right only where they
alone read its output and read nothing else. Hooks mark the output of each such module, the *source*. A mode sees
every call of the pass: reshaping and the like hand the mark on, a ReLU hands it on with a remark, a linear layer or
batch norm is a *reader*, and anything else that takes a marked tensor is an "other" use. A reader is known by its
weight, since the call itself does not say which module made it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from looprop.intercept.mode import InterceptMode
from looprop.propagation.call import tensors_in
from looprop.propagation.operations import DROPOUT, PLAIN

_MARK = "_looprop_source"
# The same entries along the last axis, so that a scale or shift along it commutes.
_ALIAS = (
    frozenset(
        "view reshape contiguous clone flatten getitem select unsqueeze squeeze to float double type_as identity "
        "narrow".split()
    )
    | DROPOUT
)


@dataclass(frozen=True)
class Use:
    """One reading of a module's output.

    by: "linear", "batch_norm", "other". reader: the module that reads; None for "other". through: "" or "relu".
    operation: its name.
    """

    by: str
    operation: str
    reader: nn.Module | None = None
    through: str = ""


@dataclass(frozen=True)
class Readers:
    """The modules that read a source's output, in order, or the reason why it is not for them alone."""

    modules: tuple[nn.Module, ...] = ()
    reason: str = ""


@dataclass
class Observation:
    """What a forward pass showed.

    names: of all modules. uses: readings of each source's output. reads: which sources a reader's input came from, None
    among them for anything else. calls: how often each module ran; order: modules in the order of their first call.
    """

    names: dict[nn.Module, str]
    uses: dict[nn.Module, list[Use]] = field(default_factory=dict)
    reads: dict[nn.Module, set[nn.Module | None]] = field(default_factory=dict)
    calls: Counter[nn.Module] = field(default_factory=Counter)
    order: list[nn.Module] = field(default_factory=list)

    def readers(self, source: nn.Module, *, by: str = "linear", through: str = "") -> Readers:
        """The modules of one kind that read a source's output, if nothing else does and they read nothing else."""
        uses = self.uses.get(source, [])
        if not uses:
            return Readers(reason="nothing is seen to read it")
        for use in uses:
            if use.by != by or use.through != through or use.reader is None:
                return Readers(reason=f"its output also goes to {use.operation!r}")
            if self.reads[use.reader] != {source}:
                return Readers(reason=f"{self.names[use.reader]} also reads something else")
        return Readers(tuple(dict.fromkeys(use.reader for use in uses if use.reader is not None)))


def is_norm(module: nn.Module) -> bool:
    """Layer and RMS norms, those that libraries write themselves included: a gain of one dimension, and the name."""
    gain = module._parameters.get("weight")
    batch = isinstance(module, nn.modules.batchnorm._NormBase | nn.GroupNorm)
    return gain is not None and gain.dim() == 1 and not batch and type(module).__name__.endswith("Norm")


def is_conv1d(module: nn.Module) -> bool:
    """The linear layer of GPT-2, whose weight is (in, out)."""
    return type(module).__name__ == "Conv1D" and "weight" in module._parameters


def is_linear(module: nn.Module) -> bool:
    """A linear layer, of torch or of GPT-2."""
    return isinstance(module, nn.Linear) or is_conv1d(module)


class _Observer(InterceptMode):
    def __init__(self, observed: Observation) -> None:
        super().__init__()
        self.observed = observed
        self.owners: dict[int, nn.Module] = {}
        for module in observed.names:
            for key in ("weight", "in_proj_weight"):
                # A tied weight belongs to the module that multiplies by it, not to the look-up.
                if (parameter := module._parameters.get(key)) is not None and not isinstance(module, nn.Embedding):
                    self.owners[id(parameter)] = module
            if (mean := module._buffers.get("running_mean")) is not None:
                self.owners[id(mean)] = module

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = function(*args, **kwargs)
        if name in PLAIN or name.startswith(("get:", "set:")):
            return out
        values = (*args, *kwargs.values())
        # The module that this call belongs to is known by the weight that it reads with.
        place = 1 if name in ("linear", "batch_norm") else 2 if name == "addmm" else len(values)
        owned = len(values) > place
        reader, data = (self.owners.get(id(values[place])), values[place - 1]) if owned else (None, None)
        if reader is not None:
            self.observed.reads.setdefault(reader, set()).add(_source(data)[0])
        marked = [tensor for tensor in tensors_in(values) if _source(tensor)[0] is not None]
        for tensor in marked:
            alone = len(marked) == 1
            self._follow(tensor, name, reader if tensor is data and alone else None, out, alone=alone)
        return out

    def _follow(self, tensor: Tensor, name: str, reader: nn.Module | None, out: Any, *, alone: bool) -> None:
        """Record the use of a marked tensor: a reader, the output of the call, or another."""
        source, through = _source(tensor)
        assert source is not None
        if reader is not None:
            kind = "batch_norm" if name == "batch_norm" else "linear"
            self.observed.uses[source].append(Use(kind, name, reader, through))
        elif name in _ALIAS and isinstance(out, Tensor) and alone and out.shape[-1:] == tensor.shape[-1:]:
            setattr(out, _MARK, (source, through))
        elif name == "relu" and not through and isinstance(out, Tensor):
            setattr(out, _MARK, (source, "relu"))
        else:
            self.observed.uses[source].append(Use("other", name, None, through))


def _source(value: Any) -> tuple[nn.Module | None, str]:
    """The module whose output this is, None for anything else, and through what it went."""
    mark: tuple[nn.Module | None, str] = getattr(value, _MARK, (None, "")) if isinstance(value, Tensor) else (None, "")
    return mark


def observe(model: nn.Module, run: Callable[[], None]) -> Observation:
    """Follow one forward pass. Hooks are removed again, also after an exception."""
    observed = Observation({module: name for name, module in model.named_modules()})
    handles = list(_hooks(observed))
    try:
        with torch.enable_grad(), _Observer(observed):
            run()
    finally:
        for handle in handles:
            handle.remove()
    return observed


def _hooks(observed: Observation) -> Iterator[Any]:
    def met(module: nn.Module, args: Any) -> None:
        if not observed.calls[module]:
            observed.order.append(module)
        observed.calls[module] += 1

    def mark(module: nn.Module, args: Any, out: Any) -> None:
        if isinstance(out, Tensor):
            observed.uses.setdefault(module, [])
            setattr(out, _MARK, (module, ""))

    for module in observed.names:
        yield module.register_forward_pre_hook(met)
        if is_norm(module) or is_linear(module) or isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            yield module.register_forward_hook(mark)
