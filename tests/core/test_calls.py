"""The short way in, and the vectors it computes with: what does not fit must take the long way and end up at the same place."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import onkel
from onkel.core.machine import calls
from onkel.core.machine.lanes import LINE, aligned
from onkel.core.points.matrices import matrix

ROOT = Path(__file__).parents[2]


def stream(n, dtype=np.float64, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).astype(dtype)
    return X, np.sign(X[:, 0] * X[:, 1])


def big_endian(x):
    return x.astype(x.dtype.newbyteorder(">"))


def strided(x):
    wide = np.full(2 * len(x), 7, x.dtype)
    wide[::2] = x
    return wide[::2]


def frozen(x):
    x = x.copy()
    x.flags.writeable = False
    return x


def unaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    raw[1:] = x.view(np.uint8)
    return raw[1:].view(x.dtype)


class Tagged(np.ndarray):
    """A subclass, as units libraries make them."""


FORMS = {
    "array": lambda x: x,
    "list": lambda x: x.tolist(),
    "tuple": lambda x: tuple(x.tolist()),
    "big-endian": big_endian,
    "strided": strided,
    "read-only": frozen,
    "unaligned": unaligned,
    "subclass": lambda x: x.view(Tagged),
    "other precision": lambda x: x.astype(np.float32 if x.dtype == np.float64 else np.float64),
    "objects": lambda x: x.astype(object),
    "own dtype": lambda x: pickle.loads(pickle.dumps(x)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_form_of_a_row_says_the_same(form, dtype):
    X, y = stream(300, dtype)
    if form == "other precision":
        X = np.round(X * 64) / 64  # the same number in both
    plain = onkel.KernelClassifier(budget=20, gamma=0.5).partial_fit(X[:200], y[:200], classes=[-1.0, 1.0])
    other = copy.deepcopy(plain)
    for x, label in zip(X[200:], y[200:]):
        given = FORMS[form](x)
        assert other.predict_one(given) == plain.predict_one(x)
        plain.learn_one(x, label)
        other.learn_one(given, label)
    np.testing.assert_array_equal(plain.state_.coef, other.state_.coef)
    np.testing.assert_array_equal(plain.state_.points, other.state_.points)


@pytest.mark.parametrize(
    "bad", [np.zeros(2), np.zeros(4), np.zeros((1, 3)), np.array(0.0), [1.0, 2.0], np.full(3, np.nan), None, "abc"]
)
def test_a_bad_row_is_refused_and_nothing_moves(bad):
    X, y = stream(200)
    models = [
        onkel.KernelClassifier(budget=20).partial_fit(X, y, classes=[-1.0, 1.0]),
        onkel.KernelRegressor(budget=20).partial_fit(X, y),
        onkel.NoveltyDetector(budget=20).partial_fit(X),
    ]
    for model in models:
        target = () if isinstance(model, onkel.NoveltyDetector) else (1.0,)
        model.learn_one(X[0], *target)  # the short way is open
        before = model.state_.coef
        for call in (lambda m=model, t=target: m.learn_one(bad, *t), lambda m=model: m.predict_one(bad)):
            with pytest.raises((ValueError, TypeError)):
                call()
        np.testing.assert_array_equal(model.state_.coef, before)
        model.learn_one(X[1], *target)


def test_the_short_way_is_the_long_way():
    X, y = stream(600)
    for make, targets in (
        (lambda: onkel.KernelClassifier(budget=16, gamma=0.5), y),
        (lambda: onkel.KernelRegressor(budget=16, gamma=0.5), y * X[:, 2]),
        (lambda: onkel.NoveltyDetector(budget=16, gamma=0.5), None),
    ):
        bulk, single = make(), make()
        arguments = (X,) if targets is None else (X, targets)
        bulk.partial_fit(*arguments)
        single.partial_fit(*(a[:200] for a in arguments))
        for i in range(200, 600):
            single.learn_one(*(a[i] for a in arguments))
        np.testing.assert_array_equal(bulk.state_.coef, single.state_.coef)
        np.testing.assert_array_equal(bulk.state_.points, single.state_.points)
        np.testing.assert_array_equal(bulk.model_.cells, single.model_.cells)
        score = single.score_one if targets is None else single.predict_one
        expected = bulk.score_samples(X[:20]) if targets is None else bulk.predict(X[:20])
        assert [score(x) for x in X[:20]] == pytest.approx(list(expected), rel=1e-12)


def test_after_growth_and_copies_the_short_way_leads_to_the_new_arrays():
    X, y = stream(400)
    model = onkel.KernelClassifier(budget=16, gamma=0.5).partial_fit(X[:100], y[:100], classes=[-1.0, 1.0])
    model.learn_one(X[100], y[100])
    twin = copy.deepcopy(model)
    snapshot = model.snapshot()
    model.learn_one(X[101], 7.0)  # a class never seen: arrays grow
    model.learn_one(X[102], 7.0)
    assert model.predict_one(X[102]) == 7.0
    assert twin.state_.t == snapshot.state_.t == 101
    twin.learn_one(X[101], y[101])
    assert (twin.state_.t, snapshot.state_.t) == (102, 101)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-7), (np.float64, 1e-15)])
def test_exponentials_keep_their_digits(dtype, tolerance):
    distance = np.linspace(0.0, 12.0, 4000).astype(dtype)
    K = matrix(onkel.RBF(1.0), distance[:, None], np.zeros((1, 1), dtype))[:, 0]
    exponent = -0.5 * distance.astype(np.float64) ** 2
    relative = np.abs(K / np.exp(exponent) - 1.0)
    assert (relative <= tolerance * (1.0 + np.abs(exponent))).all()  # the exponent itself is rounded
    assert K[0] == 1.0


def test_aligned_arrays_begin_at_a_cache_line():
    for shape in ((1, 16), (3, 48), (7, 16)):
        for dtype in (np.float32, np.float64):
            made = aligned(shape, dtype)
            assert (made.shape, made.dtype, made.ctypes.data % LINE) == (shape, dtype, 0)
            assert made.flags.c_contiguous
            assert not made.any()


def test_two_losses_of_one_name_have_a_loop_each():
    X, y = stream(60)
    steep, flat = (onkel.loss(lambda z, y, c=c: c * (z - y) ** 2, lambda z, y, c=c: 2 * c * (z - y)) for c in (1.0, 0.01))
    assert type(steep).__name__ == type(flat).__name__
    learners = [onkel.silk(onkel.RBF(), loss, budget=8) for loss in (steep, flat)]
    first, second = (learner.learn(learner.init(), X, y)[0].coef for learner in learners)
    assert np.abs(first).max() > 3 * np.abs(second).max()


def test_what_is_called_at_its_address_gets_the_types_that_were_promised():
    """Cold, so that compiled code says what it passes: repair, projection, the tangent and the exact prox, in both precisions."""
    source = """
