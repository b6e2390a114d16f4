"""The two linear-attention networks of RQ1: one function, two orders of multiplication.

    qk_first: (Q K^T) V / n        kv_first: Q (K^T V) / n        n = 196 pixels, no softmax

Each pixel of a 14 x 14 digit is one token; the read-out is linear over all tokens.
"""

from typing import Literal

from torch import Tensor, nn

from looprop.errors import UnknownNameError
from looprop.study.kinds.networks.digits import SIDE

Order = Literal["qk_first", "kv_first"]
ORDERS: tuple[Order, ...] = ("qk_first", "kv_first")

WIDTH, CLASSES = 32, 10


class LinearAttention(nn.Module):
    """Projections Q, K, V from one pixel to `width`, their product in one of two orders, and a linear read-out."""

    def __init__(self, order: Order, *, pixels: int = SIDE * SIDE, width: int = WIDTH) -> None:
        super().__init__()
        if order not in ORDERS:
            raise UnknownNameError("order", str(order), ORDERS)
        self.order = order
        self.query, self.key, self.value = nn.Linear(1, width), nn.Linear(1, width), nn.Linear(1, width)
        self.read_out = nn.Linear(pixels * width, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Pixels (B, n) -> logits (B, 10)."""
        tokens = x[..., None]  # (B, n, 1)
        q, k, v = self.query(tokens), self.key(tokens), self.value(tokens)  # (B, n, d)
        k = k.transpose(1, 2)  # (B, d, n)
        mixed = (q @ k) @ v if self.order == "qk_first" else q @ (k @ v)
        logits: Tensor = self.read_out((mixed / x.shape[1]).flatten(1))
        return logits


def reordered(network: LinearAttention, order: Order) -> LinearAttention:
    """The same weights in the other order of multiplication."""
    pixels, width = network.read_out.in_features // network.query.out_features, network.query.out_features
    twin = LinearAttention(order, pixels=pixels, width=width)
    twin.load_state_dict(network.state_dict())
    return twin.eval()
