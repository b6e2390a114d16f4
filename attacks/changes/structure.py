"""Changes of the modules themselves: heads, layers, adapters, wrappers, copies, forwards, attributes, hooks."""

import copy
import types
from typing import Any

import torch
from torch import Tensor, nn

from attacks.changes.registry import change
from attacks.changes.weights import linears, noise
from attacks.changes.worlds import LABELS, Dice, Gain, World, Wrapped

HEADS = ("classifier", "score", "lm_head")


def inner(module: Any) -> Any:
    """The model inside wrappers."""
    while isinstance(module, Wrapped):
        module = module.inner
    return module


def _place(root: nn.Module, wanted: nn.Module) -> tuple[nn.Module, str]:
    return next((m, name) for m in root.modules() for name, child in m.named_children() if child is wanted)


def _head(module: Any) -> tuple[Any, str]:
    model = inner(module)
    return model, next(name for name in HEADS if hasattr(model, name))


def copied(module: Any) -> Any:
    """A copy. Weights of pruned layers can be copied only once a pass without gradients has made them, or so."""
    for part in module.modules():
        vars(part).update({name: own.detach() for name, own in vars(part).items() if isinstance(own, Tensor)})
    return copy.deepcopy(module)


@change
def other_head(world: World, module: Any, dice: Dice) -> None:
    """A head with another number of classes, with or without its labels."""
    model, name = _head(module)
    old = getattr(model, name)
    if world.kind == "next" or not isinstance(old, nn.Linear):
        return
    count = int(dice.integers(2, 6))
    setattr(model, name, nn.Linear(old.in_features, count, bias=old.bias is not None).to(old.weight))
    if dice.integers(2) and hasattr(model, "config"):
        model.config.id2label = dict(enumerate(LABELS[:count]))
        model.config.label2id = {label: i for i, label in enumerate(LABELS[:count])}
    if dice.integers(2):
        model.num_labels = count


@change
def same_head_anew(world: World, module: Any, dice: Dice) -> None:
    """A head of the same shape, or its classes turned round."""
    model, name = _head(module)
    head = copied(getattr(model, name))
    for p in head.parameters():
        p.data = p.data.flip(0).contiguous() if dice.integers(2) else p.data + noise(p.data)
    setattr(model, name, head)


def _lists(module: Any) -> list[nn.ModuleList]:
    return [m for m in module.modules() if isinstance(m, nn.ModuleList) and len(m) > 1]


@change
def layers_swapped(world: World, module: Any, dice: Dice) -> None:
    """Two layers change places."""
    for layers in _lists(module)[:1]:
        layers[0], layers[1] = layers[1], layers[0]


@change
def layer_gone(world: World, module: Any, dice: Dice) -> None:
    """One layer less."""
    for layers in _lists(module)[:1]:
        del layers[-1]


