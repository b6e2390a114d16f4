"""The paper's two cases of the audit: the scalar product and the linear-attention network on MNIST, each written in two
ways.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from looprop.errors import UnknownNameError
from looprop.inputs.examples import draw
from looprop.inputs.mnist import load_mnist
from looprop.study.kinds.networks import POINT, Implementation, left_product
from looprop.study.mnist import LinearAttention, shrink, train

CASES = ("product", "mnist")


@dataclass(frozen=True)
class AuditCase:
    """A model that is audited on inputs of its own."""

    model: Implementation
    inputs: list[Tensor]
    title: str


def audit_case(name: str, *, limit: int | None = None, seed: int = 0) -> AuditCase:
    """`product`: (x1 x2) x3 at (2, 3, 4). `mnist`: Q (K^T V), trained with the seed, on test digits drawn by it (100
    unless told).
    """
    if name == "product":
        return AuditCase(left_product, [torch.tensor(POINT)], "x1 x2 x3 at (2, 3, 4)")
    if name != "mnist":
        raise UnknownNameError("case", name, CASES)
    network: LinearAttention = train(load_mnist("train"), seed=seed)
    test = load_mnist("test")
    chosen = draw([f"mnist/test/{i}" for i in range(len(test))], limit=100 if limit is None else limit, seed=seed)
    title = f"mnist/test (subset: {len(chosen):,} of {len(test):,}), network of seed {seed}"
    return AuditCase(network, list(shrink(test.images[chosen])), title)
