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

BiasShare = Literal["keep", "printed"]


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
    if bias is not None and bias_share == "keep":
        total = total + bias
    return x * (divide(relevance, stabilise(total, epsilon)) @ weight)


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


def softmax(Z: Tensor, R_A: Tensor) -> Tensor:
    """AttnLRP's first-order Taylor rule of the row-wise A = softmax(Z).

    R_Z_ji = Z_ji (R_A_ji - A_ji sum_i' R_A_ji')

    A masked entry (Z = -inf, or so low that A = 0) takes no part in its row: it gets exactly zero, and so does a row of
    nothing else. The rule does not conserve relevance: with equal logits, for one, all of a row's relevance is lost.

    Z and R_A (..., T, S); returns (..., T, S).
    """
    A = torch.softmax(Z, dim=-1)
    masked = Z.isneginf() | (A == 0)
    A, Z, R_A = (entries.masked_fill(masked, 0) for entries in (A, Z, R_A))
    return Z * (R_A - A * R_A.sum(dim=-1, keepdim=True))


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
