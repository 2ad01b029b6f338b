"""Probabilities that mean what they say, intervals and alerts that keep their share, all on streams that drift."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onkel import KernelClassifier, KernelRegressor, NoveltyDetector
from onkel.estimators import calibration


def noisy_classes(n, m, seed):
    """Classes drawn with known probabilities, which turn with the stream."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    angle = np.linspace(0, 3, n)[:, None] + 2 * np.pi * np.arange(m) / m
    logits = 2.0 * (X[:, :1] * np.cos(angle) + X[:, 1:] * np.sin(angle))
    p = np.exp(logits)
    p /= p.sum(axis=1, keepdims=True)
    return X, (rng.uniform(size=(n, 1)) > p.cumsum(axis=1)).sum(axis=1)


def reliability(p, y):
    """Expected calibration error over ten bins of the confidence: mean |accuracy - confidence|, weighted by the bins."""
    confidence, right = p.max(axis=1), p.argmax(axis=1) == y
    bins = np.minimum((confidence * 10).astype(int), 9)
    return sum(abs((right[bins == b]).mean() - confidence[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins))


@pytest.mark.parametrize(("m", "C"), [(2, 0.1), (2, 10.0), (4, 0.5)])
def test_probabilities_are_reliable_out_of_sample(m, C):
    """Each block is predicted before it is learned; without calibration (a = 1) the same scores are far off."""
    X, y = noisy_classes(6000, m, 1)
    model = KernelClassifier(C=C, budget=64).partial_fit(X[:1000], y[:1000])
    p, scores = [], []
    for start in range(1000, 6000, 250):
        block = slice(start, start + 250)
        p.append(model.predict_proba(X[block]))
        scores.append(model._score(X[block]))
        model.partial_fit(X[block], y[block])
    calibrated = reliability(np.concatenate(p), y[1000:])
    raw = reliability(calibration.probabilities(calibration.fresh(), np.concatenate(scores)), y[1000:])
    assert calibrated < 0.05
    assert calibrated < raw or raw < 0.03


def test_log_loss_beats_knowing_nothing():
    X, y = noisy_classes(5000, 3, 2)
    model = KernelClassifier(budget=64).fit(X[:4000], y[:4000])
    p = model.predict_proba(X[4000:])
    assert -np.log(p[np.arange(1000), y[4000:]]).mean() < np.log(3) - 0.15


@given(
    st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=20),
    st.floats(-12.0, 12.0),
)
def test_probabilities_never_contradict_the_scores(rows, sharpness):
    scores, cells = np.array(rows), calibration.fresh()
    cells[calibration.SHARPNESS] = sharpness
    p = calibration.probabilities(cells, scores)
    assert np.array_equal(p.argmax(axis=1), scores.argmax(axis=1))
    assert np.allclose(p.sum(axis=1), 1.0)
    assert (p >= 0).all()


def test_predict_proba_agrees_with_predict_for_two_classes_and_one():
    X, y = noisy_classes(600, 2, 3)
    model = KernelClassifier(budget=32).fit(X, y)
    assert np.array_equal(model.classes_[model.predict_proba(X).argmax(axis=1)], model.predict(X))
    assert np.array_equal(model.predict(X), (model.decision_function(X) > 0).astype(int))
    alone = KernelClassifier().fit(X[:5], ["only"] * 5)
    assert np.array_equal(alone.predict_proba(X), np.ones((600, 1)))


def drifting_targets(n, seed):
    """A signal that jumps and noise that grows five-fold half way."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 1))
    half = np.arange(n) >= n // 2
    return X, np.where(half, 5.0 - np.sin(3 * X[:, 0]), np.sin(3 * X[:, 0])) + np.where(half, 0.5, 0.1) * rng.standard_t(4, n)


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_keep_their_coverage_through_drift(coverage):
    X, y = drifting_targets(6000, 4)
    model = KernelRegressor(coverage=coverage, budget=64)
    held = []
    for i in range(0, 6000, 10):
        if i:
            low, high = model.predict_interval(X[i : i + 10]).T
            held.append((low <= y[i : i + 10]) & (y[i : i + 10] <= high))
        model.partial_fit(X[i : i + 10], y[i : i + 10])
    held = np.concatenate(held)
    assert abs(held.mean() - coverage) < 0.02
    windows = held[: len(held) // 500 * 500].reshape(-1, 500).mean(axis=1)
    assert np.abs(windows - coverage).max() < 0.1, "also in every window, the drift's among them"


def test_the_share_of_misses_is_the_identity_in_the_docs():
    """misses / T = alpha + (c_T - c_0) / (RATE T), to rounding, for errors of any kind."""
    rng = np.random.default_rng(5)
    y, cells, alpha = rng.standard_cauchy(2000), calibration.fresh(), 0.1
    start, missed = cells[calibration.REACH], 0
    for t in range(len(y)):
        missed += abs(y[t]) > calibration.half_width(cells)
        calibration.widen(cells, np.zeros((1, 1)), y[t : t + 1], y[t : t + 1], alpha)
    expected = alpha + (cells[calibration.REACH] - start) / (calibration.RATE * len(y))
    assert missed / len(y) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("nu", [0.02, 0.1])
def test_alerts_keep_their_share(nu):
    """Half way the normal points move; alerts rise, then return to nu."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(6000, 2)) + np.where(np.arange(6000) < 3000, 0.0, 6.0)[:, None]
    model = NoveltyDetector(nu=nu, budget=64)
    alerts = np.zeros(6000, bool)
    for i in range(0, 6000, 20):
        if i:
            alerts[i : i + 20] = model.predict(X[i : i + 20]) < 0
        model.partial_fit(X[i : i + 20])
    assert alerts[3000:3020].mean() > 0.9
    assert abs(alerts[1000:3000].mean() - nu) < 0.02 + nu / 4
    assert abs(alerts[4000:].mean() - nu) < 0.02 + nu / 4


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_calibration_does_not_depend_on_the_cut(cut):
    X, y = noisy_classes(400, 3, 7)
    whole, cells = KernelClassifier(budget=32).partial_fit(X, y), None
    model = KernelClassifier(budget=32)
    for start in range(0, 400, cut):
        model.partial_fit(X[start : start + cut], y[start : start + cut])
    cells = model.model_.cells
    assert np.array_equal(cells, whole.model_.cells)
