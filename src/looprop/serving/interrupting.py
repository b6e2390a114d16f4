"""A model that asks before each of its layers whether anybody still waits for its answer."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from looprop.propagation.tape import unseen
from looprop.workbench import Workbench


def interruptible(bench: Workbench, check: Callable[[int], None]) -> Workbench:
    """The same workbench: its model calls `check`, which may raise, before it runs, with the size of the batch, and
    before each of its layers. So also what is generated, and a batch that takes long, can be stopped.
    """

    def asking(*_: Any) -> None:
        check(0)

    def beginning(_: nn.Module, given: tuple[Any, ...], named: dict[str, Any]) -> None:
        with unseen():  # no mode takes this for something that the model does with its input
            tensors = [value for value in (*given, *named.values()) if isinstance(value, Tensor) and value.dim()]
            rows = len(tensors[0]) if tensors else 1
        check(rows)

    bench.model.register_forward_pre_hook(beginning, with_kwargs=True)
    for layer in {layer for part in bench.model.modules() if isinstance(part, nn.ModuleList) for layer in part}:
        layer.register_forward_pre_hook(asking)
    return bench
