"""Drift detectors of River's shape: what they hear, what they set off, and that nothing changes without them."""

import numpy as np
import pytest
from river.drift import ADWIN, PageHinkley

from onkel import KernelClassifier, KernelRegressor, NoveltyDetector


class Alarm:
    """Speaks at given examples, and remembers what it heard."""

    def __init__(self, at=()):
        self.at, self.heard, self.drift_detected = set(at), [], False

    def update(self, value):
        self.heard.append(value)
        self.drift_detected = len(self.heard) in self.at


def flipping(n=1200, seed=0):
    """Two classes that change places half way."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    y = X[:, 0] * X[:, 1] > 0
    return X, np.where(np.arange(n) < n // 2, y, ~y)


def test_a_silent_detector_changes_nothing():
    X, y = flipping()
    plain = KernelClassifier(budget=32).partial_fit(X, y)
    watched = KernelClassifier(budget=32, drift=Alarm()).partial_fit(X, y)
    assert np.array_equal(plain.state_.coef, watched.state_.coef)
    assert np.array_equal(plain.model_.cells, watched.model_.cells)
    assert not watched.trace_.drift.any()


@pytest.mark.parametrize("action", ["forget", "shrink", "restart"])
@pytest.mark.parametrize("cut", [1, 37, 1200])
def test_the_cut_does_not_matter(action, cut):
    X, y = flipping()
    at = [350, 351, 700]
    whole = KernelClassifier(budget=32, drift=Alarm(at), on_drift=action).partial_fit(X, y)
    assert (np.flatnonzero(whole.trace_.drift) + 1).tolist()[-1] == 700
    model = KernelClassifier(budget=32, drift=Alarm(at), on_drift=action)
    for start in range(0, len(X), cut):
        model.partial_fit(X[start : start + cut], y[start : start + cut])
    assert np.array_equal(model.state_.coef, whole.state_.coef)
    assert model.model_.watch.detector.heard == whole.model_.watch.detector.heard
    assert len(whole.model_.watch.detector.heard) == 1200


def test_what_each_action_does_shows_in_the_trace():
    X, y = flipping()
    sizes = {}
    for action in ("forget", "shrink", "restart"):
        trace = KernelClassifier(budget=32, drift=Alarm([700]), on_drift=action).partial_fit(X, y).trace_
        assert np.flatnonzero(trace.drift).tolist() == [699]
        sizes[action] = trace.size[700:703]
    assert sizes["forget"][0] == 32
    assert 16 <= sizes["shrink"][0] <= 17
    assert sizes["restart"][0] <= 1


def test_forgetting_ends():
    """After the recovery f shrinks by the usual lam again: what is left of old coefficients is (1/(1 + 0.03))^100."""
    X, y = flipping(600)
    X, y = X[:320], y[:320]  # 20 examples after the change, errors are on the rise
    far = np.full((300, 2), 50.0) + np.random.default_rng(1).normal(size=(300, 2))  # examples that old points do not see
    model = KernelClassifier(budget=None, lam=0.0, gamma=0.5, drift=Alarm([320])).partial_fit(X, y)
    before = model.state_.coef.copy()
    model.partial_fit(far, np.arange(300) % 2 == 0)
    assert model.state_.coef[: len(before)] == pytest.approx(before * 1.03**-100.0, rel=1e-9)


@pytest.mark.parametrize("action", ["forget", "shrink", "restart"])
def test_adwin_helps_on_an_abrupt_change(action):
    """Between the flip and the end fewer mistakes than without a detector, for a model that hardly forgets."""
    X, y = flipping(4000, 3)
    mistakes = {}
    for name, detector in (("without", None), ("with", ADWIN())):
        model = KernelClassifier(budget=256, C=0.1, drift=detector, on_drift=action).partial_fit(X, y)
        mistakes[name] = model.trace_.mistake[2000:].sum()
    assert model.trace_.drift[2000:2400].any()
    assert mistakes["with"] < mistakes["without"], mistakes


def test_regressors_and_detectors_of_novelty_take_them_too():
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (800, 1))
    y = np.where(np.arange(800) < 400, X[:, 0], 5.0 + X[:, 0])
    alarm = Alarm()
    model = KernelRegressor(budget=32, drift=alarm).partial_fit(X, y)
    assert alarm.heard == [], "the parameter itself is never touched"
    assert np.allclose(model.model_.watch.detector.heard, np.abs(y - model.trace_.scores))
    model = KernelRegressor(budget=32, drift=PageHinkley(threshold=5.0, mode="up"), on_drift="restart").partial_fit(X, y)
    assert model.trace_.drift[400:450].any()
    assert not model.trace_.drift[150:400].any()
    novel = NoveltyDetector(budget=32, drift=Alarm([300]), on_drift="shrink").partial_fit(X)
    assert novel.trace_.drift.sum() == 1
    assert set(novel.model_.watch.detector.heard) <= {0, 1}


def test_learn_one_goes_past_the_detector():
    X, y = flipping(300)
    one, block = (KernelClassifier(budget=16, drift=Alarm([150]), on_drift="restart") for _ in range(2))
    for x, label in zip(X, y):
        one.learn_one(x, bool(label))
    block.partial_fit(X, y)
    assert np.array_equal(one.state_.coef, block.state_.coef)


def test_what_is_no_detector_is_refused():
    with pytest.raises(TypeError, match="drift must have update"):
        KernelClassifier(drift="adwin").partial_fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="on_drift must be one of"):
        KernelClassifier(on_drift="panic").partial_fit([[0.0], [1.0]], [0, 1])
