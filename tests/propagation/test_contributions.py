"""Gamma, alpha-beta and shared biases: against literal loops, and against zennit where it is installed."""

import importlib.util
import itertools
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import looprop
import zoo
from looprop import Plan
from looprop.errors import PlanError, RuleError
from looprop.methods import make_method
from looprop.methods.lrp import LRP
from looprop.propagation import reference
from removal.naive import subject_of

GENERATOR = torch.Generator().manual_seed(3)
X = torch.randn(3, 4, dtype=torch.float64, generator=GENERATOR)
W = torch.randn(5, 4, dtype=torch.float64, generator=GENERATOR)
B = torch.randn(5, dtype=torch.float64, generator=GENERATOR)
R = torch.randn(3, 5, dtype=torch.float64, generator=GENERATOR)

GAMMA, ALPHA = 0.3, 2.0
RULES: dict[str, tuple[Plan, Callable[..., Tensor]]] = {
    "gamma": (Plan(linear="gamma", gamma=GAMMA, conv_gamma=GAMMA), lambda *a: reference.linear_gamma(*a, gamma=GAMMA)),
    "alpha-beta": (
        Plan(linear="alpha-beta", alpha=ALPHA),
        lambda *a: reference.linear_alpha_beta(*a, alpha=ALPHA),
    ),
    "shared": (Plan(bias="shared"), lambda *a: reference.linear_epsilon(*a, bias_share="shared")),
}


def by_loops(rule: str, x: Tensor, w: Tensor, b: Tensor | None, r: Tensor) -> Tensor:
    """The equations, entry by entry."""
    found = torch.zeros_like(x)
    for n, j in itertools.product(range(len(x)), range(len(w))):
        z = [float(x[n, i] * w[j, i]) for i in range(x.shape[1])]
        bias = 0.0 if b is None else float(b[j])
        y = sum(z) + bias
        for i, own in enumerate(z):
            if rule == "gamma":
                up = [1 + GAMMA if v * y > 0 else 1.0 for v in z]
                whole = sum(v * u for v, u in zip(z, up, strict=True)) + bias * (1 + GAMMA if bias * y > 0 else 1.0)
                share = own * up[i] / whole
            elif rule == "alpha-beta":
                high = sum(max(v, 0.0) for v in z) + max(bias, 0.0)
                low = sum(min(v, 0.0) for v in z) + min(bias, 0.0)
                share = ALPHA * max(own, 0.0) / high - (ALPHA - 1) * (min(own, 0.0) / low if low else 0.0)
            else:
                share = (own + bias * abs(own) / sum(map(abs, z))) / y
            found[n, i] += share * float(r[n, j])
    return found


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bias", [None, B], ids=["no bias", "bias"])
def test_reference_is_the_equation(rule: str, bias: Tensor | None) -> None:
    torch.testing.assert_close(RULES[rule][1](X, W, bias, R), by_loops(rule, X, W, bias, R), rtol=1e-10, atol=1e-12)


WAYS: dict[str, Callable[[Tensor, Tensor | None], Tensor]] = {
    "linear": lambda x, b: F.linear(x, W, b),
    "by name": lambda x, b: F.linear(input=x, weight=W, bias=b),
    "addmm": lambda x, b: torch.addmm(torch.zeros(5).double() if b is None else b, x, W.T),
    "conv1d": lambda x, b: F.conv1d(x[..., None], W[..., None], b)[..., 0],
    "conv2d": lambda x, b: F.conv2d(input=x[..., None, None], weight=W[..., None, None], bias=b)[..., 0, 0],
}
PRODUCTS: dict[str, Callable[[Tensor], Tensor]] = {
    "matmul": lambda x: x @ W.T,
    "from the left": lambda x: (W @ x.T).T,
    "bmm": lambda x: torch.bmm(x[None], W.T[None])[0],
}


def explained(function: Callable[[Tensor], Tensor], plan: Plan, weights: Tensor = R) -> Tensor:
    """The relevance of X for the output, whose relevance is y times `weights`."""
    with looprop.relevance(None, plan) as tape:
        x = tape.watch(X)
        out = function(x)
        return tape.relevance((out * weights).sum(), x)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bias", [None, B], ids=["no bias", "bias"])
