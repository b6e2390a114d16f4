"""Where rows of a sequence stand, and how a model is told: the one place that numbers positions.

Some models take `position_ids`; some look learned positions up in a table of their own, where the numbers of the rows
are put in their place; a model with neither (relative biases) cannot be told.
"""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from looprop.intercept.lookup import OtherRowsMode

_TABLES = ("position_embeddings", "wpe", "embed_positions")
# What configurations call the reach of local attention: that many positions see each other whatever their distance.
_WINDOWS = ("sliding_window", "window_size", "attention_chunk_size")


@dataclass(frozen=True, eq=False)
class Positions:
    """How one model numbers the positions of its rows.

    by_argument: it takes `position_ids`. table: its learned absolute positions. window: the longest input on which
    local attention sees everything, None without a limit.
    """

    by_argument: bool
    table: nn.Embedding | None
    window: int | None

    @property
    def can_be_given(self) -> bool:
        """Can the positions of rows be given from outside?"""
        return self.by_argument or self.table is not None

    @property
    def first(self) -> int:
        """The number of the first position: RoBERTa and its kin begin after their padding index."""
        return 0 if self.table is None or self.table.padding_idx is None else self.table.padding_idx + 1

    def place(self, batch: dict[str, Tensor], rows: Tensor) -> AbstractContextManager[object]:
        """Tell the model that the rows of a batch stand at these places (B, R), counted from 0, in one `with` block."""
        if self.by_argument:
            batch["position_ids"] = rows + self.first
        elif self.table is not None:
            # BART and its kin leave the first rows of their table out.
            return OtherRowsMode(self.table.weight, rows + self.first + int(getattr(self.table, "offset", 0)))
        return nullcontext()


def positions_of(model: nn.Module, arguments: Collection[str]) -> Positions:
    """How a model numbers positions, by its arguments, its modules and its configuration."""
    named = (module for name, module in model.named_modules() if name.rsplit(".", 1)[-1] in _TABLES)
    tables = (module for module in named if isinstance(module, nn.Embedding))
    config = getattr(model, "config", None)
    # A model of several kinds of input has a configuration of its own for texts.
    parts = [part for part in (config, getattr(config, "text_config", None)) if part is not None]
    limits = [limit for part in parts for name in _WINDOWS for limit in _limits(part, name)]
    limits += [int(local) // 2 for part in parts if (local := getattr(part, "local_attention", None))]
    return Positions("position_ids" in arguments, next(tables, None), min(limits, default=None))


def _limits(config: Any, name: str) -> list[int]:
    """What a configuration has under a name; of one that has another for every layer, all of them."""
    try:
        found = [getattr(config, name, None)]
    except Exception:  # transformers has an error of its own for it
        found = [getattr(layer, name, None) for layer in getattr(config, "per_layer_config", ())]
    return [limit for limit in found if isinstance(limit, int)]
