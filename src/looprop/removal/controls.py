"""Controls of a run of variants: what is computed a second time, apart, to see whether the run can be believed.

Controls never share a batch with the variants that are asked for: whether it was a run's turn to be checked changes no
number of it.
"""

import torch
from torch import Tensor

from looprop.models.agreement import ROUTE, rounding
from looprop.removal.shortcuts.choose import Shortcut
from looprop.removal.trust import (
    Disagreement,
    allowed_error,
    booked,
    drawn,
    drop_batches,
    is_due,
    is_new,
    not_counted,
    sentinels,
)
from looprop.removal.variants import Variants


def check_shortcut(variants: Variants, shortcut: Shortcut, rows: Tensor, parts: Tensor) -> int:
    """Raise `Disagreement` where the intact input, by the same shortcut, is not the model's prediction, or where one of
    the variants (M, T) is another one by plain masking. How many variants were computed again.

    parts: (M, P) of the variants' values, by the shortcut.
    """
    subject, target = variants.subject, variants.subject.target
    chosen = sentinels(rows, new=is_new(subject, shortcut.name))
    if not is_due(subject, shortcut.name, len(rows), 1 + len(chosen)):
        return 0
    with booked(subject, passes=1 + len(chosen)):
        values = target.total(parts)
        own = float(target.total(variants.run(shortcut, _intact(rows)))[0])
        change = float((values - subject.output).abs().max())
        allowed = allowed_error(subject.size, change, subject.dtype)
        if not abs(own - subject.output) <= allowed:
            raise Disagreement(f"the intact input gives {own:.6g}, the model itself {subject.output:.6g}")
        for i, wanted in zip(chosen, target.total(variants.run(None, rows[chosen])).tolist(), strict=True):
            if not abs(float(values[i]) - wanted) <= allowed:
                raise Disagreement(f"a variant gives {float(values[i]):.6g}, plain masking {wanted:.6g}")
    return 1 + len(chosen)


def check_plain(variants: Variants, rows: Tensor, parts: Tensor) -> tuple[Tensor, int]:
    """The parts (M, P) of the values of variants (M, T), run one by one where their batch changed them; raise where the
    intact input, run as a variant, is not the model's prediction. And how many variants were computed again.
    """
    subject, target = variants.subject, variants.subject.target
    name = f"plain {variants.removal} {len(rows).bit_length()}"
    if not is_due(subject, name, len(rows), 2):
        return parts, 0
    with booked(subject, passes=2):
        apart = subject.adapter.takes_batches and _depends_on_batch(variants, rows, target.total(parts))
    if apart:
        drop_batches(subject.adapter)
        parts = variants.run_plainly(rows)
    with booked(subject):
        own = float(target.total(variants.run_plainly(_intact(rows)))[0])
        if subject.differs(own, relative=ROUTE):
            not_counted(subject, name)
        subject.check_route(own, f"with nothing removed (removal={variants.removal!r})")
    return parts, 2 if len(rows) > 1 else 1


def _depends_on_batch(variants: Variants, rows: Tensor, values: Tensor) -> bool:
    """Is a variant answered otherwise in the batch than alone?"""
    if len(rows) == 1:
        return False
    chosen = drawn(rows)
    alone = float(variants.subject.target.total(variants.run_plainly(rows[chosen : chosen + 1]))[0])
    size = max(variants.subject.size, abs(alone), float((values - variants.subject.output).abs().max()))
    return abs(alone - float(values[chosen])) > rounding(size, variants.subject.dtype)


def _intact(rows: Tensor) -> Tensor:
    return torch.ones_like(rows[:1])
