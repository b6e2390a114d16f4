"""Operations in their less usual forms: in place, by keyword, written out. What comes out is
right, not only accepted.
"""

import importlib.util
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import looprop
import tiny
from looprop import Plan
from looprop.errors import RuleError
from propagation.pieces import DIM, W2, B, W, Wrapped, X, scores


def linear_oracle(matrix: Tensor, x: Tensor = X) -> Tensor:
    """Relevance of the sum of all outputs of a network that is linear: x_i sum_j M_ij."""
    return x * matrix.detach().sum(1)


IN_PLACE: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "relu_": (lambda x: (x @ W2).relu_() @ W, lambda x: torch.relu(x @ W2) @ W),
    "nn.ReLU": (lambda x: nn.ReLU(inplace=True)(x @ W2) @ W, lambda x: torch.relu(x @ W2) @ W),
    "nn.LeakyReLU": (lambda x: nn.LeakyReLU(0.3, inplace=True)(x @ W2), lambda x: F.leaky_relu(x @ W2, 0.3)),
    "nn.ELU": (lambda x: nn.ELU(inplace=True)(x @ W2), lambda x: F.elu(x @ W2)),
    "nn.SiLU": (lambda x: nn.SiLU(inplace=True)(x @ W2), lambda x: F.silu(x @ W2)),
    "add_": (lambda x: (x @ W2).add_(x).add_(B), lambda x: (x @ W2) + x + B),
    "iadd": (lambda x: _augmented(x), lambda x: ((x @ W2) + x) * 2),
    "mul_": (lambda x: F.gelu(x @ W2).mul_(x), lambda x: F.gelu(x @ W2) * x),
    "add_ to a product": (lambda x: ((x @ W2) * x).add_(1.0), lambda x: ((x @ W2) * x) + 1.0),
    "setitem into a buffer": (lambda x: _filled(x), lambda x: torch.stack([x[:, 1], torch.relu(x[:, 0])], 1)),
    "setitem over an activation": (
        lambda x: _overwritten(x),
        lambda x: 2 * torch.cat([x[:, :1], F.gelu(x @ W2)[:, 1:]], 1),
    ),
    "change through a view": (lambda x: _through_a_view(x), lambda x: 2 * (F.gelu(x @ W2) + x)),
    "change of an origin": (lambda x: _origin_changed(x), lambda x: (x @ W2 * 2) ** 2 + (x @ W2 + x)),
    "masked_fill_": (
        lambda x: (x @ W2).masked_fill_(torch.arange(DIM) > 1, 0.0),
        lambda x: (x @ W2) * (torch.arange(DIM) <= 1),
    ),
    "out of place under another name": (lambda x: torch.add(input=x @ W2, other=x), lambda x: x @ W2 + x),
}


def _augmented(x: Tensor) -> Tensor:
    h = x @ W2
    h += x
    h *= 2
    return h


def _filled(x: Tensor) -> Tensor:
    out = torch.zeros(len(x), 2, dtype=torch.float64)
    out[:, 0] = x[:, 1]
    out[:, 1] = torch.relu(x[:, 0])
    return out


def _overwritten(x: Tensor) -> Tensor:
    h = F.gelu(x @ W2)
    h[:, 0] = x[:, 0]
    return h * 2


def _through_a_view(x: Tensor) -> Tensor:
    h = F.gelu(x @ W2)
    h.view(-1, 2, 2).add_(x.view(-1, 2, 2))
    return h * 2


def _origin_changed(x: Tensor) -> Tensor:
    h = x @ W2
    y = h * 2
    h.add_(x)
    return y**2 + h


@pytest.mark.parametrize("plan", [Plan(), Plan(epsilon=0.1)], ids=["zero", "epsilon"])
@pytest.mark.parametrize(("in_place", "out_of_place"), IN_PLACE.values(), ids=IN_PLACE)
def test_operations_in_place(
    in_place: Callable[[Tensor], Tensor], out_of_place: Callable[[Tensor], Tensor], plan: Plan
) -> None:
    assert torch.allclose(Wrapped(in_place)(X), Wrapped(out_of_place)(X))
    assert torch.allclose(scores(in_place, plan), scores(out_of_place, plan), rtol=1e-9, atol=1e-12)


