"""The paper's propagation rules as pure functions: relevance in, relevance out.

All equations are those of section 2.3 of "When LRP Diverges from Leave-One-Out in Transformers". Relevance has the
shape of the tensor it belongs to; leading (batch, head) dimensions are allowed everywhere. Two conventions hold
throughout:

    sign(0) = +1                    so that a positive epsilon always moves a denominator away from zero
    r / 0   =  0                    epsilon = 0 stands for the limit, in which a zero denominator carries no relevance
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from looprop.errors import PlanError, UnknownNameError

BiasShare = Literal["keep", "printed", "shared"]
CoefficientRule = Literal["constant", "halves"]


def stabilise(z: Tensor, epsilon: float) -> Tensor:
    """Move a denominator away from zero.

    z + epsilon * sign(z),    sign(0) = +1

    >>> stabilise(torch.tensor([-2.0, 0.0, 2.0]), 0.5)
    tensor([-2.5000,  0.5000,  2.5000])
    """
    if not epsilon >= 0:
        raise PlanError(f"epsilon must be a number >= 0, got {epsilon!r}")
    return torch.where(z < 0, z - epsilon, z + epsilon)


def divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide, with zero wherever the denominator is zero.

    >>> divide(torch.tensor([1.0, 0.0, 3.0]), torch.tensor([0.0, 0.0, 2.0]))
    tensor([0.0000, 0.0000, 1.5000])
    """
    zero = denominator == 0
    return (numerator / denominator.masked_fill(zero, 1)).masked_fill(zero, 0)


def linear_epsilon(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    relevance: Tensor,
    *,
    epsilon: float = 0.0,
    bias_share: BiasShare = "keep",
) -> Tensor:
    """Epsilon rule of a linear layer y = W x + b.

    R_i = sum_j z_ij / (d_j + epsilon sign(d_j)) R_j,    z_ij = x_i W_ji

        bias_share="keep":     d_j = sum_k z_kj + b_j    the bias keeps its share of the relevance
        bias_share="printed":  d_j = sum_k z_kj          the paper's equation to the letter
        bias_share="shared":   d_j as with "keep", and z_ij + b_j |z_ij| / sum_k |z_kj| in place of z_ij: the bias is
                               shared out by the size of contributions, as DecompX does with vectors

    x (..., I), weight (O, I) as in `torch.nn.Linear`, bias (O,) or None, relevance (..., O); returns (..., I).

    >>> one = torch.ones(1)
    >>> linear_epsilon(torch.tensor([1.0, 2.0]), torch.ones(1, 2), one, 4 * one)
    tensor([1., 2.])
    >>> linear_epsilon(torch.tensor([1.0, 2.0]), torch.ones(1, 2), one, 3 * one, bias_share="printed")
    tensor([1., 2.])
    """
    if bias_share not in get_args(BiasShare):
        raise UnknownNameError("bias share", bias_share, get_args(BiasShare))
    total = F.linear(x, weight)  # (..., O)
    if bias is not None and bias_share != "printed":
        total = total + bias
    per_unit = divide(relevance, stabilise(total, epsilon))  # (..., O)
    found = x * (per_unit @ weight)
    if bias is not None and bias_share == "shared":
        sizes = F.linear(x.abs(), weight.abs())
        found = found + x.abs() * (divide(bias * per_unit, sizes) @ weight.abs())
    return found


def linear_gamma(x: Tensor, weight: Tensor, bias: Tensor | None, relevance: Tensor, *, gamma: float) -> Tensor:
    """Gamma rule of a linear layer, for inputs of either sign (Montavon et al. 2019, Andeol et al. 2021).

    R_i = sum_j (z_ij + gamma [z_ij]_j) / (sum_k (z_kj + gamma [z_kj]_j) + b_j + gamma [b_j]_j) R_j

    [a]_j is a where it has the sign of y_j = sum_k z_kj + b_j, else 0. Shapes as in `linear_epsilon`.
    """
    z = x[..., None, :] * weight  # (..., O, I)
    b = x.new_zeros(len(weight)) if bias is None else bias
    y = (z.sum(-1) + b)[..., None]
    z = z + gamma * torch.where(z * y > 0, z, 0.0)
    b = b + gamma * torch.where(b * y[..., 0] > 0, b, 0.0)
    return (z * divide(relevance, z.sum(-1) + b)[..., None]).sum(-2)


