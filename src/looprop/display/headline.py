"""The headline of an explanation: "positive, mostly because of ‘moving’ and ‘funny’"."""

import math
from collections.abc import Sequence

from looprop.display.data import Strip, number, visible

NAMED = 3
"""So many features at most are named."""
NEAR = 0.5
"""A feature with this share of the strongest score is named beside it."""
SMALL = 0.05
"""An effect below this share of the output is none to speak of."""
LONGEST = 40
SAID_AGAINST = 0.5
"""A feature against the target is named from this share of the strongest score on."""


def headline(
    label: str, shown: Strip, *, kind: str = "effect", nothing_matters: bool = False, output: float = math.nan
) -> str:
    """The target and what it rests on.

    Special features and those outside the scale are no reasons. "Mostly" is said where the features named, three at
    most, are half of all that speaks for the target. kind: what scores say, as in `looprop.methods`;
    nothing_matters: true values have shown that no feature matters by itself. output: of the target; effects that are
    tiny beside it are no reasons.

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
    listed = _listed([shown.features[i] for i in named], patches=shown.picture is not None)
    if kind == "weight":
        return f"{label}; most weight lies on {listed}"
    said = f"{label}, {'mostly' if half else 'above all'} because of {listed}"
    last = order[-1]
    if shown.scores[last] <= -SAID_AGAINST * shown.scores[named[0]]:
        said += f", in spite of {_listed([shown.features[last]], patches=shown.picture is not None)}"
    return said


def _listed(features: Sequence[str], *, patches: bool) -> str:
    """Names with "and" before the last; a word that stands twice is named once."""
    names = list(dict.fromkeys(" ".join(visible(feature).split()) for feature in features))
    short = [name if len(name) <= LONGEST else name[: LONGEST - 1] + "…" for name in names]
    quoted = [f"patch {name}" if patches else f"‘{name}’" for name in short]
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
    return (
        f"scores add up to {number(abs(residual), signed=False)} {'less' if residual > 0 else 'more'} than the output"
    )
