"""The state of a model as one number: what was found out about a model holds for one version of it.

A version holds, of every module, which object it is, its class with the forward function, its hooks and its plain
attributes (numbers, texts, small collections, fields of a configuration); of every parameter and buffer where it lies
in memory, how often torch saw it written, and a few of its values; the hooks of all modules; and how the tokenizer
cuts texts. Writes that torch does not count (through `.data`, numpy, fused optimizers) show in these values. A write
that torch does not count and that changes none of them is not seen: `Workbench.refresh` is for that.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from looprop.propagation.modules import modules_of

if TYPE_CHECKING:
    from looprop.models.adapter import Adapter

# So many values of every tensor are looked at, spread over it.
SAMPLES = 16
# Of larger collections only the length counts; fields of fields are looked at to this depth.
LONGEST, DEEPEST = 256, 3

Place = tuple[int, str]
"""A module, by its id, and the name of one of its attributes or buffers."""


class Version(NamedTuple):
    """weights: of modules, hooks, parameters and what else was given. fields: of attributes and buffers."""

    weights: int
    fields: int


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# Hooks of all modules at once (`torch.nn.modules.module.register_module_forward_hook` and the like).
_EVERYWHERE = [
    hooks
    for name, hooks in vars(nn.modules.module).items()
    if name.startswith("_global_") and name.endswith("_hooks") and isinstance(hooks, dict)
]
# What every module has: its parameters, buffers and hooks, which are counted by themselves, and its mode.
_FIRST = tuple(vars(nn.Module()))
_STANDARD = frozenset(_FIRST)
_PLAIN = frozenset((bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device))

_samples: "WeakKeyDictionary[nn.Module, tuple[tuple[int, ...], list[list[list[Tensor]]]]]" = WeakKeyDictionary()


def version_of(adapter: "Adapter") -> Version:
    """The state of a model with its labels and the tokens of its tokenizer that removal uses."""
    model, without = adapter.model, adapter.ledger.written
    tokenizer = getattr(adapter, "tokenizer", None)
    labels = str(getattr(getattr(model, "config", None), "id2label", None))
    everywhere = [hook for hooks in _EVERYWHERE if hooks for hook in _hooks(hooks)]
    others = (id(tokenizer), *state_of(tokenizer), labels, adapter.ledger.refreshed, *everywhere)
    tensors: list[Tensor] = []
    inner: list[Tensor] = []
    seen: dict[int, Hashable] = {}
    marks: list[Hashable] = []
    fields: list[Hashable] = []
    modules = [model]
    for module in modules:
        modules += [child for child in module._modules.values() if child is not None]
        marks.append((id(module), type(module), getattr(type(module), "forward", None)))
        tensors += [tensor for tensor in module._parameters.values() if tensor is not None]
        for name, value in module._buffers.items():
            if value is not None and (id(module), name) not in without:
                inner.append(value)
        own = vars(module)
        marks += [(kind, hook) for kind in _HOOKS if own.get(kind) for hook in _hooks(own[kind])]
        for name, value in _attributes(own):
            if not without or (id(module), name) not in without:
                fields.append(value if type(value) in _PLAIN else _mark(value, inner, seen))
    memory, memory_inside = _memory(tensors), _memory(inner)
    sampled = _values(model, tensors + inner, len(tensors), memory + memory_inside)
    # The hash of -1 is that of -2: counted apart.
    return Version(
        hash((tuple(marks), memory, sampled[0], others)),
        hash((tuple(fields), fields.count(-1), memory_inside, sampled[1])),
    )


def state_of(tokenizer: Any) -> tuple[Hashable, ...]:
    """How a tokenizer would cut a text and a prompt now: the size of its vocabulary, its special tokens, chat template
    and steps.
    """
    steps = getattr(tokenizer, "backend_tokenizer", None)
    return (
        len(tokenizer) if hasattr(tokenizer, "__len__") else 0,
        *(getattr(tokenizer, name, None) for name in ("mask_token_id", "pad_token_id")),
        str(getattr(tokenizer, "chat_template", None)),
        *(str(getattr(steps, name, None)) for name in ("normalizer", "pre_tokenizer", "post_processor")),
    )


def _attributes(own: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The attributes of a module beside those that every module has, which stand first as a rule."""
    count = len(_FIRST)
    if tuple(islice(own, count)) == _FIRST:
        return islice(own.items(), count, None)
    return [(name, value) for name, value in own.items() if name not in _STANDARD]


