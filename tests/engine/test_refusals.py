"""What the engine cannot propagate through is refused by name, never guessed; what looks odd but is covered comes out right."""

import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import tiny
import torch
import torch.nn.functional as F
import transformers as hf
import zoo
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import looprop
from looprop import Plan, relevance
from looprop.errors import ModelError, RuleError, UnseenError
from looprop.methods.lrp import LRP

DIM = 4
GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(2, DIM, dtype=torch.float64, generator=GENERATOR)
W, W2 = (torch.randn(DIM, DIM, dtype=torch.float64, generator=GENERATOR).requires_grad_() for _ in range(2))
B = torch.randn(DIM, dtype=torch.float64, generator=GENERATOR).requires_grad_()


class Wrapped(nn.Module):
    """A function in the middle of a module, at a path that errors should name."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.middle = _Middle(function)
        self.weight = W

    def forward(self, x: Tensor) -> Tensor:
        out = self.middle(x @ self.weight)
        return out.reshape(len(x), -1).sum(-1)


class _Middle(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def scores(function: Callable[[Tensor], Tensor], plan: Plan | None = None, x: Tensor = X) -> Tensor:
    return looprop.attribute(Wrapped(function), x, LRP(plan=plan or Plan()))


def no_grad(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        with torch.no_grad():
            return function(x)

    return run


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return gradient * 2


class Reversal(torch.autograd.Function):
    """Gradient reversal: its forward pass only makes a view."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return -gradient


