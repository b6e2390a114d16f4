"""One step of a random program: its value and its relevance in plain numpy, by the equations of docs/rules.md.

Nothing here knows torch or looprop. Every array is one sample, (T, D) mostly; relevance has the shape of what it
belongs to. Epsilon is 0 and biases keep their share, so that R_i = sum_j  z_ij / y_j  R_j  with  0 / 0 = 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def shares(relevance: Array, value: Array) -> Array:
    """R / y, and 0 where y is 0."""
    return np.divide(relevance, value, out=np.zeros_like(value), where=value != 0)


class Kind:
    """The mathematics of a step."""

    def value(self, *inputs: Array) -> Array:
        """The step's value."""
        raise NotImplementedError

    def relevance(self, inputs: Sequence[Array], value: Array, relevance: Array, rule: str) -> list[Array]:
        """The relevance of each input, from that of the value. rule: "attn" or "cp"."""
        raise NotImplementedError


@dataclass
class Affine(Kind):
    """y = sum_k M_k x_k + c over flattened tensors. matrices: M_k, or a function that makes them of the inputs and is
    held constant (norms, selections of a maximum).
    """

    shape: tuple[int, ...]
    matrices: Sequence[Array] | Callable[..., Sequence[Array]]
    constant: Array | float = 0.0

    def _made(self, inputs: Sequence[Array]) -> Sequence[Array]:
        return self.matrices(*inputs) if callable(self.matrices) else self.matrices

    def value(self, *inputs: Array) -> Array:
        total = sum(m @ x.ravel() for m, x in zip(self._made(inputs), inputs, strict=True))
        return np.asarray(total).reshape(self.shape) + self.constant

    def cancels(self, inputs: Sequence[Array], value: Array) -> bool:
        """Is a sum of terms zero that are not? There the rule has no limit: 0/0 is 0 by the equation, and the gradient
        by the engine (docs/protocol.md).
        """
        sizes = sum(np.abs(m) @ np.abs(x.ravel()) for m, x in zip(self._made(inputs), inputs, strict=True))
        terms = np.asarray(sizes) + np.abs(np.broadcast_to(self.constant, self.shape)).ravel()
        return bool(((np.abs(value.ravel()) <= 1e-13 * terms) & (terms > 0)).any())

    def relevance(self, inputs: Sequence[Array], value: Array, relevance: Array, rule: str) -> list[Array]:
        share = shares(relevance, value).ravel()
        return [(x.ravel() * (m.T @ share)).reshape(x.shape) for m, x in zip(self._made(inputs), inputs, strict=True)]


@dataclass
class Pointwise(Kind):
    """y = f(x) with f(0) = 0:  R_x = R_y."""

    function: Callable[[Array], Array]

    def value(self, *inputs: Array) -> Array:
        return np.asarray(self.function(inputs[0]))

    def relevance(self, inputs: Sequence[Array], value: Array, relevance: Array, rule: str) -> list[Array]:
        return [relevance]


class Product(Kind):
    """z = x y of two activations, the second maybe one row or column that is broadcast:  R_x = R_y = R_z / 2."""

    def value(self, *inputs: Array) -> Array:
        return inputs[0] * inputs[1]

    def relevance(self, inputs: Sequence[Array], value: Array, relevance: Array, rule: str) -> list[Array]:
        second = relevance / 2
        for axis in range(second.ndim):
            if inputs[1].shape[axis] == 1:
                second = second.sum(axis, keepdims=True)
        return [relevance / 2, second]


class MatrixProduct(Kind):
    """O = A B of two activations:  R_A_ik = sum_j A_ik B_kj / (2 O_ij) R_ij, and likewise R_B."""

    def value(self, *inputs: Array) -> Array:
        return inputs[0] @ inputs[1]

    def relevance(self, inputs: Sequence[Array], value: Array, relevance: Array, rule: str) -> list[Array]:
        left, right = inputs
        of_left, of_right = np.zeros_like(left), np.zeros_like(right)
        share = shares(relevance, 2 * value)
        for i, k, j in np.ndindex(left.shape[0], left.shape[1], right.shape[1]):
            part = left[i, k] * right[k, j] * share[i, j]
            of_left[i, k] += part
            of_right[k, j] += part
        return [of_left, of_right]


