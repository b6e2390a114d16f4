"""1. Agreement: on the same weights and inputs, who says the same as we do, how exactly, and why not where not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import cases
from benchmarks.exchange import load_model, read_case, write_case
from benchmarks.sections import Row, Sizes
from benchmarks.team import OURS, SideError, Team
from looprop.inputs import demo_sentences

Answers = list[NDArray[np.float64]]
BAR = 1e-4


def difference(ours: Answers, theirs: Answers) -> float:
    """The largest difference in units of the largest score of the same text, over all texts."""
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(ours, theirs, strict=True))


def correlation(ours: Answers, theirs: Answers) -> float:
    """Pearson's r over the features of a text, the mean over texts."""
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(ours, theirs, strict=True)]))


def sigmoid(values: Answers) -> Answers:
    """The probability of a class of two from the difference of their logits."""
    return [1 / (1 + np.exp(-v)) for v in values]


def inner(answers: Answers) -> Answers:
    """Without the special tokens at both ends."""
    return [a[1:-1] for a in answers]


def without_zero_sums(case: Path) -> Path:
    """The texts of a BERT in whose sums of word, type and position embeddings no element is exactly 0 (weights are
    half-precision).
    """
    given = read_case(case)
    tables = load_model(given.model).bert.embeddings
    kept = []
    for i, ids in enumerate(given.ids):
        first = tables.word_embeddings.weight[torch.from_numpy(ids)] + tables.token_type_embeddings.weight[0]
        if bool((first != 0).all()) and bool((first + tables.position_embeddings.weight[: len(ids)] != 0).all()):
            kept.append(i)
    rows, texts, targets = (
        [given.ids[i] for i in kept],
        [given.texts[i] for i in kept],
        [given.targets[i] for i in kept],
    )
    return write_case(case.parent / f"{case.name}-plain", given.model, rows, texts, targets)


def measure(team: Team, sizes: Sizes) -> list[Row]:
    """One row per pair of methods that should agree, or that differ by definition."""
    model = cases.embedded_model()
    texts = cases.sentences(model, demo_sentences().texts[: sizes.texts], "agreement")
    words = cases.random_texts(model, 20, 4)
    small = {"num_hidden_layers": 4, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 352}
    decoder = cases.llama(small, name="llama-small", spread=0.08)
    decoded = cases.random_texts(decoder, 24, 4)
    rows = [
        *_relevance(team, texts, "BERT (embedded model)", explicit=True),
        *_relevance(team, decoded, "Llama (random, 4 layers)", explicit=False),
        *_gradients(team, texts),
        *_removal(team, texts, words),
    ]
    team.forget()
    return rows


def compare(
    what: str,
    peer: str,
    ours: Callable[[], Answers],
    theirs: Callable[[], Answers],
    *,
    bar: float | None = BAR,
    why: str = "",
) -> Row:
    """One row; without a bar the two differ by definition, and `why` says in what."""
    row: Row = {"what": what, "peer": peer, "bar": bar, "why": why}
    try:
        left, right = ours(), theirs()
    except SideError as error:
        return {**row, "error": str(error)}
    found = difference(left, right)
    return {
        **row,
        "texts": len(left),
        "difference": found,
        "r": correlation(left, right),
        "met": bar is None or found <= bar,
    }


