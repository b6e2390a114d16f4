"""What the engine cannot propagate through is refused by name, never guessed."""

import warnings
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._higher_order_ops.map import map as higher_order_map
from torch.utils.checkpoint import checkpoint

import looprop
import tiny
import zoo
from looprop import Plan, relevance
from looprop.errors import LoopropError, ModelError, RuleError, UnseenError
from looprop.propagation import GRADIENT
from propagation.pieces import DIM, W2, W, Wrapped, X, scores


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


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


def _put(x: Tensor, weights: Tensor) -> Tensor:
    out = x.clone()
    out[:, 0] = weights[:, 0]
    return out


REFUSED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "unknown": (lambda x: torch.logcumsumexp(x, -1), "'logcumsumexp'"),
    "unknown in place": (lambda x: x.clone().lgamma_(), "'lgamma'"),
    "product of all": (lambda x: x.prod(-1), "'prod'"),
    "cosine": (lambda x: torch.cosine_similarity(x, x @ W2, dim=-1), "'cosine_similarity'"),
    "sorted products": (lambda x: torch.cumprod(x, -1), "'cumprod'"),
    "rounding": (lambda x: torch.round(x), "'round'"),
    "floor division": (lambda x: torch.div(x, 2, rounding_mode="floor"), "'div'"),
    "lstm": (lambda x: nn.LSTM(DIM, 3, dtype=torch.float64)(x)[0], "'lstm'"),
    "gate that is added": (lambda x: x + torch.sigmoid(x @ W2), "'sigmoid'.*reaches 'add'"),
    "gate that is joined": (lambda x: torch.cat([x, torch.sigmoid(x @ W2)], -1), "'sigmoid'.*reaches 'cat'"),
    "gate of a constant": (lambda x: torch.sigmoid(x @ W2) * W[:1], "'sigmoid'.*reaches 'output'"),
    "gate made a number": (lambda x: x * torch.sigmoid(x @ W2).mean().item(), "'item'"),
    "log-sum-exp": (lambda x: torch.logsumexp(x, -1), "'logsumexp'"),
    "sigmoid attention": (lambda x: torch.sigmoid(x @ (x @ W2).mT) @ x, "'sigmoid'.*attention scores"),
    "softmax written out": (lambda x: _normalised(torch.exp(x @ (x @ W2).mT)) @ x, "'exp'.*attention scores"),
    "sigmoid at the end": (torch.sigmoid, "'sigmoid'"),
    "exponential": (torch.exp, "'exp'"),
    "softplus": (F.softplus, "'softplus'"),
    "hardtanh that moves zero": (lambda x: F.hardtanh(x, 0.5, 1.0), "'hardtanh'"),
    "final softmax": (lambda x: torch.softmax(x, -1)[:, 0], "'softmax'"),
    "router that is added": (lambda x: x + torch.softmax(x @ W2, -1), "'softmax'.*reaches 'add'"),
    "router that is put in": (lambda x: _put(x, torch.softmax(x @ W2, -1)), "'softmax'.*reaches 'setitem'"),
    "router in a layer": (lambda x: x + torch.softmax(x @ W2, -1) @ W, "'softmax'.*reaches 'add'"),
    "log softmax": (lambda x: F.log_softmax(x, -1), "'log_softmax'"),
    "division": (lambda x: x / (x @ W2), "'div'"),
    "division by a sum": (lambda x: x / x.sum(-1, keepdim=True), "'div'"),
    "inverse": (lambda x: 1 / x, "'rdiv'"),
    "norm as a feature": (lambda x: x.norm(dim=-1), "'norm'.*reaches"),
    "norm added": (lambda x: x + x.norm(dim=-1, keepdim=True), "'norm'"),
    "norm concatenated": (lambda x: torch.cat([x, x.norm(dim=-1, keepdim=True)], -1), "'norm'"),
    "root mean square added": (lambda x: x + x.square().mean(-1, keepdim=True).sqrt(), "'sqrt'"),
    "linear layer of a norm": (
        lambda x: x + F.linear(torch.linalg.vector_norm(x, dim=-1, keepdim=True), torch.ones(DIM, 1).double()),
        "norm",
    ),
    "group norm with a computed gain": (lambda x: F.group_norm(x, 2, weight=(x @ W2)[0]), "'group_norm'"),
    "batch statistics": (
        lambda x: F.batch_norm(x[None].expand(3, -1, -1).transpose(1, 2), None, None, training=True),
        "'batch_norm'",
    ),
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
    "no gradient": (lambda x: x + no_grad(torch.relu)(x), "'relu'.*no_grad"),
    "no gradient, only a view": (lambda x: x + no_grad(lambda y: y[:, :1])(x), "'getitem'.*no_grad"),
    "no gradient, a copy": (lambda x: x * no_grad(torch.clone)(x), "'clone'.*no_grad"),
    "no gradient, in place": (lambda x: (no_grad(lambda y: y.mul_(2))(x), x)[1], "'mul'.*no_grad"),
    "inference mode": (torch.inference_mode()(lambda x: x * 2), "'mul'.*no_grad"),
    "custom function": (Doubling.apply, "custom autograd function"),
    "custom view": (Reversal.apply, "custom autograd function"),
    "custom identity": (Same.apply, "custom autograd function"),
    "complex": (lambda x: torch.fft.rfft(x).abs(), "'abs'.*complex"),
}


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad", "ignore:To copy construct from a tensor")
@pytest.mark.parametrize(("function", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_by_name(function: Callable[[Tensor], Tensor], message: str) -> None:
    assert torch.isfinite(Wrapped(function)(X)).all()  # the model itself is fine
    with pytest.raises(RuleError, match=message):
        scores(function)


def _out(x: Tensor) -> Tensor:
    out = torch.empty_like(x)
    torch.add(x, x, out=out)
    return out


def _needs_constants(x: Tensor) -> Tensor:
    if x.requires_grad:
        raise ValueError("no gradients, please")
    return x


# What torch itself, or the model, raises once gradients are on or a mode looks on, with the name in the error.
FAILING: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "out=": (_out, "'add' in middle"),
    "out= of aten": (lambda x: torch.ops.aten.mul.out(x, x, out=torch.empty_like(x)), "'mul' in middle"),
    "resize_": (lambda x: x.clone().resize_(len(x), DIM), "'resize' in middle"),
    "resize_as_": (lambda x: x.clone().resize_as_(x), "'resize_as' in middle"),
    "apply_": (lambda x: x.clone().apply_(lambda value: value * 2), "'apply' in middle"),
    "deepcopy": (lambda x: deepcopy(x) * 2, "'deepcopy' in middle"),
    "a view in place": (lambda x: x.split(2, -1)[0].mul_(2), "'mul' in middle"),
    "prims": (lambda x: torch.ops.prims.neg.default(x), "prims.neg"),
    "cond": (lambda x: torch.cond(x.sum() > 9, lambda y: y * 2, lambda y: y * 3, (x,)), "'cond' in middle"),
    "map": (lambda x: higher_order_map(lambda y: y * 2, x), "'map' in middle"),
    "an error of the model's own": (_needs_constants, "middle .*ValueError: no gradients, please"),
    "an attribute": (lambda x: x.nothing if x.requires_grad else x, "middle .*AttributeError"),
}
USES_DYNAMO = {"cond", "map"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", ["attnlrp", "grad-x-input", "ig", "gim"])
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in USES_DYNAMO)) for n in FAILING])
def test_what_torch_raises_under_the_engine_is_named(name: str, method: str) -> None:
    function, message = FAILING[name]
    if (name, method) in {("cond", "ig"), ("map", "ig")}:
        pytest.skip("needs no mode, only gradients, which these have")
    model = Wrapped(function)
    assert torch.isfinite(looprop.attribute(model, X, "loo")).all()  # the way out that the message names
    if (
        method == "ig" and "in middle" in message
    ):  # without a mode nobody sees what is called, torch's own words name it
        message = r"middle \(.*Error: "
    with pytest.raises(LoopropError, match=message) as error:
        looprop.attribute(model, X, method)
    assert "'loo'" in str(error.value)