@pytest.mark.parametrize("way", WAYS)
def test_the_engine_is_the_reference(way: str, bias: Tensor | None, rule: str) -> None:
    plan, equation = RULES[rule]
    y = F.linear(X, W, bias)
    found = explained(lambda x: WAYS[way](x, bias), plan)
    torch.testing.assert_close(found, equation(X, W, bias, y * R), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", ["gamma", "alpha-beta"])
@pytest.mark.parametrize("way", PRODUCTS)
def test_a_product_with_a_parameter_is_a_linear_layer(way: str, rule: str) -> None:
    plan, equation = RULES[rule]
    torch.testing.assert_close(
        explained(PRODUCTS[way], plan), equation(X, W, None, F.linear(X, W) * R), rtol=1e-9, atol=1e-12
    )


def test_gamma_zero_is_the_epsilon_rule() -> None:
    def function(x: Tensor) -> Tensor:
        return F.linear(x, W, B)

    torch.testing.assert_close(explained(function, Plan(linear="gamma", gamma=0.0)), explained(function, Plan()))


def test_a_layer_norm_shares_its_bias() -> None:
    weight, bias = W[0], W[1]
    sigma = (X.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    matrix = weight[:, None] * (torch.eye(4, dtype=torch.float64) - 1 / 4)
    r = R[:, :4]
    y = F.layer_norm(X, (4,), weight, bias)
    expected = reference.linear_epsilon(X / sigma, matrix, bias, y * r, bias_share="shared")
    found = explained(lambda x: F.layer_norm(x, (4,), weight, bias), Plan(bias="shared"), r)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_batch_norms_refuse_to_share_their_bias() -> None:
    layer = nn.BatchNorm1d(4).double().eval()
    with pytest.raises(RuleError, match="bias='shared' is defined for linear layers, convolutions and layer norms"):
        explained(layer, Plan(bias="shared"), R[:, :4])


@pytest.mark.parametrize("family", ["bert", "roberta", "distilbert", "electra", "gpt2"])
def test_with_biases_shared_and_positions_counted_nothing_is_lost(family: str) -> None:
    """CP-LRP hands on all relevance but that of biases and positions: with these, scores add up to the logit."""
    subject = subject_of(family)
    (found,) = make_method("cp-lrp", bias="shared", readout="sum").attribute([subject])
    assert found.scores.sum() == pytest.approx(subject.output, abs=1e-9)
    (kept,) = make_method("cp-lrp", readout="sum").attribute([subject])
    if family != "gpt2":  # whose random biases are zero
        assert abs(kept.scores.sum() - subject.output) > 1e-6


@pytest.mark.parametrize("option", [{"linear": "gama"}, {"gamma": -1}, {"conv_gamma": "x"}, {"alpha": 0.5}])
def test_options_are_checked(option: dict[str, Any]) -> None:
    with pytest.raises((PlanError, looprop.errors.UnknownNameError)):
        Plan(**option)


def test_a_linear_rule_has_its_own_place_for_biases() -> None:
    with pytest.raises(PlanError, match="bias must be 'keep', got 'shared'"):
        Plan(linear="gamma", bias="shared")


class Patches(nn.Module):
    """A small convolutional network with a ReLU, as zennit takes it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.relu, self.last = nn.Conv2d(2, 3, 2, stride=2), nn.ReLU(), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.relu(self.conv(x)).flatten(1))


def zennit_rules(monkeypatch: pytest.MonkeyPatch) -> Any:
    """zennit's rules without the rest of it, which wants torchvision."""
    found = importlib.util.find_spec("zennit")
    if found is None:
        pytest.skip("zennit is not installed: pip install --no-deps zennit")
    package: Any = types.ModuleType("zennit")
    package.__path__ = list(found.submodule_search_locations or ())
    monkeypatch.setitem(sys.modules, "zennit", package)
    return importlib.import_module("zennit.rules")


@pytest.mark.parametrize("rule", ["gamma", "alpha-beta"])
def test_as_zennit_has_it(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks, net = zennit_rules(monkeypatch), Patches().double()
    own = (
        (hooks.Gamma(GAMMA, stabilizer=0.0), hooks.Gamma(0.1, stabilizer=0.0))
        if rule == "gamma"
        else tuple(hooks.AlphaBeta(ALPHA, ALPHA - 1, stabilizer=0.0) for _ in range(2))
    )
    x = torch.randn(2, 2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    plan = Plan(linear="gamma", gamma=0.1, conv_gamma=GAMMA) if rule == "gamma" else Plan(linear="alpha-beta")
    found = looprop.attribute(net, x.detach(), LRP(plan=plan), target=1)
    handles = [own[0].register(net.conv), own[1].register(net.last), hooks.Pass().register(net.relu)]
    out = net(x)[:, 1]
    (expected,) = torch.autograd.grad(out, x, grad_outputs=out.detach())  # zennit hands on relevance, no gradients
    for handle in handles:
        handle.remove()
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


def test_an_image_model_under_the_recipe_for_images() -> None:
    """The value is what it was, and relevance differs from that of the epsilon rule."""
    bench = looprop.load((zoo.build("vit"), None))
    picture = torch.rand(1, 16, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    plain = bench.explain(picture, "cp-lrp")
    images = bench.explain(picture, "cp-lrp[linear=gamma;gamma=0.05;conv_gamma=0.25]")
    assert images.output == pytest.approx(plain.output)
    assert np.abs(images.scores - plain.scores).max() > 1e-3 * np.abs(plain.scores).max()
