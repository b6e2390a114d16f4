"""Whether something that ran left a trace, and running things at the same time."""

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


def snapshot(model: nn.Module) -> dict[str, Any]:
    """Everything about a model, and about torch and transformers, that an explanation might leave changed."""
    modules = dict(model.named_modules())
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    kinds = {type(module) for module in modules.values()} | {
        nn.Module,
        nn.Linear,
        nn.LayerNorm,
        torch.Tensor,
        torch.autograd.Function,
    }
    return {
        "values": {
            name: (t.data_ptr(), t._version, t.detach().clone().numpy().tobytes()) for name, t in tensors.items()
        },
        "gradients": {name: t.grad for name, t in tensors.items()},
        "requires_grad": {name: t.requires_grad for name, t in tensors.items()},
        "attributes of tensors": {name: sorted(vars(t)) for name, t in tensors.items()},
        "training": {name: m.training for name, m in modules.items()},
        "hooks": {
            (name, key): list(v)
            for name, m in modules.items()
            for key, v in vars(m).items()
            if "hook" in key and v is not None
        },
        "attributes of modules": {
            name: {key: id(v) for key, v in vars(m).items() if key != "training"} for name, m in modules.items()
        },
        "classes": {kind: {key: id(value) for key, value in vars(kind).items()} for kind in kinds},
        "attention functions": {key: ALL_ATTENTION_FUNCTIONS[key] for key in ALL_ATTENTION_FUNCTIONS},
        "torch functions": {
            key: id(value) for space in (torch, nn.functional) for key, value in vars(space).items() if callable(value)
        },
        "modes": torch._C._len_torch_function_stack(),
        "gradients on": torch.is_grad_enabled(),
    }


def assert_no_trace(model: nn.Module, act: Callable[[], object]) -> None:
    before = snapshot(model)
    act()
    after = snapshot(model)
    for key, value in before.items():
        assert after[key] == value, f"{key} changed"


def in_threads(jobs: list[Callable[[], Any]], times: int = 4) -> list[list[Any]]:
    """Runs jobs at the same time, several times each; returns what each of them gave, and raises what any of them
    raised.
    """
    results: list[list[Any]] = [[] for _ in jobs]
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(jobs))

    def run(number: int) -> None:
        try:
            for _ in range(times):
                barrier.wait()
                results[number].append(jobs[number]())
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results
