"""Scores by rules against measured slopes of the surrogate: they agree where all is well, and tell where it is not."""

import math
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import looprop
import tiny
import zoo
from looprop import Plan, relevance
from looprop.auditing.checks import slope_gap
from looprop.auditing.original import in_float64
from looprop.errors import InputError, LoopropError
from looprop.methods.attnlrp import AttnLRP
from looprop.methods.base import Attribution
from looprop.methods.cp_lrp import CPLRP
from looprop.methods.grad_x_input import GradientTimesInput
from looprop.methods.lrp import LRP
from looprop.methods.registry import make_method
from looprop.models.loading import adapt_module
from looprop.models.subject import Subject, bind
from looprop.propagation.surrogate import Surrogate

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(5, dtype=torch.float64, generator=GENERATOR)
W, V = (torch.randn(5, 5, dtype=torch.float64, generator=GENERATOR) for _ in range(2))


def subject_of(function: Callable[[Tensor], Tensor] | nn.Module, x: Tensor = X) -> Subject:
    return bind(adapt_module(function), x, target=0)


def gap(function: Callable[[Tensor], Tensor] | nn.Module, method: LRP | GradientTimesInput) -> float:
    subject = subject_of(function)
    return slope_gap(method, subject, method.attribute([subject])[0])


# ----- the surrogate itself, by hand


def test_the_surrogate_of_a_small_network_by_hand() -> None:
    """tanh(x W) * (x V), normed: lines in place of tanh and of the product, the root mean square held."""

    def function(x: Tensor) -> Tensor:
        h = torch.tanh(x @ W) * (x @ V)
        return (h * torch.rsqrt(h.square().mean(-1, keepdim=True) + 1e-3)).sum(-1, keepdim=True)

    surrogate = Surrogate()

    def run(direction: Tensor | None = None, step: float = 0.0) -> float:
        with surrogate.at(direction, step), relevance(None, Plan()) as tape:
            out = function(tape.watch(X[None]))
        return float(out.detach())

    assert run() == pytest.approx(float(function(X[None])))
    direction = torch.arange(5, dtype=torch.float64)[None]
    for step in (0.5, -2.0):  # far away, where the model itself is something else
        x = X + step * direction[0]
        total = 0.0
        h0 = [math.tanh(float(X @ W[:, j])) * float(X @ V[:, j]) for j in range(5)]
        norm = math.sqrt(sum(h * h for h in h0) / 5 + 1e-3)
        for j in range(5):
            a0, b0, a, b = (float(v) for v in (X @ W[:, j], X @ V[:, j], x @ W[:, j], x @ V[:, j]))
            line = math.tanh(a0) / a0 * a  # the identity rule
            product = math.tanh(a0) * b0 + 0.5 * (line * b - math.tanh(a0) * b0)  # half of its change
            total += product / norm
        assert run(direction, step) == pytest.approx(total)
        assert run(direction, step) != pytest.approx(float(function(x[None])), rel=1e-3)


def test_a_surrogate_runs_at_the_input_first_and_goes_one_way() -> None:
    with pytest.raises(InputError, match="first has to run"):
        _ = Surrogate().explained
    surrogate = Surrogate()

    def run(function: Callable[[Tensor], Tensor]) -> None:
        with surrogate.at(), relevance(None, Plan()) as tape:
            function(tape.watch(X[None]))

    run(torch.tanh)
    with pytest.raises(InputError, match="another way"):
        run(lambda x: torch.tanh(x[:, :2]))
    with pytest.raises(InputError, match="another way"):
        run(lambda x: x)
    with pytest.raises(InputError, match="another way"):
        run(lambda x: torch.tanh(torch.tanh(x)))


def test_a_surrogate_has_one_input() -> None:
    surrogate = Surrogate()
    with surrogate.at(), relevance(None, Plan()) as tape:
        tape.watch(X[None])
        tape.watch(X[None, :2])
    with pytest.raises(InputError, match="one explained input, and this model has 2"):
        _ = surrogate.explained


# ----- rules that hold, and others