# y_j = x_j + 2 x_{j+1}, and (-x_3, -x_4, x_1, x_2)
SLIDING = torch.tensor([[1.0, 0, 0], [2, 1, 0], [0, 2, 1], [0, 0, 2]]).double()
HALF_TURN = torch.tensor([[0.0, 0, 1, 0], [0, 0, 0, 1], [-1, 0, 0, 0], [0, -1, 0, 0]]).double()
LINEAR: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "addmm with a bias": (lambda x: torch.addmm(B, x, W2), W @ W2),
    "addmm with a residual": (lambda x: torch.addmm(x, x, W2), W + W @ W2),
    "linear by keywords": (lambda x: F.linear(input=x, weight=W2.T), W @ W2),
    "einsum with one activation": (lambda x: torch.einsum("bi,ij->bj", x, W2), W @ W2),
    "conv1d": (lambda x: F.conv1d(x[:, None], torch.tensor([[[1.0, 2.0]]]).double(), B[:1]), W @ SLIDING),
    "conv2d": (lambda x: F.conv2d(x.view(-1, 1, 2, 2), torch.full((1, 1, 2, 2), 3.0).double(), B[:1]), W * 3),
    "batch norm with stored statistics": (
        lambda x: F.batch_norm(x, torch.arange(4.0).double(), torch.tensor([1.0, 4, 9, 16]).double() - 1e-5, B, B),
        W @ torch.diag(B.detach() / torch.tensor([1.0, 2, 3, 4]).double()),
    ),
    "index_add_": (lambda x: torch.zeros(len(x), 2).double().index_add_(1, torch.tensor([0, 1, 0, 1]), x), W),
    "scatter_add": (
        lambda x: torch.zeros(len(x), 2).double().scatter_add(1, torch.tensor([[0, 1, 0, 1]]).expand(len(x), -1), x),
        W,
    ),
    "low rank adapter": (
        lambda x: F.linear(x, W2.T) + 0.5 * ((x @ W[:, :2]) @ W2[:2]),
        W @ W2 + 0.5 * W @ W[:, :2] @ W2[:2],
    ),
    "rotary": (
        lambda x: x * B.cos() + torch.cat([-x[:, 2:], x[:, :2]], 1) * B.sin(),
        W @ (torch.diag(B.cos()) + HALF_TURN * B.sin()),
    ),
}


@pytest.mark.parametrize(("function", "matrix"), LINEAR.values(), ids=LINEAR)
def test_linear_maps(function: Callable[[Tensor], Tensor], matrix: Tensor) -> None:
    assert torch.allclose(scores(function), linear_oracle(matrix), rtol=1e-9)


@pytest.mark.parametrize("name", ["addmm with a bias", "conv1d", "batch norm with stored statistics"])
def test_printed_bias_conserves(name: str) -> None:
    """Without the bias in the denominators the relevance of the outputs, biases and all, goes to the inputs."""
    function = LINEAR[name][0]
    found = scores(function, Plan(bias="printed"))
    assert torch.allclose(found.sum(1), Wrapped(function)(X).detach(), rtol=1e-6)


def test_products_with_a_bias_that_is_an_activation_are_refused() -> None:
    with pytest.raises(RuleError, match=r"'addmm'.*adds an activation to a product of two"):
        scores(lambda x: torch.addmm(x, x, (x @ W2).T @ x))


def test_variance_follows_the_squares_in_it() -> None:
    """var = sum (x - mean)^2 / (n - 1): each square gives its relevance to its deviation, which conserves."""
    found = scores(lambda x: x.var(-1, keepdim=True))
    z = (X @ W).detach()
    relevance_of_z = z * (z - z.mean(-1, keepdim=True)) / (DIM - 1)
    expected = X * ((relevance_of_z / z) @ W.detach().T)
    assert torch.allclose(found, expected, rtol=1e-9)


NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "F.normalize": lambda x: F.normalize(x, dim=-1),
    "divided by vector_norm": lambda x: x / torch.linalg.vector_norm(x, dim=-1, keepdim=True),
    "rsqrt of a mean square": lambda x: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True)) / DIM**0.5,
    "power of a mean square": lambda x: x * (x.square().mean(-1, keepdim=True) + 0.0).pow(-0.5) / DIM**0.5,
    "root of a sum of products": lambda x: x / (x * x).sum(-1, keepdim=True).sqrt(),
    "rms_norm": lambda x: F.rms_norm(x, (DIM,), eps=0.0) / DIM**0.5,
}


@pytest.mark.parametrize("function", NORMS.values(), ids=NORMS)
def test_normalisers_are_constants(function: Callable[[Tensor], Tensor]) -> None:
    z = (X @ W).detach()
    expected = X * (W.detach().sum(1) / z.norm(dim=-1, keepdim=True))
    assert torch.allclose(scores(function), expected, rtol=1e-9)


