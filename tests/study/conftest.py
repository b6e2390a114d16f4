"""Fixtures of the study's tests: a tiny model in a folder, a file of texts, a run on them, MNIST made of noise."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from evaluation.tiny import TEXTS, save_tiny
from looprop.study import Run, reproduce


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "texts.txt"
    path.write_text("\n".join(TEXTS), encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def layers(model_folder: Path, texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return reproduce(
        "layers", model=str(model_folder), data=str(texts), out=tmp_path_factory.mktemp("layers"), progress=False
    )


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """LOOPROP_DATA with a little MNIST: digit d is a bright bar at row 2 d, with noise."""
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for prefix, count in (("train", 640), ("t10k", 20)):
        labels = rng.integers(0, 10, count).astype(np.uint8)
        images = rng.integers(0, 60, (count, 28, 28)).astype(np.uint8)
        for image, label in zip(images, labels, strict=True):
            image[2 * label + 4 : 2 * label + 6] += 150
        with gzip.open(folder / f"{prefix}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">IIII", 0x0803, count, 28, 28) + images.tobytes())
        with gzip.open(folder / f"{prefix}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">II", 0x0801, count) + labels.tobytes())
    monkeypatch.setenv("LOOPROP_DATA", str(tmp_path / "data"))
    return tmp_path / "data"
