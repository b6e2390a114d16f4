"""Three ways to know the effect of a removal: to first order, exactly in some rows, or truly."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.methods.looprop.first_order import FirstOrder, member_matrix
from looprop.methods.looprop.rows import carried_wrongly, choose_rows, exact_rows
from looprop.models.subject import Subject
from looprop.removal.batching import out_of_memory
from looprop.removal.set_function import SetFunction

Scores = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FirstEstimate:
    """LOO_i ~ sum over rows j of effect(j, i), plus what leaving a mean over rows does, with what is needed to do
    better.

    member: (F, T). effect: (T, F), zero in the rows of the feature itself, which nobody reads once its keys are barred,
    but for the read-out. scores: (F,). reads: which features hold the read-out of an encoder, where a linear view fails
    most.
    """

    start: FirstOrder
    member: Tensor
    effect: Tensor
    scores: Scores
    reads: NDArray[np.bool_]

    def order(self) -> Places:
        """Whose true value is worth most: the read-out's, then those of the largest estimates; ties by position."""
        order: Places = np.lexsort((np.arange(len(self.scores)), -np.abs(self.scores), ~self.reads))
        return order


def first_estimate(subject: Subject, start: FirstOrder) -> FirstEstimate:
    """The estimate that one forward and one backward pass give."""
    member = member_matrix(subject).to(start.effect.device)
    counted = ~member.T
    if start.pooled is None:  # else nobody reads the rows that leave the mean
        counted[subject.rows_read] = True
    effect = start.effect.double() * counted
    scores = effect.sum(0) + start.elsewhere.double() + (0.0 if start.pooled is None else start.pooled.double())
    no_token = (
        subject.answer_rows.everything or subject.reads_a_part or subject.adapter.leading_positions(subject.encoded) > 0
    )
    rows = set() if no_token else set(subject.rows_read)
    reads = np.array([any(p in rows for p in group) for group in subject.features])
    return FirstEstimate(start, member, effect, scores.cpu().numpy(), reads)


def without_read_out(first: FirstEstimate) -> Scores:
    """First order alone, with the mean of the others in place of the read-out's own estimate, which would be no
    estimate at all.

    [CLS] is read by every row of every layer: its linear estimate is often the largest of all and of the wrong sign.
    """
    scores = first.scores.copy()
    if not first.reads.all():
        scores[first.reads] = scores[~first.reads].mean()
    return scores


def with_rows(subject: Subject, first: FirstEstimate, pairs: int | None, known: Places) -> tuple[Scores, float]:
    """Some pairs (variant, row) carried exactly, those with the largest effect; None is all of them. Scores, and pairs
    carried.

    Variants whose true value is known need no rows.
    """
    open_ = np.setdiff1d(np.arange(len(first.scores)), known)
    member, start = first.member[open_], first.start
    if pairs is None:
        chosen = [torch.arange(member.shape[1], device=member.device)] * len(open_)
    else:
        chosen = choose_rows(subject, start.size[:, open_], member, pairs)
    carried = torch.zeros_like(member)
    for variant, own in enumerate(chosen):
        carried[variant, own] = True
    rest = (first.effect[:, open_] * ~carried.T).sum(0)
    scores = first.scores.copy()
    if len(open_):
        try:
            values = exact_rows(subject, start, chosen, member)
            wrong = carried_wrongly(subject, start, values, chosen, member)
        except Exception as error:  # whatever a model says to being run in a way that it was not made for
            if out_of_memory(error.__cause__ or error):
                raise
            raise NotCarried(f"{type(error).__name__}: {error}") from error
        if wrong:
            raise NotCarried(wrong)
        scores[open_] = (start.output - values + rest).cpu().numpy()
    return scores, float(carried.sum())


class NotCarried(Exception):
    """Rows cannot be carried on this input, although they could on others."""


def true_values(value: SetFunction, which: Places) -> Scores:
    """Leave-one-out of some features."""
    count = len(value.subject.features)
    keep = np.ones((len(which), count), dtype=bool)
    keep[np.arange(len(which)), which] = False
    truth: Scores = value.subject.output - value(keep)
    return truth
