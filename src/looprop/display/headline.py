"""The headline of an explanation: "positive, mostly because of ‘moving’ and ‘funny’"."""

import math
from collections.abc import Sequence

from looprop.display.data import Strip, cut, number, visible

NAMED = 3  # so many features at most are named
NEAR = 0.5  # a feature with this share of the strongest score is named beside it
SMALL = 0.05  # an effect below this share of the output is none to speak of
LONGEST = 40
SAID_AGAINST = 0.5  # a feature against the target is named from this share of the strongest score on


def headline(
    label: str, shown: Strip, *, kind: str = "effect", nothing_matters: bool = False, output: float = math.nan
) -> str:
    """The target and what it rests on.

    Special features and those outside the scale are no reasons. "Mostly" is said where the features named are half of
    all that speaks for the target. kind: what scores say, as in `looprop.methods`. nothing_matters: true values have
    shown that no feature matters by itself. output: of the target; effects that are tiny beside it are no reasons.

    >>> headline("positive", Strip(["a", "moving", "funny", "film"], [0.0, 2.0, 1.0, 0.1]))
    'positive, mostly because of ‘moving’ and ‘funny’'
    >>> headline("positive", Strip(["not", "bad"], [3.0, -2.0]))
    'positive, mostly because of ‘not’, in spite of ‘bad’'
    """
    if kind == "none":
        return f"{label}; these scores know nothing of why"
    if nothing_matters:
        return f"{label}, and no single feature decides it"
    counted = [
        i
        for i, (score, mark) in enumerate(zip(shown.scores, shown.marks(), strict=True))
        if math.isfinite(score) and not mark.special and mark.fraction is not None and mark.text.strip()
    ]
    if kind == "effect" and counted and max(abs(shown.scores[i]) for i in counted) < SMALL * abs(output):
        return f"{label}, and no single feature moves it by even {100 * SMALL:.0f} %"
    order = sorted(counted, key=lambda i: -shown.scores[i])
    speaking = [i for i in order if shown.scores[i] > 0]
    if not speaking:
        return f"{label}, though nothing speaks for it"
    total = sum(shown.scores[i] for i in speaking)
    # Those that come near the strongest, and more where they are not half of it together.
    count = sum(shown.scores[i] >= NEAR * shown.scores[speaking[0]] for i in speaking)
    while sum(shown.scores[i] for i in speaking[:count]) < total / 2:
        count += 1
    named = speaking[: min(count, NAMED)]
    half = sum(shown.scores[i] for i in named) >= total / 2
    listed = _listed(shown, named)
    if kind == "weight":
        return f"{label}; most weight lies on {listed}"
    said = f"{label}, {'mostly' if half else 'above all'} because of {listed}"
    last = order[-1]
    if shown.scores[last] <= -SAID_AGAINST * shown.scores[named[0]]:
        said += f", in spite of {_listed(shown, [last])}"
    return said


def _listed(shown: Strip, places: Sequence[int]) -> str:
    """Names with "and" before the last; a word that stands twice is named once."""
    patches = shown.picture is not None
    names = list(dict.fromkeys(" ".join(visible(shown.features[i]).split()) for i in places))
    quoted = [f"patch {cut(name, LONGEST)}" if patches else f"‘{cut(name, LONGEST)}’" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def residual_said(residual: float, output: float) -> str:
    """The residual of completeness, in words.

    >>> residual_said(-3.81, 3.63), residual_said(0.0, 2.0)
    ('scores add up to 3.81 more than the output', 'none: scores add up to the output')
    """
    if not math.isfinite(residual):
        return "not a number"
    if abs(residual) <= 1e-4 * max(1.0, abs(output)):
        return "none: scores add up to the output"
    size, than = number(abs(residual), signed=False), "less" if residual > 0 else "more"
    return f"scores add up to {size} {than} than the output"
