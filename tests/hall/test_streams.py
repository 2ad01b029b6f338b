"""The synthetic streams keep what their docstrings promise."""

import numpy as np
import pytest

from onkel.streams import drifting_mixtures, log_odds, moving_mixtures, rotate, switching_mixtures


@pytest.mark.parametrize("stream", [drifting_mixtures, moving_mixtures, switching_mixtures])
def test_seed_alone_decides(stream):
    (X, y), (X2, y2), (X3, _) = stream(300, seed=4), stream(300, seed=4), stream(300, seed=5)
    np.testing.assert_array_equal(X, X2)
    np.testing.assert_array_equal(y, y2)
    assert not np.array_equal(X, X3)
    assert X.dtype == y.dtype == np.float64
    assert X.shape == (300, 2)
    assert set(y) == {-1.0, 1.0}


@pytest.mark.parametrize("seed", range(5))
def test_drifting_mixtures_fill_the_axes_of_the_picture(seed):
    X, y = drifting_mixtures(2000, seed)
    low, high = np.quantile(X, [0.005, 0.995], axis=0)
    assert -400 < low[0] < 0 < 400 < high[0] < 800
    assert 0 <= low[1] < 500 < 3000 < high[1] < 3500
    assert 0.45 < (y > 0).mean() < 0.55


def test_old_knowledge_turns_wrong():
    """Nearest neighbour on the last 100 points, undone by the 2000 before them unless these are forgotten."""
    wrong_recent = wrong_old = 0
    for seed in range(5):
        X, y = drifting_mixtures(2000, seed)
        distance = ((X[-100:, None] - X[None, :-100]) ** 2).sum(-1)
        recent, old = distance.copy(), distance.copy()
        recent[:, :-100], old[:, -100:] = np.inf, np.inf
        wrong_recent += (y[:-100][recent.argmin(1)] != y[-100:]).sum()
        wrong_old += (y[:-100][old.argmin(1)] != y[-100:]).sum()
    assert wrong_old > 2 * wrong_recent


def test_rotation():
    np.testing.assert_allclose(rotate(np.array([[1.0, 2.0]]), np.array([np.pi / 2])), [[-2.0, 1.0]], atol=1e-12)


def test_log_odds_against_densities():
    rng = np.random.default_rng(0)
    points, means, width = rng.normal(size=(6, 2)), rng.normal(size=(2, 3, 2)), 0.8
    density = np.exp(-((points[:, None, None] - means) ** 2).sum(-1) / (2 * width**2)).sum(-1)
    np.testing.assert_allclose(log_odds(points, means, width), np.log(density[:, 1] / density[:, 0]))


def test_margin_separates_and_zero_margin_is_bayes():
    """With a wide margin the nearest neighbours of one period never disagree; without one they sometimes do."""

    def disagreements(margin):
        total = 0
        for seed in range(4):
            X, y = moving_mixtures(1000, every=1000, margin=margin, seed=seed)
            distance = ((X[:, None] - X[None]) ** 2).sum(-1) + np.diag(np.full(1000, np.inf))
            total += (y[distance.argmin(1)] != y).sum()
        return total

    assert disagreements(4.0) == 0 < disagreements(0.0)


def test_a_small_change_is_small_and_a_jump_is_a_jump():
    """Distance between the mean points of neighbouring periods, averaged over the stream."""

    def travel(change):
        X, y = moving_mixtures(20_000, every=500, change=change, seed=3)
        mean = (X * y[:, None]).reshape(-1, 500, 2).mean(1)
        return np.linalg.norm(np.diff(mean, axis=0), axis=1).mean()

    assert 3 * travel(0.05) < travel(1.0)


def test_a_period_cut_short_at_the_end():
    X, y = moving_mixtures(1005, every=10, seed=0)
    assert np.isfinite(X).all()
    assert set(y) == {-1.0, 1.0}


def test_more_and_narrower_gaussians():
    X, _ = moving_mixtures(2000, every=2000, gaussians=5, width=1e-3, seed=0)
    places = {tuple(place) for place in X.round(1)}
    assert 10 <= len(places) <= 40  # ten means, and their neighbours by rounding
