"""Three ways to know the effect of a removal: to first order, exactly in some rows, or truly."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.methods.looprop.first_order import FirstOrder, member_matrix
from looprop.methods.looprop.rows import check_carried, choose_rows, exact_rows
from looprop.models.subject import Subject
from looprop.removal.trust import booked
from looprop.removal.value import SetFunction

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

    @property
    def felt(self) -> Scores:
        """How much of each removal is felt in all: the sum over rows of |effect(j, i)|, however much of it cancels."""
        felt: Scores = self.effect.abs().sum(0).cpu().numpy()
        return felt

    def order(self) -> Places:
        """Whose true value is worth most: the read-out's, then those that are felt most; ties by position.

        What cancels in the estimate does not cancel in its error.
        """
        order: Places = np.lexsort((np.arange(len(self.scores)), -self.felt, ~self.reads))
        return order

    def leaning(self) -> Scores:
        """The estimates, each moved the way that all removals go together, by its share of what is felt.

        score_i + felt_i * (sum of scores / sum of felt), sums without the read-out: what is felt in many rows, in
        directions that cancel, rather goes with the others than nowhere.
        """
        others = ~self.reads
        total = self.felt[others].sum()
        return self.scores + self.felt * (self.scores[others].sum() / total if total > 0 else 0.0)


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


def with_mean(scores: Scores, where: NDArray[np.bool_]) -> Scores:
    """The mean of the other scores in place of estimates that are worse than none.

    [CLS] is read by every row of every layer, and so is the first token of a decoder: their linear estimates are often
    the largest of all and of the wrong sign.
    """
    scores = scores.copy()
    if not where.all():
        scores[where] = scores[~where].mean()
    return scores


def with_rows(subject: Subject, first: FirstEstimate, pairs: int | None, known: Places) -> tuple[Scores, float]:
    """Some pairs (variant, row) carried exactly, those with the largest effect; None is all of them. Scores, and pairs
    carried.

    Variants whose true value is known need no rows.
    """
    open_ = np.setdiff1d(np.arange(len(first.scores)), known)
    member = first.member[open_]
    if pairs is None:
        chosen = [torch.arange(member.shape[1], device=member.device)] * len(open_)
    else:
        chosen = choose_rows(subject, first.start.size[:, open_], member, pairs)
    return through_rows(subject, first, open_, chosen)


def through_rows(
    subject: Subject, first: FirstEstimate, which: Places, chosen: Sequence[Tensor]
) -> tuple[Scores, float]:
    """Scores where the variants `which` are carried exactly in the rows chosen for each, and how many rows these are.

    Rows that are not carried add their first-order part; variants that are not keep their estimate. Runs inside of
    `rows.carried`.
    """
    scores = first.scores.copy()
    if not len(which):
        return scores, 0.0
    member, start = first.member[which], first.start
    carried = torch.zeros_like(member)
    for variant, own in enumerate(chosen):
        carried[variant, own] = True
    rest = (first.effect[:, which] * ~carried.T).sum(0)
    values = exact_rows(subject, start, list(chosen), member)
    with booked(subject, passes=1):
        check_carried(subject, start, values, list(chosen), member)
    scores[which] = (start.output - values + rest).cpu().numpy()
    return scores, float(carried.sum())


def true_values(value: SetFunction, which: Places) -> Scores:
    """Leave-one-out of some features."""
    count = len(value.subject.features)
    keep = np.ones((len(which), count), dtype=bool)
    keep[np.arange(len(which)), which] = False
    truth: Scores = value.subject.output - value(keep)
    return truth