def states(model: nn.Module) -> dict[Place, Hashable]:
    """The marks of all attributes and buffers, which a forward pass may write."""
    found: dict[Place, Hashable] = {}
    for module in modules_of(model):
        for name, value in (*_attributes(vars(module)), *module._buffers.items()):
            tensors: list[Tensor] = []
            found[id(module), name] = (repr(_mark(value, tensors, {})), _memory(tensors))
    return found


def _hooks(hooks: Mapping[int, Any]) -> tuple[int, ...]:
    return tuple(id(hook) for hook in tuple(hooks.values()) if not getattr(hook, "of_looprop", False))


def _mark(value: Any, tensors: list[Tensor], seen: dict[int, Hashable], depth: int = 0) -> Hashable:
    """A value as something that can be compared; tensors are handed on to `tensors`."""
    if type(value) in _PLAIN:
        return repr(value)
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, Tensor):
        tensors.append(value)
        return id(value)
    found: Hashable = id(value)
    seen[id(value)] = found  # also where it holds itself
    if isinstance(value, nn.Module):  # one that is no part of the model by name
        tensors += value.parameters()
        return found
    if isinstance(value, dict):
        found = (len(value), _marks([*value.keys(), *value.values()], tensors, seen, depth))
    elif isinstance(value, list | tuple):
        found = (len(value), _marks(value, tensors, seen, depth))
    elif isinstance(value, set | frozenset):
        found = (len(value), *sorted(_marks(value, tensors, seen, depth), key=repr))
    elif isinstance(fields := getattr(value, "__dict__", None), dict) and not callable(value):
        found = (id(value), _marks([*fields.keys(), *fields.values()], tensors, seen, depth))
    seen[id(value)] = found
    return found


def _marks(
    items: Collection[Any], tensors: list[Tensor], seen: dict[int, Hashable], depth: int
) -> tuple[Hashable, ...]:
    if depth >= DEEPEST or len(items) > LONGEST:
        return ()
    return tuple(_mark(item, tensors, seen, depth + 1) for item in items)


def _memory(tensors: list[Tensor]) -> tuple[tuple[int, int, int], ...]:
    """Which tensors they are, where they lie, and how often torch saw them written."""
    return tuple((id(t), _address(t), 0 if t.is_inference() else t._version) for t in tensors)


def _values(
    model: nn.Module, tensors: list[Tensor], first: int, memory: tuple[tuple[int, int, int], ...]
) -> list[tuple[bytes, ...]]:
    """A few values of the first tensors, and of the others, read by one call for each dtype and device."""
    places = zip(tensors, memory, strict=True)
    key = (first, *(number for tensor, place in places for number in (*place[:2], tensor.numel())))
    known = _samples.get(model)
    if known is None or known[0] != key:
        known = (key, [_views(tensors[:first]), _views(tensors[first:])])
        _samples[model] = known
    with torch.no_grad():
        return [
            tuple(torch.cat(views).cpu().view(torch.uint8).numpy().tobytes() for views in groups) for groups in known[1]
        ]


def _views(tensors: list[Tensor]) -> list[list[Tensor]]:
    groups: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        if tensor.numel() and _address(tensor):
            groups.setdefault((tensor.dtype, tensor.device), []).append(_sampled(tensor))
    return list(groups.values())


def _address(tensor: Tensor) -> int:
    """Where a tensor lies in memory; 0 where that means nothing."""
    plain = tensor.layout is torch.strided and not tensor.is_mkldnn and not tensor.is_quantized
    return tensor.data_ptr() if plain else 0


def _sampled(tensor: Tensor) -> Tensor:
    """A view of some values of a tensor, spread over the memory that it takes."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    count = min(SAMPLES, extent)
    step = max(1, (extent - 1) // max(1, count - 1))
    return tensor.detach().as_strided((count,), (step,), tensor.storage_offset())