class Same(Reversal):
    """Returns its input itself."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x


REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "unknown": (lambda x: torch.logsumexp(x, -1), "'logsumexp'"),
    "unknown in place": (lambda x: x.clone().lgamma_(), "'lgamma'"),
    "product of all": (lambda x: x.prod(-1), "'prod'"),
    "cosine": (lambda x: torch.cosine_similarity(x, x @ W2, dim=-1), "'cosine_similarity'"),
    "sorted products": (lambda x: torch.cumprod(x, -1), "'cumprod'"),
    "rounding": (lambda x: torch.round(x), "'round'"),
    "floor division": (lambda x: torch.div(x, 2, rounding_mode="floor"), "'div'"),
    "lstm": (lambda x: nn.LSTM(DIM, 3, dtype=torch.float64)(x)[0], "'lstm'"),
    "glu": (lambda x: F.glu(x), "'glu'"),
    "sigmoid gate": (lambda x: x * torch.sigmoid(x @ W2), "'sigmoid'"),
    "sigmoid at the end": (torch.sigmoid, "'sigmoid'"),
    "exponential": (torch.exp, "'exp'"),
    "softplus": (F.softplus, "'softplus'"),
    "hardtanh that moves zero": (lambda x: F.hardtanh(x, 0.5, 1.0), "'hardtanh'"),
    "final softmax": (lambda x: torch.softmax(x, -1)[:, 0], "'softmax'"),
    "router": (lambda x: x * torch.softmax(x @ W2, -1), "'softmax'"),
    "log softmax": (lambda x: F.log_softmax(x, -1), "'log_softmax'"),
    "division": (lambda x: x / (x @ W2), "'div'"),
    "division by a sum": (lambda x: x / x.sum(-1, keepdim=True), "'div'"),
    "inverse": (lambda x: 1 / x, "'rdiv'"),
    "norm as a feature": (lambda x: x.norm(dim=-1), "gradient"),
    "norm added": (lambda x: x + x.norm(dim=-1, keepdim=True), "'norm'"),
    "norm concatenated": (lambda x: torch.cat([x, x.norm(dim=-1, keepdim=True)], -1), "'norm'"),
    "root mean square added": (lambda x: x + x.square().mean(-1, keepdim=True).sqrt(), "'sqrt'"),
    "linear layer of a norm": (lambda x: x + F.linear(torch.linalg.vector_norm(x, dim=-1, keepdim=True), torch.ones(DIM, 1).double()), "norm"),
    "group norm": (lambda x: F.group_norm(x, 2), "'group_norm'"),
    "batch statistics": (lambda x: F.batch_norm(x[None].expand(3, -1, -1).transpose(1, 2), None, None, training=True), "'batch_norm'"),
    "norm with a computed gain": (lambda x: F.layer_norm(x, (DIM,), weight=(x @ W2)[0]), "'layer_norm'"),
    "three factors": (lambda x: torch.einsum("bi,bi,bi->b", x, x @ W2, x @ W), "'einsum'"),
    "scattered products": (
        lambda x: torch.zeros(len(x), 2).double().scatter_reduce(1, torch.tensor([[0, 0, 1, 1]] * len(x)), x, "prod"),
        "'scatter_reduce'",
    ),
    "detach": (lambda x: x + x.detach(), "'detach'"),
    "data": (lambda x: x * x.data, "'get:data'"),
    "item": (lambda x: x * x.mean().item(), "'item'"),
    "float": (lambda x: x * float(x.mean()), "'item'"),
    "tolist": (lambda x: x * torch.tensor(x.tolist()), "'tolist'"),
    "numpy": (lambda x: x * torch.from_numpy(x.numpy(force=True)), "'numpy'"),
    "new tensor": (lambda x: x * x.new_tensor(x), "'new_tensor'"),
    "no gradient": (lambda x: x + no_grad(torch.relu)(x), "'relu'.*gradients turned off"),
    "no gradient, only a view": (lambda x: x + no_grad(lambda y: y[:, :1])(x), "'getitem'.*gradients turned off"),
    "no gradient, a copy": (lambda x: x * no_grad(torch.clone)(x), "'clone'.*gradients turned off"),
    "no gradient, in place": (lambda x: (no_grad(lambda y: y.mul_(2))(x), x)[1], "'mul'.*gradients turned off"),
    "inference mode": (torch.inference_mode()(lambda x: x * 2), "'mul'.*gradients turned off"),
    "custom function": (Doubling.apply, "custom autograd function"),
    "custom view": (Reversal.apply, "custom autograd function"),
    "custom identity": (Same.apply, "custom autograd function"),
    "complex": (lambda x: torch.fft.rfft(x).abs(), "fft_rfft"),
}


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad", "ignore:To copy construct from a tensor")
@pytest.mark.parametrize(("function", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_by_name(function: Callable[[Tensor], Tensor], message: str) -> None:
    assert torch.isfinite(Wrapped(function)(X)).all()  # the model itself is fine
    with pytest.raises(RuleError, match=message):
        scores(function)


def test_the_error_says_where_and_what_to_do() -> None:
    with pytest.raises(RuleError) as error:
        scores(lambda x: torch.logsumexp(x, -1))
    message = str(error.value)
    for part in ("'logsumexp'", "in middle (_Middle, test_refusals.py:", "Plan(rules={'logsumexp': my_rule})", "Plan(allow={'logsumexp'})"):
        assert part in message


def gradient_times_input(function: Callable[[Tensor], Tensor]) -> Tensor:
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(Wrapped(function)(x).sum(), x)
    return X * gradient


@pytest.mark.parametrize("name", ["logsumexp", "sigmoid", "softmax", "norm", "glu", "group_norm"])
def test_allowed_operations_pass_their_plain_gradient(name: str) -> None:
    function: Callable[[Tensor], Tensor] = {
        "logsumexp": lambda x: torch.logsumexp(x, -1),
        "sigmoid": torch.sigmoid,
        "softmax": lambda x: torch.softmax(x, -1)[:, 0],
        "norm": lambda x: x.norm(dim=-1),
        "glu": F.glu,
        "group_norm": lambda x: F.group_norm(x, 2),
    }[name]
    assert torch.allclose(scores(function, Plan(allow=frozenset({name}))), gradient_times_input(function))


def test_allowing_a_router_leaves_attention_alone() -> None:
    def function(x: Tensor) -> Tensor:
        x = x[:, :, None]
        mixed = torch.softmax(x @ x.mT, -1) @ x
        return mixed[..., 0] * torch.softmax(x[..., 0] @ W2, -1)

    plan = Plan(attention="cp", allow=frozenset({"softmax"}))
    with relevance(None, plan) as tape:
        x = tape.watch(X)
        found = tape.relevance(function(x).sum(-1), x)
    constant = torch.softmax(X[:, :, None] @ X[:, None, :], -1)  # what CP-LRP holds constant
    x = X.clone().requires_grad_()
    mixed, gate = (constant @ x[:, :, None])[..., 0], torch.softmax(x @ W2.detach(), -1)
    by_mixed, by_gate = (torch.autograd.grad((a * b).sum(), x, retain_graph=True)[0] for a, b in ((mixed, gate.detach()), (mixed.detach(), gate)))
    assert torch.allclose(found, X * (by_mixed + by_gate) / 2)


def test_own_rules() -> None:
    def nothing_passes(call: Any) -> Tensor:
        return call.run(*(a.detach() if isinstance(a, Tensor) else a for a in call.args)) + 0 * call.activations[0].sum()

    plan = Plan(rules={"logsumexp": nothing_passes})
    assert float(scores(lambda x: torch.logsumexp(x, -1), plan).abs().max()) == 0.0


# ----- what cannot be seen into


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("compile_it", [lambda m: torch.compile(m), lambda m: (m.compile(), m)[1]], ids=["wrapped", "in place"])
def test_compiled_modules(compile_it: Callable[[nn.Module], Any]) -> None:
    model = nn.Sequential(nn.Linear(DIM, DIM), compile_it(nn.Linear(DIM, 2)))
    with pytest.raises(UnseenError, match=r"1.* is a compiled module"):
        looprop.attribute(model, torch.randn(1, DIM))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_modules() -> None:
    model = nn.Sequential(nn.Linear(DIM, DIM), torch.jit.script(nn.Linear(DIM, 2)))
    with pytest.raises(UnseenError, match=r"1 is a compiled module"):
        looprop.attribute(model, torch.randn(1, DIM))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_scripted_functions() -> None:
    def square(x: Tensor) -> Tensor:
        return x * x

    with pytest.raises(RuleError):
        scores(torch.jit.script(square))


def test_quantised_layers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layer = torch.ao.nn.quantized.dynamic.Linear(DIM, 2)
    with pytest.raises(UnseenError, match="1 is a quantised layer"):
        looprop.attribute(nn.Sequential(nn.Linear(DIM, DIM), layer), torch.randn(1, DIM))


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_that_is_in_force(reentrant: bool) -> None:
    def function(x: Tensor) -> Tensor:
        out = checkpoint(lambda y: torch.relu(y @ W2), x, use_reentrant=reentrant)
        assert isinstance(out, Tensor)
        return out

    with pytest.raises(RuleError, match="gradient"):
        scores(function)


def test_checkpointing_of_a_model_that_predicts() -> None:
    model, tokenizer = tiny.tiny_classifier()
    expected = looprop.load((model, tokenizer)).explain("the film is bad", "attnlrp").scores
    model.gradient_checkpointing_enable()
    for training in (False, True):
        model.train(training)
        found = looprop.load((model, tokenizer)).explain("the film is bad", "attnlrp").scores
        assert found == pytest.approx(expected, rel=1e-5)
    with (
        pytest.raises(UnseenError, match="gradient_checkpointing_disable"),
        relevance(model, Plan(), explained_weight=model.get_input_embeddings().weight),
    ):
        model(**tokenizer("the film is bad", return_tensors="pt"))


def test_flash_attention() -> None:
    model, tokenizer = tiny.tiny_classifier()
    model.config._attn_implementation_internal = "flash_attention_2"
    with pytest.raises(ModelError, match="'flash_attention_2'.*'sdpa' or 'eager'"):
        looprop.load((model, tokenizer))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_on_a_cpu(dtype: torch.dtype) -> None:
    model, tokenizer = tiny.tiny_classifier()
    model.classifier.to(dtype)  # one layer is enough
    with pytest.raises(ModelError, match=f"BertForSequenceClassification is in {dtype} on a CPU.*model.float"):
        looprop.load((model, tokenizer))
    with pytest.raises(ModelError, match=f"{dtype} on a CPU"):
        looprop.attribute(nn.Linear(2, 2, dtype=dtype), torch.randn(1, 2, dtype=dtype))
    with pytest.raises(ValueError, match=f"{dtype} on a CPU"):
        looprop.attribute(lambda x: x.sum(-1), torch.randn(1, 2, dtype=dtype))


MIXTURES: dict[str, Callable[[], nn.Module]] = {
    "mixtral": lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**zoo.DECODER, num_local_experts=2, num_experts_per_tok=1)),
    "qwen2-moe": lambda: hf.Qwen2MoeForCausalLM(
        hf.Qwen2MoeConfig(**zoo.DECODER, num_experts=2, num_experts_per_tok=1, moe_intermediate_size=16, shared_expert_intermediate_size=16)
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures_of_experts(name: str) -> None:
    torch.manual_seed(0)
    model = MIXTURES[name]().eval()
    with (
        pytest.raises(RuleError, match=r"'softmax' in model\.layers\.0\.\S+ .*a router"),
        relevance(model, Plan(), explained_weight=model.get_input_embeddings().weight),  # type: ignore[operator]
    ):
        model(input_ids=zoo.token_ids())


# ----- what looks odd and is covered


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
    "setitem over an activation": (lambda x: _overwritten(x), lambda x: 2 * torch.cat([x[:, :1], F.gelu(x @ W2)[:, 1:]], 1)),
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
def test_operations_in_place(in_place: Callable[[Tensor], Tensor], out_of_place: Callable[[Tensor], Tensor], plan: Plan) -> None:
    assert torch.allclose(Wrapped(in_place)(X), Wrapped(out_of_place)(X))
    assert torch.allclose(scores(in_place, plan), scores(out_of_place, plan), rtol=1e-9, atol=1e-12)


LINEAR: dict[str, tuple[Callable[[Tensor], Tensor], Tensor]] = {
    "addmm with a bias": (lambda x: torch.addmm(B, x, W2), W @ W2),
    "addmm with a residual": (lambda x: torch.addmm(x, x, W2), W + W @ W2),
    "linear by keywords": (lambda x: F.linear(input=x, weight=W2.T), W @ W2),
    "einsum with one activation": (lambda x: torch.einsum("bi,ij->bj", x, W2), W @ W2),
    "conv1d": (lambda x: F.conv1d(x[:, None], torch.tensor([[[1.0, 2.0]]]).double(), B[:1]), W @ torch.tensor([[1.0, 0, 0], [2, 1, 0], [0, 2, 1], [0, 0, 2]]).double()),
    "conv2d": (lambda x: F.conv2d(x.view(-1, 1, 2, 2), torch.full((1, 1, 2, 2), 3.0).double(), B[:1]), W * 3),
    "batch norm with stored statistics": (
        lambda x: F.batch_norm(x, torch.arange(4.0).double(), torch.tensor([1.0, 4, 9, 16]).double() - 1e-5, B, B),
        W @ torch.diag(B.detach() / torch.tensor([1.0, 2, 3, 4]).double()),
    ),
    "index_add_": (lambda x: torch.zeros(len(x), 2).double().index_add_(1, torch.tensor([0, 1, 0, 1]), x), W),
    "scatter_add": (lambda x: torch.zeros(len(x), 2).double().scatter_add(1, torch.tensor([[0, 1, 0, 1]]).expand(len(x), -1), x), W),
    "low rank adapter": (lambda x: F.linear(x, W2.T) + 0.5 * ((x @ W[:, :2]) @ W2[:2]), W @ W2 + 0.5 * W @ W[:, :2] @ W2[:2]),
    "rotary": (lambda x: x * B.detach().cos() + torch.cat([-x[:, 2:], x[:, :2]], 1) * B.detach().sin(),
               W @ (torch.diag(B.detach().cos()) + torch.cat([torch.cat([torch.zeros(2, 2), torch.eye(2)], 1), torch.cat([-torch.eye(2), torch.zeros(2, 2)], 1)], 0).double() * B.detach().sin())),
}  # fmt: skip


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
    with pytest.raises(RuleError, match="'addmm'.*adds an activation to a product of two"):
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


def test_einsum_of_two_activations_is_split_in_halves() -> None:
    found = scores(lambda x: torch.einsum("bi,bi->b", x, x @ W2))
    z = X @ W.detach()
    y = z @ W2.detach()
    expected = X * ((0.5 * y) @ W.detach().T + (0.5 * z) @ (W @ W2).detach().T)
    assert torch.allclose(found, expected, rtol=1e-9)


class Attention(nn.Module):
    """Attention over three positions, written in several ways."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.attend = attend
        generator = torch.Generator().manual_seed(1)
        self.projections = nn.ParameterList(torch.randn(DIM, DIM, dtype=torch.float64, generator=generator) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(*(x @ p for p in self.projections)).flatten(1).sum(-1)


SEQUENCE = torch.randn(2, 3, DIM, dtype=torch.float64, generator=GENERATOR)


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.mT / DIM**0.5, -1) @ v


