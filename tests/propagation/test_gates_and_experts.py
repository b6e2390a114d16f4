"""Gates and mixtures of experts: the engine against relevance that is handed on by literal loops, in float64."""

import math
from typing import Any

import pytest
import torch
import transformers as hf
import transformers.integrations.moe  # registers its grouped product with torch
from torch import Tensor, nn

import zoo
from looprop import Plan, relevance
from looprop.propagation import reference

WIDTH, INNER, EXPERTS, CHOSEN, LENGTH = 4, 3, 5, 2, 6
GENERATOR = torch.Generator().manual_seed(3)
ROUTERS = ["softmax", "renormalised", "softmax of the chosen", "sigmoid", "sigmoid, renormalised"]
COMBINES = ["one by one", "grouped", "batched"]


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=GENERATOR)


X = draw(LENGTH, WIDTH)


class Mixture(nn.Module):
    """A residual mixture of linear experts with a hidden layer, as the libraries write it."""

    def __init__(self, router: str, combine: str) -> None:
        super().__init__()
        self.router, self.combine = router, combine
        self.gate, self.head = nn.Parameter(draw(EXPERTS, WIDTH)), nn.Parameter(draw(WIDTH))
        self.up, self.down = nn.Parameter(draw(EXPERTS, WIDTH, INNER)), nn.Parameter(draw(EXPERTS, INNER, WIDTH))

    def routed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = x @ self.gate.T
        if self.router == "softmax of the chosen":
            values, chosen = logits.topk(CHOSEN, -1)
            return values.softmax(-1), chosen
        scores = logits.sigmoid() if self.router.startswith("sigmoid") else logits.softmax(-1)
        _, chosen = (scores + 0.01 * torch.arange(EXPERTS)).topk(CHOSEN, -1)
        weights = scores.gather(-1, chosen)
        if "renormalised" in self.router:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        return 1.5 * weights, chosen

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.routed(x)
        flat, rows = chosen.flatten(), torch.arange(len(x)).repeat_interleave(CHOSEN)
        if self.combine == "one by one":
            out = torch.zeros_like(x)
            for expert in range(EXPERTS):
                at, place = torch.where(chosen == expert)
                inner = torch.tanh(x[at] @ self.up[expert])
                out.index_add_(0, at, inner @ self.down[expert] * weights[at, place, None])
        else:
            order = flat.argsort(stable=True) if self.combine == "grouped" else torch.arange(len(flat))
            taken = x[rows[order]]
            if self.combine == "grouped":
                ends = torch.bincount(flat, minlength=EXPERTS).cumsum(0).to(torch.int32)
                product = torch.ops.transformers.grouped_mm_fallback
                inner = product(torch.tanh(product(taken, self.up, ends)), self.down, ends)
            else:
                inner = torch.tanh(torch.bmm(taken[:, None], self.up[flat]))
                inner = torch.bmm(inner, self.down[flat])[:, 0]
            out = torch.zeros_like(x).index_add(0, rows[order], inner * weights.flatten()[order, None])
        return ((x + out) @ self.head).sum()[None]


def chosen_weights(mixture: Mixture, token: int) -> dict[int, float]:
    """The router by hand, in plain floats: which experts, and with which weights."""
    gate = mixture.gate.detach()
    logits = [sum(float(X[token, d] * gate[e, d]) for d in range(WIDTH)) for e in range(EXPERTS)]
    if mixture.router == "softmax of the chosen":
        best = sorted(range(EXPERTS), key=lambda e: -logits[e])[:CHOSEN]
        total = sum(math.exp(logits[e]) for e in best)
        return {e: math.exp(logits[e]) / total for e in best}
    everything = sum(map(math.exp, logits))
    sigmoid = mixture.router.startswith("sigmoid")
    scores = [1 / (1 + math.exp(-v)) if sigmoid else math.exp(v) / everything for v in logits]
    best = sorted(range(EXPERTS), key=lambda e: -(scores[e] + 0.01 * e))[:CHOSEN]
    total = sum(scores[e] for e in best) if "renormalised" in mixture.router else 1.0
    return {e: 1.5 * scores[e] / total for e in best}


