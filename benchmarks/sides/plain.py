"""What several sides share: a model called as anybody would call it, on batches that hold a limited number of
positions.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.exchange import Case, load_model

# For all sides alike: so many positions may run in one batch where activations are kept for a backward pass.
TOKENS = 2048

Bools = NDArray[np.bool_]
Forward = Callable[[Tensor], Tensor]
"""Attention masks (B, T) -> logits of the target (B,)."""


def sample(count: int, wanted: int | None) -> list[int]:
    """Evenly chosen numbers below `count`; all of them for None.

    >>> sample(10, 4), sample(3, 8)
    ([0, 3, 6, 9], [0, 1, 2])
    """
    return (
        list(range(count))
        if wanted is None or wanted >= count
        else sorted({round(p) for p in np.linspace(0, count - 1, wanted)})
    )


def batches(case: Case) -> Iterator[tuple[Tensor, list[int]]]:
    """Ids of texts (B, T) with their targets; texts of different lengths one by one."""
    same = len({len(ids) for ids in case.ids}) == 1
    size = max(1, TOKENS // len(case.ids[0])) if same else 1
    for start in range(0, len(case.ids), size):
        yield torch.from_numpy(np.stack(case.ids[start : start + size])), list(case.targets[start : start + size])


def is_causal(model: Any) -> bool:
    """Whether the last position's logits are meant."""
    return type(model).__name__.endswith("ForCausalLM")


def more_arguments(model: Any) -> dict[str, Any]:
    """Only the last position's logits, and no cache, where the model is causal."""
    return {"use_cache": False, "logits_to_keep": 1} if is_causal(model) else {}


def target_logits(model: Any, logits: Tensor, targets: Sequence[int]) -> Tensor:
    """(B, C) or (B, T, C) -> (B,)"""
    last = logits[:, -1] if is_causal(model) else logits
    return last[torch.arange(len(last)), torch.tensor(targets)]


def embedded(model: Any, ids: Tensor) -> Tensor:
    """The word embeddings as a leaf."""
    looked_up: Tensor = model.get_input_embeddings()(ids)
    return looked_up.detach().requires_grad_()


def gradient_times_input(model: Any, case: Case) -> list[NDArray[np.float64]]:
    """The plain gradient to the word embeddings, times them: what relevance propagation is compared with."""
    found = []
    for ids, targets in batches(case):
        leaf = embedded(model, ids)
        logits = model(inputs_embeds=leaf, attention_mask=torch.ones_like(ids), **more_arguments(model)).logits
        (gradient,) = torch.autograd.grad(target_logits(model, logits, targets).sum(), leaf)
        found += [row.double().numpy() for row in (leaf.detach() * gradient).sum(-1)]
    return found


def masked(model: Any, ids: NDArray[np.int64], target: int) -> Forward:
    """The model as a function of its attention mask."""
    row, positions = torch.from_numpy(ids)[None], torch.arange(len(ids))[None]

    def forward(mask: Tensor) -> Tensor:
        batch: dict[str, Any] = {
            "input_ids": row.expand(len(mask), -1),
            "attention_mask": mask.long(),
            **more_arguments(model),
        }
        if is_causal(model):
            batch["position_ids"] = positions.expand(len(mask), -1)
        return target_logits(model, model(**batch).logits, [target] * len(mask))

    return forward


def on_positions(keep: Bools, length: int, chunk: int) -> Bools:
    """Kept positions from kept chunks: (N, F) -> (N, T).

    >>> on_positions(np.array([[True, False]]), 3, 2).tolist()
    [[True, True, False]]
    """
    return np.repeat(keep, chunk, axis=1)[:, :length]


def loop(forward: Forward, keep: Bools, size: int) -> NDArray[np.float64]:
    """All variants, so many at a time."""
    with torch.inference_mode():
        masks = torch.from_numpy(keep)
        parts = [forward(masks[start : start + size]) for start in range(0, len(masks), size)]
        values: NDArray[np.float64] = torch.cat(parts).double().numpy()
    return values


def model_of(case: Case, attention: str = "sdpa") -> Any:
    """The model of a case."""
    return load_model(Path(case.model), attention)
