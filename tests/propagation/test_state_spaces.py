"""State spaces and delta nets: the engine against relevance that runs back along the unrolled recurrence."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import transformers as hf
from torch import Tensor, nn

import zoo
from looprop import Plan, relevance
from looprop.errors import RuleError
from looprop.propagation import reference

WIDTH, STATE, LENGTH = 3, 2, 5
GENERATOR = torch.Generator().manual_seed(4)


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=GENERATOR)


X = draw(LENGTH, WIDTH)


def scores(module: Callable[[Tensor], Tensor], plan: Plan | None = None) -> Tensor:
    with relevance(None, plan or Plan()) as tape:
        x = tape.watch(X)
        out = module(x)
        tape.check(out)
        return tape.relevance(out, x)


class Selective(nn.Module):
    """Mamba's selective scan: the step is softplus of the input, the decay exp(step A), B and C linear in the input."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.A = nn.Parameter(draw(WIDTH, WIDTH)), nn.Parameter(-draw(WIDTH, STATE).exp())
        self.B, self.C = nn.Parameter(draw(WIDTH, STATE)), nn.Parameter(draw(WIDTH, STATE))
        self.head = nn.Parameter(draw(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        step = F.softplus(x @ self.step + 0.1)  # (T, D)
        decay = torch.exp(step[:, :, None] * self.A)  # (T, D, N)
        inputs = step[:, :, None] * (x @ self.B)[:, None, :] * x[:, :, None]
        state, out = torch.zeros(WIDTH, STATE, dtype=x.dtype), []
        for t in range(len(x)):
            state = decay[t] * state + inputs[t]
            out.append((state * (x @ self.C)[t]).sum(-1))
        return (torch.stack(out) @ self.head).sum()[None]


def along_the_recurrence(module: Selective) -> Tensor:
    """Relevance by hand: step and decay are numbers, the products of B, x and of C, h are split in halves."""
    step_w, A, B, C, head = (p.detach() for p in (module.step, module.A, module.B, module.C, module.head))
    found = torch.zeros_like(X)
    for d in range(WIDTH):
        for n in range(STATE):
            step = [math.log1p(math.exp(float(X[t] @ step_w[:, d]) + 0.1)) for t in range(LENGTH)]
            decay = [math.exp(s * float(A[d, n])) for s in step]
            b, c = ([float(X[t] @ w[:, n]) for t in range(LENGTH)] for w in (B, C))
            u = [step[t] * b[t] * float(X[t, d]) for t in range(LENGTH)]
            h = [0.0]
            for t in range(LENGTH):
                h.append(decay[t] * h[-1] + u[t])
            later = 0.0  # what the state of step t gets from step t + 1
            for t in reversed(range(LENGTH)):
                r = h[t + 1] * c[t] * float(head[d])  # of the term C_t h_t of the output
                to_state = r / 2 + later
                to_input, later = u[t] / h[t + 1] * to_state, decay[t] * h[t] / h[t + 1] * to_state
                found[t, d] += to_input / 2
                for i in range(WIDTH):
                    found[t, i] += float(X[t, i] * B[i, n]) / b[t] * to_input / 2
                    found[t, i] += float(X[t, i] * C[i, n]) / c[t] * r / 2
    return found


def test_a_selective_scan_is_relevance_through_the_unrolled_recurrence() -> None:
    module = Selective()
    found = scores(module)
    torch.testing.assert_close(found, along_the_recurrence(module), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(found.sum(), module(X)[0].detach(), rtol=1e-9, atol=1e-11)


def test_the_reference_of_recurrences() -> None:
    decay, inputs, r = torch.rand(LENGTH, 2, dtype=torch.float64, generator=GENERATOR), draw(LENGTH, 2), draw(LENGTH, 2)
    found = reference.linear_recurrence(decay, inputs, r)
    for d in range(2):
        for s in range(LENGTH):  # h_t = sum over s <= t of u_s times the decays after s: every path by itself
            expected = 0.0
            for t in range(s, LENGTH):
                paths = [float(inputs[k, d]) * math.prod(map(float, decay[k + 1 : t + 1, d])) for k in range(t + 1)]
                expected += paths[s] / sum(paths) * float(r[t, d])
            assert float(found[s, d]) == pytest.approx(expected, rel=1e-9)
    torch.testing.assert_close(found.sum(0), r.sum(0))


def test_the_engine_along_a_recurrence_is_the_reference() -> None:
    weight = draw(WIDTH, WIDTH)

    def run(x: Tensor) -> Tensor:
        decay, state, out = torch.sigmoid(x @ weight), torch.zeros(WIDTH, dtype=x.dtype), []
        for t in range(LENGTH):
            state = decay[t] * state + x[t]
            out.append(state)
        return torch.stack(out).sum()[None]

    decay = torch.sigmoid(X @ weight)
    states = [torch.zeros(WIDTH, dtype=torch.float64)]
    for t in range(LENGTH):
        states.append(decay[t] * states[-1] + X[t])
    expected = reference.linear_recurrence(decay, X, torch.stack(states[1:]))
    torch.testing.assert_close(scores(run), expected, rtol=1e-9, atol=1e-12)


# ----- delta nets

KEYS, BETA = draw(WIDTH, WIDTH), draw(WIDTH)


def delta_rule(x: Tensor, inverse: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """One chunk of the delta rule, q = v = x: what is written is the solution of a unit triangular system."""
    key, beta = x @ KEYS, torch.sigmoid(x @ BETA)
    system = ((key * beta[:, None]) @ key.T).tril(-1)
    written = inverse(system, x * beta[:, None])
    return ((x @ key.T).tril() @ written).sum()[None]


def by_solving(system: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)


def by_substitution(system: Tensor, right: Tensor) -> Tensor:
    """As libraries write it where no solver is at hand: row by row, then the identity."""
    attn = -system
    for i in range(1, len(system)):
        row, below = attn[i, :i].clone(), attn[:i, :i].clone()
        attn[i, :i] = row + (row[:, None] * below).sum(-2)
    return (attn + torch.eye(len(system), dtype=attn.dtype)) @ right


@pytest.mark.parametrize("inverse", [by_solving, by_substitution])
def test_a_delta_rule_however_it_is_written(inverse: Callable[[Tensor, Tensor], Tensor]) -> None:
    """What is written to the state is linear in the values; the matrix that undoes earlier writing is a constant."""
    found = scores(lambda x: delta_rule(x, inverse))
    beta, key = torch.sigmoid(X @ BETA), X @ KEYS
    undo = torch.linalg.inv(torch.eye(LENGTH) + ((key * beta[:, None]) @ key.T).tril(-1))
    expected = torch.zeros_like(X)
    for t in range(LENGTH):
        for d in range(WIDTH):
            written = [sum(float(undo[j, s] * beta[s] * X[s, d]) for s in range(LENGTH)) for j in range(LENGTH)]
            for j in range(t + 1):
                score = float(X[t] @ key[j])
                r = score * written[j]
                for s in range(LENGTH):
                    expected[s, d] += float(undo[j, s] * beta[s] * X[s, d]) / written[j] * r / 2
                for i in range(WIDTH):  # the other half: to query and key, in halves
                    share = float(X[t, i] * key[j, i]) / score * r / 4
                    expected[t, i] += share
                    for k in range(WIDTH):
                        expected[j, k] += float(X[j, k] * KEYS[k, i] / key[j, i]) * share
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(found.sum(), delta_rule(X, by_solving)[0], rtol=1e-9, atol=1e-11)


def test_the_reference_of_triangular_solves() -> None:
    matrix, right, r = draw(4, 4).tril() + 3 * torch.eye(4), draw(4, 2), draw(4, 2)
    found = reference.triangular_solve(matrix, right, r)
    for d in range(2):
        solved: list[dict[int, float]] = []  # of which right-hand sides each unknown is made, by forward substitution
        for i in range(4):
            parts = {i: float(right[i, d] / matrix[i, i])}
            for j in range(i):
                for s, value in solved[j].items():
                    parts[s] = parts.get(s, 0.0) - float(matrix[i, j] / matrix[i, i]) * value
            solved.append(parts)
        for s in range(4):
            expected = sum(p.get(s, 0.0) / sum(p.values()) * float(r[i, d]) for i, p in enumerate(solved))
            assert float(found[s, d]) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_choice_between_two_forms_of_softplus_is_one() -> None:
    weight = draw(WIDTH, WIDTH)

    def run(x: Tensor, softplus: Callable[[Tensor], Tensor]) -> Tensor:
        return (x * torch.exp(-softplus(x @ weight))).sum()[None]

    safe = scores(lambda x: run(x, lambda y: torch.where(y > 1.0, y, torch.log(1.0 + torch.exp(y)))))
    values = torch.where(X @ weight > 1.0, X @ weight, torch.log1p(torch.exp(X @ weight)))
    torch.testing.assert_close(safe, X * torch.exp(-values), rtol=1e-9, atol=1e-12)
    with pytest.raises(RuleError, match=r"'exp'.*reaches 'where'"):  # of two tensors
        scores(lambda x: (x * torch.where(x > 0, x, torch.exp(x @ weight))).sum()[None])


# ----- the library's own models

LIBRARY: dict[str, Callable[[], Any]] = {
    "mamba": lambda: hf.MambaForCausalLM(
        hf.MambaConfig(vocab_size=99, hidden_size=16, state_size=4, num_hidden_layers=2, use_bias=False)
    ),
    "mamba2": lambda: hf.Mamba2ForCausalLM(
        hf.Mamba2Config(
            vocab_size=99, hidden_size=16, state_size=4, num_hidden_layers=2, head_dim=8, num_heads=4, n_groups=1
        )
    ),
    "qwen3-next": lambda: hf.Qwen3NextForCausalLM(
        hf.Qwen3NextConfig(
            **zoo.DECODER,
            head_dim=8,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            linear_key_head_dim=8,
            linear_value_head_dim=8,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
            layer_types=["linear_attention", "full_attention"],
        )
    ),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_s_models_conserve(name: str) -> None:
    torch.manual_seed(0)
    model = LIBRARY[name]().eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
            if key.endswith("bias"):  # what is added keeps its share
                parameter.zero_()
        plain = model(input_ids=zoo.token_ids(), use_cache=False).logits[0, -1, 7]
    with relevance(model, Plan(attention="cp"), explained_weight=model.get_input_embeddings().weight) as tape:
        logit = model(input_ids=zoo.token_ids(), use_cache=False).logits[:, -1, 7]
        tape.check(logit)
        found = tape.relevance(logit, tape.explained)
    torch.testing.assert_close(logit[0].detach(), plain, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.sum(), plain, rtol=1e-3, atol=1e-4)
    assert found.abs().sum(-1)[0].min() > 0  # every token, the first included
