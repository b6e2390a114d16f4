"""Shapley values from a guess and a few values of sets: what is likeliest when the rest is a smooth game.

    v ~ additive game of sum over c of beta_c part_c  +  smooth game,      beta_c ~ N(1, FREEDOM^2)

The parts, which add up to the guess, may each be wrong by a factor, and what they leave unexplained is a smooth game
(`smooth.py`). Everything is Gaussian: the Shapley value that is likeliest given the values is one linear solve, and how
far it may be off comes with it. Several guesses are averaged, each by how likely it makes the values (Bayes).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from looprop.games.smooth import NODES, importance_scale, odd_product, shapley_of_odd_product
from looprop.games.values import Floats

# Chosen on training sentences (docs/fast-shapley.md); scale-free: variances are shares of the guess's own size.
FREEDOM = 0.4
SMOOTH = 0.3
REACH = 3.0
NOISE = 0.1
EXACT = 1e-9


@dataclass(frozen=True, eq=False)
class Likeliest:
    """shares: (n,), which add up to the whole. errors: the standard deviation of each, by how badly the values that
    were asked fitted the guess. evidence: the logarithm of how likely the guess makes these values, up to a constant.
    """

    shares: Floats
    errors: Floats
    evidence: float


def likeliest_of(guesses: Sequence[Floats], points: Floats, odd: Floats) -> Likeliest:
    """The mean over guesses, each with the weight that its evidence gives it: guesses are parts as of
    `likeliest_shares`, all equally likely before any value is known.
    """
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
    variance: Floats = np.exp(np.log(np.cosh(theta)).sum()) / np.sinh(theta.sum()) * rho * integral
    return variance