def through_the_chosen(mixture: Mixture, share: float = 1.0) -> Tensor:
    """Relevance of the input by hand: to each chosen expert by what it contributes, to its input through its layers.

    share: what an expert gets of its term, of which its weight may get the rest.
    """
    found = torch.zeros_like(X)
    up, down, head = mixture.up.detach(), mixture.down.detach(), mixture.head.detach()
    for t in range(LENGTH):
        weights = chosen_weights(mixture, t)
        inner = {e: [math.tanh(float(X[t] @ up[e, :, k])) for k in range(INNER)] for e in weights}
        out = {
            e: [sum(inner[e][k] * float(down[e, k, d]) for k in range(INNER)) for d in range(WIDTH)] for e in weights
        }
        for d in range(WIDTH):
            y = float(X[t, d]) + sum(weights[e] * out[e][d] for e in weights)
            r = y * float(head[d])  # the relevance of y_d
            found[t, d] += float(X[t, d]) / y * r
            for e, weight in weights.items():
                to_expert = share * weight * out[e][d] / y * r
                for k in range(INNER):
                    to_inner = inner[e][k] * float(down[e, k, d]) / out[e][d] * to_expert
                    before = float(X[t] @ up[e, :, k])
                    for i in range(WIDTH):
                        found[t, i] += float(X[t, i] * up[e, i, k]) / before * to_inner
    return found


@pytest.mark.parametrize("combine", COMBINES)
@pytest.mark.parametrize("router", ROUTERS)
def test_a_router_is_held_constant(router: str, combine: str) -> None:
    mixture = Mixture(router, combine)
    found = scores(mixture, Plan())
    torch.testing.assert_close(found, through_the_chosen(mixture), rtol=1e-9, atol=1e-11)
    # Nothing is added, so that nothing may be lost.
    torch.testing.assert_close(found.sum(), mixture(X)[0].detach(), rtol=1e-9, atol=1e-11)


def scores(module: nn.Module, plan: Plan) -> Tensor:
    with relevance(module, plan) as tape:
        x = tape.watch(X)
        out = module(x)
        tape.check(out)
        return tape.relevance(out, x)


@pytest.mark.parametrize("combine", COMBINES)
def test_half_to_the_weight(combine: str) -> None:
    """Softmax weights: half of each term goes through the gradient of the softmax (its Taylor rule) to the logits."""
    mixture = Mixture("softmax", combine)
    x = X.clone().requires_grad_()
    weights = torch.softmax(x @ mixture.gate.detach().T, -1)
    value = torch.zeros((), dtype=torch.float64)
    for t in range(LENGTH):
        for e in chosen_weights(mixture, t):
            expert = torch.tanh(X[t] @ mixture.up[e]) @ mixture.down[e]
            value = value + 0.5 * 1.5 * weights[t, e] * (expert @ mixture.head).detach()
    (to_logits,) = torch.autograd.grad(value, x)
    expected = through_the_chosen(mixture, 0.5) + X * to_logits
    torch.testing.assert_close(scores(mixture, Plan(experts="halves")), expected, rtol=1e-9, atol=1e-11)
    with pytest.raises(AssertionError):  # the option of gates is another
        torch.testing.assert_close(scores(mixture, Plan(gate="halves")), expected)


def test_half_to_the_weight_of_a_sigmoid_router() -> None:
    """A sigmoid that is chosen from is a router: its half goes to its own logit by the identity rule, and the sum that
    it is divided by is a constant.
    """
    mixture = Mixture("sigmoid, renormalised", "one by one")
    expected = through_the_chosen(mixture, 0.5)
    for t in range(LENGTH):
        for e, weight in chosen_weights(mixture, t).items():
            gate = mixture.gate[e].detach()
            expert = torch.tanh(X[t] @ mixture.up[e]) @ mixture.down[e]
            half = 0.5 * weight * float((expert @ mixture.head).detach())
            for i in range(WIDTH):
                expected[t, i] += float(X[t, i] * gate[i]) / float(X[t] @ gate) * half
    torch.testing.assert_close(scores(mixture, Plan(experts="halves")), expected, rtol=1e-9, atol=1e-11)
    held = scores(mixture, Plan(gate="halves"))
    torch.testing.assert_close(held, through_the_chosen(mixture), rtol=1e-9, atol=1e-11)


