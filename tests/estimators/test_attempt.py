"""Whole or not at all, without a copy of the whole; few frames between the door and the loop."""

import pickle
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import onkel
from onkel import KernelClassifier, KernelRegressor, NoveltyDetector, persist
from onkel.core.state import State

PACKAGE = str(Path(onkel.__file__).parent)


def stream(n, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")


class Failing:
    """A detector of drift that breaks at its n-th value."""

    drift_detected = False

    def __init__(self, n):
        self.left = n

    def update(self, value):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("broken")


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("known", [30, 150])
@pytest.mark.parametrize("drop", ["merge", "smallest", "oldest", "project"])
@pytest.mark.parametrize("d", [2, 400], ids=["in the loop", "by matrices"])
def test_a_refused_row_takes_back_those_before(n, known, drop, d):
    """The last of a few rows is refused by the loop itself, after the others went in."""
    X, _ = stream(known + n, d)
    target = X[:, 0].copy()
    target[-1] = 1e306
    model = KernelRegressor(budget=100 if d == 400 else 24, gamma=1.0 / d, drop=drop, C=1.0).partial_fit(X[:known], target[:known])
    before, trace = persist.dumps(model), model.trace_
    for _ in range(2):
        with pytest.raises(FloatingPointError, match="range of finite numbers"):
            model.partial_fit(X[known:], target[known:] * [*[1.0] * (n - 1), 1e2])
        assert persist.dumps(model) == before
        assert model.trace_ is trace
    model.partial_fit(X[known:-1], target[known:-1])
    twin = KernelRegressor(budget=100 if d == 400 else 24, gamma=1.0 / d, drop=drop, C=1.0).partial_fit(X[:-1], target[:-1])
    assert np.allclose(model.predict(X), twin.predict(X), atol=1e-9)


@pytest.mark.parametrize("known", [3, 40, 150])
def test_a_detector_that_breaks_takes_back_new_classes_too(known):
    X, y = stream(known + 3)
    y = [*y[:known].tolist(), "new", "newer", "same"]
    model = KernelClassifier(budget=24, drift=Failing(known + 2)).partial_fit(X[:known], y[:known])
    before = pickle.dumps(model)
    with pytest.raises(RuntimeError, match="broken"):
        model.partial_fit(X[known:], y[known:])
    assert pickle.dumps(model) == before
    assert "new" not in model.classes_.tolist()


def test_an_interrupted_new_fit_leaves_the_old_model(monkeypatch):
    X, y = stream(300)
    model = KernelClassifier(budget=24).fit(X, y)
    before = persist.dumps(model)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(onkel.estimators.model.Model, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert persist.dumps(model) == before


def test_a_call_of_two_rows_copies_no_state(monkeypatch):
    X, y = stream(300)
    models = [KernelClassifier(budget=24).fit(X, y), KernelRegressor(budget=24).fit(X, X[:, 0]), NoveltyDetector(budget=24).fit(X)]
    monkeypatch.setattr(State, "copy", lambda self: pytest.fail("a copy of everything"))
    models[0].partial_fit(X[:2], y[:2])
    models[1].partial_fit(X[:2], X[:2, 0])
    models[2].partial_fit(X[:2])


def ours(frame):
    """How many of the frames on the stack are onkel's own."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith(PACKAGE)
        frame = frame.f_back
    return count


def deepest_stack(call):
    """How many frames of onkel stand on each other at most, helpers and checks included."""
    depths = []
    sys.setprofile(lambda frame, event, argument: depths.append(ours(frame)))
    try:
        call()
    finally:
        sys.setprofile(None)
    return max(depths)


@pytest.mark.parametrize("n", [1, 2, 50])
@pytest.mark.parametrize("d", [2, 400], ids=["in the loop", "by matrices"])
def test_few_frames_between_the_door_and_the_loop(n, d):
    X, y = stream(250, d)
    codes = (y == "same").astype(int)
    models = [(KernelClassifier(budget=100), codes), (KernelRegressor(budget=100), X[:, 0]), (NoveltyDetector(budget=100), codes)]
    for model, target in models:
        model.fit(X, target).partial_fit(X[:n], target[:n])
        again = partial(model.partial_fit, X[:n], target[:n])
        assert deepest_stack(again) <= (7 if d == 2 else 8)
    if d == 2:
        row, label = X[0], int(codes[0])
        models[0][0].learn_one(row, label)
        assert deepest_stack(partial(models[0][0].learn_one, row, label)) == 1