def linear_alpha_beta(x: Tensor, weight: Tensor, bias: Tensor | None, relevance: Tensor, *, alpha: float) -> Tensor:
    """Alpha-beta rule of a linear layer, beta = alpha - 1 (Bach et al. 2015).

    R_i = sum_j (alpha z+_ij / (sum_k z+_kj + b+_j) - beta z-_ij / (sum_k z-_kj + b-_j)) R_j
    """
    z = x[..., None, :] * weight  # (..., O, I)
    b = x.new_zeros(len(weight)) if bias is None else bias
    found = torch.zeros_like(x)
    for factor, low, high in ((alpha, 0.0, None), (1.0 - alpha, None, 0.0)):
        part = z.clamp(low, high)
        found = found + factor * (part * divide(relevance, part.sum(-1) + b.clamp(low, high))[..., None]).sum(-2)
    return found


def sum_epsilon(terms: Sequence[Tensor], relevance: Tensor, *, epsilon: float = 0.0) -> tuple[Tensor, ...]:
    """Epsilon rule of a sum y = t_1 + t_2 + ..., as in a residual connection: one relevance per term.

    R_t = t / (y + epsilon sign(y)) R

    A term that was broadcast to the shape of y collects the relevance of all its copies.

    >>> sum_epsilon([torch.tensor(1.0), torch.tensor(3.0)], torch.tensor(8.0))
    (tensor(2.), tensor(6.))
    """
    if not terms:
        raise PlanError("a sum needs at least one term, got none")
    total = sum(terms[1:], start=terms[0])
    per_unit = divide(relevance, stabilise(total, epsilon))
    return tuple((term * per_unit).sum_to_size(term.shape) for term in terms)


