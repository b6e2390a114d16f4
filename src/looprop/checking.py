"""How far to trust scores on this input: buys true leave-one-out values and estimates r from them (`metrics/trust.py`).

What a method has computed of leave-one-out itself counts, at no cost: it lies in the subject's set function.
"""

import hashlib
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from looprop.errors import InputError
from looprop.measure import Outcome
from looprop.methods.parts.players import players_of
from looprop.metrics.correlation import MINIMUM_FEATURES
from looprop.metrics.mattering import matters
from looprop.metrics.trust import CONFIDENCE, LEAST, Places, estimate_r, places_to_check
from looprop.models.adapter import Removal
from looprop.models.agreement import rounding
from looprop.models.subject import Subject
from looprop.removal.value import SetFunction
from looprop.result.explanation import Check


def check_count(check: int | None) -> None:
    """Raise for a number of true values that is none, or too few."""
    if check is not None and (not isinstance(check, int) or isinstance(check, bool) or check < LEAST):
        raise InputError(f"check must be an integer >= {LEAST}: how many true leave-one-out values, got {check!r}")


def checked(subject: Subject, measured: Outcome, check: int | None) -> Check | None:
    """What `check` true values say of the scores; None asks for no more than what is known already, and gives a check
    only where the method has computed leave-one-out of every feature.
    """
    assert measured.scores is not None
    assert measured.removal is not None
    scores, removal = measured.scores, measured.removal
    computed = subject.cache.values.get((removal, "float32"))
    if check is None and (computed is None or len(computed.by_subset) < len(scores)):
        return None
    if not np.isfinite(scores).all() or len(scores) < MINIMUM_FEATURES:
        return None if check is None else _nothing_to_say(removal)
    if check is None and len(measured.details.get("known", ())) == len(scores):
        return _itself(scores, removal)
    value = SetFunction(subject, removal=removal)
    without = ~np.eye(len(scores), dtype=bool)  # row i leaves feature i out
    own = np.flatnonzero(value.is_known(without))
    if check is None and len(own) < len(scores):
        return None
    seed, apart = seed_of(subject), features_apart(subject)
    bought = np.array([], dtype=np.int64)
    if check is not None:
        apart = apart[: max(1, check // 4)]
        bought = places_to_check(scores, check, apart=apart, known=own.tolist(), seed=seed)
    before = value.count.computed
    places = np.union1d(own, bought)
    truth = subject.output - value(without[places])
    whole = None if check is None else _matters(subject, value, places, truth)
    # True values that the method put into its scores say nothing of its other scores.
    told = {*own.tolist(), *measured.details.get("known", ())}
    same = np.abs(scores[places] - truth) <= rounding(subject.size, subject.dtype)
    put_in = [i for i, is_it in zip(places.tolist(), same, strict=True) if is_it and i in told]
    found = estimate_r(scores, places.tolist(), truth, apart=[*apart, *put_in], seed=seed)
    return Check(
        r=found.r,
        low=found.low,
        high=found.high,
        confidence=CONFIDENCE,
        places=tuple(places.tolist()),
        values=tuple(truth.tolist()),
        bought=len(bought),
        cost=float(value.count.computed - before),
        removal=value.removal,
        exact=found.exact,
        matters=whole,
        itself=found.exact and len(put_in) == len(scores),
    )


def _itself(scores: NDArray[np.float64], removal: Removal) -> Check:
    """The check of scores that are leave-one-out."""
    r = 1.0 if np.ptp(scores) > 0 else float("nan")
    known: dict[str, Any] = {"places": tuple(range(len(scores))), "values": tuple(scores.tolist())}
    return Check(r, r, r, CONFIDENCE, **known, bought=0, cost=0.0, removal=removal, exact=True, itself=True)


def _nothing_to_say(removal: Removal) -> Check:
    """The check of scores that have no r."""
    nan = float("nan")
    return Check(nan, nan, nan, CONFIDENCE, (), (), bought=0, cost=0.0, removal=removal, exact=False)


def features_apart(subject: Subject) -> list[int]:
    """Features that say nothing about the others, those first whose effect is largest: the first and the last token of
    a causal model, which are its attention sink and its read-out, and what the tokenizer added, from both ends.
    """
    encoded, features = subject.encoded, subject.features
    special = [i for i, added in enumerate(subject.special) if added]
    from_both_ends = [special[k // 2] if k % 2 == 0 else special[-1 - k // 2] for k in range(len(special))]
    first_and_last = [(0,), (len(encoded) - 1,)] if subject.adapter.causal else []
    ends = [features.index(group) for group in first_and_last if group in features]
    return list(dict.fromkeys([*ends, *from_both_ends]))


def seed_of(subject: Subject) -> int:
    """The seed of the lot, from what is explained: the text, the names of its tokens, the target."""
    content = json.dumps([subject.encoded.text, list(subject.encoded.names), subject.target.label])
    return int.from_bytes(hashlib.sha256(content.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def _matters(subject: Subject, value: SetFunction, places: Places, truth: NDArray[np.float64]) -> bool | None:
    """Does any of the true values matter, beside what all features do together? One pass more."""
    special = np.array(subject.special, dtype=bool)[places]
    try:
        players = players_of(subject, keep="none" if value.removal == "zero" else "special", removal=value.removal)
        nothing = float(players(np.zeros((1, len(players)), dtype=bool))[0])
    except InputError:  # everything always stays
        return None
    return None if special.all() else matters(truth, whole=subject.output, nothing=nothing, special=special)