class Adapted(nn.Module):
    """A linear layer with a low-rank adapter by hand, which can be switched off."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.active, self.scale = base, True, 1.0
        self.down = nn.Parameter(torch.randn(2, base.in_features).to(base.weight))
        self.up = nn.Parameter(torch.randn(base.out_features, 2).to(base.weight) * 0.5)

    @property
    def weight(self) -> Tensor:
        """That of the layer underneath."""
        return self.base.weight

    @property
    def bias(self) -> Tensor | None:
        """That of the layer underneath."""
        return self.base.bias

    def forward(self, x: Tensor) -> Tensor:
        """The layer, and the adapter where it is active."""
        out = self.base(x)
        return out + x @ self.down.T @ self.up.T * self.scale if self.active else out


@change
def adapter(world: World, module: Any, dice: Dice) -> None:
    """Add an adapter; where there is one, switch it, scale it or merge it."""
    for m in module.modules():
        if isinstance(m, Adapted):
            what = int(dice.integers(4))
            if what == 0:
                m.active = not m.active
            elif what == 1:
                m.scale *= -2.0
            elif what == 2:
                m.up.data.add_(noise(m.up))
            else:
                m.base.weight.data.add_(m.up.data @ m.down.data * m.scale * m.active)
                holder, name = _place(module, m)
                setattr(holder, name, m.base)
            return
    layers = linears(module)
    chosen = layers[int(dice.integers(len(layers)))]
    holder, name = _place(module, chosen)
    setattr(holder, name, Adapted(chosen))


@change
def deepcopy(world: World, module: Any, dice: Dice) -> None:
    """A copy of the model, with whatever hangs on it; one of the two changes."""
    world.modules["copy"] = copied(module)
    changed = world.modules["copy"] if dice.integers(2) else module
    if dice.integers(2):
        next(iter(reversed(list(changed.parameters())))).data.mul_(-1.5)


@change
def shallow_copy(world: World, module: Any, dice: Dice) -> None:
    """A copy that shares all modules."""
    world.modules["copy"] = copy.copy(module)


@change
def wrapper(world: World, module: Any, dice: Dice) -> None:
    """A module around the model; where there is one, its factor."""
    if isinstance(world.modules.get("wrap"), Wrapped):
        world.modules["wrap"].factor *= -1.5
    else:
        world.modules["wrap"] = Wrapped(inner(module))


@change
def another_model(world: World, module: Any, dice: Dice) -> None:
    """The model goes, and another comes in its place, with other weights."""
    other = copied(module)
    for p in other.parameters():
        p.data.add_(noise(p.data))
    key = next(key for key, m in world.modules.items() if m is module)
    world.modules[key] = other


@change
def forward_replaced(world: World, module: Any, dice: Dice) -> None:
    """An instance's own forward, of a layer or of the whole; or the class's again."""
    layers = linears(module)
    chosen = layers[int(dice.integers(len(layers)))]
    if "forward" in vars(chosen):
        del chosen.forward
    elif dice.integers(2):
        factor = float(dice.uniform(1.5, 3.0))
        by = lambda self, x: nn.functional.linear(x, self.weight, self.bias) * factor  # noqa: E731
        chosen.forward = types.MethodType(by, chosen)
    else:
        box = world.shelf.setdefault("box", {"factor": 1.0})
        box["factor"] *= -1.5
        chosen.forward = lambda x: nn.functional.linear(x, chosen.weight, chosen.bias) * box["factor"]


@change
def class_changed(world: World, module: Any, dice: Dice) -> None:
    """A layer becomes one of a class of its own with another forward."""
    kind = world.shelf.get("class")
    if kind is None:
        layers = [m for m in linears(module) if type(m) is nn.Linear]
        chosen = layers[int(dice.integers(len(layers)))]
        kind = world.shelf["class"] = type("Linear", (nn.Linear,), {"factor": 1.5})
        chosen.__class__ = kind
        kind.forward = lambda self, x: nn.functional.linear(x, self.weight, self.bias) * self.factor
    elif dice.integers(2):
        kind.factor = kind.factor * -1.5
    else:
        kind.forward = lambda self, x: nn.functional.linear(x, self.weight * -2.0, self.bias)


@change
def attribute_changed(world: World, module: Any, dice: Dice) -> None:
    """A number, list, array, dictionary or plain tensor that forward reads; else the eps of a norm."""
    gains = [m for m in module.modules() if isinstance(m, Gain)]
    norms = [m for m in module.modules() if hasattr(m, "eps") or hasattr(m, "variance_epsilon")]
    if gains:
        g = gains[0]
        [
            lambda: setattr(g, "scale", g.scale * -2.0),
            lambda: g.gains.__setitem__(0, -1.5),
            lambda: g.table.update(gain=-0.5),
            lambda: g.array.__imul__(-1.5),
            lambda: setattr(g, "array", g.array * 2.0),
            lambda: g.plain.mul_(-1.5),
            lambda: g.plain.numpy().__imul__(2.0),
            lambda: setattr(g, "plain", g.plain * -2.0),
        ][int(dice.integers(8))]()
    elif norms:
        chosen = norms[int(dice.integers(len(norms)))]
        setattr(chosen, "eps" if hasattr(chosen, "eps") else "variance_epsilon", float(dice.choice([0.5, 2.0])))


@change
def scale_of_attention(world: World, module: Any, dice: Dice) -> None:
    """How attention scores are scaled."""
    for m in module.modules():
        if isinstance(getattr(m, "scaling", None), float):
            m.scaling = m.scaling * 3.0
            return


@change
def activation(world: World, module: Any, dice: Dice) -> None:
    """Another activation function in a layer that keeps it as an attribute."""
    for m in module.modules():
        for name in ("intermediate_act_fn", "activation", "act", "act_fn", "ffn_activation"):
            if callable(getattr(m, name, None)):
                setattr(m, name, nn.Tanh() if isinstance(getattr(m, name), nn.Module) else torch.tanh)
                return


def _changed_output(factor: float) -> Any:
    def hook(module: nn.Module, args: Any, output: Any) -> Any:
        return output * factor if isinstance(output, Tensor) else None

    return hook


@change
def hook(world: World, module: Any, dice: Dice) -> None:
    """A hook on some layer that scales what goes in or out; it stays until it is removed."""
    layers = [m for m in module.modules() if isinstance(m, nn.Linear | nn.LayerNorm | nn.Embedding | nn.Dropout)]
    chosen, factor = layers[int(dice.integers(len(layers)))], float(dice.uniform(1.5, 3.0))
    handles, what = world.shelf.setdefault("handles", []), int(dice.integers(4))
    if what == 0:
        by = lambda m, args: (args[0] * factor if args[0].is_floating_point() else args[0],)  # noqa: E731
        handles.append(chosen.register_forward_pre_hook(by))
    elif what == 1:
        back = lambda m, grads, _: tuple(g if g is None else g * factor for g in grads)  # noqa: E731
        handles.append(chosen.register_full_backward_hook(back))
    else:
        handles.append(chosen.register_forward_hook(_changed_output(factor)))


@change
def hook_with_a_box(world: World, module: Any, dice: Dice) -> None:
    """A hook on the whole that scales by what a dictionary holds; where there is one, what it holds."""
    if "scaled" in world.shelf:
        world.shelf["scaled"]["by"] *= -2.0
        return
    box = world.shelf["scaled"] = {"by": 1.5}
    layers = linears(module)
    layers[int(dice.integers(len(layers)))].register_forward_hook(lambda m, a, out: out * box["by"])


@change
def hook_removed(world: World, module: Any, dice: Dice) -> None:
    """The last hook goes."""
    if world.shelf.get("handles"):
        world.shelf["handles"].pop().remove()


@change
def global_hook(world: World, module: Any, dice: Dice) -> None:
    """A hook on all linear layers of the process, taken back at the end."""
    if "global" not in world.shelf:
        by = _changed_output(1.25)
        world.shelf["global"] = nn.modules.module.register_module_forward_hook(
            lambda m, args, output: by(m, args, output) if isinstance(m, nn.Linear) else None
        )
        world.undo.append(world.shelf["global"].remove)