@dataclass
class Attention(Kind):
    """Heads of O = softmax(Q K^T / sqrt(d) + bias) V by the paper's equations; bias (H, T, S) is constant and may hold
    -inf. groups: how many heads of queries share one of keys and values.
    """

    heads: int
    scale: float
    bias: Array
    groups: int = 1

    def _heads(self, *inputs: Array) -> list[tuple[Array, Array, Array]]:
        query, key, value = inputs
        parts = []
        for head in range(self.heads):
            kept = head // self.groups
            cut = [np.split(query, self.heads, 1)[head]]
            cut += [np.split(x, self.heads // self.groups, 1)[kept] for x in (key, value)]
            parts.append((cut[0], cut[1], cut[2]))
        return parts

    def _scores(self, query: Array, key: Array, head: int) -> tuple[Array, Array, Array]:
        products = query @ key.T * self.scale
        scores = products + self.bias[head]
        raised = np.exp(scores - scores.max(1, keepdims=True))
        return products, scores, raised / raised.sum(1, keepdims=True)

    def value(self, *inputs: Array) -> Array:
        return np.concatenate([self._scores(q, k, h)[2] @ v for h, (q, k, v) in enumerate(self._heads(*inputs))], 1)

    def relevance(self, inputs: Sequence[Array], value: Array, relevance: Array, rule: str) -> list[Array]:
        found = [np.zeros_like(x) for x in inputs]
        for head, ((query, key, values), (r_query, r_key, r_values)) in enumerate(
            zip(self._heads(*inputs), self._heads(*found), strict=True)  # views into `found`
        ):
            width = values.shape[1]
            out, r_out = (x[:, head * width : (head + 1) * width] for x in (value, relevance))
            products, scores, weights = self._scores(query, key, head)
            halves = 1 if rule == "cp" else 2
            r_weights = np.zeros_like(weights)
            share = shares(r_out, halves * out)
            for j, i, p in np.ndindex(*weights.shape, width):
                part = weights[j, i] * values[i, p] * share[j, p]
                r_weights[j, i] += part
                r_values[i, p] += part
            if rule == "cp":
                continue
            for j, i in np.ndindex(*weights.shape):
                if weights[j, i] == 0 or products[j, i] == 0:  # barred, or 0 / 0
                    continue
                r_score = scores[j, i] * (r_weights[j, i] - weights[j, i] * r_weights[j].sum())
                r_product = r_score * products[j, i] / scores[j, i] if scores[j, i] else 0.0  # a bias keeps its share
                for r in range(query.shape[1]):
                    part = query[j, r] * key[i, r] * self.scale / (2 * products[j, i]) * r_product
                    r_query[j, r] += part
                    r_key[i, r] += part
        return found


@dataclass
class Step:
    """A step: what it reads (numbers of earlier steps), its mathematics, and how it is written in torch.

    write: called with the tensors (B, ...) of its inputs. must: "agree" (or be refused in words), or "refuse".
    cut: for evasions, a list with the factor on the part that is cut off; changed to see whether it matters.
    """

    inputs: tuple[int, ...]
    kind: Kind
    shape: tuple[int, ...]
    write: Callable[..., Any]
    label: str
    must: str = "agree"
    cut: list[float] = field(default_factory=list)


def evaluate(steps: Sequence[Step], x: Array) -> list[Array]:
    """The values of all steps; number 0 is the input."""
    values = [x]
    for step in steps:
        values.append(step.kind.value(*(values[i] for i in step.inputs)))
    return values


def propagate(steps: Sequence[Step], values: Sequence[Array], target: int, rule: str) -> tuple[Array, float]:
    """The relevance of the input, and the largest share on the way (what rounding is to be measured against)."""
    relevance = [np.zeros_like(v) for v in values]
    relevance[-1][target] = values[-1][target]
    largest = 1.0
    for number in range(len(steps), 0, -1):
        step, mine = steps[number - 1], relevance[number]
        largest = max(largest, float(np.abs(shares(mine, values[number])).max()))
        parts = step.kind.relevance([values[i] for i in step.inputs], values[number], mine, rule)
        for i, part in zip(step.inputs, parts, strict=True):
            relevance[i] = relevance[i] + part
    return relevance[0], largest