import numpy as np, onkel
from onkel.core.machine import calls
tree = onkel.Labels.tree([-1, 0, 0, 1, 1])
for dtype in (np.float64, np.float32):
    X = np.random.default_rng(0).normal(size=(40, 2)).astype(dtype)
    codes = np.random.default_rng(1).integers(0, tree.m, 40)
    for loss, step, drop in (
        (onkel.Structured(tree), onkel.Adaptive(0.1, 0.02, implicit=True, exact=True), "merge"),
        (onkel.Structured(tree), onkel.Implicit(0.7, 0.02, 1.0, True), "project"),
    ):
        learner = onkel.Learner(onkel.RBF(), loss, step, onkel.Budget(8, drop))
        learner.learn(learner.init(), X, codes)
names = {"repair", "project", "tangent", "exact prox"}
assert names <= calls.promised.keys() and names <= calls.passed.keys(), (calls.promised.keys(), calls.passed.keys())
for name in names:
    assert calls.promised[name] <= calls.passed[name], name
"""
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "NUMBA_CACHE_DIR": empty}
        done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_opening_the_short_way_again_looks_at_no_types(monkeypatch):
    """Each ``partial_fit`` closes it; where both alternate, it is opened as often."""

    def looked(*args, **kwargs):
        raise AssertionError("types were looked at again")

    X, y = stream(200)
    models = [
        onkel.KernelClassifier(budget=16).partial_fit(X, y, classes=[-1.0, 1.0]),
        onkel.KernelRegressor(budget=16).partial_fit(X, y),
        onkel.NoveltyDetector(budget=16).partial_fit(X),
    ]
    for model in models:
        assert model.model_.bind()
    monkeypatch.setattr(calls.Road, "__init__", looked)
    monkeypatch.setattr(calls, "address_of", looked)
    for model, target in zip(models, ((1.0,), (0.5,), ())):
        model.model_.unbind()
        for x in X[:3]:
            model.learn_one(x, *target)
        assert model.model_.take is not None
        assert model.state_.t == 203
