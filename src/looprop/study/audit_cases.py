"""The paper's two cases of the audit: the scalar product and the linear-attention network on MNIST, each of which can
be written in two ways.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from looprop.errors import UnknownNameError
from looprop.inputs.mnist import load_mnist
from looprop.study.experiments import AUDIT_CASES
from looprop.study.kinds.networks.pairs import POINT, Implementation, left_product
from looprop.study.kinds.networks.training import draw_digits, train

USUAL_LIMIT = 100
"""So many test digits unless told."""


@dataclass(frozen=True, eq=False)
class AuditCase:
    """A model that is audited on inputs of its own."""

    model: Implementation
    inputs: list[Tensor]
    title: str


def audit_case(name: str, *, limit: int | None = None, seed: int = 0) -> AuditCase:
    """`product`: (x1 x2) x3 at (2, 3, 4). `mnist`: Q (K^T V), trained with the seed, on `limit` test digits drawn by
    it.
    """
    if name == "product":
        return AuditCase(left_product, [torch.tensor(POINT)], "x1 x2 x3 at (2, 3, 4)")
    if name != "mnist":
        raise UnknownNameError("case", name, AUDIT_CASES)
    network = train(load_mnist("train"), seed=seed)
    digits = draw_digits(load_mnist("test"), limit=USUAL_LIMIT if limit is None else limit, seed=seed)
    return AuditCase(network, list(digits.pixels), f"{digits.title}, network of seed {seed}")
