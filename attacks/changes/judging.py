"""Whether an explanation is that of the model as it is now."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from attacks.changes.questions import Reading
from attacks.changes.zygote import Said

SHARE = 1e-5
# Of the largest of the output and 1, beside the share of the scores: what numbers of this precision are good for.
ROUNDING = {torch.float64: 1e-8, torch.float32: 3e-5}


def rounding(module: Any) -> float:
    """By the coarsest numbers of a model."""
    return max((ROUNDING.get(p.dtype, 1e-2) for p in module.parameters()), default=ROUNDING[torch.float64])


def apart(found: Reading, true: Reading, rounding: float) -> str:
    """How two readings differ; "" where they do not."""
    if found.names != true.names:
        return f"features {found.names} instead of {true.names}"
    if found.label != true.label:
        return f"label {found.label!r} instead of {true.label!r}"
    if found.numbers.shape != true.numbers.shape:
        return f"{found.numbers.shape} scores instead of {true.numbers.shape}"
    size = float(np.nan_to_num(np.abs(true.numbers)).max(initial=0.0))
    allowed = SHARE * size + rounding * max(1.0, abs(true.output), size)
    if not np.isclose(found.output, true.output, rtol=0, atol=allowed, equal_nan=True):
        return f"output {found.output:.8g} instead of {true.output:.8g}"
    pairs = [("scores", found.numbers, true.numbers)]
    pairs += [("checks", found.more, true.more)] if found.more.shape == true.more.shape else []
    for name, mine, theirs in pairs:
        if not np.allclose(mine, theirs, rtol=0, atol=allowed, equal_nan=True):
            off = float(np.abs(mine - theirs).max())
            return f"{name} off by {off:.2g}, the largest is {size:.2g} ({mine.round(4)} instead of {theirs.round(4)})"
    return ""


def compared(found: Sequence[Reading], truths: Sequence[Sequence[Reading]], rounding: float) -> str:
    """How answers differ from every truth; each of several inputs may be that of another state."""
    if not any(len(found) == len(true) for true in truths):
        return f"{len(found)} answers instead of {len(truths[0])}"
    for at, mine in enumerate(found):
        ways = [apart(mine, true[at], rounding) for true in truths if len(true) == len(found)]
        if all(ways):
            return " and ".join(dict.fromkeys(ways))
    return ""


def judged(found: Said, truths: Sequence[Said], rounding: float, *, may_refuse: bool) -> tuple[str, str]:
    """right, refused, over (refused although the truth can be told), wrong, traceback or hang; and why."""
    for true in truths:
        if true.trace:
            return "wrong", f"an explanation left something on the model: {true.trace}"
    for said, whose in ((found, ""), *((true, " by a new process") for true in truths)):
        if said.kind in ("traceback", "hang"):
            return said.kind, said.note + whose
    known = [true.value for true in truths if true.kind == "value"]
    if found.kind == "refused":
        return ("over", found.note) if known and not may_refuse else ("refused", found.note)
    if not known:
        return "wrong", f"answered where a new process refuses: {truths[0].note[:160]}"
    why = compared(found.value, known, rounding)
    return ("wrong", why) if why else ("right", "")
