"""A pointwise expression of one tensor is one activation, however it is written: R_x = R_y, or it is refused."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from looprop import Plan, relevance
from looprop.errors import RuleError
from propagation.pieces import DIM, W2, W, X, scores

ONE = torch.tensor([1.0], dtype=torch.float64)


def by_identity(function: Callable[[Tensor], Tensor], x: Tensor = X) -> Tensor:
    """The sum of f(h), h = x W, one entry after the other: h_j gets f(h_j), which x_i shares by x_i W_ij / h_j."""
    found = torch.zeros_like(x)
    weight = W.detach()
    for row in range(len(x)):
        for j in range(DIM):
            h = sum(x[row, i] * weight[i, j] for i in range(DIM))
            relevance_of_h = function(h.reshape(1))[0]  # type: ignore[union-attr]
            for i in range(DIM):
                found[row, i] += x[row, i] * weight[i, j] / h * relevance_of_h
    return found


ONE_ACTIVATION: dict[str, Callable[[Tensor], Tensor]] = {
    "hard swish": lambda x: x * F.relu6(x + 3) / 6,
    "hard swish, clamped": lambda x: x * torch.clamp(x / 6 + 0.5, 0, 1),
    "hard swish, the other way round": lambda x: F.hardtanh(3.0 + x, 0.0, 6.0) * (x / 6),
    "a shifted factor": lambda x: x * (0.5 + x),
    "a factor from a number": lambda x: (1 - x) * x,
    "a scaled shift": lambda x: x * (2 * (x + 3)),
    "a shift as a tensor": lambda x: x * torch.relu(x + ONE),
    "a shift as a number in a tensor": lambda x: x * torch.relu(x + torch.tensor(1.0)),
    "two shifts": lambda x: x * (torch.tanh(x + 1) + torch.relu(x + 2)),
    "a shift of a shift": lambda x: x * torch.relu((x + 1) / 2 + 1),
    "a shift taken back": lambda x: F.relu6(x + 3) - 3,
    "a shift and alpha": lambda x: x * torch.relu(torch.add(x, 1, alpha=2)),
    "smooth": lambda x: torch.tanh(x + 1) * x + x,
    "a polynomial": lambda x: x * (1 + x * (0.5 + x)),
    "through a copy": lambda x: x * torch.sigmoid(x.clone()),
    "through other precision and back": lambda x: x * torch.sigmoid(x.float()).double(),
    "in place": lambda x: x * x.add(3).clamp_(0, 6).div_(6),
}


@pytest.mark.parametrize("function", ONE_ACTIVATION.values(), ids=ONE_ACTIVATION)
def test_one_activation_however_it_is_written(function: Callable[[Tensor], Tensor]) -> None:
    tolerance = 1e-6 if function is ONE_ACTIVATION["through other precision and back"] else 1e-12
    assert torch.allclose(scores(function), by_identity(function), rtol=tolerance, atol=tolerance)


# What follows a shift t = h + 3, and the factor by which relevance per t comes from relevance per output.
SHIFTED: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "nothing": (lambda t: t, torch.ones_like),
    "a function": (torch.relu, lambda t: torch.relu(t) / t),
    "a square": (lambda t: t * t, lambda t: t),
    "a linear layer": (lambda t: torch.relu(t) @ W2, lambda t: torch.relu(t) / t * W2.detach().sum(1)),
}


@pytest.mark.parametrize(("after", "slope"), SHIFTED.values(), ids=SHIFTED)
def test_what_ends_in_a_shift_is_a_sum(after: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor]) -> None:
    """What goes on from h + 3 alone: the constant keeps its share of the relevance."""
    shifted = (X @ W).detach() + 3.0
    assert torch.allclose(scores(lambda x: after(x + 3.0)), X * (slope(shifted) @ W.detach().T))


NOT_ZERO: dict[str, Callable[[Tensor], Tensor]] = {
    "two shifts multiplied": lambda x: (x + 3) * (x + 5),
    "a function and a number": lambda x: torch.tanh(x) + 1,
    "a slope per channel": lambda x: x * F.prelu(x - 1, W2[0]),
}


@pytest.mark.parametrize("function", NOT_ZERO.values(), ids=NOT_ZERO)
def test_a_function_that_is_not_zero_at_zero_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(RuleError, match=r"f\(0\) = |held constant .* reaches"):
        scores(function)


def test_a_changed_root_is_no_root() -> None:
    """x changes in place between the shift and the product: no longer functions of one tensor."""

    def function(x: Tensor) -> Tensor:
        x = x.clone()
        shifted = x + 3
        x.mul_(2)
        return x * torch.relu(shifted)

    h = (X @ W).detach()
    product = 2 * h * torch.relu(h + 3)
    by_factor, by_shifted = product / 2 / h, product / 2 / (h + 3)  # halves, the second of which shares with a 3
    assert torch.allclose(scores(function), X * ((by_factor + by_shifted) @ W.detach().T))


class _Norm(torch.nn.Module):
    """An embedding with a constant added, and a layer norm written out."""

    def __init__(self, *, first_added: bool) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.table = torch.nn.Embedding(9, DIM).double()
        self.positions = torch.randn(5, DIM, dtype=torch.float64, generator=generator)
        self.head = torch.randn(DIM, dtype=torch.float64, generator=generator)
        self.first_added = first_added

    def normed(self, x: Tensor, deviation: Callable[[Tensor], Tensor]) -> Tensor:
        mean = x.mean(-1, keepdim=True)
        return (x - mean) * deviation((x - mean).pow(2).mean(-1, keepdim=True))

    def forward(self, ids: Tensor, deviation: Callable[[Tensor], Tensor] = lambda v: torch.rsqrt(v + 1e-5)) -> Tensor:
        x = self.table(ids)
        x = x + self.positions if self.first_added else x
        return torch.tanh(self.normed(x, deviation)).sum(1) @ self.head


@pytest.mark.parametrize("first_added", [True, False])
def test_the_embedding_sum_is_no_mean_of_a_norm(first_added: bool) -> None:
    """`readout="sum"`: relevance at the look-up with positions, also where a layer norm is written out behind it."""
    model, ids = _Norm(first_added=first_added), torch.tensor([[1, 2, 3, 4, 5]])
    with relevance(model, Plan(), explained_weight=model.table.weight) as tape:
        out = model(ids)
        total = tape.embedding_sum
        found = tape.relevance(out, total)
    x = model.table.weight.detach()[ids] + (model.positions if first_added else 0.0)
    assert torch.equal(total.detach(), x)
    expected = torch.zeros_like(x)
    for t in range(5):
        row = x[0, t]
        deviation = ((row - row.mean()).square().mean() + 1e-5).sqrt()
        for j in range(DIM):
            normed = (row[j] - row.mean()) / deviation
            relevance_of_normed = torch.tanh(normed) * model.head[j]
            for k in range(DIM):
                share = row[k] * ((1.0 if j == k else 0.0) - 1 / DIM) / deviation / normed
                expected[0, t, k] += share * relevance_of_normed
    assert torch.allclose(found, expected)