HOLDS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: x @ W,
    "gelu": lambda x: F.gelu(x @ W) @ V,
    "hard swish written out": lambda x: (x @ W) * F.relu6(x @ W + 3) / 6,
    "gate": lambda x: F.silu(x @ W) * (x @ V),
    "layer norm": lambda x: F.layer_norm(x @ W, (5,), V[0], V[1]) @ V,
    "norm written out": lambda x: (x @ W) / (x @ W).norm(dim=-1, keepdim=True),
    "attention": lambda x: (torch.softmax(x[:, :, None] @ (x @ W)[:, None], -1) @ (x @ V)[:, :, None])[..., 0],
    "fused attention": lambda x: F.scaled_dot_product_attention(*((x @ m)[:, :, None] for m in (W, V, W @ V)))[..., 0],
    "sigmoid gate": lambda x: (x @ W) * torch.sigmoid(x @ V),
    "router": lambda x: (torch.softmax(x @ W, -1)[:, :, None] * (x @ V)[:, None]).sum(1),
    "choice": lambda x: torch.where(x @ W > 0, x, x @ V).topk(3, -1).values,
}
METHODS = {
    "attnlrp": AttnLRP(),
    "cp-lrp": CPLRP(),
    "epsilon": LRP(epsilon=0.1),
    "canonical": LRP(bilinear="canonical"),
    "halves": LRP(plan=Plan(gate="halves", experts="halves")),
    "gradient": GradientTimesInput(),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", HOLDS)
def test_every_rule_is_the_slope_of_its_surrogate(name: str, method: str) -> None:
    assert gap(HOLDS[name], METHODS[method]) < 1e-6


class _Wrong(torch.autograd.Function):
    """Relevance made from nothing: three times what the identity rule gives."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return torch.tanh(x)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:  # type: ignore[override]
        return 3.0 * gradient


def test_a_wrong_rule_is_caught() -> None:
    method = LRP(plan=Plan(rules={"tanh": lambda call: _Wrong.apply(call.args[0])}))
    assert gap(lambda x: torch.tanh(x @ W) @ V, method) > 0.1
    # By the same name a rule that is built from the engine's own parts is a rule like others.
    own = LRP(plan=Plan(rules={"tanh": lambda call: looprop.propagation.scale_gradient(call.run(), 0.5)}))
    assert gap(lambda x: torch.tanh(x @ W) @ V, own) < 1e-6


def doubled(h: Tensor) -> Tensor:
    out = h * 1.0
    out.data.mul_(2.0)
    return out


def hooked(h: Tensor) -> Tensor:
    out = h * 1.0
    if out.requires_grad:
        out.register_hook(lambda g: -g)
    return out


def threaded(h: Tensor) -> Tensor:
    found: list[float] = []
    thread = threading.Thread(target=lambda: found.append(float(h.detach().sum())))
    thread.start()
    thread.join()
    return h * found[0]


UNDERHAND: dict[str, Callable[[Tensor], Tensor]] = {
    "detached": lambda h: h * h.detach().flip(-1),
    "a number": lambda h: h * float(h.detach().abs().max()),
    "numpy": lambda h: h * torch.from_numpy(np.tanh(h.detach().numpy())),
    "data": doubled,
    "a hook": hooked,
    "a thread": threaded,
}


@pytest.mark.parametrize("name", UNDERHAND)
def test_what_the_ordinary_gradient_misses_is_seen(name: str) -> None:
    """Gradient times input refuses nothing; that it is not the model's slope is found all the same."""
    assert gap(lambda x: UNDERHAND[name](x @ W) @ V, GradientTimesInput()) > 0.01


def test_what_no_mode_can_see_is_found() -> None:
    """A number that is read in another thread is out of the engine's sight, and moves the surrogate."""
    assert gap(lambda x: threaded(x @ W) @ V, AttnLRP()) > 0.01


def test_scores_of_something_else_are_caught() -> None:
    subject = subject_of(HOLDS["gelu"])
    scores = AttnLRP().attribute([subject])[0].scores
    for wrong in (2 * scores, -scores, scores[::-1].copy(), np.zeros(5)):
        assert slope_gap(AttnLRP(), subject, Attribution(wrong, cost=1.0)) > 0.01
    assert (
        slope_gap(CPLRP(), subject_of(HOLDS["attention"]), AttnLRP().attribute([subject_of(HOLDS["attention"])])[0])
        > 0.01
    )


def test_methods_without_a_plan_have_no_slopes() -> None:
    subject = subject_of(HOLDS["attention"])
    rollout = make_method("rollout")
    assert rollout.plan_for(subject.adapter, subject.encoded) is None
    assert math.isnan(slope_gap(rollout, subject, Attribution(np.ones(5), cost=1.0)))
    assert AttnLRP(readout="sum").plan_for(subject.adapter, subject.encoded) is None


# ----- whole models


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "grad-x-input"])
@pytest.mark.parametrize("name", zoo.TEXT)
def test_every_family(name: str, method: str) -> None:
    bench = looprop.load((zoo.build(name), tiny.wordpiece()))
    made = make_method(method)
    subject = bind(in_float64(bench.adapter), "the film is not bad", target=1)
    assert slope_gap(made, subject, made.attribute([subject])[0]) < 1e-5  # rounding, of scores that nearly cancel


@pytest.mark.parametrize("method", ["attnlrp", "grad-x-input"])
@pytest.mark.parametrize("name", ["bert", "llama"])
def test_in_single_precision_too(name: str, method: str) -> None:
    bench = looprop.load((zoo.build(name, dtype=torch.float32), tiny.wordpiece()))
    made = make_method(method)
    subject = bind(bench.adapter, "the film is not bad", target=1)
    assert slope_gap(made, subject, made.attribute([subject])[0]) < 1e-3


@pytest.mark.parametrize("method", ["attnlrp", "cp-lrp", "grad-x-input"])
def test_images(method: str) -> None:
    model, made = zoo.build("vit"), make_method(method)
    image = torch.rand(1, 16, 16, dtype=torch.float64, generator=GENERATOR)
    subject = subject_of(lambda x: model(x).logits, image)
    assert slope_gap(made, subject, made.attribute([subject])[0]) < 1e-6


def test_an_audit_says_so() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)).double()

    class Hooked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return hooked(x)

    inputs = [torch.rand(3).double() for _ in range(2)]
    fine = looprop.audit(model, inputs, ["attnlrp", "grad-x-input", "loo"], ["linear-split"])
    assert {check.method: check.slopes < 1e-6 for check in fine.checks} == {
        "attnlrp": True,
        "grad-x-input": True,
        "loo": False,  # NaN: it has no backward pass
    }
    assert not any("slopes" in flag for verdict in fine.verdicts.values() for flag in verdict.flags)
    turned = looprop.audit(nn.Sequential(model, Hooked()), inputs, ["grad-x-input"], [])
    assert "measured slopes differ by up to 200 %" in " ".join(turned.verdicts["grad-x-input"].flags)
    assert turned.to_dict()["checks"][0]["slopes"] == pytest.approx(2.0)
    with pytest.raises(LoopropError, match="register_hook"):
        looprop.attribute(nn.Sequential(model, Hooked()), inputs[0][None], "attnlrp")
