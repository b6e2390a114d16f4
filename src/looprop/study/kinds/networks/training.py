"""The networks of RQ1, trained: one per seed, kept in the run folder with its test accuracy.

networks/seed-3-<hash of the weights>.safetensors
"""

from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import nn

from looprop.files import write_whole
from looprop.inputs.mnist import Digits
from looprop.running.inside import check_file, check_folder
from looprop.running.provenance import weights_hash
from looprop.study.kinds.networks.digits import shrink
from looprop.study.kinds.networks.linear_attention import LinearAttention

EPOCHS, BATCH, LEARNING_RATE = 5, 64, 1e-3
FOLDER = "networks"
"""Where they are kept in a run folder."""


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


@torch.no_grad()
def accuracy(network: LinearAttention, digits: Digits) -> float:
    """The share of digits that are classified right."""
    answers = torch.cat([network(part).argmax(1) for part in torch.split(shrink(digits.images), 1000)])
    return float((answers.numpy() == digits.labels).mean())


def trained(run_folder: Path, training: Digits, test: Digits, seed: int) -> LinearAttention:
    """The network of a seed: read from the run folder, or trained and kept there; a broken one is trained anew."""
    folder = run_folder / FOLDER
    if not check_folder(folder):
        folder.mkdir()
    network = LinearAttention("kv_first").eval()
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
    network = train(training, seed=seed)
    about = {"seed": str(seed), "accuracy": repr(accuracy(network, test))}
    content = save_tensors(network.state_dict(), metadata=about)
    write_whole(folder / f"seed-{seed}-{weights_hash(network)[:16]}.safetensors", content, durable=True)
    return network


def accuracies(run_folder: Path) -> list[tuple[int, float]]:
    """Seed and test accuracy of the networks in a run folder."""
    known = []
    for path in sorted((run_folder / FOLDER).glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            about = file.metadata()
        known.append((int(about["seed"]), float(about["accuracy"])))
    return known