def in_place_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.bmm(q, k.transpose(1, 2))
    scores /= DIM**0.5
    scores += torch.zeros(3, 3, dtype=torch.float64)
    weights = F.softmax(scores, dim=-1, dtype=torch.float64)
    return torch.einsum("bij,bjd->bid", weights, v)


WAYS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "fused": lambda q, k, v: F.scaled_dot_product_attention(q, k, v),
    "fused by keywords": lambda q, k, v: F.scaled_dot_product_attention(query=q[:, None], key=k[:, None], value=v[:, None])[:, 0],
    "in place": in_place_attention,
    "query scaled": lambda q, k, v: (q / DIM**0.5 @ k.mT).softmax(-1) @ v,
    "baddbmm": lambda q, k, v: torch.baddbmm(torch.zeros(1, 3, 3).double(), q, k.mT, beta=1, alpha=DIM**-0.5).softmax(-1) @ v,
    "einsum": lambda q, k, v: torch.einsum("bij,bjd->bid", torch.softmax(torch.einsum("bid,bjd->bij", q, k) * DIM**-0.5, -1), v),
}


@pytest.mark.parametrize("plan", [Plan(), Plan(attention="cp"), Plan(epsilon=0.1), Plan(attention="cp", epsilon=0.1)], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_ways_to_write_attention(way: str, plan: Plan) -> None:
    expected = looprop.attribute(Attention(attend), SEQUENCE, LRP(plan=plan))
    assert torch.allclose(looprop.attribute(Attention(WAYS[way]), SEQUENCE, LRP(plan=plan)), expected, rtol=1e-9, atol=1e-12)


def attention_by_hand(module: Attention, cap: float | None = None, sink: float | None = None, normalise: bool = False) -> Tensor:
    """AttnLRP at epsilon 0 with autograd on detached pieces: V gets half of the gradient, Q and K a quarter."""
    x = SEQUENCE.clone().requires_grad_()
    q, k, v = (x @ p.detach() for p in module.projections)
    if normalise:
        q, k = (t / t.detach().norm(dim=-1, keepdim=True) for t in (q, k))
    z = q @ k.mT / DIM**0.5
    if cap is not None:
        z = z * (cap * torch.tanh(z / cap) / z).detach()  # the identity rule
    logits = z if sink is None else torch.cat([z, torch.full_like(z[..., :1], sink)], -1)
    weights = torch.softmax(logits, -1)[..., : z.shape[-1]]
    by_values = (weights.detach() @ v).sum()
    by_weights = (weights @ v.detach()).sum()
    (g_values,) = torch.autograd.grad(by_values, x, retain_graph=True)
    (g_weights,) = torch.autograd.grad(by_weights, x)
    # The chain through q k^T is a sum of two paths; each of them gets half.
    return SEQUENCE * (0.5 * g_values + 0.25 * g_weights)


def test_softcapped_scores() -> None:
    module = Attention(lambda q, k, v: torch.softmax(5.0 * torch.tanh(q @ k.mT / DIM**0.5 / 5.0), -1) @ v)
    assert torch.allclose(looprop.attribute(module, SEQUENCE), attention_by_hand(module, cap=5.0), rtol=1e-9)


def test_normalised_queries_and_keys() -> None:
    module = Attention(lambda q, k, v: F.scaled_dot_product_attention(F.normalize(q, dim=-1), F.normalize(k, dim=-1), v))
    assert torch.allclose(looprop.attribute(module, SEQUENCE), attention_by_hand(module, normalise=True), rtol=1e-9)


def test_attention_sinks() -> None:
    def with_sink(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT / DIM**0.5
        sinks = nn.Parameter(torch.tensor(0.7).double()).expand(*scores.shape[:-1], 1)
        return torch.softmax(torch.cat([scores, sinks], -1), -1)[..., :-1] @ v

    module = Attention(with_sink)
    assert torch.allclose(looprop.attribute(module, SEQUENCE), attention_by_hand(module, sink=0.7), rtol=1e-9)


@pytest.mark.parametrize("plan", [Plan(), Plan(epsilon=1e-9), Plan(attention="cp")], ids=str)
def test_a_learned_query_gets_no_share(plan: Plan) -> None:
    """Attention pooling: the query is a parameter, so that q k^T is linear in k and is not split."""
    query = nn.Parameter(torch.randn(1, 1, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(5)))
    module = Attention(lambda q, k, v: F.scaled_dot_product_attention(query.expand(len(k), -1, -1), k, v))
    found = looprop.attribute(module, SEQUENCE, LRP(plan=plan))
    x = SEQUENCE.clone().requires_grad_()
    k, v = (x @ p.detach() for p in module.projections[1:])
    weights = torch.softmax(query.detach() @ k.mT / DIM**0.5, -1)
    (g_values,) = torch.autograd.grad((weights.detach() @ v).sum(), x, retain_graph=True)
    (g_weights,) = torch.autograd.grad((weights @ v.detach()).sum(), x)
    expected = SEQUENCE * (g_values if plan.attention == "cp" else 0.5 * g_values + 0.5 * g_weights)
    assert torch.allclose(found, expected, rtol=1e-6)
    # Written out it cannot be told from a router, and is refused like one.
    with pytest.raises(RuleError, match="'softmax'"):
        looprop.attribute(Attention(lambda q, k, v: torch.softmax(query @ k.mT / DIM**0.5, -1) @ v), SEQUENCE, LRP(plan=plan))


def test_weights_times_values_are_no_scores() -> None:
    """A softmax right after a residual attention without projections is another softmax, not another attention."""
    module = Attention(lambda q, k, v: torch.softmax(v + attend(q, k, v), -1)[..., :1])
    with pytest.raises(RuleError, match="'softmax'"):
        looprop.attribute(module, SEQUENCE)


class SelfAttention(nn.Module):
    def __init__(self, *, need_weights: bool, batch_first: bool = True) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(DIM, 2, batch_first=batch_first, dtype=torch.float64)
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.attention(x, x, x, need_weights=self.need_weights)
        return out.flatten(1).sum(-1)


@pytest.mark.parametrize("plan", [Plan(), Plan(attention="cp"), Plan(epsilon=0.1)], ids=str)
def test_multihead_attention_with_and_without_weights(plan: Plan) -> None:
    torch.manual_seed(0)
    fused, written = SelfAttention(need_weights=False), SelfAttention(need_weights=True)
    written.load_state_dict(fused.state_dict())
    with torch.no_grad():
        fused.attention.in_proj_bias.copy_(torch.randn(3 * DIM))
        written.attention.in_proj_bias.copy_(fused.attention.in_proj_bias)
    found = [looprop.attribute(m.train(training), SEQUENCE, LRP(plan=plan)) for m in (fused, written) for training in (False, True)]
    for other in found[1:]:
        assert torch.allclose(found[0], other, rtol=1e-9, atol=1e-12)
    # Against the same thing by hand: one attention per head.
    weight, bias = fused.attention.in_proj_weight.detach(), fused.attention.in_proj_bias.detach()

    def by_hand(x: Tensor) -> Tensor:
        q, k, v = (F.linear(x, w, b).unflatten(-1, (2, 2)).transpose(1, 2) for w, b in zip(weight.chunk(3), bias.chunk(3), strict=True))
        mixed = (torch.softmax(q @ k.mT / 2**0.5, -1) @ v).transpose(1, 2).flatten(2)
        return F.linear(mixed, fused.attention.out_proj.weight, fused.attention.out_proj.bias).flatten(1).sum(-1)

    assert torch.allclose(found[0], looprop.attribute(by_hand, SEQUENCE, LRP(plan=plan)), rtol=1e-9, atol=1e-12)


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


def test_a_table_that_is_looked_up_twice() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(99, DIM)

        def get_input_embeddings(self) -> nn.Module:
            return self.embedding

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return (self.embedding(input_ids) + self.embedding(input_ids)).sum(1)

    with pytest.raises(RuleError, match="looked up more than once"):
        looprop.load((Twice(), tiny.wordpiece())).explain("the film", target=0)


def test_outputs_may_be_read_inside_the_block() -> None:
    model = zoo.build("bert")
    with relevance(model, Plan(), explained_weight=model.get_input_embeddings().weight) as tape:  # type: ignore[operator]
        logits = model(input_ids=zoo.token_ids()).logits
        best = int(logits[0].argmax())
        assert logits[0, best].item() == float(logits.detach()[0].max())
        assert tape.relevance(logits[0, best], tape.explained).shape == (1, 9, 32)
