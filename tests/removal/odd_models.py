"""Small classifiers whose way depends on the input, on the batch or on the time of day; none of them is a fixed
program.
"""

from typing import Any

import torch
from torch import Tensor, nn

SIZE, WIDTH, CLASSES, LONGEST = 99, 16, 3, 80
MARK = 7


class Encoder(nn.Module):
    """Two layers of attention written with torch's fused kernel, learned positions, read from its first row."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embedding, self.position_embeddings = nn.Embedding(SIZE, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.projections = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(8))
        self.head = nn.Linear(WIDTH, CLASSES)
        self.double().eval()

    def get_input_embeddings(self) -> nn.Module:
        return self.embedding

    def layer(self, number: int, hidden: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value, out = self.projections[4 * number : 4 * number + 4]
        heads = [p(hidden).unflatten(-1, (2, -1)).transpose(1, 2) for p in (query, key, value)]
        allowed = None if mask is None else (mask != 0)[:, None, None]
        mixed = nn.functional.scaled_dot_product_attention(*heads, attn_mask=allowed)
        return hidden + out(torch.tanh(mixed.transpose(1, 2).flatten(2)))

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        places = torch.arange(input_ids.shape[1])[None] if position_ids is None else position_ids
        hidden = self.embedding(input_ids) + self.position_embeddings(places)
        for number in range(2):
            hidden = self.layer(number, hidden, attention_mask)
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        return self.head(self.read(hidden, mask, input_ids))

    def read(self, hidden: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        return hidden[:, 0]


def kept_mean(hidden: Tensor, mask: Tensor) -> Tensor:
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)


class AtTheMark(Encoder):
    """Reads the row of a marked token where there is one."""

    def read(self, hidden: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        return hidden[torch.arange(len(ids)), (ids == MARK).int().argmax(1)]


class FirstOrMean(Encoder):
    """The first row decides whether it is read, or the mean of those kept."""

    def read(self, hidden: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        return torch.where(hidden[:, :1, 0] > 0, hidden[:, 0], kept_mean(hidden, mask))


class SilentMean(Encoder):
    """A mean behind a rectifier that is silent on most inputs."""

    def read(self, hidden: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        return hidden[:, 0] + torch.relu(5 * (kept_mean(hidden, mask) - 0.8))


class PaddingAtTheMark(Encoder):
    """Adds the mean of all rows, padding and removed tokens too, to inputs with a marked token."""

    def read(self, hidden: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        marked = (ids == MARK).any(1)[:, None].to(hidden.dtype)
        return hidden[:, 0] + marked * hidden.mean(1)


class Nearsighted(Encoder):
    """Longer inputs are read through a window, counted in rows."""

    def layer(self, number: int, hidden: Tensor, mask: Tensor | None) -> Tensor:
        if hidden.shape[1] > 10:
            hidden = hidden + 0.5 * torch.roll(hidden, 1, 1)
        return super().layer(number, hidden, mask)


class TimeFirst(Encoder):
    """torch's encoder as it comes: (T, B, D)."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 24, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double().eval()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        places = torch.arange(input_ids.shape[1])[None] if position_ids is None else position_ids
        hidden = (self.embedding(input_ids) + self.position_embeddings(places)).transpose(0, 1)
        barred = None if attention_mask is None else attention_mask == 0
        return self.head(self.encoder(hidden, src_key_padding_mask=barred)[0])


class Centred(Encoder):
    """The rows of a batch depend on each other."""

    def read(self, hidden: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        return hidden[:, 0] - 0.5 * hidden[:, 0].mean(0)


class Deaf(Encoder):
    """Takes a mask and ignores it."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        return super().forward(input_ids, None, position_ids)


class Noisy(Encoder):
    """Dropout that stays on in eval mode."""

    def read(self, hidden: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        return nn.functional.dropout(hidden[:, 0], 0.3, training=True)


class Counting(Encoder):
    """A buffer that every forward pass changes, and that is read."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def read(self, hidden: Tensor, mask: Tensor, ids: Tensor) -> Tensor:
        self.count: Tensor = self.count + 0.01
        return hidden[:, 0] * (1 + self.count)


class Passing(nn.Module):
    """A wrapper that hands everything on."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def get_input_embeddings(self) -> Any:
        return self.inner.get_input_embeddings()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner(*args, **kwargs)


class Selective(Encoder):
    """Every row reads the six keys with the largest scores, chosen before any is removed: a removed key keeps its place
    among them.
    """

    def layer(self, number: int, hidden: Tensor, mask: Tensor | None) -> Tensor:
        query, key, value = (p(hidden) for p in self.projections[4 * number : 4 * number + 3])
        scores = query @ key.mT / WIDTH**0.5
        chosen = scores.topk(min(6, scores.shape[-1]), dim=-1).indices
        scores = scores + torch.full_like(scores, -1e9).scatter(-1, chosen, 0.0)
        if mask is not None:
            scores = scores + (1.0 - mask.to(scores))[:, None] * -2e9
        return hidden + torch.tanh(torch.softmax(scores, -1) @ value)
