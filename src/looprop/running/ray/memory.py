"""How large a batch may be on a device of limited memory."""

from looprop.models.adapter import Adapter

# Of the memory that is free once the model is loaded, the share that one batch may take.
SHARE = 0.25
# What one position holds at once, in tensors of the model's width and of its feed-forward layers.
WIDE, INNER = 10, 3


def positions_that_fit(adapter: Adapter, free: int) -> int | None:
    """How many positions a batch may hold in `free` bytes, from the sizes in the model's configuration; None where it
    has none.

        free / 4 / (bytes of a number * (10 width + 3 inner width))

    It is a first guess: where memory runs out all the same, the set function halves its batches and keeps to the
    smaller size.
    """
    config = getattr(adapter.model, "config", None)
    width = getattr(config, "hidden_size", None) or getattr(config, "n_embd", None)
    if not isinstance(width, int):
        return None
    inner = getattr(config, "intermediate_size", None) or 4 * width
    element = next(adapter.model.parameters()).element_size()
    return max(1, int(SHARE * free / (element * (WIDE * width + INNER * inner))))
