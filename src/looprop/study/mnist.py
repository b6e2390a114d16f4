"""The two linear-attention networks of RQ1: one function, two orders of multiplication.

    qk_first: (Q K^T) V / n        kv_first: Q (K^T V) / n        n = 196 pixels, no softmax

Each pixel of a 14 x 14 digit is one token; the read-out is linear over all tokens.
"""

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from looprop.errors import UnknownNameError
from looprop.inputs.mnist import Digits

Order = Literal["qk_first", "kv_first"]
ORDERS: tuple[Order, ...] = ("qk_first", "kv_first")

SIDE, WIDTH, CLASSES = 14, 32, 10
EPOCHS, BATCH, LEARNING_RATE = 5, 64, 1e-3


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


def shrink(images: NDArray[np.uint8], *, side: int = SIDE) -> Tensor:
    """Grey levels (N, 28, 28) as pixels in [0, 1] at (N, side * side): antialiased bilinear resize."""
    pixels = torch.from_numpy(images.astype(np.float32) / 255.0)[:, None]
    small = nn.functional.interpolate(pixels, size=(side, side), mode="bilinear", antialias=True, align_corners=False)
    return small.flatten(1)


def train(digits: Digits, *, seed: int, epochs: int = EPOCHS) -> LinearAttention:
    """A network trained with Adam on cross-entropy; the same seed and data give the same weights on one thread.

    It is trained in the order kv_first, which is the cheaper one: the weights serve both.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = LinearAttention("kv_first")
        pixels, labels = shrink(digits.images), torch.from_numpy(digits.labels.astype(np.int64))
        optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
        for _ in range(epochs):
            for rows in torch.split(torch.randperm(len(labels)), BATCH):
                optimiser.zero_grad()
                nn.functional.cross_entropy(network(pixels[rows]), labels[rows]).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
    return network.eval()


def reordered(network: LinearAttention, order: Order) -> LinearAttention:
    """The same weights in the other order of multiplication."""
    pixels, width = network.read_out.in_features // network.query.out_features, network.query.out_features
    twin = LinearAttention(order, pixels=pixels, width=width)
    twin.load_state_dict(network.state_dict())
    return twin.eval()


@torch.no_grad()
def accuracy(network: LinearAttention, digits: Digits) -> float:
    """The share of digits that are classified right."""
    answers = torch.cat([network(part).argmax(1) for part in torch.split(shrink(digits.images), 1000)])
    return float((answers.numpy() == digits.labels).mean())
