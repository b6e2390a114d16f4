"""The blocks of a model: its outermost modules inside whose call there is one attention site, and values zeroed there.

A block takes the stream of positions (1, T, D) and hands it on in the same shape. Hooks note its calls while a forward
pass runs; they are gone with the `with` block.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

from torch import Tensor, nn

from looprop.intercept.mode import InterceptMode


def attends(name: str, out: Any) -> bool:
    """Whether a call is attention, or the softmax of one that is written out."""
    return name == "scaled_dot_product_attention" or (name == "softmax" and isinstance(out, Tensor) and out.dim() == 4)


class CountingSites(InterceptMode):
    """Counts attention sites. It answers nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.met = 0

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        out = function(*args, **kwargs)
        self.met += attends(name, out)
        return out


class ZeroedValues(InterceptMode):
    """At every attention site, variant b of the batch reads nothing from some positions: kept (B, T) is 0 there. A
    weight of zero is a value of zero.
    """

    def __init__(self, kept: Tensor) -> None:
        super().__init__()
        self.kept = kept

    def answer(self, name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "scaled_dot_product_attention":
            given = {**dict(zip(("query", "key", "value"), args, strict=False)), **kwargs}
            given["value"] = given["value"] * self.kept[:, None, :, None]
            return function(*(given.pop(key) for key in ("query", "key", "value")), *args[3:], **given)
        out = function(*args, **kwargs)
        return out * self.kept[:, None, None, :] if attends(name, out) else out


@dataclass(frozen=True, eq=False)
class BlockCall:
    """A block's call. stream: where the stream stands among the arguments, a position or a name."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    stream: int | str
    output: Tensor
    began: int

    def run(self, variants: int) -> Tensor:
        """What the block gives for several copies of the stream it was given: (variants, T, D)."""
        args: list[Any] = [None if _keeps(v) else v for v in self.args]
        kwargs: dict[str, Any] = {k: None if _keeps(v) else v for k, v in self.kwargs.items()}
        place: Any = args if isinstance(self.stream, int) else kwargs
        place[self.stream] = place[self.stream].expand(variants, -1, -1)
        out: Tensor = stream_of(self.module(*args, **kwargs))
        return out


def _keeps(value: Any) -> bool:
    """Whether an argument takes in keys and values of a pass, for a next one: a second run would add its own."""
    return hasattr(value, "get_seq_length") and hasattr(value, "update")


def stream_of(output: Any) -> Any:
    """The first of what a block gives."""
    return output[0] if isinstance(output, (tuple, list)) else output


@contextmanager
def blocks_of(model: nn.Module) -> Iterator[list[BlockCall]]:
    """The blocks that a forward pass inside this `with` block runs, in their order; there when it has ended."""
    found: list[BlockCall] = []
    open_calls: list[int] = []
    thread, sites = get_ident(), CountingSites()

    def before(module: nn.Module, args: Any, kwargs: Any) -> None:
        if get_ident() == thread:
            open_calls.append(sites.met)

    def after(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if get_ident() != thread:
            return
        began, out = open_calls.pop(), stream_of(output)
        places: Iterator[tuple[Any, Any]] = iter([*enumerate(args), *kwargs.items()])
        # Where the first tensor (1, T, D) stands.
        stream = next((i for i, v in places if isinstance(v, Tensor) and v.dim() == 3 and v.is_floating_point()), None)
        if sites.met - began != 1 or stream is None or not isinstance(out, Tensor):
            return
        given = args[stream] if isinstance(stream, int) else kwargs[stream]
        if given.shape == out.shape:
            while found and found[-1].began >= began:  # a part of this block
                found.pop()
            found.append(BlockCall(module, args, kwargs, stream, out, began))

    # Hooks of looprop itself, which make no other model of it.
    before.of_looprop = after.of_looprop = True  # type: ignore[attr-defined]
    hooks = []
    for module in model.modules():
        hooks.append(module.register_forward_pre_hook(before, with_kwargs=True))
        hooks.append(module.register_forward_hook(after, with_kwargs=True))
    try:
        with sites:
            yield found
    finally:
        for hook in hooks:
            hook.remove()
