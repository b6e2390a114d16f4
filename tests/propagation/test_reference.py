"""Every rule against literal loops over all indices, written from the printed equations; what conserves, and what does
not.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import BertConfig, BertForSequenceClassification

from looprop.errors import PlanError, UnknownNameError
from looprop.propagation import reference
from looprop.propagation.reference import BiasShare
from propagation.whole_bert import propagate

EPSILONS = [0.0, 1e-6, 0.1]
LEADS: list[tuple[int, ...]] = [(), (3,), (2, 3)]
assert_close = partial(torch.testing.assert_close, rtol=1e-9, atol=1e-12)


@pytest.fixture
def draw() -> Callable[..., Tensor]:
    generator = torch.Generator().manual_seed(20)
    return lambda *shape: torch.randn(*shape, generator=generator, dtype=torch.float64)


def quotient(numerator: float, total: float, epsilon: float, *, factor: float = 1.0) -> float:
    """numerator / (factor * total + epsilon * sign(total)) with the two conventions, in plain floats."""
    denominator = factor * total + epsilon * (-1.0 if total < 0 else 1.0)
    return 0.0 if denominator == 0 else numerator / denominator


def places(lead: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return product(*(range(size) for size in lead))


def loop_linear(x: Tensor, W: Tensor, b: Tensor | None, R: Tensor, epsilon: float, bias_share: str) -> Tensor:
    result = torch.zeros_like(x)
    outputs, inputs = W.shape
    for at in places(x.shape[:-1]):
        for i in range(inputs):
            for j in range(outputs):
                total = sum(float(x[at][k] * W[j, k]) for k in range(inputs))
                if b is not None and bias_share == "keep":
                    total += float(b[j])
                result[at][i] += quotient(float(x[at][i] * W[j, i]), total, epsilon) * float(R[at][j])
    return result


def loop_product(A: Tensor, V: Tensor, R_O: Tensor, epsilon: float, factor: float) -> tuple[Tensor, Tensor]:
    """R_A and R_V of O = A V with denominator factor * O + epsilon sign(O)."""
    R_A, R_V = torch.zeros_like(A), torch.zeros_like(V)
    for at in places(A.shape[:-2]):
        for j, i, p in product(range(A.shape[-2]), range(A.shape[-1]), range(V.shape[-1])):
            O_jp = sum(float(A[at][j, k] * V[at][k, p]) for k in range(A.shape[-1]))
            share = quotient(float(A[at][j, i] * V[at][i, p]), O_jp, epsilon, factor=factor) * float(R_O[at][j, p])
            R_A[at][j, i] += share
            R_V[at][i, p] += share
    return R_A, R_V


def loop_scores(Q: Tensor, K: Tensor, R_Z: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    R_Q, R_K = torch.zeros_like(Q), torch.zeros_like(K)
    depth = Q.shape[-1]
    for at in places(Q.shape[:-2]):
        for j, i in product(range(Q.shape[-2]), range(K.shape[-2])):
            c = [float(Q[at][j, r] * K[at][i, r]) / math.sqrt(depth) for r in range(depth)]
            for r in range(depth):
                share = quotient(c[r], sum(c), epsilon, factor=2.0) * float(R_Z[at][j, i])
                R_Q[at][j, r] += share
                R_K[at][i, r] += share
    return R_Q, R_K


def loop_softmax(Z: Tensor, R_A: Tensor) -> Tensor:
    """The printed rule over the entries of each row that are not masked."""
    result = torch.zeros_like(Z)
    for at in places(Z.shape[:-1]):
        present = [i for i in range(Z.shape[-1]) if Z[at][i] > -1e30]
        total = sum(math.exp(Z[at][i]) for i in present)
        for i in present:
            weight = math.exp(Z[at][i]) / total
            result[at][i] = Z[at][i] * (R_A[at][i] - weight * sum(float(R_A[at][k]) for k in present))
    return result


def loop_norm(
    x: Tensor,
    w: Tensor | None,
    b: Tensor | None,
    R: Tensor,
    norm_eps: float,
    centered: bool,
    epsilon: float,
    bias_share: str,
) -> Tensor:
    result = torch.zeros_like(x)
    width = x.shape[-1]
    for at in places(x.shape[:-1]):
        row = [float(value) for value in x[at]]
        mean = sum(row) / width if centered else 0.0
        sigma = math.sqrt(sum((value - mean) ** 2 for value in row) / width + norm_eps)
        for j in range(width):
            gain = 1.0 if w is None else float(w[j])
            z = [((j == k) - (1 / width if centered else 0.0)) * row[k] * gain / sigma for k in range(width)]
            total = sum(z) + (float(b[j]) if b is not None and bias_share == "keep" else 0.0)
            for k in range(width):
                result[at][k] += quotient(z[k], total, epsilon) * float(R[at][j])
    return result


def test_stabilise_is_signed_and_takes_zero_as_positive() -> None:
    z = torch.tensor([-2.0, -0.0, 0.0, 3.0], dtype=torch.float64)
    assert reference.stabilise(z, 0.1).tolist() == [-2.0 - 0.1, 0.1, 0.1, 3.0 + 0.1]
    assert reference.stabilise(z, 0.0).tolist() == z.tolist()
    assert reference.stabilise(z, 0.1).dtype == torch.float64
    for wrong in (-0.1, math.nan):
        with pytest.raises(PlanError, match="epsilon must be a number >= 0"):
            reference.stabilise(z, wrong)


def test_divide_by_zero_is_zero() -> None:
    assert reference.divide(torch.tensor([1.0, 0.0, -3.0, 0.0]), torch.tensor([0.0, 0.0, 2.0, 5.0])).tolist() == [
        0.0,
        0.0,
        -1.5,
        0.0,
    ]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("bias_share", ["keep", "printed"])
def test_linear_equals_the_loops(
    draw: Callable[..., Tensor], epsilon: float, lead: tuple[int, ...], bias_share: BiasShare
) -> None:
    x, W, b, R = draw(*lead, 4), draw(5, 4), draw(5), draw(*lead, 5)
    for bias in (b, None):
        got = reference.linear_epsilon(x, W, bias, R, epsilon=epsilon, bias_share=bias_share)
        assert_close(got, loop_linear(x, W, bias, R, epsilon, bias_share))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_linear_at_zero_and_negative_sums(epsilon: float) -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.float64)
    W = torch.tensor(
        [[2.0, -1.0], [0.0, 0.0], [-1.0, -1.0]], dtype=torch.float64
    )  # sums 0 of non-zero terms, 0 of zeros, -3
    R = torch.tensor([5.0, 7.0, 6.0], dtype=torch.float64)
    first = 0.0 if epsilon == 0 else 2 / epsilon * 5  # sign(0) = +1: the first term of the first sum is +2
    expected = torch.tensor([first + 6 / (3 + epsilon), -first + 12 / (3 + epsilon)], dtype=torch.float64)
    assert_close(reference.linear_epsilon(x, W, None, R, epsilon=epsilon), expected)


def test_linear_bias_shares_differ_as_defined(draw: Callable[..., Tensor]) -> None:
    x, W, b, R = draw(6, 4), draw(5, 4), draw(5), draw(6, 5)
    lost = (b / F.linear(x, W, b) * R).sum()
    assert_close(reference.linear_epsilon(x, W, b, R).sum(), R.sum() - lost)
    assert_close(reference.linear_epsilon(x, W, b, R, bias_share="printed").sum(), R.sum())
    assert_close(reference.linear_epsilon(x, W, None, R).sum(), R.sum())
    with pytest.raises(UnknownNameError, match="did you mean 'printed'"):
        reference.linear_epsilon(x, W, b, R, bias_share="print")  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_sum_equals_the_loops(draw: Callable[..., Tensor], epsilon: float) -> None:
    terms, R = [draw(3, 4) for _ in range(3)], draw(3, 4)
    terms[0][0, 0], terms[1][0, 0], terms[2][0, 0] = 1.0, 2.0, -3.0  # a sum of exactly zero
    got = reference.sum_epsilon(terms, R, epsilon=epsilon)
    assert len(got) == 3
    for term, relevance in zip(terms, got, strict=True):
        for at in places((3, 4)):
            expected = quotient(float(term[at]), sum(float(t[at]) for t in terms), epsilon) * float(R[at])
            assert float(relevance[at]) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_sum_gives_a_broadcast_term_the_relevance_of_its_copies(draw: Callable[..., Tensor]) -> None:
    word, position, R = draw(2, 3, 4), draw(1, 3, 4), draw(2, 3, 4)
    R_word, R_position = reference.sum_epsilon([word, position], R, epsilon=0.1)
    copied = reference.sum_epsilon([word, position.expand(2, 3, 4)], R, epsilon=0.1)
    assert_close(R_word, copied[0])
    assert_close(R_position, copied[1][:1] + copied[1][1:])
    with pytest.raises(PlanError, match="at least one term"):
        reference.sum_epsilon([], R)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("lead", LEADS)
def test_attention_values_and_value_only_equal_the_loops(
    draw: Callable[..., Tensor], epsilon: float, lead: tuple[int, ...]
) -> None:
    A, V, R_O = torch.softmax(draw(*lead, 3, 4), dim=-1), draw(*lead, 4, 2), draw(*lead, 3, 2)
    A[..., 1] = 0.0  # a masked key
    A[..., 2, :] = 0.0  # a row with every key masked: O = 0
    V[..., 0] = -V[..., 0].abs()  # negative sums
    R_A, R_V = reference.attention_values(A, V, R_O, epsilon)
    expected_A, expected_V = loop_product(A, V, R_O, epsilon, factor=2.0)
    assert_close(R_A, expected_A)
    assert_close(R_V, expected_V)
    assert not R_A[..., 1].any()
    assert not R_V[..., 1, :].any()
    assert_close(reference.value_only(A, V, R_O, epsilon), loop_product(A, V, R_O, epsilon, factor=1.0)[1])


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("lead", LEADS)
def test_attention_scores_equal_the_loops(draw: Callable[..., Tensor], epsilon: float, lead: tuple[int, ...]) -> None:
    Q, K, R_Z = draw(*lead, 3, 5), draw(*lead, 4, 5), draw(*lead, 3, 4)
    Q[..., 0, :] = 0.0  # a row of zero scores
    got = reference.attention_scores(Q, K, R_Z, scale=5**-0.5, epsilon=epsilon)
    for relevance, expected in zip(got, loop_scores(Q, K, R_Z, epsilon), strict=True):
        assert_close(relevance, expected)


@pytest.mark.parametrize("lead", LEADS)
@pytest.mark.parametrize("masking", [-math.inf, torch.finfo(torch.float64).min])
def test_softmax_equals_the_loops(draw: Callable[..., Tensor], lead: tuple[int, ...], masking: float) -> None:
    Z, R_A = draw(*lead, 3, 4), draw(*lead, 3, 4)
    assert_close(reference.softmax(Z, R_A), loop_softmax(Z, R_A))
    Z[..., 1], Z[..., 2, 3] = masking, masking
    got = reference.softmax(Z, R_A)
    assert_close(got, loop_softmax(Z, R_A))
    assert (got[..., 1] == 0).all()
    assert (got[..., 2, 3] == 0).all()


def test_softmax_of_a_row_with_every_entry_masked_is_zero() -> None:
    Z = torch.tensor([[-math.inf, -math.inf], [1.0, -math.inf]])
    assert reference.softmax(Z, torch.ones(2, 2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("bias_share", ["keep", "printed"])
@pytest.mark.parametrize("centered", [True, False])
def test_norm_equals_the_loops(
    draw: Callable[..., Tensor], epsilon: float, bias_share: BiasShare, centered: bool
) -> None:
    for lead, affine in product(LEADS, (True, False)):
        x, R = draw(*lead, 5), draw(*lead, 5)
        w, b = (draw(5), draw(5)) if affine else (None, None)
        got = reference.norm_constant_std(
            x, w, b, R, norm_eps=1e-3, centered=centered, epsilon=epsilon, bias_share=bias_share
        )
        assert_close(got, loop_norm(x, w, b, R, 1e-3, centered, epsilon, bias_share))


@pytest.mark.parametrize("centered", [True, False])
def test_norm_belongs_to_torch_norms(draw: Callable[..., Tensor], centered: bool) -> None:
    """With R = y at epsilon 0 the rule reads x_k * (sum_j dy_j/dx_k), sigma constant: its sum is that of y without the
    bias.
    """
    x, w, b = draw(3, 8), draw(8), draw(8)
    y = F.layer_norm(x, (8,), w, b, eps=1e-3) if centered else F.rms_norm(x, (8,), w, eps=1e-3) + b
    got = reference.norm_constant_std(x, w, b, y, norm_eps=1e-3, centered=centered)
    assert_close(got.sum(dim=-1), (y - b).sum(dim=-1))


def test_norm_of_a_constant_row_carries_nothing() -> None:
    got = reference.norm_constant_std(torch.full((4,), 2.0), torch.ones(4), None, torch.ones(4), norm_eps=1e-5)
    assert got.tolist() == [0.0, 0.0, 0.0, 0.0]


def test_identity_passes_relevance(draw: Callable[..., Tensor]) -> None:
    R = draw(3, 4)
    assert torch.equal(reference.identity(R), R)


def test_conservation_at_epsilon_zero(draw: Callable[..., Tensor]) -> None:
    A, V, R_O = torch.softmax(draw(2, 3, 4), dim=-1), draw(2, 4, 5), draw(2, 3, 5)
    Q, K, R_Z = draw(2, 3, 5), draw(2, 4, 5), draw(2, 3, 4)
    x, w, R = draw(3, 5), draw(5), draw(3, 5)
    assert_close(reference.value_only(A, V, R_O).sum(), R_O.sum())
    for half in reference.attention_values(A, V, R_O):
        assert_close(half.sum(), R_O.sum() / 2)
    for half in reference.attention_scores(Q, K, R_Z, scale=0.3):
        assert_close(half.sum(), R_Z.sum() / 2)
    assert_close(reference.norm_constant_std(x, w, None, R, norm_eps=1e-5).sum(), R.sum())
    assert_close(torch.stack(reference.sum_epsilon([x, draw(3, 5)], R)).sum(), R.sum())


@pytest.mark.parametrize(
    ("logits", "left"),
    [
        ((0.7, 0.7), 0.0),  # equal logits: everything is lost
        ((math.log(3), 0.0), math.log(3) / 4),  # A = (3/4, 1/4)
        (
            (0.0, math.log(99)),
            -0.99 * math.log(99),
        ),  # A = (1/100, 99/100): more comes out than went in, with the other sign
    ],
)
def test_the_softmax_rule_leaks(logits: tuple[float, float], left: float) -> None:
    """Relevance (1, 0) at A, one unit in all, leaves sum_i Z_i R_i - sum_i A_i Z_i = Z_1 - A_1 Z_1 - A_2 Z_2 at Z."""
    Z, R_A = torch.tensor(logits, dtype=torch.float64), torch.tensor([1.0, 0.0], dtype=torch.float64)
    assert float(reference.softmax(Z, R_A).sum()) == pytest.approx(left, rel=1e-12, abs=1e-12)


def test_product_of_three_depends_on_the_grouping() -> None:
    """The paper's figure 1: x1 x2 x3 = 2 * 3 * 4 gives (6, 6, 12) as (x1 x2) x3 and (12, 6, 6) as x1 (x2 x3)."""
    x1, x2, x3, y = (torch.tensor([[value]]) for value in (2.0, 3.0, 4.0, 24.0))
    R_pair, R_3 = reference.attention_values(x1 * x2, x3, y)
    R_1, R_2 = reference.attention_values(x1, x2, R_pair)
    assert [float(R) for R in (R_1, R_2, R_3)] == [6.0, 6.0, 12.0]
    R_1, R_pair = reference.attention_values(x1, x2 * x3, y)
    R_2, R_3 = reference.attention_values(x2, x3, R_pair)
    assert [float(R) for R in (R_1, R_2, R_3)] == [12.0, 6.0, 6.0]


