"""Three ways to know the effect of a removal (to first order, exactly in some rows, or truly), and how a budget of
forward passes goes to what buys most on this input, as far as the passes before it tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.methods.base import Attribution
from looprop.methods.looprop.first_order import FirstOrder, member_matrix
from looprop.methods.looprop.rows import carried, check_carried, choose_rows, exact_rows, whole_variants
from looprop.models.subject import Subject
from looprop.removal.trust import booked
from looprop.removal.value import SetFunction

Scores = NDArray[np.float64]
Places = NDArray[np.int64]

FIRST_PASS = 3.0  # one forward and one backward pass: what even the cheapest estimate costs
USUAL = 11.0  # what `looprop` spends when nothing is said


def passes_of(budget: float, features: int) -> float:
    """A budget in passes; below 1 it is a share of leave-one-out's cost, one pass per feature.

    >>> passes_of(11, features=40), passes_of(0.25, features=40)
    (11, 10.0)
    """
    return budget * features if budget < 1 else budget


# Leave-one-out of so many positions in all (features times tokens) takes no longer than the usual budget: up to 18
# tokens, each a feature, and up to 20 of a decoder, where variants share what stands before the removed token. Measured
# once, in CPU time (benchmarks/default_cost.py): a rule by the clock would give other numbers on other days.
EXACT_POSITIONS = 18 * 18
EXACT_POSITIONS_OF_A_DECODER = 20 * 20


def exact_is_as_quick(features: int, length: int, *, causal: bool) -> bool:
    """Is leave-one-out over so many features of so many tokens no dearer in time than the usual budget?

    >>> [exact_is_as_quick(n, n, causal=False) for n in (5, 18, 19)], exact_is_as_quick(20, 20, causal=True)
    ([True, True, False], True)
    """
    return features * length <= (EXACT_POSITIONS_OF_A_DECODER if causal else EXACT_POSITIONS)


TRIED = 3  # so many true values are computed before it is decided what the other passes are for
POOR = 2.0  # estimates that are off by more than so many times the truth say little about whose true value matters
FEW_PASSES = 2  # in a decoder, fewer passes than these are spent on whole variants, others on rows of all of them
ENOUGH_TO_SCALE = 3  # estimates are scaled to the truth where it is known of so many features

NOWHERE: Places = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class FirstEstimate:
    """LOO_i ~ sum over rows j of effect(j, i), plus what leaving a mean over rows does.

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
        """Total absolute effect of each removal: the sum over rows of |effect(j, i)|."""
        return self.effect.abs().sum(0).cpu().numpy()

    def order(self) -> Places:
        """Whose true value is worth most: the read-out's, then those that are felt most; ties by position."""
        return np.lexsort((np.arange(len(self.scores)), -self.felt, ~self.reads))

    def leaning(self) -> Scores:
        """The estimates, each moved the way that all removals go together, by its share of what is felt:
        score_i + felt_i * (sum of scores / sum of felt), sums without the read-out.
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
    no_token = subject.answer_rows.everything or subject.reads_a_part
    rows = set() if no_token or subject.adapter.leading_positions(subject.encoded) > 0 else set(subject.rows_read)
    reads = np.array([any(p in rows for p in group) for group in subject.features])
    return FirstEstimate(start, member, effect, scores.cpu().numpy(), reads)


def with_mean(scores: Scores, where: NDArray[np.bool_]) -> Scores:
    """The mean of the other scores in place of estimates that are worse than none: those of [CLS], or of the first
    token of a decoder, are often the largest of all and of the wrong sign.
    """
    scores = scores.copy()
    if not where.all():
        scores[where] = scores[~where].mean()
    return scores


def with_rows(subject: Subject, first: FirstEstimate, pairs: int | None, known: Places) -> tuple[Scores, float]:
    """Scores, and how many pairs (variant, row) were carried exactly: those with the largest effect; None is all of
    them. Variants whose true value is known need no rows.
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
    Rows that are not carried add their first-order part; variants that are not keep their estimate.
    """
    scores = first.scores.copy()
    if not len(which):
        return scores, 0.0
    member, start = first.member[which], first.start
    exact = torch.zeros_like(member)
    for variant, own in enumerate(chosen):
        exact[variant, own] = True
    rest = (first.effect[:, which] * ~exact.T).sum(0)
    values = exact_rows(subject, start, list(chosen), member)
    with booked(subject, passes=1):
        check_carried(subject, start, values, list(chosen), member)
    scores[which] = (start.output - values + rest).cpu().numpy()
    return scores, float(exact.sum())


def true_values(value: SetFunction, which: Places) -> Scores:
    """Leave-one-out of some features."""
    count = len(value.subject.features)
    keep = np.ones((len(which), count), dtype=bool)
    keep[np.arange(len(which)), which] = False
    return value.subject.output - value(keep)


def exact(value: SetFunction, why: str) -> Attribution:
    """Leave-one-out itself, where the budget allows it."""
    count = len(value.subject.features)
    scores = true_values(value, np.arange(count))
    details = {"rows": "all", "refined": count, "own_r": 1.0, "known": list(range(count)), "why": why}
    return Attribution(scores, cost=float(count), details=details)


@dataclass(frozen=True, eq=False)
class Spent:
    """Scores, the features whose score is their true value, pairs (variant, row) carried for others, and why."""

    scores: Scores
    known: Places
    values: int
    carried: float
    why: str
    lost: str = ""


def spend(subject: Subject, value: SetFunction, first: FirstEstimate, passes: float) -> Spent:
    """The best estimate for so many passes in all, the first of which are spent."""
    left = max(0, int(passes - FIRST_PASS))
    if not subject.adapter.causal:
        return _on_true_values(subject, value, first, left)
    without = partial(_without_rows, subject, value, first, left)
    if not left:
        return without("")
    run = partial(_on_whole_variants, subject, first) if left < FEW_PASSES else partial(_on_rows, subject, first, left)
    return carried(subject, first.start, run, without)


def _on_true_values(subject: Subject, value: SetFunction, first: FirstEstimate, left: int) -> Spent:
    """The read-out, then what is felt most; rows for the rest where the first values show that estimates are poor."""
    scores, order = first.leaning(), first.order()
    if not left:
        return Spent(with_mean(scores, first.reads), NOWHERE, 0, 0.0, "one forward and one backward pass")
    known = order[:left]
    tried = known[:TRIED]
    scores[tried] = true_values(value, tried)

    def by_rows() -> Spent:
        pairs = (left - TRIED) * first.member.shape[1]
        estimates, count = with_rows(subject, first, pairs, tried)
        estimates[tried] = scores[tried]
        why = f"rows of all variants: first estimates are off by {missed:.1f} times the truth"
        return Spent(estimates, tried, len(tried), count, why)

    def by_values(lost: str) -> Spent:
        scores[known[TRIED:]] = true_values(value, known[TRIED:])
        return Spent(scores, known, len(known), 0.0, "true values of the read-out and of what is felt most", lost)

    others = tried[~first.reads[tried]]
    truth = np.abs(scores[others]).sum()
    # By how many times the truth the estimates are off where both are known, the read-out apart.
    missed = float(np.abs(scores[others] - first.scores[others]).sum() / truth) if truth > 0 else 0.0
    if left > TRIED and missed > POOR:
        return carried(subject, first.start, by_rows, by_values)
    return by_values("")


def _first_token(first: FirstEstimate) -> NDArray[np.bool_]:
    """Which feature holds the first token of a decoder: a sink of attention, where a linear view fails most."""
    return first.member[:, 0].cpu().numpy()


def _on_whole_variants(subject: Subject, first: FirstEstimate) -> Spent:
    """True values by the rows after the removed token, most felt per row first: late tokens have few of them."""
    length = first.member.shape[1]
    rows = whole_variants(first.member, subject.rows_read)
    sizes = np.array([len(own) for own in rows])
    known, left = [], length
    for i in np.lexsort((np.arange(len(sizes)), -first.felt / sizes)):
        if sizes[i] <= left:
            known.append(int(i))
            left -= sizes[i]
    places = np.array(sorted(known), dtype=np.int64)
    exact, count = through_rows(subject, first, places, [rows[i] for i in places])
    sink = _first_token(first)
    fitting = places[~sink[places]]
    scores, estimates, truth = first.scores.copy(), first.scores[fitting], exact[fitting]
    if len(truth) >= ENOUGH_TO_SCALE and np.ptp(estimates) > 0:
        # The slope of the truth over its estimates, not below zero.
        estimates, truth = estimates - estimates.mean(), truth - truth.mean()
        scores *= max(0.0, float(estimates @ truth / (estimates @ estimates)))
    if not sink[places].any():
        scores = with_mean(scores, sink)
    scores[places] = exact[places]
    why = "true values of late tokens, which few rows feel; other estimates scaled to them"
    return Spent(scores, places, 0, count, why)


def _on_rows(subject: Subject, first: FirstEstimate, left: int) -> Spent:
    """Pooled rows, more of them for what is felt more; all rows of the first token."""
    length = first.member.shape[1]
    size = first.start.size.double()
    size = size * size.sum(0, keepdim=True)
    whole = whole_variants(first.member, subject.rows_read)
    for i, later in enumerate(whole):  # other rows do not feel it
        unfelt = torch.ones(length, dtype=torch.bool, device=size.device).index_fill(0, later, False)
        size[unfelt, i] = -1.0
    sink = _first_token(first).nonzero()[0]
    others = np.setdiff1d(np.arange(len(first.scores)), sink)
    spent = sum(len(whole[i]) for i in sink)
    chosen = dict(zip(sink.tolist(), [whole[i] for i in sink], strict=True))
    own = choose_rows(subject, size[:, others], first.member[others], left * length - spent)
    chosen |= dict(zip(others.tolist(), own, strict=True))
    every = np.arange(len(first.scores))
    scores, count = through_rows(subject, first, every, [chosen[i] for i in range(len(every))])
    known = np.array([i for i in range(len(every)) if bool(torch.isin(whole[i], chosen[i]).all())], dtype=np.int64)
    return Spent(scores, known, 0, count, "all rows of the first token, and rows of the others by what they feel")


def _without_rows(subject: Subject, value: SetFunction, first: FirstEstimate, left: int, lost: str) -> Spent:
    """A decoder whose rows cannot be carried, for the reason given: its first token, then what is felt most."""
    sink = _first_token(first)
    known: Places = np.lexsort((np.arange(len(sink)), -first.felt, ~sink))[:left]
    if not left:
        return Spent(with_mean(first.scores, sink), known, 0, 0.0, "one forward and one backward pass", lost)
    scores = first.scores.copy()
    scores[known] = true_values(value, known)
    return Spent(scores, known, len(known), 0.0, "true values of the first token and of what is felt most", lost)