def test_a_layer_of_a_text_model_that_fails_under_the_engine() -> None:
    model, tokenizer = tiny.tiny_classifier()
    layer = model.bert.encoder.layer[0].output
    layer.register_forward_hook(lambda module, given, out: out.clone().resize_(out.shape))
    bench = looprop.load((model, tokenizer))
    with pytest.raises(RuleError, match=r"'resize' in .*RuntimeError.*'loo'"):
        bench.explain("the film is bad", "attnlrp")
    assert bench.explain("the film is bad", "loo").scores.size


def test_an_error_of_ones_own_beside_a_tape_stays_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), relevance(None, Plan()):
        1 / 0  # noqa: B018


def test_a_model_may_catch_what_torch_raises() -> None:
    def careful(x: Tensor) -> Tensor:
        try:
            return x[:, 99]
        except IndexError:
            return x @ W2

    assert torch.equal(scores(careful), scores(lambda x: x @ W2))


def test_the_error_says_where_and_what_to_do() -> None:
    with pytest.raises(RuleError) as error:
        scores(lambda x: torch.logcumsumexp(x, -1))
    message = str(error.value)
    for part in (
        "'logcumsumexp'",
        "in middle (_Middle, pieces.py:",
        "Plan(rules={'logcumsumexp': my_rule})",
        "Plan(allow={'logcumsumexp'})",
    ):
        assert part in message


