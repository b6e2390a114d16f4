"""What a budget of forward passes comes to, and where it goes: each pass to what buys most on this input, as far as the
passes before it tell.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from looprop.methods.looprop.estimates import (
    FirstEstimate,
    Places,
    Scores,
    through_rows,
    true_values,
    with_mean,
    with_rows,
)
from looprop.methods.looprop.rows import carried, choose_rows, whole_variants
from looprop.models.subject import Subject
from looprop.removal.value import SetFunction

# One forward and one backward pass: what even the cheapest estimate costs.
FIRST_PASS = 3.0
# What `looprop` spends when nothing is said.
USUAL = 11.0


def passes_of(budget: float, features: int) -> float:
    """A budget in passes; below 1 it is a share of leave-one-out's cost, one pass per feature.

    >>> passes_of(11, features=40), passes_of(0.25, features=40)
    (11, 10.0)
    """
    return budget * features if budget < 1 else budget


# Leave-one-out of so many positions in all (features times tokens) takes no longer than the usual budget, whose first
# pass goes through the engine: up to 18 tokens, each a feature, and up to 20 of a decoder, where variants share what
# stands before the removed token. Measured once, in CPU time (benchmarks/default_cost.py): a rule by the clock would
# give other numbers on other days.
EXACT_POSITIONS = 18 * 18
EXACT_POSITIONS_OF_A_DECODER = 20 * 20


def exact_is_as_quick(features: int, length: int, *, causal: bool) -> bool:
    """Is leave-one-out over so many features of so many tokens no dearer in time than the usual budget?

    >>> [exact_is_as_quick(n, n, causal=False) for n in (5, 18, 19)], exact_is_as_quick(20, 20, causal=True)
    ([True, True, False], True)
    """
    return features * length <= (EXACT_POSITIONS_OF_A_DECODER if causal else EXACT_POSITIONS)


# So many true values are computed before it is decided what the other passes are for.
TRIED = 3
# Estimates that are off by more than so many times the truth say little about whose true value matters.
POOR = 2.0
# In a decoder, fewer passes than these are spent on whole variants, others on rows of all of them.
FEW_PASSES = 2
# Estimates are scaled to the truth where it is known of so many features.
ENOUGH_TO_SCALE = 3

NOWHERE: Places = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Spent:
    """Scores, the features whose score is their true value, pairs (variant, row) carried for others, and why."""

    scores: Scores
    known: Places
    values: int
    carried: float
    why: str
    lost: str = ""

    def cost(self, length: int) -> float:
        """In forward passes."""
        return FIRST_PASS + self.values + self.carried / length


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
    """The read-out, then what is felt most; rows for the rest of the budget where the first values show that the
    estimates are poor.
    """
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

    missed = _missed(first, scores, tried)
    if left > TRIED and missed > POOR:
        return carried(subject, first.start, by_rows, by_values)
    return by_values("")


def _missed(first: FirstEstimate, scores: Scores, tried: Places) -> float:
    """By how many times the truth the estimates are off where both are known, the read-out apart."""
    others = tried[~first.reads[tried]]
    truth = np.abs(scores[others]).sum()
    error = np.abs(scores[others] - first.scores[others]).sum()
    return float(error / truth) if truth > 0 else 0.0


def _first_token(first: FirstEstimate) -> NDArray[np.bool_]:
    """Which feature holds the first token of a decoder: a sink of attention, where a linear view fails most."""
    held: NDArray[np.bool_] = first.member[:, 0].cpu().numpy()
    return held


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
    known_now = np.array(sorted(known), dtype=np.int64)
    exact, count = through_rows(subject, first, known_now, [rows[i] for i in known_now])
    sink = _first_token(first)
    fitting = known_now[~sink[known_now]]
    scores = first.scores * _scale(first.scores[fitting], exact[fitting])
    if not sink[known_now].any():
        scores = with_mean(scores, sink)
    scores[known_now] = exact[known_now]
    why = "true values of late tokens, which few rows feel; other estimates scaled to them"
    return Spent(scores, known_now, 0, count, why)


def _scale(estimates: Scores, truth: Scores) -> float:
    """The slope of the truth over its estimates, not below zero; 1 where too few are known."""
    if len(truth) < ENOUGH_TO_SCALE or not np.ptp(estimates) > 0:
        return 1.0
    estimates, truth = estimates - estimates.mean(), truth - truth.mean()
    return max(0.0, float(estimates @ truth / (estimates @ estimates)))


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
