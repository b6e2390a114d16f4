"""The canonical form of products: equal shares, whatever the order; by hand, and as the gradient over k."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import looprop
from looprop import Plan
from looprop.errors import InputError, PlanError, UnknownNameError

POINT = torch.tensor([[2.0, 3.0, 4.0]], dtype=torch.float64)

ORDERS: dict[str, Callable[[Tensor], Tensor]] = {
    "left": lambda x: (x[:, 0] * x[:, 1]) * x[:, 2],
    "right": lambda x: x[:, 0] * (x[:, 1] * x[:, 2]),
    "crossed": lambda x: (x[:, 2] * x[:, 0]) * x[:, 1],
    "with a number between": lambda x: ((x[:, 0] * x[:, 1]) * 4.0 * x[:, 2]) / 4.0,
    "with a constant tensor between": lambda x: (
        (x[:, 0] * x[:, 1]) * torch.tensor([0.5], dtype=x.dtype) * x[:, 2] * 2.0
    ),
    "reshaped between": lambda x: (x[:, 0] * x[:, 1])[:, None].flatten() * x[:, 2],
    "summed between": lambda x: torch.stack([x[:, 0] * x[:, 1] / 2] * 2, 1).sum(1) * x[:, 2],
    "added between": lambda x: (x[:, 0] * x[:, 1] * 0.25 + x[:, 0] * x[:, 1] * 0.75) * x[:, 2],
    "einsum": lambda x: torch.einsum("b,b->b", torch.einsum("b,b->b", x[:, 0], x[:, 1]), x[:, 2]),
    "einsum of a list": lambda x: torch.einsum("b,b->b", [torch.einsum("b,b->b", [x[:, 0], x[:, 1]]), x[:, 2]]),
}


@pytest.mark.parametrize("order", ORDERS)
def test_three_factors_get_a_third_each_in_every_order(order: str) -> None:
    found = looprop.attribute(ORDERS[order], POINT, "attnlrp", bilinear="canonical")
    torch.testing.assert_close(found, torch.full_like(POINT, 8.0))


def test_pairs_are_as_in_the_paper() -> None:
    torch.testing.assert_close(
        looprop.attribute(ORDERS["left"], POINT, "attnlrp"), torch.tensor([[6.0, 6.0, 12.0]], dtype=torch.float64)
    )


@pytest.mark.parametrize("factors", [2, 4, 5])
def test_k_factors_get_equal_shares(factors: int) -> None:
    def product(x: Tensor) -> Tensor:
        parts = list(x.unbind(1))
        while len(parts) > 1:  # an order between left and right: neighbours first
            parts = [a * b for a, b in zip(parts[::2], parts[1::2], strict=False)] + parts[len(parts) // 2 * 2 :]
        return parts[0]

    x = torch.linspace(1.0, 2.0, factors, dtype=torch.float64)[None]
    found = looprop.attribute(product, x, "attnlrp", bilinear="canonical")
    torch.testing.assert_close(found, torch.full_like(x, float(x.prod()) / factors))


def test_a_nonlinear_function_ends_a_product() -> None:
    def gated(x: Tensor) -> Tensor:
        return torch.tanh(x[:, 0] * x[:, 1]) * x[:, 2]

    found = looprop.attribute(gated, POINT, "attnlrp", bilinear="canonical")
    value = math.tanh(6.0) * 4.0
    torch.testing.assert_close(found, torch.tensor([[value / 4, value / 4, value / 2]], dtype=torch.float64))


def test_a_bias_ends_a_product() -> None:
    def shifted(x: Tensor) -> Tensor:
        return (x[:, 0] * x[:, 1] + 1.0) * x[:, 2]

    found = looprop.attribute(shifted, POINT, "attnlrp", bilinear="canonical")
    torch.testing.assert_close(
        found, torch.tensor([[6.0, 6.0, 14.0]], dtype=torch.float64)
    )  # the 1 keeps its share of 14, 2 of them


def test_a_square_counts_twice() -> None:
    def cubic(x: Tensor) -> Tensor:
        return (x[:, 0] * x[:, 0]) * x[:, 1]

    x = torch.tensor([[2.0, 3.0]])
    torch.testing.assert_close(looprop.attribute(cubic, x, "attnlrp", bilinear="canonical"), torch.tensor([[8.0, 4.0]]))
    torch.testing.assert_close(looprop.attribute(cubic, x, "attnlrp"), torch.tensor([[6.0, 6.0]]))


@pytest.mark.parametrize("order", ["qk_first", "kv_first"])
def test_linear_attention_gets_the_gradient_over_three(order: str) -> None:
    """Relevance of a trilinear operation with equal shares is a third of the gradient, at each of its factors."""
    torch.manual_seed(0)
    weights = torch.randn(3, 4, 6, dtype=torch.float64)

    def attention(x: Tensor) -> Tensor:
        q, k, v = (x.view(-1, 5, 4) @ w for w in weights)
        mixed = (q @ k.transpose(1, 2)) @ v if order == "qk_first" else q @ (k.transpose(1, 2) @ v)
        return mixed.sum((1, 2))

    x = torch.randn(2, 20, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(attention(x).sum(), x)
    found = looprop.attribute(attention, x.detach(), "attnlrp", bilinear="canonical")
    torch.testing.assert_close(found, x.detach() * gradient / 3)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp"])
def test_values_that_are_products_count_behind_attention(fused: bool, method: str) -> None:
    """O = A (v w): under AttnLRP thirds to A, v and w; under CP-LRP halves to v and w. Written straight from the
    definition.
    """
    torch.manual_seed(0)
    weights = torch.randn(4, 4, 4, dtype=torch.float64)

    def parts(x: Tensor) -> list[Tensor]:
        return [x.view(-1, 1, 5, 4) @ w for w in weights]

    def attention(q: Tensor, k: Tensor, value: Tensor) -> Tensor:
        if fused:
            return torch.nn.functional.scaled_dot_product_attention(q, k, value)
        return torch.softmax(q @ k.transpose(-2, -1) * 0.5, -1) @ value

    def model(x: Tensor) -> Tensor:
        q, k, v, w = parts(x)
        return attention(q, k, v * w).sum((1, 2, 3))

    x = torch.randn(1, 20, dtype=torch.float64, requires_grad=True)
    q, k, v, w = parts(x)
    alone = [t.detach() for t in (q, k, v, w)]

    def gradient(*live: int) -> Tensor:
        tensors = [t if i in live else s for i, (t, s) in enumerate(zip((q, k, v, w), alone, strict=True))]
        return torch.autograd.grad(
            attention(tensors[0], tensors[1], tensors[2] * tensors[3]).sum(), x, retain_graph=True
        )[0]

    if method == "cp-lrp":
        wanted = gradient(2) / 2 + gradient(3) / 2
    else:
        wanted = gradient(0) / 6 + gradient(1) / 6 + gradient(2) / 3 + gradient(3) / 3
    found = looprop.attribute(model, x.detach(), method, bilinear="canonical")
    torch.testing.assert_close(found, x.detach() * wanted)


def test_what_is_refused() -> None:
    with pytest.raises(PlanError, match="epsilon must be 0"):
        Plan(bilinear="canonical", epsilon=1e-6)
    with pytest.raises(UnknownNameError, match="canonical"):
        Plan(bilinear="canonic")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="bilinear"):
        looprop.attribute(ORDERS["left"], POINT, "lrp", bilinear="canonical", plan=Plan())
    assert Plan(bilinear="canonical").to_dict()["bilinear"] == "canonical"
