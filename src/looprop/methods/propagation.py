"""One forward and one backward pass under a plan, for a batch of subjects: the common part of every gradient-like method."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from looprop.engine.plan import Plan
from looprop.engine.tape import relevance
from looprop.errors import InputError, ModelError
from looprop.models.subject import Subject

# A batch holds at most this many tokens, so that the activations kept for the backward pass stay small.
TOKENS = 4096


def propagate(subjects: Sequence[Subject], plan: Plan, *, readout: str = "word") -> list[NDArray[np.float64]]:
    """Relevance of every position (not feature) of every subject: R = x * g, summed over the embedding."""
    if readout not in ("word", "sum"):
        raise InputError(f"readout must be 'word' or 'sum', got {readout!r}")
    found: dict[int, NDArray[np.float64]] = {}
    for batch in batches(subjects):
        for index, scores in zip(batch, _propagate([subjects[i] for i in batch], plan, readout), strict=True):
            found[index] = scores
    return [found[i] for i in range(len(subjects))]


def batches(subjects: Sequence[Subject], tokens: int = TOKENS) -> Iterator[list[int]]:
    """Indices of subjects that run together: of similar length, reading as many positions, within a budget of tokens.

    Subjects of one input with different targets stay apart from each other only in their read-out, so they too share a batch.
    """
    order = sorted(range(len(subjects)), key=lambda i: (subjects[i].target.positions, len(subjects[i].encoded), i))
    batch: list[int] = []
    for i in order:
        longest = len(subjects[i].encoded)
        same = not batch or subjects[batch[0]].target.positions == subjects[i].target.positions
        if batch and (not same or longest * (len(batch) + 1) > tokens):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _propagate(subjects: Sequence[Subject], plan: Plan, readout: str) -> list[NDArray[np.float64]]:
    adapter = subjects[0].adapter
    inputs, own = adapter.collate([s.encoded for s in subjects])
    with adapter.evaluating(), torch.enable_grad(), relevance(adapter.model, plan, explained_weight=adapter.explained_weight) as tape:
        inputs = adapter.watch(tape, inputs)
        logits = adapter.forward(inputs, positions=subjects[0].target.positions)
        tensor = adapter.explained(tape, inputs, readout)
        with torch._C.DisableTorchFunction():
            values = torch.stack([s.target.value(logits[i : i + 1])[0] for i, s in enumerate(subjects)])
        tape.check(logits)
        relevances = tape.relevance(values, tensor)
    scores = adapter.token_scores(relevances).double().cpu()
    if not torch.isfinite(scores).all():
        raise ModelError(
            f"{adapter.name} gives relevances that are NaN or infinite under this plan; a larger epsilon or bias='keep' may help"
        )
    return [scores[i][own[i] >= 0].numpy() for i in range(len(subjects))]