def test_standard_deviation_is_a_constant() -> None:
    gain = torch.arange(1.0, DIM + 1).double()
    z = (X @ W).detach()
    found = scores(lambda x: gain * (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True))
    centering = torch.eye(DIM).double() - 1 / DIM
    expected = X * ((gain / z.std(-1, keepdim=True)) @ (W.detach() @ centering).T)
    assert torch.allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("plan", [Plan(), Plan(epsilon=0.1)], ids=["zero", "epsilon"])
def test_tensors_made_of_parameters_before_the_run_are_constants(plan: Plan) -> None:
    cached = (W2 * 2 + B).tanh()  # requires a gradient, and no leaf
    assert cached.requires_grad
    assert torch.equal(
        scores(lambda x: x @ cached + cached[0], plan), scores(lambda x: x @ cached.detach() + cached[0].detach(), plan)
    )


@pytest.mark.parametrize("method", ["attnlrp", "grad-x-input"])
def test_batch_norm_whose_gradient_has_its_channels_last(method: str) -> None:
    """torch's own backward pass gives wrong numbers here (2.13, CPU)."""
    norm = nn.BatchNorm2d(3, dtype=torch.float64).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for values in (norm.weight, norm.bias, norm.running_mean):
            assert values is not None
            values.copy_(torch.randn(3, generator=generator))
    head = torch.randn(3, 2, dtype=torch.float64, generator=generator)
    x = torch.randn(2, 3, 4, 4, dtype=torch.float64, generator=generator)
    found = looprop.attribute(lambda y: (norm(y).flatten(2).transpose(1, 2) @ head).sum((1, 2)), x, method)
    gain = norm.weight.detach() / (1 + norm.eps) ** 0.5 * head.sum(1)
    assert torch.allclose(found, x * gain[:, None, None], rtol=1e-9)


def test_einsum_of_two_activations_is_split_in_halves() -> None:
    found = scores(lambda x: torch.einsum("bi,bi->b", x, x @ W2))
    z = X @ W.detach()
    y = z @ W2.detach()
    expected = X * ((0.5 * y) @ W.detach().T + (0.5 * z) @ (W @ W2).detach().T)
    assert torch.allclose(found, expected, rtol=1e-9)


def test_weights_that_are_computed_from_parameters() -> None:
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(DIM, DIM, bias=False, dtype=torch.float64))
    assert torch.allclose(scores(layer), linear_oracle(W @ layer.weight.T), rtol=1e-9)


class LowRank(nn.Module):
    """What a LoRA layer does to a linear layer."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base, self.scaling = base, 2.0
        self.down = nn.Linear(base.in_features, 2, bias=False, dtype=base.weight.dtype)
        self.up = nn.Linear(2, base.out_features, bias=False, dtype=base.weight.dtype)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(self.dropout(x))) * self.scaling

    def merged(self) -> nn.Linear:
        merged = nn.Linear(self.base.in_features, self.base.out_features, dtype=self.base.weight.dtype)
        with torch.no_grad():
            merged.weight.copy_(self.base.weight + self.scaling * self.up.weight @ self.down.weight)
            merged.bias.copy_(self.base.bias)
        return merged


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp"])
def test_low_rank_adapters_equal_the_merged_model(method: str) -> None:
    model, tokenizer = tiny.tiny_classifier(dtype=torch.float64)
    merged, _ = tiny.tiny_classifier(dtype=torch.float64)
    torch.manual_seed(1)
    for layer, other in zip(model.bert.encoder.layer, merged.bert.encoder.layer, strict=True):
        adapter = LowRank(layer.attention.self.query)
        layer.attention.self.query, other.attention.self.query = adapter, adapter.merged()
        adapter = LowRank(layer.attention.self.value)
        layer.attention.self.value, other.attention.self.value = adapter, adapter.merged()
    found, expected = (looprop.load((m, tokenizer)).explain("the film is bad", method) for m in (model, merged))
    assert found.scores == pytest.approx(expected.scores, rel=1e-8)


@pytest.mark.skipif(importlib.util.find_spec("peft") is None, reason="peft is not installed")
def test_peft() -> None:
    import peft  # type: ignore[import-not-found,unused-ignore]

    model, tokenizer = tiny.tiny_classifier()
    config = peft.LoraConfig(task_type="SEQ_CLS", target_modules=["query", "value"], r=2, init_lora_weights=False)
    wrapped = peft.get_peft_model(model, config)
    found = looprop.load((wrapped, tokenizer)).explain("the film is bad", "attnlrp")
    expected = looprop.load((wrapped.merge_and_unload(), tokenizer)).explain("the film is bad", "attnlrp")
    assert found.scores == pytest.approx(expected.scores, rel=1e-4)
