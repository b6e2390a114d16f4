"""Ways to read an answer off the rows, and oddities between layers."""

import torch
from torch import Tensor
from torch.nn import functional as F

from attacks.models.skeleton import Odd


def first(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    return x[:, 0]


def mean(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    weights = read.to(x.dtype)[..., None]
    return (x * weights).sum(1) / weights.sum(1)


def mean_of_all(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """Also of padding."""
    return x.mean(1)


def total(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    return (x * read[..., None]).sum(1)


def last_of_all(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """The last row, padding or not."""
    return x[:, -1]


def last_read(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """The last row that may be read."""
    places = torch.arange(x.shape[1]) * read
    return x[torch.arange(len(x)), places.argmax(1)]


def counted_last(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """The row at the number of tokens read: another one when some in between are removed."""
    return x[torch.arange(len(x)), read.sum(1).clamp(min=1) - 1]


def last_no_padding(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """The last row whose token is no padding, whatever the mask says."""
    return x[torch.arange(len(x)), (torch.arange(x.shape[1]) * (ids != 0)).argmax(1)]


def largest(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    return x.masked_fill(~read[..., None], -1e9).amax(1)


def largest_of_all(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    return x.amax(1)


def at_separator(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """The row of [SEP], wherever it is."""
    return x[torch.arange(len(x)), (ids == 3).long().argmax(1)]


def loudest(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """The row with the largest entry: another one on every text."""
    return x[torch.arange(len(x)), x.masked_fill(~read[..., None], -1e9).amax(2).argmax(1)]


def both_ends(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    return x[:, 0] + x[:, -1]


def first_or_mean(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """The first row of short texts, the mean of long ones."""
    return x[:, 0] if x.shape[1] < 9 else mean(x, read, ids)


def middle(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """The row in the middle: it moves with the length."""
    return x[:, x.shape[1] // 2]


def by_word(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """The rows of some words only, where there are any; else the first."""
    wanted = ((ids % 5 == 0) & read).to(x.dtype)[..., None]
    count = wanted.sum(1)
    return torch.where(count > 0, (x * wanted).sum(1) / count.clamp(min=1.0), x[:, 0])


def learned(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """Weights that depend on the rows."""
    scores = x[..., :1].masked_fill(~read[..., None], float("-inf"))
    return (scores.softmax(1) * x).sum(1)


def attended(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    """One query, the first row."""
    return F.scaled_dot_product_attention(x[:, :1], x, x, attn_mask=read[:, None, :])[:, 0]


def root_of_length(x: Tensor, read: Tensor, ids: Tensor) -> Tensor:
    return total(x, read, ids) / read.sum(1, keepdim=True).to(x.dtype).sqrt()


POOLINGS = {
    f.__name__: f
    for f in (
        first, mean, mean_of_all, total, last_of_all, last_read, counted_last, last_no_padding, largest,
        largest_of_all, at_separator, loudest, both_ends, first_or_mean, middle, by_word, learned, attended,
        root_of_length,
    )
}  # fmt: skip


def longer_way(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """One more layer for long texts."""
    return x + F.gelu(m.other(x)) if x.shape[1] > 8 else x


def way_by_count(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """One more layer where many tokens are left: not the same for the text and its variants."""
    many = (read.sum(1) > 6)[:, None, None]
    return torch.where(many, x + F.gelu(m.other(x)), x)


def way_by_content(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """One more layer where the first row says so."""
    said = (x[:, 0, 0] > 0)[:, None, None]
    return torch.where(said, x + F.gelu(m.other(x)), x)


def way_of_the_batch(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """One more layer for all where anything is masked anywhere in the batch."""
    return x if bool(read.all()) else x + 0.1 * F.gelu(m.other(x))


def way_of_the_first(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """What the first row of the batch says goes for all of it."""
    return x + F.gelu(m.other(x)) if float(x[0, 0, 0]) > 0 else x


def mean_over_batch(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """Rows depend on their batch."""
    return x - 0.1 * x.mean(0, keepdim=True)


def neighbours(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """A convolution that reads on beside the mask."""
    return x + 0.3 * F.pad(x, (0, 0, 1, 0))[:, :-1]


def running_sum(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    return x + 0.1 * x.cumsum(1)


def first_ten(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """What stands late counts for nothing."""
    return torch.cat([x[:, :10], torch.zeros_like(x[:, 10:])], 1)


def experts(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """Each row goes one of two ways, by what it holds."""
    chosen = x[..., 0] > x[..., 1]
    out = torch.zeros_like(x)
    out[chosen] = m.other(x[chosen])
    out[~chosen] = x[~chosen] * 0.5
    return x + out


def emptied(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """Removed rows are set to zero."""
    return x * read[..., None]


def centred(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """The mean over all tokens, padding too, is taken away."""
    return x - x.mean(1, keepdim=True)


def turned(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """Each row moves one place on."""
    return x.roll(1, 1)


def divided_by_length(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    return x * (8 / x.shape[1])


def sorted_rows(m: Odd, x: Tensor, read: Tensor) -> Tensor:
    """Rows in an order that depends on the text; the first stays."""
    order = x[:, 1:, 0].argsort(1) + 1
    order = torch.cat([torch.zeros(len(x), 1, dtype=torch.long), order], 1)
    return x.gather(1, order[..., None].expand_as(x))


TWISTS = {
    f.__name__: f
    for f in (
        longer_way, way_by_count, way_by_content, way_of_the_batch, way_of_the_first, mean_over_batch, neighbours,
        running_sum, first_ten, experts, emptied, centred, turned, divided_by_length, sorted_rows,
    )
}  # fmt: skip
