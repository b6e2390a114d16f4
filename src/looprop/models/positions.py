"""Where rows of a sequence stand, and how a model can be told."""

from torch import nn

from looprop.models.adapter import Adapter

# What configurations call the reach of local attention: that many positions see each other whatever their distance.
_WINDOWS = ("sliding_window", "window_size", "attention_chunk_size")


def position_table(adapter: Adapter) -> nn.Embedding | None:
    """The model's table of learned absolute positions, if it has one."""
    for name, module in adapter.model.named_modules():
        if name.rsplit(".", 1)[-1] in ("position_embeddings", "wpe", "embed_positions") and isinstance(
            module, nn.Embedding
        ):
            return module
    return None


def window(adapter: Adapter) -> int | None:
    """The longest input on which local attention sees everything: dropped rows would shift its window."""
    config = getattr(adapter.model, "config", None)
    limits = [limit for name in _WINDOWS if isinstance(limit := getattr(config, name, None), int)]
    if local := getattr(config, "local_attention", None):
        limits.append(int(local) // 2)
    return min(limits, default=None)


def takes_positions(adapter: Adapter) -> bool:
    """Can the positions of rows be given from outside?"""
    return "position_ids" in adapter.arguments or position_table(adapter) is not None


def first_position(adapter: Adapter) -> int:
    """The number of the first position: RoBERTa and its kin begin after their padding index."""
    table = position_table(adapter)
    return 0 if table is None or table.padding_idx is None else table.padding_idx + 1
