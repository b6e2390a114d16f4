"""One forward and one backward pass under a plan, for a batch of subjects: what all gradient-like methods share."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.errors import InputError, ModelError
from looprop.methods.base import Attribution
from looprop.models.adapter import Adapter
from looprop.models.ledger import BATCHES, PADDING
from looprop.models.predicting import TOKENS, in_batches
from looprop.models.subject import Subject
from looprop.propagation.plan import Plan
from looprop.propagation.tape import Tape, unseen
from looprop.removal.trust import Disagreement, check_version, guarded

Combine = Callable[[Tensor, Tensor], Tensor]  # (the explained tensor x, its gradient g) -> scores in x's shape


def propagate(
    subjects: Sequence[Subject],
    plan: Plan,
    *,
    readout: str = "word",
    combine: Combine = torch.mul,
    complete: bool = False,
) -> list[Attribution]:
    """One attribution per subject: R = x * g, summed over the embedding and over the positions of each feature.

    plan: the rules of the backward pass; `GRADIENT` is the ordinary gradient. readout: at the word embedding, or at the
    sum with positions and token types, or ("positions") at that sum with what rotations (`Plan(rotary="halves")`) and
    biases (`Plan(bias="placed")`) give to positions. combine: what is made of x and g, element by element, before it is
    summed over each position: their product, or `lambda x, g: g.abs()`. complete: report the residual.
    """
    if readout not in ("word", "sum", "positions"):
        raise InputError(f"readout must be 'word', 'sum' or 'positions', got {readout!r}")
    found: dict[int, NDArray[np.float64]] = {}
    for batch in batches(subjects):
        found |= dict(zip(batch, _checked([subjects[i] for i in batch], plan, readout, combine), strict=True))
    for subject in {s.prediction.version: s for s in subjects}.values():
        check_version(subject)
    sharing = Counter(id(s.encoded) for s in subjects)  # all targets of one input share its forward pass
    attributions = []
    for i, subject in enumerate(subjects):
        own = found[i]
        residual = subject.output - float(own.sum()) if complete else None
        attributions.append(Attribution(own, cost=2.0 + 1.0 / sharing[id(subject.encoded)], residual=residual))
    return attributions


def check_one_text(subject: Subject, method: str) -> None:
    """Raise where positions are not those of one text: what they get would have no token to go to."""
    adapter = subject.adapter
    if not adapter.tokens or adapter.explained_weight is None:
        raise InputError(f"{method} has no meaning for inputs without word embeddings: their positions are no tokens")
    if adapter.two_stacks:
        raise InputError(f"{method} has no meaning for an encoder-decoder: it has positions of two sequences")


def batches(subjects: Sequence[Subject], tokens: int = TOKENS) -> list[list[int]]:
    """Indices of subjects that run together: those that one pass has predicted; of others those of similar length that
    read as many positions, within `tokens`.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for i, subject in enumerate(subjects):
        kept = subject.prediction.kept
        groups.setdefault((id(kept) if kept else 0, subject.target.positions), []).append(i)
    found: list[list[int]] = []
    for (predicted, _), own in groups.items():
        encoded = [subjects[i].encoded for i in own]
        batched = [list(range(len(own)))] if predicted else in_batches(subjects[own[0]].adapter, encoded, tokens)
        found += [[own[i] for i in batch] for batch in batched]
    return found


def _checked(subjects: Sequence[Subject], plan: Plan, readout: str, combine: Combine) -> list[NDArray[np.float64]]:
    """The scores of a batch. Each row must be answered as its input is by itself; where one is not, all run alone, and
    the model gets no such batch any more.
    """

    def of_one_input(own: Sequence[Subject]) -> list[NDArray[np.float64]]:
        scores, values = _propagate(own, plan, readout, combine)
        for subject, value in zip(own, values, strict=True):
            subject.check_route(value, "under the engine")
        return scores

    def together() -> list[NDArray[np.float64]]:
        scores, values = _propagate(subjects, plan, readout, combine)
        if any(subject.differs(value) for subject, value in zip(subjects, values, strict=True)):
            raise Disagreement("an input is answered otherwise in a batch than alone")
        return scores

    if len({id(s.encoded) for s in subjects}) == 1:
        return of_one_input(subjects)
    name = PADDING if len({len(s.encoded) for s in subjects}) > 1 else BATCHES
    return guarded(
        subjects[0], name, prove=None, run=together, plain=lambda _: [of_one_input([s])[0] for s in subjects]
    )


