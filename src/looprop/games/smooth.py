"""A smooth game through known values, whose Shapley value is known in closed form.

With z_i = +1 for a player that is there and -1 for one that is not, only the odd part of a game, u(z) = (v(z) - v(-z))
/ 2, matters to its Shapley value. A smooth odd game is one drawn from the Gaussian process of covariance

    k(z, z') = sinh(sum over i of theta_i z_i z'_i) / sinh(sum over i of theta_i) + linear part.

sinh x = x + x^3/6 + ...: single players count most, three together less, five together hardly, each by its own theta. A
function exp(sum of theta_i z_i z'_i) is a product over players, and the Shapley value of a product is one integral over
its multilinear extension (Owen 1972), of polynomials, which Gauss-Legendre quadrature answers exactly.

From a guess and a few values the Shapley value is what is likeliest when the rest is a smooth game:

    v ~ additive game of sum over c of beta_c part_c  +  smooth game,      beta_c ~ N(1, FREEDOM^2)

The parts, which add up to the guess, may each be wrong by a factor. Everything is Gaussian: the likeliest value is one
linear solve, and how far it may be off comes with it. Several guesses are averaged, each by how likely it makes the
values (Bayes).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from looprop.games.values import Floats, Sets

NODES = 24  # so many nodes integrate exp(c u) for |c| <= 8 to rounding, however many players there are
# Chosen on training sentences (docs/fast-shapley.md); scale-free: variances are shares of the guess's own size.
FREEDOM = 0.4
SMOOTH = 0.3
REACH = 3.0
NOISE = 0.1
EXACT = 1e-9


def signs(sets: Sets) -> Floats:
    """+1 for players that are there, -1 for others."""
    return np.where(sets, 1.0, -1.0)


def odd_product(left: Floats, right: Floats, theta: Floats) -> Floats:
    """sinh(sum of theta_i z_i z'_i) / sinh(sum of theta_i): (m, k) for signs (m, n) and (k, n)."""
    found: Floats = np.sinh((left * theta) @ right.T) / np.sinh(theta.sum())
    return found


def shapley_of_odd_product(points: Floats, theta: Floats) -> Floats:
    """The Shapley values (m, n) of the games z -> odd_product(z, point), one for each point (m, n).

    exp(sum theta_i z_i p_i) = C * product of (1 + rho_i p_i z_i), rho = tanh(theta), C = product of cosh(theta): its
    Shapley value is C rho_i p_i times the integral over u from -1 to 1 of the product of (1 + rho_j p_j u) over the
    others j; with -p in place of p for the other half of sinh, which gives the same at -u.
    """
    players = points.shape[1]
    nodes, weights = np.polynomial.legendre.leggauss(min(players // 2 + 1, NODES))
    rho = np.tanh(theta) * points  # (m, n)
    total = np.zeros_like(points)
    for node, weight in zip(nodes, weights, strict=True):
        factors = 1.0 + rho * node
        total += weight * np.exp(np.log(factors).sum(1, keepdims=True)) / factors
    found: Floats = np.exp(np.log(np.cosh(theta)).sum()) / np.sinh(theta.sum()) * rho * total
    return found


@dataclass(frozen=True, eq=False)
class Smoothness:
    """How smooth a game is taken to be.

    theta: (n,), how much each player matters in company. linear: how much more freely single players vary than sinh has
    it. noise: the variance of what no smooth game explains, as a share of the whole.
    """

    theta: Floats
    linear: float = 3.0
    noise: float = 1e-2

    def covariance(self, left: Floats, right: Floats) -> Floats:
        """Of the odd game at signs (m, n) and (k, n): (m, k)."""
        linear = self.linear / self.theta.sum() * (left * self.theta) @ right.T
        found: Floats = odd_product(left, right, self.theta) + linear
        return found

    def shapley(self, points: Floats) -> Floats:
        """The Shapley values of z -> covariance(z, point): (m, n)."""
        linear = 2.0 * self.linear / self.theta.sum() * points * self.theta
        found: Floats = shapley_of_odd_product(points, self.theta) + linear
        return found


@dataclass(frozen=True, eq=False)
class SmoothGame:
    """The odd game z -> sum over points of weight * covariance(z, point)."""

    smoothness: Smoothness
    points: Floats
    weights: Floats
    left_out: Floats  # what each value would have been missed by, had it not been given

    def __call__(self, where: Floats) -> Floats:
        return self.smoothness.covariance(where, self.points) @ self.weights

    def shapley(self) -> Floats:
        return self.weights @ self.smoothness.shapley(self.points)


def fit(points: Floats, odd: Floats, smoothness: Smoothness, *, exact: int = 1) -> SmoothGame:
    """The likeliest smooth game given its odd part (m,) at points (m, n); the first `exact` hold without noise."""
    noise = np.full(len(points), smoothness.noise)
    noise[:exact] = 1e-9
    inverse = np.linalg.inv(smoothness.covariance(points, points) + np.diag(noise))
    weights = inverse @ odd
    return SmoothGame(smoothness, points, weights, weights / np.diag(inverse))


def importance_scale(sizes: Floats, *, least: float = 0.3) -> Floats:
    """theta up to a factor, from sizes of effects (n,): adds up to 1, and no player counts for nothing."""
    mean = sizes.mean()
    relative = sizes / mean if mean > 0 else np.ones_like(sizes)
    found: Floats = (relative + least) / (relative + least).sum()
    return found


@dataclass(frozen=True, eq=False)
class Likeliest:
    """shares: (n,), which add up to the whole. errors: their standard deviations, by how badly the values that were
    asked fitted the guess. evidence: the logarithm of how likely the guess makes these values, up to a constant.
    """

    shares: Floats
    errors: Floats
    evidence: float


def likeliest_of(guesses: Sequence[Floats], points: Floats, odd: Floats) -> Likeliest:
    """The mean over guesses (parts as of `likeliest_shares`), each with the weight that its evidence gives it."""
    found = [likeliest_shares(parts, points, odd) for parts in guesses]
    evidence = np.array([each.evidence for each in found])
    best = float(evidence.max())
    weights = np.exp(evidence - best)
    shares = np.average([each.shares for each in found], axis=0, weights=weights)
    apart = [each.errors**2 + (each.shares - shares) ** 2 for each in found]
    errors = np.sqrt(np.average(apart, axis=0, weights=weights))
    return Likeliest(shares, errors, best + float(np.log(weights.mean())))


def likeliest_shares(parts: Floats, points: Floats, odd: Floats) -> Likeliest:
    """parts: (n, c), adding up to a guess of the Shapley value. points: signs (m, n) at which the odd part (m,) of the
    game is known; the first is the whole, which holds exactly.
    """
    players = len(parts)
    guess = parts.sum(1)
    size = float(guess @ guess) or 1.0
    theta = REACH * importance_scale(np.abs(parts).sum(1), least=1.0)
    slopes = points @ parts / 2  # (m, c)
    noise = np.full(len(points), NOISE * size)
    noise[0] = EXACT * size
    covariance = FREEDOM**2 * slopes @ slopes.T + SMOOTH * size * odd_product(points, points, theta) + np.diag(noise)
    of_shares = FREEDOM**2 * slopes @ parts.T + SMOOTH * size * shapley_of_odd_product(points, theta)  # (m, n)
    missed = odd - points @ guess / 2
    weights = np.linalg.solve(covariance, np.column_stack([missed, of_shares]))
    shares = guess + of_shares.T @ weights[:, 0]
    shares = shares + (2 * odd[0] - shares.sum()) / players  # what rounding left over
    prior = FREEDOM**2 * (parts**2).sum(1) + SMOOTH * size * prior_variance(theta)
    left = np.maximum(prior - (of_shares * weights[:, 1:]).sum(0), 0.0)
    # Values that the guess missed by more than it may say that it is worse than most.
    misfit = float(missed @ weights[:, 0])
    evidence = -0.5 * (float(np.linalg.slogdet(covariance)[1]) + misfit)
    return Likeliest(shares, np.sqrt(misfit / len(points) * left), evidence)


def prior_variance(theta: Floats) -> Floats:
    """The variance (n,) of the Shapley values of a game drawn with covariance `odd_product`.

    The value of a value: C rho_i times the integral over u and w from -1 to 1 of the product over j != i of (1 + rho_j
    u w), divided by sinh(sum of theta).
    """
    nodes, weights = np.polynomial.legendre.leggauss(min(len(theta) // 2 + 1, NODES))
    rho = np.tanh(theta)
    factors = 1.0 + rho * np.outer(nodes, nodes)[:, :, None]  # (k, k, n)
    others = np.exp(np.log(factors).sum(-1, keepdims=True)) / factors
    integral = np.einsum("a,b,abn->n", weights, weights, others)
    found: Floats = np.exp(np.log(np.cosh(theta)).sum()) / np.sinh(theta.sum()) * rho * integral
    return found
