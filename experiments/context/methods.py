"""Every method on one answer: ours as they are called, those that only ask a game from the values that all share, and
the rivals.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from looprop.games.values import Floats, Game, Sets, first_marginals, last_marginals
from looprop.methods.registry import make_method
from looprop.methods.rollout import attention_maps
from looprop.models.subject import Subject

from .asking import Asked, SharedGame
from .rivals import coarse_to_fine, context_cite, hierarchical, pruned, random_sets

ABLATIONS = 32
KEPT_SENTENCES = 3
KEPT_DOCUMENTS = 2
GROUP = 3
"""Sentences to a group where there is one document only, of which one group is opened: two would cost more than all."""
PROXY = "attnlrp"
"""What AttriBoT's pruning asks first: it has a smaller model, we have one backward pass."""

CONTEXT_CITE, HIERARCHY, PRUNING = "contextcite-32", "attribot-hierarchy", "attribot-pruning"
ATTENTION, COARSE_TO_FINE = "attention", "coarse-to-fine"
RIVALS = (COARSE_TO_FINE, CONTEXT_CITE, HIERARCHY, PRUNING, ATTENTION)


@dataclass(frozen=True, eq=False)
class Found:
    """Scores, and what they cost in forward passes and in seconds of the processor."""

    scores: Floats
    passes: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Situation:
    """One answer: the subject, its game, its sentences in groups (documents), how many of these are opened, and the
    seed of random sets.
    """

    subject: Subject
    game: SharedGame
    groups: Sequence[Sequence[int]]
    keep: int
    seed: int

    @property
    def players(self) -> int:
        """How many sentences there are."""
        return len(self.subject.features)

    @property
    def tokens(self) -> int:
        """Of the answer."""
        return len(self.subject.target.index)

    @property
    def training(self) -> Sets:
        """The sets that ContextCite is fitted to."""
        return random_sets(self.players, ABLATIONS, np.random.default_rng(self.seed))


def run(situation: Situation, name: str) -> Found:
    """One method by its name."""
    if name in _ASKING:
        asked = Asked()
        scores = _ASKING[name](situation, situation.game.of(asked))
        return Found(scores, asked.passes, asked.seconds)
    if name == PRUNING:
        return _pruning(situation)
    if name == ATTENTION:
        return _timed(lambda: (attention_scores(situation.subject), 1.0))
    method = make_method(name)

    def attributed() -> tuple[Floats, float]:
        (found,) = method.attribute([situation.subject.alone()])
        return np.asarray(found.scores, dtype=np.float64), found.cost

    return _timed(attributed)


def _timed(compute: Callable[[], tuple[Floats, float]]) -> Found:
    start = time.process_time()
    scores, passes = compute()
    return Found(scores, passes, time.process_time() - start)


_ASKING: dict[str, Callable[[Situation, Game], Floats]] = {
    "loo": lambda own, game: last_marginals(game, own.players),
    "alone": lambda own, game: first_marginals(game, own.players),
    "both-ends": lambda own, game: (first_marginals(game, own.players) + last_marginals(game, own.players)) / 2,
    COARSE_TO_FINE: lambda own, game: coarse_to_fine(game, own.groups, keep=own.keep),
    CONTEXT_CITE: lambda own, game: context_cite(
        game, own.players, samples=ABLATIONS, tokens=own.tokens, seed=own.seed
    ),
    HIERARCHY: lambda own, game: hierarchical(game, own.groups, keep=own.keep),
}


def _pruning(situation: Situation) -> Found:
    proxy, asked = run(situation, PROXY), Asked()
    scores = pruned(situation.game.of(asked), proxy.scores, keep=KEPT_SENTENCES)
    return Found(scores, proxy.passes + asked.passes, proxy.seconds + asked.seconds)


def attention_scores(subject: Subject) -> Floats:
    """The attention that the rows which say the answer pay to each feature, averaged over heads and layers."""
    maps = attention_maps(subject)
    mean = torch.stack([layer.mean(0) for layer in maps]).mean(0)  # (T, T)
    rows = mean[-subject.target.positions : -1]  # row k says token k + 1
    return subject.group(rows.mean(0).double().cpu().numpy())