def gradient_times_input(function: Callable[[Tensor], Tensor]) -> Tensor:
    x = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(Wrapped(function)(x).sum(), x)
    return X * gradient


@pytest.mark.parametrize("name", ["logsumexp", "sigmoid", "softmax", "norm", "group_norm"])
def test_allowed_operations_pass_their_plain_gradient(name: str) -> None:
    function: Callable[[Tensor], Tensor] = {
        "logsumexp": lambda x: torch.logsumexp(x, -1),
        "sigmoid": torch.sigmoid,
        "softmax": lambda x: torch.softmax(x, -1)[:, 0],
        "norm": lambda x: x.norm(dim=-1),
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
    by_mixed, by_gate = (
        torch.autograd.grad((a * b).sum(), x, retain_graph=True)[0]
        for a, b in ((mixed, gate.detach()), (mixed.detach(), gate))
    )
    assert torch.allclose(found, X * (by_mixed + by_gate) / 2)


def test_what_is_cut_off_may_be_looked_at() -> None:
    """A detached tensor does no harm as long as it does not come back."""

    def looking(x: Tensor) -> Tensor:
        with torch.no_grad():
            entropy = -(x.softmax(-1) * x.softmax(-1).log()).sum()
        if entropy > 100 or x.detach().abs().max() > 1e6:
            raise AssertionError
        order = x.detach().argsort(-1)
        return x.gather(-1, order) @ W2

    for row in X.split(1):
        order = (row @ W.detach()).argsort(-1)
        assert torch.equal(scores(looking, x=row), scores(lambda x, order=order: x.gather(-1, order) @ W2, x=row))  # type: ignore[misc]


def test_allowing_a_detached_tensor() -> None:
    found = scores(lambda x: x + 2 * x.detach(), Plan(allow=frozenset({"detach"})))
    assert torch.allclose(found, X * W.detach().sum(1))


def test_own_rules() -> None:
    def nothing_passes(call: Any) -> Tensor:
        return (
            call.run(*(a.detach() if isinstance(a, Tensor) else a for a in call.args)) + 0 * call.activations[0].sum()
        )

    plan = Plan(rules={"logsumexp": nothing_passes})
    assert float(scores(lambda x: torch.logsumexp(x, -1), plan).abs().max()) == 0.0


# ----- what cannot be seen into


@pytest.mark.slow  # torch.compile takes its time to be imported, and its usual backend many times as long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "compile_it",
    [lambda m: torch.compile(m, backend="eager"), lambda m: (m.compile(backend="eager"), m)[1]],
    ids=["wrapped", "in place"],
)
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


def test_checkpointing_under_the_ordinary_gradient() -> None:
    def function(x: Tensor) -> Tensor:
        out = checkpoint(lambda y: torch.relu(y @ W2), x, use_reentrant=True)
        assert isinstance(out, Tensor)
        return out

    with pytest.raises(UnseenError, match="gradient_checkpointing_disable"):
        gradient_by_engine(function)


def gradient_by_engine(function: Callable[[Tensor], Tensor]) -> Tensor:
    with relevance(None, GRADIENT) as tape:
        x = tape.watch(X)
        return tape.relevance(function(x), x)


def test_without_rules_nothing_is_refused() -> None:
    """Gradient times input is whatever torch's own gradient says, also past a detached tensor."""
    for function in (lambda x: x * x.detach(), lambda x: x * x.norm().detach(), lambda x: x * float(x.detach().sum())):
        x = X.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(function(x).sum(), x)
        assert torch.allclose(gradient_by_engine(function), X * gradient)


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
    with pytest.raises(ModelError, match=r"'flash_attention_2'.*'sdpa' or 'eager'"):
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


def test_half_precision_by_autocast_is_left_out() -> None:
    bench = looprop.load(tiny.tiny_classifier())
    expected = bench.explain("the film is bad", "attnlrp").scores
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = bench.explain("the film is bad", "attnlrp").scores
        assert torch.is_autocast_enabled("cpu")
    assert found.tolist() == expected.tolist()


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
        looprop.load((Twice(), tiny.wordpiece())).explain("the film", "attnlrp", target=0)


def test_outputs_may_be_read_inside_the_block() -> None:
    model = zoo.build("bert")
    with relevance(model, Plan(), explained_weight=model.get_input_embeddings().weight) as tape:  # type: ignore[operator]
        logits = model(input_ids=zoo.token_ids()).logits
        best = int(logits[0].argmax())
        assert logits[0, best].item() == float(logits.detach()[0].max())
        assert tape.relevance(logits[0, best], tape.explained).shape == (1, 9, 32)