def _relevance(team: Team, case: Path, on: str, *, explicit: bool) -> list[Row]:
    rows = [
        compare(
            f"AttnLRP, {on}",
            "lxt, efficient",
            lambda: team.answers(OURS, "explain", case, method="attnlrp"),
            lambda: team.answers("lxt_efficient", "attnlrp", case),
            why=(
                "both keep the bias in the denominator and read out at the word; lxt adds 1e-10 without a sign to an "
                "activation's input"
            ),
        )
    ]
    if explicit:
        plain = without_zero_sums(case)
        rows.append(
            compare(
                f"AttnLRP, {on}",
                "lxt, explicit",
                lambda: team.answers(OURS, "explain", case, method="attnlrp"),
                lambda: team.answers("lxt_explicit", "attnlrp", case),
                bar=None,
                why=(
                    "lxt adds its epsilon (1e-6 and 1e-8) without the sign of the sum it stabilises; ours is epsilon 0 "
                    "(see next)"
                ),
            )
        )
        rows.append(
            compare(
                f"AttnLRP, {on}",
                "lxt, explicit, its epsilon taken out",
                lambda: team.answers(OURS, "explain", plain, method="attnlrp"),
                lambda: team.answers("lxt_explicit", "attnlrp", plain, epsilon=False),
                why=(
                    "texts of whose embedding sums none is exactly 0: there the explicit form says 0/0 = 0, ours takes "
                    "the limit"
                ),
            )
        )
        rows += [
            compare(
                f"AttnLRP with {option}, {on}",
                "lxt, efficient",
                lambda options=options: team.answers(OURS, "explain", case, method="attnlrp", **options),  # type: ignore[misc]
                lambda: team.answers("lxt_efficient", "attnlrp", case),
                bar=None,
                why=why,
            )
            for option, options, why in (
                (
                    "readout='sum'",
                    {"readout": "sum"},
                    "the whole sum of word, position and type embeddings instead of the word's share",
                ),
                (
                    "bias='printed'",
                    {"bias": "printed"},
                    "the bias left out of the denominator, as printed in the paper: relevance explodes",
                ),
                ("epsilon=1e-6", {"epsilon": 1e-6}, "a signed epsilon in every denominator instead of none"),
            )
        ]
    return rows


def _gradients(team: Team, case: Path) -> list[Row]:
    return [
        compare(
            "integrated gradients, 50 steps",
            "captum, IntegratedGradients",
            lambda: team.answers(OURS, "explain", case, method="ig"),
            lambda: team.answers("captum", "ig", case, steps=50),
            why="zero word embeddings, midpoint rule",
        ),
        compare(
            "integrated gradients, 50 steps",
            "interpreto, IntegratedGradients",
            lambda: inner(team.answers(OURS, "explain", case, method="ig")),
            lambda: team.answers("interpreto", "ig", case, steps=50),
            bar=None,
            why=(
                "interpreto averages absolute values over the embedding, times the point on the line instead of the "
                "whole way"
            ),
        ),
    ]


def _removal(team: Team, case: Path, words: Path) -> list[Row]:
    given = read_case(case)
    draw = np.random.default_rng(0)
    scores = [draw.normal(size=len(ids)).tolist() for ids in given.ids]
    between = [of[1:-1] for of in scores]
    return [
        compare(
            "leave-one-out by attention mask",
            "captum, FeatureAblation",
            lambda: team.answers(OURS, "explain", case, method="loo"),
            lambda: team.answers("captum", "loo", case),
        ),
        compare(
            "leave-one-out by mask token",
            "interpreto, Occlusion",
            lambda: inner(team.answers(OURS, "explain", case, method="loo", removal="mask-token")),
            lambda: team.answers("interpreto", "occlusion", case),
            why="interpreto gives special tokens no score",
        ),
        compare(
            "leave-one-out by deletion, drop of the probability",
            "ferret, inside taucorr_loo",
            lambda: _deletion_drop(team, words),
            lambda: team.answers("ferret", "loo", words),
            why="texts of whole words, which ferret cuts, joins and tokenizes anew; special tokens have no score",
        ),
        compare(
            "MoRF curve, random scores",
            "Quantus, PixelFlipping",
            lambda: team.answers(OURS, "removal-curves", case, scores=scores),
            lambda: team.answers("quantus", "removal-curves", case, scores=scores),
            why="without the last step, which keeps nothing",
        ),
        compare(
            "deletion curve by mask token, probabilities",
            "interpreto, Deletion",
            lambda: sigmoid(
                team.answers(
                    OURS, "removal-curves", case, scores=between, removal="mask-token", special=1, contrast=True
                )
            ),
            lambda: [curve[1:] for curve in team.answers("interpreto", "removal-curves", case, scores=between)],
        ),
    ]


def _deletion_drop(team: Team, case: Path) -> Answers:
    """Our leave-one-out by deletion, as a drop of the probability."""
    pairs = team.answers(OURS, "deletion-values", case)
    return [(intact - removed)[1:-1] for intact, removed in ((p[:1], p[1:]) for p in sigmoid(pairs))]
