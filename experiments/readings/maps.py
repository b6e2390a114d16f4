"""Maps of many images at once: leave-one-out in closed form, integrated gradients exactly, AttnLRP by the engine.

A logit of linear attention is an inner product of two small matrices,

    f(x) = < S, M > / n + b,    S = sum_i k_i v_i^T,    M = sum_j q_j w_j^T    (w_j: what the read-out does with row j)

and a pixel i enters each by one term: without it both lose theirs and gain that of the pixel that stands there
instead. Along a straight line f is a cubic, so that two Gauss points integrate its gradient exactly.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from looprop.study.kinds.networks.training import LinearAttention, reordered
from looprop.tensors import attribute

Maps = NDArray[np.float64]
"""One score per image and pixel: (B, n)."""


def leave_one_out(network: LinearAttention, x: Tensor, target: Tensor, zero: float) -> Maps:
    """f(x) - f(x with pixel i set to `zero`), for every pixel of every image (B, n)."""
    with torch.no_grad():
        q, k, v = _projected(network, x)  # (B, n, d)
        other_q, other_k, other_v = _projected(network, torch.full_like(x[:1], zero))  # (1, n, d)
        w = _read_out_rows(network, target)  # (B, n, d)
        state, reading = k.transpose(1, 2) @ v, q.transpose(1, 2) @ w  # (B, d, d)
        # < S + dS, M + dM > - < S, M > with dS = k' v'^T - k v^T and dM = (q' - q) w^T, of every pixel i.
        moved = other_q - q
        of_reading = _form(other_k, reading, other_v) - _form(k, reading, v)
        of_state = _form(moved, state, w)
        of_both = _dot(other_k, moved) * _dot(other_v, w) - _dot(k, moved) * _dot(v, w)
        return _as_maps(-(of_reading + of_state + of_both) / x.shape[1])


def integrated_gradients(network: LinearAttention, x: Tensor, target: Tensor, zero: float) -> Maps:
    """(x - zero) times the mean gradient on the line from an image of `zero` to x, (B, n)."""
    nodes, weights = np.polynomial.legendre.leggauss(2)
    total = torch.zeros_like(x)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        point = (zero + float(node) * (x - zero)).requires_grad_()
        value = network(point).gather(1, target[:, None]).sum()
        total += float(weight) * torch.autograd.grad(value, point)[0]
    return _as_maps((x - zero) * total)


@dataclass(frozen=True, eq=False)
class BothOrders:
    """AttnLRP's maps of Q (K^T V) and of (Q K^T) V."""

    kv_first: Maps
    qk_first: Maps


def attnlrp_both(network: LinearAttention, x: Tensor, target: Tensor, epsilon: float) -> BothOrders:
    """AttnLRP in both orders of multiplication."""
    maps = [
        _as_maps(attribute(reordered(network, order).to(x), x, "attnlrp", target=target, epsilon=epsilon))
        for order in ("kv_first", "qk_first")
    ]
    return BothOrders(*maps)


def _projected(network: LinearAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    tokens = network.tokens(x)
    return network.query(tokens), network.key(tokens), network.value(tokens)


def _read_out_rows(network: LinearAttention, target: Tensor) -> Tensor:
    """What the read-out of each image's class does with every row: (B, n, d)."""
    weight = network.read_out.weight[target]  # (B, d) or (B, n d)
    if network.pooled:
        return (weight / network.pixels)[:, None].expand(-1, network.pixels, -1)
    return weight.reshape(len(target), network.pixels, network.width)


def _form(left: Tensor, matrix: Tensor, right: Tensor) -> Tensor:
    """left_i^T matrix right_i for every pixel: (B, n)."""
    return ((left @ matrix) * right).sum(-1)


def _dot(left: Tensor, right: Tensor) -> Tensor:
    return (left * right).sum(-1)


def _as_maps(tensor: Tensor) -> Maps:
    maps: Maps = tensor.detach().double().numpy()
    return maps
