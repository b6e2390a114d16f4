"""The two linear-attention networks of RQ1: one function, two orders of multiplication.

    qk_first: (Q K^T) V / n        kv_first: Q (K^T V) / n        n = 196 pixels, no softmax

Each pixel of a 14 x 14 digit is one token; the read-out is linear over all tokens, or over their mean.
"""

from typing import Literal

import torch
from torch import Tensor, nn

from looprop.errors import UnknownNameError

Order = Literal["qk_first", "kv_first"]
ORDERS: tuple[Order, ...] = ("qk_first", "kv_first")

SIDE, WIDTH, CLASSES = 14, 32, 10


class LinearAttention(nn.Module):
    """Projections Q, K, V from one token to `width`, their product in one of two orders, and a linear read-out.

    positions: a token is its pixel, embedded, plus a learned vector of its place; else it is the pixel itself.
    pooled: the read-out sees the mean over tokens; else all of them.
    """

    def __init__(
        self,
        order: Order,
        *,
        pixels: int = SIDE * SIDE,
        width: int = WIDTH,
        positions: bool = False,
        pooled: bool = False,
    ) -> None:
        super().__init__()
        if order not in ORDERS:
            raise UnknownNameError("order", str(order), ORDERS)
        self.order: Order = order
        self.pixels, self.width, self.positions, self.pooled = pixels, width, positions, pooled
        if positions:
            self.embedding, self.place = nn.Linear(1, width), nn.Parameter(torch.randn(pixels, width))
        of_token = width if positions else 1
        self.query, self.key, self.value = (nn.Linear(of_token, width) for _ in range(3))
        self.read_out = nn.Linear(width if pooled else pixels * width, CLASSES)

    def tokens(self, x: Tensor) -> Tensor:
        """Pixels (B, n) -> tokens (B, n, 1 or d)."""
        pixel = x[..., None]
        return self.embedding(pixel) + self.place if self.positions else pixel

    def forward(self, x: Tensor) -> Tensor:
        """Pixels (B, n) -> logits (B, 10)."""
        tokens = self.tokens(x)
        q, k, v = self.query(tokens), self.key(tokens), self.value(tokens)  # (B, n, d)
        k = k.transpose(1, 2)  # (B, d, n)
        mixed = (q @ k) @ v if self.order == "qk_first" else q @ (k @ v)
        mixed = mixed / x.shape[1]
        logits: Tensor = self.read_out(mixed.mean(1) if self.pooled else mixed.flatten(1))
        return logits


def reordered(network: LinearAttention, order: Order) -> LinearAttention:
    """The same weights in the other order of multiplication."""
    twin = LinearAttention(
        order,
        pixels=network.pixels,
        width=network.width,
        positions=network.positions,
        pooled=network.pooled,
    )
    twin.load_state_dict(network.state_dict())
    return twin.eval()
