"""The two linear-attention networks of RQ1, and their training: one function, two orders of multiplication.

    qk_first: (Q K^T) V / n        kv_first: Q (K^T V) / n        n = 196 pixels, no softmax

Each pixel of a 14 x 14 digit is one token; the read-out is linear over all tokens, or over their mean. There is one
network per seed, kept in the run folder with its test accuracy: networks/seed-3-<hash of the weights>.safetensors, or
networks/<name of the recipe>/... where a run has several.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from looprop.errors import DataError, UnknownNameError
from looprop.files import write_whole
from looprop.inputs.examples import draw
from looprop.inputs.mnist import Digits
from looprop.running.inside import check_file, check_folder
from looprop.running.provenance import weights_hash

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
    build = {name: getattr(network, name) for name in ("pixels", "width", "positions", "pooled")}
    twin = LinearAttention(order, **build)
    twin.load_state_dict(network.state_dict())
    return twin.eval()


LEARNING_RATE = 1e-3
FOLDER = "networks"
"""Where they are kept in a run folder."""


@dataclass(frozen=True, eq=False)
class DrawnDigits:
    """Digits of a set with their names, whole or drawn. pixels: (N, 196). total: how many the set has."""

    split: str
    names: list[str]
    pixels: Tensor
    total: int

    @property
    def subset(self) -> bool:
        """Were digits left out?"""
        return len(self.names) < self.total

    @property
    def title(self) -> str:
        """The name for tables and reports; a subset says that it is one."""
        part = f" (subset: {len(self.names):,} of {self.total:,})" if self.subset else ""
        return f"mnist/{self.split}{part}"


def draw_digits(digits: Digits, *, limit: int | None, seed: int) -> DrawnDigits:
    """All digits, or `limit` of them drawn by `seed`, as pixels."""
    names = [f"mnist/{digits.split}/{i}" for i in range(len(digits))]
    chosen = draw(names, limit=limit, seed=seed)
    return DrawnDigits(digits.split, [names[i] for i in chosen], shrink(digits.images[chosen]), len(digits))


def shrink(images: NDArray[np.uint8]) -> Tensor:
    """Grey levels (N, 28, 28) as pixels in [0, 1] at (N, 14 * 14): antialiased bilinear resize."""
    pixels = torch.from_numpy(images.astype(np.float32) / 255.0)[:, None]
    small = nn.functional.interpolate(pixels, size=(SIDE, SIDE), mode="bilinear", antialias=True, align_corners=False)
    return small.flatten(1)


@dataclass(frozen=True)
class Recipe:
    """How a network of RQ1 is trained; the paper leaves all but the number of epochs open. batch: digits to a step.

    A subclass may build another network, and scale its pixels.
    """

    batch: int = 64
    epochs: int = 5

    def __post_init__(self) -> None:
        for name in ("batch", "epochs"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 1:
                raise DataError(f"{name} must be an integer >= 1, got {getattr(self, name)!r}")

    def network(self) -> LinearAttention:
        """One with random weights, in the order kv_first, which is the cheaper one: the weights serve both."""
        return LinearAttention("kv_first")

    def scaled(self, pixels: Tensor) -> Tensor:
        """Pixels from 0 to 1 as the network takes them."""
        return pixels


PLAIN = Recipe()


def train(digits: Digits, *, seed: int, recipe: Recipe = PLAIN) -> LinearAttention:
    """A network trained with Adam on cross-entropy; the same seed and data give the same weights on one thread."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = recipe.network()
        pixels = recipe.scaled(shrink(digits.images))
        labels = torch.from_numpy(digits.labels.astype(np.int64))
        optimiser = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE)
        for _ in range(recipe.epochs):
            for rows in torch.split(torch.randperm(len(labels)), recipe.batch):
                optimiser.zero_grad()
                nn.functional.cross_entropy(network(pixels[rows]), labels[rows]).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
    return network.eval()


@torch.no_grad()
def accuracy(network: LinearAttention, digits: Digits, recipe: Recipe = PLAIN) -> float:
    """The share of digits that are classified right."""
    parts = torch.split(recipe.scaled(shrink(digits.images)), 1000)
    answers = torch.cat([network(part).argmax(1) for part in parts])
    return float((answers.numpy() == digits.labels).mean())


def trained(
    run_folder: Path, training: Digits, test: Digits, seed: int, *, recipe: Recipe = PLAIN, name: str = ""
) -> LinearAttention:
    """The network of a seed: read from the run folder, or trained and kept there; a broken one is trained anew.

    name: of the recipe, where a run has several.
    """
    folder = run_folder / FOLDER / name
    for place in (run_folder / FOLDER, folder):
        if not check_folder(place):
            place.mkdir()
    network = recipe.network().eval()
    for path in folder.glob(f"seed-{seed}-*.safetensors"):
        check_file(path)
        try:
            network.load_state_dict(load_tensors(path.read_bytes()))
            whole = weights_hash(network)[:16] == path.stem.rpartition("-")[2]
        except (SafetensorError, RuntimeError, ValueError):  # cut off, or tensors of another network
            whole = False
        if whole:
            return network
        path.unlink()
    network = train(training, seed=seed, recipe=recipe)
    about = {"seed": str(seed), "accuracy": repr(accuracy(network, test, recipe))}
    content = save_tensors(network.state_dict(), metadata=about)
    write_whole(folder / f"seed-{seed}-{weights_hash(network)[:16]}.safetensors", content, durable=True)
    return network


def accuracies(run_folder: Path, name: str = "") -> list[tuple[int, float]]:
    """Seed and test accuracy of the networks in a run folder, of one recipe."""
    known = []
    for path in sorted((run_folder / FOLDER / name).glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            about = file.metadata()
        known.append((int(about["seed"]), float(about["accuracy"])))
    return known