class Gated(nn.Module):
    """A gated unit: signal times sigmoid, the gate in a shape of its own, as squeeze and excitation has it."""

    def __init__(self, *, shared: bool) -> None:
        super().__init__()
        self.shared = shared
        self.signal, self.gate = nn.Parameter(draw(WIDTH, WIDTH)), nn.Parameter(draw(WIDTH, 1 if shared else WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(x @ self.gate)
        gate = gate.squeeze(-1).unsqueeze(-1) if self.shared else gate
        return ((x @ self.signal) * gate).sum()[None]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("rule", ["constant", "halves"])
def test_a_gated_unit_by_hand(rule: Any, shared: bool) -> None:
    module = Gated(shared=shared)
    signals, gates = module.signal.detach(), module.gate.detach()
    expected = torch.zeros_like(X)
    for t in range(LENGTH):
        for d in range(WIDTH):
            signal, logit = float(X[t] @ signals[:, d]), float(X[t] @ gates[:, 0 if shared else d])
            r = signal / (1 + math.exp(-logit))
            for i in range(WIDTH):
                to_signal = float(X[t, i] * signals[i, d]) / signal
                to_gate = float(X[t, i] * gates[i, 0 if shared else d]) / logit
                expected[t, i] += r * to_signal if rule == "constant" else r * (to_signal + to_gate) / 2
    torch.testing.assert_close(scores(module, Plan(gate=rule)), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("rule", ["constant", "halves"])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_the_reference_of_gates(rule: Any, epsilon: float) -> None:
    signal, gate, r = draw(3, WIDTH), torch.sigmoid(draw(3, 1)), draw(3, WIDTH)
    to_signal, to_gate = reference.gated(signal, gate, r, rule=rule, epsilon=epsilon)
    for t in range(3):
        collected = 0.0
        for d in range(WIDTH):
            y = float(signal[t, d] * gate[t, 0])
            share = y / ((2 if rule == "halves" else 1) * y + epsilon * (-1 if y < 0 else 1)) * float(r[t, d])
            assert float(to_signal[t, d]) == pytest.approx(share, rel=1e-12)
            collected += share
        assert float(to_gate[t, 0]) == pytest.approx(collected if rule == "halves" else 0.0, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("rule", ["constant", "halves"])
def test_the_reference_of_experts(rule: Any) -> None:
    weights, outputs, r = torch.rand(2, 3, dtype=torch.float64, generator=GENERATOR), draw(2, 3, WIDTH), draw(2, WIDTH)
    to_outputs, to_weights = reference.mixture_of_experts(weights, outputs, r, rule=rule)
    factor = 0.5 if rule == "halves" else 1.0
    for t in range(2):
        for e in range(3):
            collected = 0.0
            for d in range(WIDTH):
                y = sum(float(weights[t, k] * outputs[t, k, d]) for k in range(3))
                share = factor * float(weights[t, e] * outputs[t, e, d]) / y * float(r[t, d])
                assert float(to_outputs[t, e, d]) == pytest.approx(share, rel=1e-9)
                collected += share
            assert float(to_weights[t, e]) == pytest.approx(
                0.0 if rule == "constant" else collected, rel=1e-9, abs=1e-12
            )
    torch.testing.assert_close(to_outputs.sum((1, 2)) + to_weights.sum(1), r.sum(1))


# ----- the library's own models


def _moe(config: type, model: type, **more: Any) -> Any:
    torch.manual_seed(0)
    built = model(config(**{**zoo.DECODER, **more})).eval()  # grouped products are of single precision
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return built


LIBRARY: dict[str, Any] = {
    "mixtral": lambda: _moe(hf.MixtralConfig, hf.MixtralForCausalLM, num_local_experts=4, num_experts_per_tok=2),
    "qwen2-moe": lambda: _moe(
        hf.Qwen2MoeConfig,
        hf.Qwen2MoeForCausalLM,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    ),
    "olmoe": lambda: _moe(hf.OlmoeConfig, hf.OlmoeForCausalLM, num_experts=4, num_experts_per_tok=2),
}


def relevances(model: Any, plan: Plan) -> tuple[Tensor, Tensor]:
    with relevance(model, plan, explained_weight=model.get_input_embeddings().weight) as tape:
        logit = model(input_ids=zoo.token_ids(), use_cache=False).logits[:, -1, 7]
        tape.check(logit)
        return tape.relevance(logit, tape.explained), logit.detach()


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_s_ways_to_run_experts_agree_and_conserve(name: str) -> None:
    model = LIBRARY[name]()
    with torch.no_grad():  # what is added keeps its share
        for key, parameter in model.named_parameters():
            if key.endswith("bias"):
                parameter.zero_()
    found = {}
    for implementation in ("eager", "batched_mm", "grouped_mm"):
        model.set_experts_implementation(implementation)
        for plan in (Plan(), Plan(attention="cp")):
            found[implementation, plan.attention], logit = relevances(model, plan)
        torch.testing.assert_close(found[implementation, "cp"].sum(), logit[0], rtol=1e-4, atol=1e-5)
        assert model.config._experts_implementation == implementation  # nothing is set on the user's model
    for implementation in ("batched_mm", "grouped_mm"):
        for rule in ("attnlrp", "cp"):
            torch.testing.assert_close(found[implementation, rule], found["eager", rule], rtol=1e-3, atol=1e-5)
