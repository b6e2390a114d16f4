"""A model that takes a mask and does not heed it is refused: its removals would all be zero, and mean nothing."""

import torch
from torch import Tensor

from looprop.errors import ModelError
from looprop.models.agreement import least_rounding
from looprop.models.subject import Subject
from looprop.removal.trust import booked


def refuse_ignored_mask(subject: Subject, values: Tensor) -> None:
    """Raise if removals changed nothing, barring nearly everything changes nothing, and yet other tokens do.

    values: (M,) of some variants.
    """
    adapter, output = subject.adapter, subject.output
    still = least_rounding(subject.size, subject.dtype)
    if not adapter.takes_mask or float((values - output).abs().max()) > still or subject.length < 2:
        return
    length = subject.length
    keep = torch.ones(3, length, dtype=torch.bool, device=adapter.device)
    keep[1:] = False
    # As little as a Transformer can read, twice: one token may say all that the others say.
    keep[1:, sorted(subject.encoded.fixed)] = True
    keep[1, length // 2] = keep[2, 0] = True
    positions = subject.target.positions
    with booked(subject, passes=6), adapter.evaluating(), torch.inference_mode():
        if _apart(subject, adapter.logits(adapter.masked(subject.encoded, keep), positions=positions)) > still:
            return
        table = adapter.explained_weight
        another = (int(subject.encoded.inputs["input_ids"][0, 0]) + 1) % (2 if table is None else len(table))
        others = adapter.replaced(subject.encoded, keep, another)
        if _apart(subject, adapter.logits(others, positions=positions)) <= still:
            return  # nothing that it reads matters to it
    raise ModelError(
        f"{adapter.name} takes an attention mask and ignores it: with nearly every token masked it answers as before, "
        "and with other tokens it does not. Removing by attention mask means nothing there: use removal='mask-token', "
        "'pad-token' or 'delete'"
    )


def _apart(subject: Subject, logits: Tensor) -> float:
    values = subject.target.value(logits)
    return float((values[1:] - values[0]).abs().max())