@pytest.fixture
def bert() -> BertForSequenceClassification:
    """Four layers, 64 wide, float64, with every parameter drawn at random, biases and norm parameters included."""
    generator = torch.Generator().manual_seed(3)
    config = BertConfig(
        vocab_size=50, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=96, num_labels=3
    )
    model = BertForSequenceClassification(config).double().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            centre = 1.0 if "LayerNorm.weight" in name else 0.0
            parameter.copy_(centre + 0.15 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


IDS = torch.tensor([[2, 17, 5, 33, 8, 21, 3]])


@pytest.mark.parametrize("mask", [None, [1, 1, 1, 0, 1, 1, 0]])
def test_whole_bert_computes_the_logits_of_the_model(
    bert: BertForSequenceClassification, mask: list[int] | None
) -> None:
    attention_mask = None if mask is None else torch.tensor([mask])
    with torch.no_grad():
        logits = bert(input_ids=IDS, attention_mask=attention_mask).logits[0]
    for target in range(3):
        R_word, R_sum, logit = propagate(bert, IDS, target, cp_layers={2}, epsilon=0.0, attention_mask=attention_mask)
        assert R_word.shape == R_sum.shape == (7, 64)
        assert_close(logit, logits[target], rtol=1e-12, atol=1e-12)


def test_whole_bert_conserves_with_cp_and_without_additive_parameters(bert: BertForSequenceClassification) -> None:
    with torch.no_grad():
        for name, parameter in bert.named_parameters():
            if name.endswith("bias"):
                parameter.zero_()
    every_layer = {1, 2, 3, 4}
    _, R_sum, logit = propagate(bert, IDS, 1, cp_layers=every_layer, epsilon=0.0)
    assert_close(R_sum.sum(), logit, rtol=1e-10, atol=1e-10)
    _, R_mixed, _ = propagate(bert, IDS, 1, cp_layers={1, 2, 3}, epsilon=0.0)
    assert abs(float(R_mixed.sum() - logit)) > 1e-4 * abs(float(logit))  # one softmax rule is enough to leak


def test_whole_bert_gives_masked_tokens_nothing_and_ignores_padding(bert: BertForSequenceClassification) -> None:
    padded, mask = torch.cat([IDS, torch.tensor([[0, 0]])], dim=1), torch.tensor([[1] * 7 + [0] * 2])
    for epsilon in EPSILONS:
        short = propagate(bert, IDS, 0, cp_layers={3, 4}, epsilon=epsilon)
        long = propagate(bert, padded, 0, cp_layers={3, 4}, epsilon=epsilon, attention_mask=mask)
        for expected, got in zip(short[:2], long[:2], strict=True):
            assert_close(got[:7], expected, rtol=1e-8, atol=1e-8 * float(expected.abs().max()))
            assert not got[7:].any()


def test_whole_bert_shares_the_embedding_sum_among_its_terms(bert: BertForSequenceClassification) -> None:
    """At epsilon 0 the two steps come to word / (word + token type + position)."""
    R_word, R_sum, _ = propagate(bert, IDS, 0, cp_layers=set(), epsilon=0.0)
    embeddings = bert.bert.embeddings
    word = embeddings.word_embeddings.weight[IDS[0]]
    total = word + embeddings.token_type_embeddings.weight[0] + embeddings.position_embeddings.weight[:7]
    assert_close(R_word, (word / total * R_sum).detach())
