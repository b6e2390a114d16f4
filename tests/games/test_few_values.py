"""The likeliest Shapley values against Gaussian conditioning done over all sets."""

import numpy as np
import pytest
from scipy import stats

from looprop.games import smooth
from looprop.games.smooth import importance_scale, likeliest_of, likeliest_shares, odd_product, prior_variance, signs
from looprop.games.values import Floats, all_sets, exact_shapley

PLAYERS = 6


def by_all_sets(parts: Floats, points: Floats, odd: Floats) -> tuple[Floats, Floats]:
    """The same by hand: the covariance of all values, and of the Shapley values as their linear functions."""
    everything = signs(all_sets(PLAYERS))
    guess = parts.sum(1)
    size = guess @ guess
    theta = smooth.REACH * importance_scale(np.abs(parts).sum(1), least=1.0)
    slopes = everything @ parts / 2
    joint = smooth.FREEDOM**2 * slopes @ slopes.T + smooth.SMOOTH * size * odd_product(everything, everything, theta)
    value_of = np.stack([exact_shapley(row) for row in np.eye(len(everything))], 1)  # (n, 2^n): phi = value_of @ v
    at = [int(np.flatnonzero((everything == point).all(1))[0]) for point in points]
    noise = np.full(len(points), smooth.NOISE * size)
    noise[0] = smooth.EXACT * size
    inverse = np.linalg.inv(joint[np.ix_(at, at)] + np.diag(noise))
    gain = value_of @ joint[:, at] @ inverse
    missed = odd - (everything @ guess / 2)[at]
    left = value_of @ joint @ value_of.T - gain @ (value_of @ joint[:, at]).T
    surprise = missed @ inverse @ missed / len(points)
    return guess + gain @ missed, np.sqrt(surprise * np.diag(left))


@pytest.mark.parametrize("seed", range(3))
def test_is_the_gaussian_conditioned_on_what_is_known(seed: int) -> None:
    generator = np.random.default_rng(seed)
    parts = generator.standard_normal((PLAYERS, 2))
    sets = np.concatenate([np.ones((1, PLAYERS), dtype=bool), np.eye(PLAYERS, dtype=bool)[:2]])
    points, odd = signs(sets), generator.standard_normal(3)
    found, (shares, errors) = likeliest_shares(parts, points, odd), by_all_sets(parts, points, odd)
    np.testing.assert_allclose(found.shares, shares, atol=1e-6)
    np.testing.assert_allclose(found.errors, errors, atol=1e-6)
    assert found.shares.sum() == pytest.approx(2 * odd[0])


def test_what_is_known_already_changes_nothing() -> None:
    """Values of an additive game that the guess has right leave it as it is, without error."""
    single = np.array([1.0, -2.0, 0.5, 3.0, 0.0, 1.0])
    points = signs(np.concatenate([np.ones((1, PLAYERS), dtype=bool), np.eye(PLAYERS, dtype=bool)]))
    found = likeliest_shares(single[:, None], points, points @ single / 2)
    np.testing.assert_allclose(found.shares, single, atol=1e-12)
    np.testing.assert_allclose(found.errors, 0.0, atol=1e-9)


def test_more_values_come_nearer_and_say_so() -> None:
    generator = np.random.default_rng(0)
    players, true = 12, np.random.default_rng(1).standard_normal(12)
    guess = true + 0.5 * generator.standard_normal(players)
    off, stated = [], []
    for count in (4, 400):
        sets = np.concatenate([np.ones((1, players), dtype=bool), generator.random((count, players)) < 0.5])
        found = likeliest_shares(guess[:, None], signs(sets), signs(sets) @ true / 2)
        off.append(np.abs(found.shares - true).mean())
        stated.append(found.errors.mean())
    assert off[1] < 0.3 * off[0]
    assert stated[1] < 0.5 * stated[0]


def test_scales_with_the_game() -> None:
    generator = np.random.default_rng(3)
    parts, points = generator.standard_normal((PLAYERS, 2)), signs(generator.random((4, PLAYERS)) < 0.5)
    points[0], odd = 1.0, generator.standard_normal(4)
    one, ten = likeliest_shares(parts, points, odd), likeliest_shares(10 * parts, points, 10 * odd)
    np.testing.assert_allclose(ten.shares, 10 * one.shares)
    np.testing.assert_allclose(ten.errors, 10 * one.errors)


def test_guesses_are_weighed_by_how_likely_they_make_the_values() -> None:
    generator = np.random.default_rng(5)
    points, odd = signs(generator.random((5, PLAYERS)) < 0.5), generator.standard_normal(5)
    points[0] = 1.0
    guesses = [generator.standard_normal((PLAYERS, 2)) for _ in range(3)]
    weights, all_shares = [], []
    for parts in guesses:  # the density of the values under each guess, by scipy
        guess = parts.sum(1)
        size, slopes = guess @ guess, points @ parts / 2
        theta = smooth.REACH * importance_scale(np.abs(parts).sum(1), least=1.0)
        noise = np.full(5, smooth.NOISE * size)
        noise[0] = smooth.EXACT * size
        rest = smooth.SMOOTH * size * odd_product(points, points, theta)
        covariance = smooth.FREEDOM**2 * slopes @ slopes.T + rest + np.diag(noise)
        weights.append(stats.multivariate_normal(points @ guess / 2, covariance).pdf(odd))
        all_shares.append(likeliest_shares(parts, points, odd).shares)
    found = likeliest_of(guesses, points, odd)
    np.testing.assert_allclose(found.shares, np.average(all_shares, axis=0, weights=weights), rtol=1e-6)
    assert found.shares.sum() == pytest.approx(2 * odd[0])
    alone = likeliest_of(guesses[:1], points, odd)
    np.testing.assert_array_equal(alone.shares, all_shares[0])
    ten = likeliest_of([10 * parts for parts in guesses], points, 10 * odd)
    np.testing.assert_allclose(ten.shares, 10 * found.shares)
    np.testing.assert_allclose(ten.errors, 10 * found.errors)


def test_the_right_one_of_two_guesses_is_believed() -> None:
    generator = np.random.default_rng(2)
    true, other = generator.standard_normal(12), generator.standard_normal(12)
    sets = np.concatenate([np.ones((1, 12), dtype=bool), generator.random((12, 12)) < 0.5])
    found = likeliest_of([other[:, None], true[:, None]], signs(sets), signs(sets) @ true / 2)
    assert np.abs(found.shares - true).max() < 0.01 * np.abs(true - other).max()


def test_the_variance_before_anything_is_known() -> None:
    theta = np.random.default_rng(2).random(PLAYERS)
    everything = signs(all_sets(PLAYERS))
    value_of = np.stack([exact_shapley(row) for row in np.eye(len(everything))], 1)
    expected = np.diag(value_of @ odd_product(everything, everything, theta) @ value_of.T)
    np.testing.assert_allclose(prior_variance(theta), expected, atol=1e-12)
