"""Attention blocks found in a model by the names of their projections.

Libraries pack queries, keys and values in three ways: a layer for each, one layer whose rows are all queries, then all
keys, then all values, or one whose rows are those of the first head, then of the second. A `Projection` says which rows
of which weight are meant, so that rewrites need not know. What is found wrongly fails the proof and is refused.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from looprop.auditing.rewrites.base import Changes, Model, Places, Rewrite
from looprop.auditing.rewrites.observing import is_conv1d, is_linear

_SEPARATE = (
    "query key value, q_proj k_proj v_proj, q_lin k_lin v_lin, query_proj key_proj value_proj, q k v, to_q to_k to_v, "
    "wq wk wv"
)
_PACKED = ("c_attn", "Wqkv", "qkv_proj", "qkv", "in_proj")  # queries of all heads, then keys, then values
_INTERLEAVED = ("query_key_value",)  # queries, keys and values of the first head, then of the second
_OUTPUT = ("out_proj", "o_proj", "out_lin", "dense", "o", "c_proj", "Wo", "to_out", "wo", "proj")
_HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head", "heads")


@dataclass(frozen=True)
class Projection:
    """Rows of a weight (out, in) and of its bias; packed projections share one weight.

    weight, bias: the names of the parameters. index: the rows. transposed: the weight is kept as (in, out).
    columns: the index is one of columns, of the inputs instead of the outputs (output projections).
    """

    module: nn.Module
    weight: str
    bias: str
    index: Tensor
    transposed: bool = False
    columns: bool = False

    @property
    def has_bias(self) -> bool:
        return self.module._parameters.get(self.bias) is not None

    def matrix(self, changes: Changes) -> Tensor:
        """The whole weight as (out, in), to be edited in place at `index`."""
        data = changes.edit(self.module, self.weight)
        return data.T if self.transposed else data

    def vector(self, changes: Changes) -> Tensor:
        """The whole bias, to be edited in place."""
        return changes.edit(self.module, self.bias)


@dataclass(frozen=True)
class AttentionBlock:
    """The four projections of one attention.

    heads: of queries. kv_heads: of keys and values, each read by `groups` heads of queries. size: entries of one head.
    rotary: positions are rotated into queries and keys. normed: queries and keys are normalised.
    """

    name: str
    module: nn.Module
    query: Projection
    key: Projection
    value: Projection
    output: Projection
    heads: int
    kv_heads: int
    size: int
    rotary: bool
    normed: bool

    @property
    def groups(self) -> int:
        return self.heads // self.kv_heads

    def of_head(self, projection: Projection, head: int) -> Tensor:
        """The rows (or columns) of one head."""
        return projection.index[head * self.size : (head + 1) * self.size]


class _NotUnderstood(Exception):
    """Why an attention that was found is not one that rewrites can handle."""


def attention_blocks(model: Model, places: Places) -> list[AttentionBlock]:
    """The blocks of a model; attention that is there and not understood is noted as unsupported."""
    blocks, calls = list(_blocks(model, places)), model.observed.calls
    covered = sum(max(calls[block.module], calls[block.query.module]) for block in blocks)
    if model.sites is None:
        places.leave("attention", "the engine cannot count the attention sites of this model")
    elif covered < model.sites:
        places.leave(
            "attention", f"at {model.sites - covered} of {model.sites} sites the projections are not found by name"
        )
    return blocks


class BlockRewrite(Rewrite):
    """A rewrite of every attention block by itself."""

    def apply(self, model: Model, changes: Changes) -> Places:
        places, generator = Places(), model.generator()
        for block in attention_blocks(model, places):
            if reason := self.obstacle(model, block):
                places.leave(block.name, reason)
            else:
                self.change(block, changes, generator)
                places.changed.append(block.name)
        return places

    def obstacle(self, model: Model, block: AttentionBlock) -> str:
        """Why a block is left as it is; "" if it can be changed."""
        return ""

    @abstractmethod
    def change(self, block: AttentionBlock, changes: Changes, generator: torch.Generator) -> None:
        """Change one block."""


def _blocks(model: Model, places: Places) -> Iterator[AttentionBlock]:
    names = {module: name for name, module in model.module.named_modules()}
    config = getattr(model.module, "config", None)
    says = getattr(config, "rope_parameters", None) or getattr(config, "rope_theta", None)
    rotary = bool(says) or any("rotary" in type(module).__name__.lower() for module in names)
    for module, name in names.items():
        if not model.observed.calls[module]:
            continue
        try:
            if isinstance(module, nn.MultiheadAttention):
                yield _torch_block(module, name)
            elif (block := _named_block(model.module, module, name, rotary)) is not None:
                yield block
        except _NotUnderstood as reason:
            places.leave(name, str(reason))


def _torch_block(module: nn.MultiheadAttention, name: str) -> AttentionBlock:
    if module.in_proj_weight is None or module.bias_k is not None or module.add_zero_attn:
        raise _NotUnderstood("separate widths of keys and values, key biases or an added zero are not supported")
    width, heads = module.embed_dim, module.num_heads
    rows = torch.split(torch.arange(3 * width), width)
    query, key, value = (Projection(module, "in_proj_weight", "in_proj_bias", index) for index in rows)
    output = Projection(module.out_proj, "weight", "bias", torch.arange(width), columns=True)
    return AttentionBlock(name, module, query, key, value, output, heads, heads, width // heads, False, False)


def _named_block(root: nn.Module, module: nn.Module, name: str, rotary: bool) -> AttentionBlock | None:
    """The attention that a module is, by the names of its children; None if it is none."""
    children = dict(module.named_children())
    projections = _projections(children)
    if not projections:
        return None
    heads = _number_of_heads(root, module)
    output = _output(root, children, name)
    width = int(output.weight.shape[0] if is_conv1d(output) else output.weight.shape[1])
    size, rest = divmod(width, heads)
    if rest:
        raise _NotUnderstood(f"{heads} heads do not divide the width {width}")
    owners = projections * 3 if len(projections) == 1 else projections
    query, key, value = (
        Projection(owner, "weight", "bias", index, transposed=is_conv1d(owner))
        for owner, index in zip(owners, _rows(children, projections, heads, size), strict=True)
    )
    if len(query.index) != width or len(key.index) != len(value.index) or len(key.index) % size:
        raise _NotUnderstood(
            f"queries of width {len(query.index)} and keys of width {len(key.index)} do not fit {heads} heads of {size}"
        )
    normed = any("norm" in child.lower() and child.lower()[0] in "qk" for child in children)
    out = Projection(output, "weight", "bias", torch.arange(width), transposed=is_conv1d(output), columns=True)
    return AttentionBlock(name, module, query, key, value, out, heads, len(key.index) // size, size, rotary, normed)


def _projections(children: dict[str, nn.Module]) -> list[nn.Module]:
    """Queries, keys and values, or one layer for all three; nothing if there are none of a known name."""
    for names in map(str.split, _SEPARATE.split(",")):
        if all(name in children and is_linear(children[name]) for name in names):
            return [children[name] for name in names]
    packed = [children[name] for name in (*_PACKED, *_INTERLEAVED) if name in children and is_linear(children[name])]
    return packed[:1]


def _rows(children: dict[str, nn.Module], projections: list[nn.Module], heads: int, size: int) -> list[Tensor]:
    """The rows of queries, of keys and of values in the weights of their projections."""
    if len(projections) == 3:
        return [torch.arange(_outputs(projection)) for projection in projections]
    (packed,) = projections
    total, width = _outputs(packed), heads * size
    misfit = _NotUnderstood(f"a packed projection of {total} rows does not fit {heads} heads of {size}")
    if any(children.get(name) is packed for name in _INTERLEAVED):
        if total != 3 * width:
            raise misfit
        return [part.flatten() for part in torch.arange(total).view(heads, 3, size).unbind(1)]
    shared, rest = divmod(total - width, 2)
    if rest or shared <= 0:
        raise misfit
    return list(torch.split(torch.arange(total), [width, shared, shared]))


def _outputs(linear: nn.Module) -> int:
    return linear.get_parameter("weight").shape[1 if is_conv1d(linear) else 0]


def _number_of_heads(root: nn.Module, module: nn.Module) -> int:
    for holder in (module, getattr(module, "config", None), getattr(root, "config", None)):
        for name in _HEADS:
            value = getattr(holder, name, None)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
    raise _NotUnderstood("the number of heads is not known")


def _output(root: nn.Module, children: dict[str, nn.Module], name: str) -> nn.Linear:
    """The output projection: a child, or in BERT's way the neighbour `output.dense`."""
    for candidate in _OUTPUT:
        if candidate in children and is_linear(children[candidate]):
            return children[candidate]  # type: ignore[return-value]
    parent = root.get_submodule(name.rpartition(".")[0]) if name else root
    for path in ("output.dense", "dense", "out_proj"):
        try:
            module = parent.get_submodule(path)
        except AttributeError:
            continue
        if is_linear(module):
            return module  # type: ignore[return-value]
    raise _NotUnderstood("the output projection is not found by name")
