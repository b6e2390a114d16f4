"""Quantus: PixelFlipping of the attention mask. MoRF and LeRF run as a batch of two, which is its quickest way."""

from typing import Any

import numpy as np
import quantus
import torch
from torch import Tensor, nn

from benchmarks.exchange import Case
from benchmarks.sides import Job
from benchmarks.sides.plain import masked, model_of


class OfMask(nn.Module):
    """The model as a function of kept features: (B, 1, F) -> two logits, the target's second."""

    def __init__(self, case: Case, text: int, chunk: int) -> None:
        super().__init__()
        self.forward_masked, self.chunk, self.length = (
            masked(model_of(case), case.ids[text], case.targets[text]),
            chunk,
            len(case.ids[text]),
        )

    def forward(self, keep: Tensor) -> Tensor:
        """Chunks to positions, then the model."""
        value = self.forward_masked(keep[:, 0].repeat_interleave(self.chunk, 1)[:, : self.length])
        return torch.stack([torch.zeros_like(value), value], 1)


def flip(case: Case, text: int, scores: Any, *, chunk: int, step: int) -> list[Any]:
    """Logits after each step, one row per row of scores (N, F); the last step, which leaves nothing, is part of it."""
    metric = quantus.PixelFlipping(
        features_in_step=step, perturb_baseline=0.0, normalise=False, disable_warnings=True, return_auc_per_sample=False
    )
    rows = np.asarray(scores, dtype=np.float32)[:, None]  # (N, 1, F)
    curves: list[Any] = metric(
        model=OfMask(case, text, chunk).eval(),
        x_batch=np.ones_like(rows),
        y_batch=np.ones(len(rows), dtype=int),
        a_batch=rows,
        softmax=False,
        channel_first=True,
        device="cpu",
    )
    return curves


def curves(case: Case, *, chunk: int = 1, count: int | None = None) -> Job:
    """MoRF and LeRF of random scores; `count` states in all, so that a step removes several features where there are
    more.
    """
    features = -(-len(case.ids[0]) // chunk)
    scores = np.random.default_rng(0).normal(size=features)
    wanted = 1 if count is None else 2 * features / count
    # It takes only steps that divide the number of features.
    step = min((size for size in range(1, features + 1) if features % size == 0), key=lambda size: abs(size - wanted))
    return Job(lambda: flip(case, 0, [scores, -scores], chunk=chunk, step=step), 2 * -(-features // step))


def removal_curves(case: Case, *, scores: list[list[float]]) -> Job:
    """Whole MoRF curves of given scores."""
    return Job(
        lambda: [flip(case, i, [of], chunk=1, step=1)[0][:-1] for i, of in enumerate(scores)], sum(map(len, scores))
    )


JOBS = {"curves": curves, "removal-curves": removal_curves}