def _propagate(
    subjects: Sequence[Subject], plan: Plan, readout: str, combine: Combine
) -> tuple[list[NDArray[np.float64]], list[float]]:
    """Scores of features, and the target's value as it was computed on the way."""
    adapter = subjects[0].adapter
    texts = {id(s.encoded): s.encoded for s in subjects}
    row_of = [list(texts).index(id(s.encoded)) for s in subjects]
    scores: dict[int, NDArray[np.float64]] = {}
    kept = subjects[0].prediction.kept
    if kept and kept[0].tape.plan == plan:  # the pass that gave the prediction, once
        passed, row_of = kept.pop(), [s.prediction.row for s in subjects]
        assert passed.own is not None
        own, run = passed.own, passed.again()
    else:
        inputs, own = adapter.collate(list(texts.values()))
        run = adapter.traced(inputs, plan, positions=subjects[0].target.positions)
    rounds = _rounds(row_of)
    with run as traced:
        tape = traced.tape
        with unseen():
            tensor = adapter.explained(traced, "sum" if readout == "positions" else readout)
        shares = _position_shares(adapter, tape) if readout == "positions" else []
        tape.check(traced.logits)
        with unseen():
            # A row's gradient is then as large as the row, not as the batch.
            parts = traced.logits.chunk(len(traced.logits))
            values = [s.target.value(parts[row])[0] for row, s in zip(row_of, subjects, strict=True)]
        for number, chosen in enumerate(rounds, start=1):
            with unseen():
                value = torch.stack([values[i] for i in chosen])
            # A model without biases, or without rotations, gives positions nothing of their own.
            later = number < len(rounds)
            more = tape.gradients_or_none(value, shares, keep=True) if shares else []
            (gradient,) = tape.gradients(value, [tensor], keep=later)
            with unseen():
                by_position = adapter.token_scores(combine(tensor.detach(), gradient))  # (B, T)
                by_position = sum((m for m in more if m is not None), start=by_position).double().cpu()
                scores |= {i: by_position[row_of[i]][own[row_of[i]] >= 0].numpy() for i in chosen}
    if not all(np.isfinite(own).all() for own in scores.values()):
        raise ModelError(
            f"{adapter.name} gives relevances that are NaN or infinite under this plan; a larger epsilon or "
            "bias='keep' may help"
        )
    return [s.group(scores[i]) for i, s in enumerate(subjects)], [float(value.detach()) for value in values]


def _position_shares(adapter: Adapter, tape: Tape) -> list[Tensor]:
    """What rotations gave to positions, if there were any; raise where positions enter in neither known way."""
    if tape.position_shares is not None:
        return [tape.position_shares]
    if tape.plan.rotary == "halves" and not tape.adds_positions:
        raise InputError(
            f"{adapter.name} adds no position to its word embeddings and turns nothing by sines and cosines that it "
            "computes as it runs: its positions (biases of attention scores, stored tables) take no relevance of their "
            "own. Use 'attnlrp'"
        )
    return []


def _rounds(row_of: Sequence[int]) -> list[list[int]]:
    """Subjects whose backward passes can run as one: no two of the same row.

    >>> _rounds([0, 0, 1, 0])
    [[0, 2], [1], [3]]
    """
    rounds: list[list[int]] = []
    for i, row in enumerate(row_of):
        before = row_of[:i].count(row)
        if before == len(rounds):
            rounds.append([])
        rounds[before].append(i)
    return rounds
