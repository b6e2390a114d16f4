"""Changes of numbers: optimizers, and every way to write into a weight."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, prune, vector_to_parameters

from attacks.changes.registry import change, changes
from attacks.changes.worlds import Dice, World

SIZE = 0.3


def weight(module: nn.Module, dice: Dice) -> nn.Parameter:
    """Some weight; matrices that every input meets more often than others."""
    named = list(module.named_parameters())
    wide = [p for name, p in named if p.dim() == 2 and not any(part in name for part in ("embed", ".wte", ".wpe"))]
    pool = wide if wide and dice.random() < 0.7 else [p for _, p in named]
    return pool[int(dice.integers(len(pool)))]


def owner_of(module: nn.Module, dice: Dice) -> tuple[nn.Module, str]:
    """Some weight by the module that holds it and its name there."""
    pairs = [(m, name) for m in module.modules() for name, _ in m.named_parameters(recurse=False)]
    return pairs[int(dice.integers(len(pairs)))]


def noise(like: Tensor) -> Tensor:
    """Random numbers of that shape."""
    return torch.randn_like(like) * SIZE


def _trained(make: Callable[[list[nn.Parameter]], Any]) -> Callable[[World, Any, Dice], None]:
    def train(world: World, module: Any, dice: Dice) -> None:
        optimizer = make([p for p in module.parameters() if p.requires_grad])
        for _ in range(int(dice.integers(1, 4))):
            output = module(input_ids=torch.tensor([dice.integers(5, 50, 6).tolist()]))
            logits = getattr(output, "logits", output).flatten(0, -2)
            optimizer.zero_grad()
            nn.functional.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long)).backward()
            optimizer.step()
        if dice.random() < 0.5:
            optimizer.zero_grad()

    return train


def _bytes(p: Tensor, _: Dice) -> None:
    raw = torch.from_numpy(np.frombuffer(p.detach().contiguous().numpy().tobytes(), dtype=np.uint8).copy())
    raw.view(p.dtype).mul_(1.5)
    if p.untyped_storage().nbytes() == len(raw):
        p.data.untyped_storage().copy_(raw.untyped_storage())
    else:
        p.data.mul_(1.5)


def _one(write: Callable[[Tensor, Tensor], Any]) -> Callable[[Tensor, Dice], None]:
    def element(p: Tensor, dice: Dice) -> None:
        at = tuple(int(dice.integers(n)) for n in p.shape)
        write(p, torch.tensor(at))

    return element


def _written(by: Callable[[Tensor, Dice], Any]) -> Callable[[World, Any, Dice], None]:
    def write(world: World, module: Any, dice: Dice) -> None:
        p = weight(module, dice)
        with torch.no_grad():
            by(p, dice)

    return write


def _set_numpy(p: Tensor, at: Tensor) -> None:
    p.detach().numpy()[tuple(at)] += 2.0


changes(
    {
        "SGD": _trained(lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9)),
        "Adam": _trained(lambda p: torch.optim.Adam(p, lr=0.05)),
        "AdamW fused": _trained(lambda p: torch.optim.AdamW(p, lr=0.05, fused=True)),
        "AdamW foreach": _trained(lambda p: torch.optim.AdamW(p, lr=0.05, foreach=True)),
        "SGD foreach": _trained(lambda p: torch.optim.SGD(p, lr=0.5, foreach=True)),
        "Adagrad": _trained(lambda p: torch.optim.Adagrad(p, lr=0.1)),
        "data add_": _written(lambda p, _: p.data.add_(noise(p.data))),
        "data copy_": _written(lambda p, _: p.data.copy_(noise(p.data))),
        "data = ": _written(lambda p, _: setattr(p, "data", p.data + noise(p.data))),
        "data slice": _written(lambda p, _: p.data[-1:].mul_(-1.5)),
        "detach add_": _written(lambda p, _: p.detach().add_(noise(p.data))),
        "numpy": _written(lambda p, _: p.detach().numpy().__imul__(-1.25)),
        "dlpack": _written(lambda p, _: torch.from_dlpack(p.detach()).mul_(1.5)),
        "in place": _written(lambda p, _: p.add_(noise(p))),
        "foreach": _written(lambda p, _: torch._foreach_mul_([p.data], 1.5)),
        "init": _written(lambda p, _: nn.init.normal_(p, std=SIZE)),
        "set_": _written(lambda p, _: p.data.set_((p.data * 1.5).contiguous())),
        "storage": _written(_bytes),
        "one element": _written(_one(lambda p, at: p.__setitem__(tuple(at), p[tuple(at)] + 2.0))),
        "one element of data": _written(_one(lambda p, at: p.data.__setitem__(tuple(at), p[tuple(at)] + 2.0))),
        "one element by numpy": _written(_one(_set_numpy)),
        "written back": _written(lambda p, _: p.data.mul_(2.0).div_(2.0)),
        "two rows swapped": _written(lambda p, _: p.data.copy_(p.data.flip(0).clone())),
        "sign": _written(lambda p, _: p.data.neg_()),
    }
)


@change
def numpy_view_made_first(world: World, module: Any, dice: Dice) -> None:
    """Write through an array that was taken at its first use."""
    views = world.shelf.setdefault("views", [p.detach().numpy() for p in world.module("main").parameters()])
    views[int(dice.integers(len(views)))].__imul__(-1.5)


@change
def load_state_dict(world: World, module: Any, dice: Dice) -> None:
    """Other weights of the same shapes."""
    state = {k: v + noise(v) if v.is_floating_point() else v for k, v in module.state_dict().items()}
    module.load_state_dict(state, assign=bool(dice.integers(2)))


@change
def back_and_forth(world: World, module: Any, dice: Dice) -> None:
    """Keep the weights at the first time, go back to them at the next."""
    kept = world.shelf.pop("state", None)
    if kept is None:
        world.shelf["state"] = copy.deepcopy(module.state_dict())
        module.load_state_dict({k: v * 1.25 if v.is_floating_point() else v for k, v in module.state_dict().items()})
    else:
        module.load_state_dict(kept)


@change
def new_parameter(world: World, module: Any, dice: Dice) -> None:
    """A new nn.Parameter in the place of another."""
    holder, name = owner_of(module, dice)
    old = getattr(holder, name)
    setattr(holder, name, nn.Parameter(old.detach() + noise(old)))


@change
def swap_tensors(world: World, module: Any, dice: Dice) -> None:
    """Two tensors exchange all that they are."""
    p = weight(module, dice)
    torch.utils.swap_tensors(p, nn.Parameter(p.detach() + noise(p)))


@change
def vector(world: World, module: Any, dice: Dice) -> None:
    """All weights from one vector."""
    vector_to_parameters(parameters_to_vector(module.parameters()).detach() * 1.1, module.parameters())


@change
def buffer(world: World, module: Any, dice: Dice) -> None:
    """Write into every buffer of floating point."""
    for b in module.buffers():
        if b.is_floating_point():
            b.mul_(1.5) if dice.integers(2) else b.data.numpy().__imul__(1.5)


@change
def tied(world: World, module: Any, dice: Dice) -> None:
    """Two matrices of one shape become one."""
    for first in module.modules():
        for second in module.modules():
            one, two = getattr(first, "weight", None), getattr(second, "weight", None)
            plain = all("weight" in m._parameters for m in (first, second))
            if first is not second and plain and one is not two and one.shape == two.shape and one.dim() == 2:
                second.weight = first.weight
                return


def linears(module: nn.Module) -> list[nn.Linear]:
    """All linear layers whose weight is a plain parameter."""
    return [m for m in module.modules() if isinstance(m, nn.Linear) and "weight" in m._parameters]


@change
def pruned(world: World, module: Any, dice: Dice) -> None:
    """Prune a layer, or make its pruning final."""
    for m in module.modules():
        if prune.is_pruned(m) and "weight_orig" in m._parameters and dice.integers(2):
            m.weight_mask.zero_() if dice.integers(2) else prune.remove(m, "weight")
            return
    layers = linears(module)
    prune.random_unstructured(layers[int(dice.integers(len(layers)))], "weight", 0.5)


class Times(nn.Module):
    """A parametrization by a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        """x by it."""
        return x * self.factor


@change
def parametrized(world: World, module: Any, dice: Dice) -> None:
    """Parametrize a layer; where one is already, change the parametrization or remove it."""
    from torch.nn.utils import parametrizations, parametrize

    for m in module.modules():
        if isinstance(m, nn.Linear) and parametrize.is_parametrized(m, "weight"):
            kind = m.parametrizations.weight[0]
            if isinstance(kind, Times) and dice.integers(2):
                kind.factor *= -2.0
            else:
                parametrize.remove_parametrizations(m, "weight", leave_parametrized=bool(dice.integers(2)))
            return
    layers = linears(module)
    chosen = layers[int(dice.integers(len(layers)))]
    if dice.integers(2):
        parametrize.register_parametrization(chosen, "weight", Times(1.5))
    else:
        parametrizations.weight_norm(chosen)
        chosen.parametrizations.weight.original0.data.mul_(1.5)
