"""The parts of torch and transformers that are not public and that looprop leans on all the same. Each message says
where to look.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint

ENGINE = "look at src/looprop/propagation"


def test_saved_tensors_hooks_can_be_forbidden() -> None:
    """Gradient checkpointing runs a model again in the backward pass, where the mode is off: it must raise, with our
    own message.
    """
    x = torch.ones(2, requires_grad=True)
    said = ""
    try:
        with torch.autograd.graph.disable_saved_tensors_hooks("our message"):
            checkpoint(torch.sin, x, use_reentrant=False)
    except RuntimeError as error:
        said = str(error)
    assert said == "our message", f"forbidden hooks say {said!r} now: {ENGINE}/tape.py tells checkpointing by it"
    assert checkpoint(torch.sin, x, use_reentrant=False).requires_grad, (
        f"forbidding hooks outlives its block: {ENGINE}/tape.py"
    )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_module_knows_that_it_was_compiled() -> None:
    plain, compiled = nn.Linear(2, 2), nn.Linear(2, 2)
    compiled.compile(backend="eager")
    assert plain._compiled_call_impl is None, (
        f"a module that is not compiled looks compiled: {ENGINE}/tape.py, refuse_opaque"
    )
    assert compiled._compiled_call_impl is not None, (
        f"Module.compile leaves no trace any more: {ENGINE}/tape.py, refuse_opaque"
    )
    assert type(torch.compile(nn.Linear(2, 2), backend="eager")).__name__ == "OptimizedModule", (
        f"{ENGINE}/tape.py, refuse_opaque"
    )


def test_a_change_in_place_counts_up_the_version() -> None:
    x = torch.ones(3)
    before = x._version
    view = x[:2]
    assert x._version == view._version == before, f"a view has a version of its own: {ENGINE}/trace.py"
    view.add_(1)
    assert x._version == view._version == before + 1, (
        f"a change in place through a view goes unnoticed: {ENGINE}/trace.py"
    )
    x.detach().mul_(2)
    assert x._version == before + 2, f"a change in place through detach() goes unnoticed: {ENGINE}/trace.py"


def test_the_end_of_a_graph_names_its_leaf() -> None:
    x = torch.ones(3, requires_grad=True)
    x.mark_of_ours = "here"  # type: ignore[attr-defined]
    node: Any = (x * 2).grad_fn
    (end, _), *_ = node.next_functions
    assert end.variable is x, f"AccumulateGrad.variable is not the leaf itself: {ENGINE}/mode.py, reaches"
    assert end.variable.mark_of_ours == "here", (
        f"what was noted on a leaf is lost at the end of its graph: {ENGINE}/mode.py, reaches"
    )
    assert not hasattr(node, "variable"), f"inner nodes have a variable, too: {ENGINE}/mode.py, reaches"


def test_a_backward_pass_can_be_told_from_a_forward_pass() -> None:
    found: list[int] = []
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda gradient: found.append(torch._C._current_graph_task_id()))
    assert torch._C._current_graph_task_id() == -1, (
        f"outside a backward pass there is a graph task: {ENGINE}/mode.py, _cut"
    )
    x.sum().backward()
    assert len(found) == 1
    assert found[0] != -1, f"inside a backward pass there is no graph task: {ENGINE}/mode.py, _cut"


def test_a_storage_can_be_known_without_being_kept() -> None:
    from torch.multiprocessing.reductions import StorageWeakRef

    x = torch.ones(3)
    reference = StorageWeakRef(x.untyped_storage())  # type: ignore[no-untyped-call]
    assert not reference.expired(), f"a storage that lives counts as gone: {ENGINE}/cuts.py"  # type: ignore[no-untyped-call]
    del x
    assert reference.expired(), f"a weak reference keeps a storage alive: {ENGINE}/cuts.py"  # type: ignore[no-untyped-call]


class Seen(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.functions: list[Any] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.functions.append(function)
        return function(*args, **(kwargs or {}))


def test_modes_can_be_turned_off_for_a_moment() -> None:
    x = torch.ones(2)
    with Seen() as mode:
        with torch._C.DisableTorchFunction():
            F.relu(x)
        F.silu(x)
    assert mode.functions == [F.silu], f"DisableTorchFunction does not hide calls from a mode: {ENGINE}/tape.py"


def test_a_layer_of_a_cache_can_be_filled_by_hand() -> None:
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    where = "look at src/looprop/removal/prefix.py"
    keys = torch.randn(1, 2, 3, 4)
    layer = DynamicLayer()
    layer.lazy_initialization(keys, keys)
    layer.keys = layer.values = keys
    cache = DynamicCache()
    cache.layers.append(layer)
    assert cache.get_seq_length() == 3, f"a layer that was filled by hand has no length: {where}"
    assert cache.layers[0].keys is keys, f"layers of a cache are not kept as they are: {where}"


def test_a_leaf_keeps_what_is_noted_on_it() -> None:
    """Notes are attributes of tensors; those of a tensor that is only alive in the graph must live as long as the
    graph.
    """

    def made() -> Tensor:
        leaf = torch.ones(2, requires_grad=True)
        leaf.mark_of_ours = "kept"  # type: ignore[attr-defined]
        return leaf * 2

    node: Any = made().grad_fn
    assert getattr(node.next_functions[0][0].variable, "mark_of_ours", "") == "kept", (
        f"notes on tensors are lost: {ENGINE}/trace.py"
    )


def test_registered_operations_can_be_listed() -> None:
    names = torch._C._dispatch_get_all_op_names()
    assert "aten::add.Tensor" in names, f"the names of operations look different: {ENGINE}/known_operations.py"