def attention_values(A: Tensor, V: Tensor, R_O: Tensor, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
    """AttnLRP at O = A V: half of the relevance to each factor.

    R_A_ji = sum_p A_ji V_ip / (2 O_jp + epsilon sign(O_jp)) R_O_jp
    R_V_ip = sum_j A_ji V_ip / (2 O_jp + epsilon sign(O_jp)) R_O_jp

    A (..., T, S), V (..., S, P), R_O (..., T, P); returns R_A (..., T, S) and R_V (..., S, P).
    """
    per_unit = divide(R_O, stabilise(2 * (A @ V), epsilon))  # (..., T, P)
    return A * (per_unit @ V.mT), V * (A.mT @ per_unit)


def attention_scores(Q: Tensor, K: Tensor, R_Z: Tensor, *, scale: float, epsilon: float = 0.0) -> tuple[Tensor, Tensor]:
    """AttnLRP at Z = scale Q K^T: half of the relevance to each factor.

    R_Q_jr = sum_i c_jir / (2 Z_ji + epsilon sign(Z_ji)) R_Z_ji
    R_K_ir = sum_j c_jir / (2 Z_ji + epsilon sign(Z_ji)) R_Z_ji,    c_jir = scale Q_jr K_ir,    scale = 1 / sqrt(d_k)

    An additive mask is no part of Z. Q (..., T, d), K (..., S, d), R_Z (..., T, S); returns R_Q (..., T, d) and R_K
    (..., S, d).
    """
    per_unit = scale * divide(R_Z, stabilise(2 * scale * (Q @ K.mT), epsilon))  # (..., T, S)
    return Q * (per_unit @ K), K * (per_unit.mT @ Q)


def softmax(Z: Tensor, R_A: Tensor, *, temperature: float = 1.0) -> Tensor:
    """AttnLRP's first-order Taylor rule of the row-wise A = softmax(Z).

    R_Z_ji = Z_ji (R_A_ji - A_ji sum_i' R_A_ji')

    A masked entry (Z = -inf, or so low that A = 0) takes no part in its row: it gets exactly zero, and so does a row of
    nothing else. The rule does not conserve relevance: with equal logits, for one, all of a row's relevance is lost.

    At a temperature T other than 1 (GIM, Edin et al. 2025) its gradient is that of T softmax(Z / T), with S = softmax(Z
    / T):

        R_Z_ji = Z_ji S_ji (R_A_ji / A_ji - sum_i' S_ji' R_A_ji' / A_ji')

    Z and R_A (..., T, S); returns (..., T, S).
    """
    A = torch.softmax(Z, dim=-1)
    masked = Z.isneginf() | (A == 0)
    softer = torch.softmax(Z / temperature, dim=-1).masked_fill(masked, 0)
    A, Z, R_A = (entries.masked_fill(masked, 0) for entries in (A, Z, R_A))
    if temperature == 1.0:
        return Z * (R_A - A * R_A.sum(dim=-1, keepdim=True))
    per_unit = divide(R_A, A)
    return Z * softer * (per_unit - (softer * per_unit).sum(dim=-1, keepdim=True))


def value_only(A: Tensor, V: Tensor, R_O: Tensor, epsilon: float = 0.0) -> Tensor:
    """CP-LRP at O = A V: A is a constant, so that V gets all relevance and A, Q and K get none.

    R_V_ip = sum_j A_ji V_ip / (O_jp + epsilon sign(O_jp)) R_O_jp

    A (..., T, S), V (..., S, P), R_O (..., T, P); returns (..., S, P).
    """
    return V * (A.mT @ divide(R_O, stabilise(A @ V, epsilon)))


def norm_constant_std(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    relevance: Tensor,
    *,
    norm_eps: float,
    centered: bool = True,
    epsilon: float = 0.0,
    bias_share: BiasShare = "keep",
) -> Tensor:
    """Epsilon rule of a normalisation whose standard deviation is held constant, which makes it a linear map.

    centered (layer norm):     y_j = sum_k (delta_jk - 1/D) x_k w_j / sigma + b_j,    sigma = sqrt(var(x) + norm_eps)
    not centered (RMS norm):   y_j = x_j w_j / sigma + b_j,                           sigma = sqrt(mean(x^2) + norm_eps)

    x and relevance (..., D), weight and bias (D,) or None; returns (..., D).
    """
    width = x.shape[-1]
    matrix = torch.eye(width, dtype=x.dtype, device=x.device)  # (D, D): row j is what y_j takes from each x_k
    if centered:
        matrix = matrix - 1 / width
    if weight is not None:
        matrix = weight[:, None] * matrix
    deviation = x - x.mean(dim=-1, keepdim=True) if centered else x
    sigma = (deviation.square().mean(dim=-1, keepdim=True) + norm_eps).sqrt()
    return linear_epsilon(x / sigma, matrix, bias, relevance, epsilon=epsilon, bias_share=bias_share)


def identity(relevance: Tensor) -> Tensor:
    """Identity rule of an element-wise activation y = g(x): the relevance passes unchanged.

    R_x = R_y
    """
    return relevance


def gated(
    signal: Tensor, gate: Tensor, relevance: Tensor, *, rule: CoefficientRule = "constant", epsilon: float = 0.0
) -> tuple[Tensor, Tensor]:
    """A product of a signal and a gate with f(0) != 0, y = s g (Arras et al. 2017, 2019).

    rule="constant":  R_s = y / (y + epsilon sign(y)) R_y      R_g = 0       the signal takes all
    rule="halves":    R_s = R_g = y / (2 y + epsilon sign(y)) R_y

    >>> gated(torch.tensor(3.0), torch.tensor(0.5), torch.tensor(8.0))
    (tensor(8.), tensor(0.))
    >>> gated(torch.tensor(3.0), torch.tensor(0.5), torch.tensor(8.0), rule="halves")
    (tensor(4.), tensor(4.))
    """
    product = signal * gate
    if rule == "halves":
        half = product * divide(relevance, stabilise(2 * product, epsilon))
        return half.sum_to_size(signal.shape), half.sum_to_size(gate.shape)
    whole = product * divide(relevance, stabilise(product, epsilon))
    return whole.sum_to_size(signal.shape), torch.zeros_like(gate)


def mixture_of_experts(
    weights: Tensor, outputs: Tensor, relevance: Tensor, *, rule: CoefficientRule = "constant"
) -> tuple[Tensor, Tensor]:
    """A weighted sum of chosen experts, y_d = sum_e w_e E_ed: each takes relevance by what it contributes.

    rule="constant":  R_E_ed = w_e E_ed / y_d R_d                            R_w_e = 0
    rule="halves":    R_E_ed = 1/2 w_e E_ed / y_d R_d                        R_w_e = 1/2 sum_d w_e E_ed / y_d R_d

    weights (..., E), outputs (..., E, D), relevance (..., D); returns the relevance of outputs and of weights.
    """
    terms = weights[..., None] * outputs
    shares = terms * divide(relevance, terms.sum(dim=-2))[..., None, :]
    if rule == "halves":
        return shares / 2, shares.sum(dim=-1) / 2
    return shares, torch.zeros_like(weights)


def linear_recurrence(decay: Tensor, inputs: Tensor, relevance: Tensor) -> Tensor:
    """A state h_t = a_t h_(t-1) + u_t with h_0 = 0, whose decay a_t is held constant (MambaLRP, Jafari et al. 2024).

    R_h_t  = R_t + a_(t+1) h_t / h_(t+1) R_h_(t+1)       relevance from outside, and from the next step
    R_u_t  = u_t / h_t R_h_t

    decay, inputs and relevance (T, ...): relevance is what each state gets from its read-out; returns that of the
    inputs.
    """
    states = [torch.zeros_like(inputs[0])]
    for a, u in zip(decay, inputs, strict=True):
        states.append(a * states[-1] + u)
    found, later = torch.zeros_like(inputs), torch.zeros_like(inputs[0])
    for t in reversed(range(len(inputs))):
        per_unit = divide(relevance[t] + later, states[t + 1])
        found[t], later = inputs[t] * per_unit, decay[t] * states[t] * per_unit
    return found


def triangular_solve(matrix: Tensor, right: Tensor, relevance: Tensor) -> Tensor:
    """A X = B with a matrix that is held constant: X is linear in B.

    R_B = B * A^-T (R_X / X)

    matrix (..., N, N), lower triangular; right and relevance (..., N, D); returns (..., N, D).
    """
    inverse: Tensor = torch.linalg.inv(matrix)
    per_unit = divide(relevance, inverse @ right)  # (..., N, D)
    return right * (inverse.mT @ per_unit)


def group_norm_constant_std(
    x: Tensor, groups: int, weight: Tensor | None, bias: Tensor | None, relevance: Tensor, *, norm_eps: float
) -> Tensor:
    """Group norm with each group's standard deviation held constant: a layer norm over the channels and positions of a
    group.

    x and relevance (B, C, ...), weight and bias (C,) or None; returns the shape of x.
    """
    flat, channels = x.reshape(len(x), groups, -1), (1, -1, *[1] * (x.dim() - 2))
    mean, sigma = flat.mean(-1, keepdim=True), (flat.var(-1, unbiased=False, keepdim=True) + norm_eps).sqrt()
    out = ((flat - mean) / sigma).reshape(x.shape)
    gain = torch.ones_like(x) if weight is None else weight.reshape(channels).expand_as(x)
    whole = out * gain if bias is None else out * gain + bias.reshape(channels)
    per_unit = (divide(relevance, whole) * gain).reshape(flat.shape) / sigma
    return x * (per_unit - per_unit.mean(-1, keepdim=True)).reshape(x.shape)
