"""Ways to hide a dependence from the engine. Each has one right verdict: refused."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from attacks.programs.steps import Affine
from attacks.programs.workshop import Workshop


class _Scaled(torch.autograd.Function):
    """The identity, with a backward pass that is not."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.clone()

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:  # type: ignore[override]
        return 3 * grad


def _without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.tanh(x)


def _inference(x: Tensor) -> Tensor:
    with torch.inference_mode():
        made = torch.tanh(x)
    return made.clone()


def _filled_without_gradient(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    with torch.no_grad():
        out.copy_(x)
    return out


def _data_changed(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    out.data.copy_(x.data)
    return out


def _hooked(x: Tensor) -> Tensor:
    y = x * 1.0
    if y.requires_grad:
        y.register_hook(lambda grad: 2 * grad)
    return y


def own_gradient(x: Tensor) -> Tensor:
    with torch.enable_grad():
        leaf = x if x.requires_grad else x.detach().requires_grad_()
        return torch.autograd.grad((leaf**3).sum(), leaf, create_graph=True)[0]


def _one_by_one(x: Tensor) -> Tensor:
    return torch.tensor([[[float(v) for v in row] for row in sample] for sample in x], dtype=x.dtype)


# Each takes an activation and returns a tensor of its shape that depends on it.
WAYS: dict[str, Callable[[Tensor], Tensor]] = {
    "detach": lambda x: x.detach(),
    "detach_": lambda x: x.clone().detach_(),
    "data": lambda x: x.data * 1.0,
    "no_grad": _without_gradient,
    "inference": _inference,
    "filled under no_grad": _filled_without_gradient,
    "data copied": _data_changed,
    "numpy": lambda x: torch.from_numpy(x.detach().numpy().copy()),
    "tolist": lambda x: torch.tensor(x.tolist(), dtype=x.dtype),
    "float": _one_by_one,
    "item": lambda x: x.new_full(x.shape, x.sum().item()),
    "item of max": lambda x: torch.full_like(x, x.max().item()),
    "view of detached": lambda x: x.detach().reshape(-1).view(x.shape),
    "integers": lambda x: (x * 1000).long().double() / 1000,
    "int of mean": lambda x: torch.ones_like(x) * int(x.mean().item() * 100),
    "round": lambda x: torch.round(x * 8) / 8,
    "floor": lambda x: torch.floor(x * 8) / 8,
    "custom function": lambda x: _Scaled.apply(x),
    "hook": _hooked,
    "checkpoint": lambda x: checkpoint(torch.tanh, x, use_reentrant=False),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "deviation added": lambda x: x + x.std(-1, keepdim=True, correction=0),
    "cumprod": lambda x: torch.cumprod(x, -1),
    "prod": lambda x: x.prod(-1, keepdim=True).expand_as(x),
    "variance": lambda x: x.var(-1, keepdim=True, correction=0).sqrt().expand_as(x) + x,
    "fft": lambda x: torch.fft.fft(x).abs(),
    "batch norm": lambda x: F.batch_norm(torch.cat([x, x * x], 1).mT, None, None, training=True).mT[:, : x.shape[1]],
    "own gradient": own_gradient,
    "atan2": lambda x: torch.atan2(x, x.flip(-1)),
    "distance": lambda x: torch.cdist(x, x) @ x,
}

# Functions with f(0) != 0 have no relevance of their own: they may multiply, as coefficients, and never be added.
COEFFICIENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "cos": torch.cos,
    "logsumexp": lambda x: torch.logsumexp(x, -1, keepdim=True).expand_as(x),
    "power of itself": lambda x: x.abs() ** x,
    "tanh + 1": lambda x: torch.tanh(x) + 1,
    # Of a sum over constants: the softmax of a product of two activations is an attention, whoever wrote it.
    "softmax": lambda x: torch.softmax(x @ torch.eye(x.shape[-1], dtype=x.dtype).flip(0), -1),
}


def evasion(w: Workshop) -> int:
    """One of the ways, added to an activation or in its place."""
    number = w.tensor()
    shape = w.shape_of(number)
    name = w.pick([*WAYS, *COEFFICIENTS])
    way, cut, added = (WAYS | COEFFICIENTS)[name], [1.0], bool(w.dice.integers(2))

    def write(x: Tensor) -> Tensor:
        hidden = way(x)
        hidden = hidden if cut[0] == 1.0 else hidden * cut[0]
        if name in COEFFICIENTS:  # turned round, so that the sum is no function of one tensor
            return x.flip(-1) + hidden
        return x + hidden if added else hidden

    # Its mathematics is never asked for: there is no number to agree with.
    kind = Affine(shape, [np.eye(int(np.prod(shape)))])
    return w.add((number,), kind, shape, f"evasion: {name}", write, must="refuse", cut=cut)
