"""MNIST: handwritten digits, 28 x 28 grey levels, from the original IDX files or from the hub.

An IDX file is a big-endian header (magic 0x0803 for images, 0x0801 for labels; the size of each dimension) and one byte
per value.
Source: Y. LeCun, L. Bottou, Y. Bengio, P. Haffner, "Gradient-Based Learning Applied to Document Recognition", 1998.
"""

import hashlib
import math
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from looprop.errors import DataError
from looprop.inputs.datasets import data_folder, hub_rows
from looprop.inputs.examples import draw
from looprop.inputs.files import Unpacked
from looprop.naming import one_of

PREFIXES = {"train": "train", "test": "t10k"}
IMAGES, LABELS = 0x0803, 0x0801


@dataclass(frozen=True, eq=False)
class Digits:
    """Images uint8 (N, 28, 28) with their labels uint8 (N,); `total` and `hash` as in a Dataset."""

    split: str
    images: NDArray[np.uint8]
    labels: NDArray[np.uint8]
    total: int
    hash: str

    @property
    def subset(self) -> bool:
        """True if images were left out."""
        return len(self.images) < self.total

    def __len__(self) -> int:
        return len(self.images)


def load_mnist(
    split: str = "test", *, limit: int | None = None, seed: int = 0, folder: str | Path | None = None
) -> Digits:
    """MNIST's train or test digits, or `limit` of them drawn by `seed`; folder as in `load_dataset`."""
    one_of("split of mnist", split, PREFIXES)
    where = data_folder(folder)
    if where is None:
        rows = hub_rows("mnist", split)
        images = np.stack([np.asarray(image, dtype=np.uint8) for image in rows["image"]])
        labels = np.asarray(rows["label"], dtype=np.uint8)
    else:
        images, labels = _from_folder(where / "mnist", PREFIXES[split])
    chosen = draw([f"mnist/{split}/{i}" for i in range(len(images))], limit=limit, seed=seed)
    drawn, of_drawn = images[chosen], labels[chosen]
    return Digits(split, drawn, of_drawn, len(images), hashlib.sha256(drawn.tobytes() + of_drawn.tobytes()).hexdigest())


def _from_folder(folder: Path, prefix: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    images_path, labels_path = folder / f"{prefix}-images-idx3-ubyte.gz", folder / f"{prefix}-labels-idx1-ubyte.gz"
    images, labels = read_idx(images_path, IMAGES), read_idx(labels_path, LABELS)
    if len(images) != len(labels):
        raise DataError(f"{labels_path}: expected {len(images)} labels, one for each image, got {len(labels)}")
    if not len(images):
        raise DataError(f"{images_path}: no images in it; expected at least one")
    if (unknown := np.flatnonzero(labels > 9)).size:
        raise DataError(f"{labels_path}: row {unknown[0] + 1}: expected a label from 0 to 9, got {labels[unknown[0]]}")
    return images, labels


def read_idx(path: Path, magic: int) -> NDArray[np.uint8]:
    """The array of a gzip-packed IDX file of bytes."""
    try:
        with Unpacked(path) as file:
            data = file.readall()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except (EOFError, OSError, zlib.error) as error:
        raise DataError(f"{path}: expected whole gzip data, got a truncated or broken file ({error})") from error
    dimensions = magic & 0xFF
    start = 4 + 4 * dimensions
    got = struct.unpack(">I", data[:4])[0] if len(data) >= start else None
    if got != magic:
        found = f"{len(data)} bytes" if got is None else f"magic 0x{got:04x}"
        raise DataError(f"{path}: expected an IDX file with magic 0x{magic:04x}, got {found}")
    shape = struct.unpack(f">{dimensions}I", data[4:start])
    if len(data) - start != math.prod(shape):
        raise DataError(f"{path}: expected {math.prod(shape)} bytes for shape {shape}, got {len(data) - start}")
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)
