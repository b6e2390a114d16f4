"""Small things that the audit's tests share: a rewrite tried on a bare module, and what a model looks like from
outside.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

import looprop
import zoo
from looprop.auditing import Model, Places, Rewrite
from looprop.auditing.rewrites.base import make_rewrites, undone
from looprop.auditing.rewrites.observing import observe
from tiny import wordpiece

TEXTS = ["the film is not good", "a very bad movie"]


def bench(family: str, dtype: torch.dtype = torch.float32) -> tuple[looprop.Workbench, list[Any]]:
    """A tiny model of a family with inputs for it."""
    model = zoo.build(family, dtype=dtype)
    if family == "vit":
        return looprop.load((model, None)), [
            torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(i)) for i in range(2)
        ]
    return looprop.load((model, wordpiece())), list(TEXTS)


@contextmanager
def rewritten(module: nn.Module, x: Tensor, rewrite: str | Rewrite, sites: int | None = 0) -> Iterator[Places]:
    """A module of tensors under one rewrite."""

    def run() -> None:
        module(x)

    (made,) = make_rewrites([rewrite])
    with undone() as changes:
        yield made.apply(Model(module, run, observe(module, run), sites), changes)


def outside(model: nn.Module) -> dict[str, Any]:
    """Everything by which a change that was not undone would show: objects, bytes, forward functions, hooks, modes."""
    seen: dict[str, Any] = {}
    for name, module in model.named_modules():
        seen[f"{name}()"] = module.__dict__.get("forward")
        seen[f"{name} hooks"] = (len(module._forward_hooks), len(module._forward_pre_hooks))
        seen[f"{name} training"] = module.training
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        seen[name] = (id(tensor), tensor.dtype, tensor.requires_grad, tensor.detach().numpy().tobytes())
    seen["implementation"] = getattr(getattr(model, "config", None), "_attn_implementation", None)
    return seen
