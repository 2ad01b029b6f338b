"""Several learners at once: each as if it were alone, whatever they share."""

from __future__ import annotations

import numpy as np
import pytest

import onkel
from onkel import many

D = 90


def stream(n, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D)).astype(dtype)
    return X, np.where(X[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def grid(budget=500):
    kernels = [onkel.RBF(4.0), onkel.RBF(9.0), onkel.Matern(8.0), onkel.Linear(), onkel.Polynomial(2, 0.01), onkel.Laplacian(50.0)]
    rules = (onkel.Logistic(), onkel.Explicit(0.01, 0.1)), (onkel.Square(), onkel.Implicit(0.3, 0.01))
    return [onkel.Learner(k, loss, step, onkel.Budget(budget, "oldest")) for k in kernels for loss, step in rules]


def alone(learners, X, y, **more):
    return [learner.learn(learner.init(), X, y, **more) for learner in learners]


def assert_same(pairs, others, **tolerance):
    for (state, trace), (other, told) in zip(pairs, others, strict=True):
        np.testing.assert_allclose(trace.scores, told.scores, **tolerance)
        np.testing.assert_allclose(state.coef, other.coef, **tolerance)
        np.testing.assert_array_equal(state.points, other.points)
        np.testing.assert_array_equal(trace.size, told.size)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_learners_that_share_their_points_learn_as_if_alone(threads):
    X, y = stream(1100)
    learners = grid()
    block = learners[0].read(X, learners[0].init())
    shares = many.parts([many.Job(learner, learner.init(), block, y) for learner in learners], threads)
    assert sorted(map(len, shares)) == sorted(len(range(i, n, threads)) for n in (6, 4, 2) for i in range(min(n, threads)))
    assert_same(onkel.learn_many(learners, X, y, threads=threads), alone(learners, X, y), rtol=0, atol=0)


def test_in_double_precision_up_to_rounding():
    X, y = stream(700, float)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(X))
    assert_same(onkel.learn_many(grid(), X, y, weight), alone(grid(), X, y, sample_weight=weight), rtol=1e-9, atol=1e-11)


def test_each_product_is_computed_once(monkeypatch):
    X, y = stream(many.PIECE)
    asked = []
    monkeypatch.setattr(many, "evaluate", lambda *given, real=many.evaluate: asked.append(1) or real(*given))
    learners = [onkel.norma(onkel.RBF(s), onkel.Square(), eta=eta, budget=500) for s in (4.0, 9.0) for eta in (0.1, 0.3, 0.5)]
    onkel.learn_many(learners[:1], X, y)
    assert asked == []  # nobody to share with
    onkel.learn_many(learners, X, y, threads=1)
    once = len(asked)
    onkel.learn_many(learners[:2], X, y, threads=1)
    assert len(asked) == 2 * once


def test_learners_with_points_of_their_own_are_never_mixed_up():
    X, y = stream(900)
    learners = [onkel.silk(onkel.RBF(6.0), onkel.Hinge(), lam=lam, budget=500) for lam in (0.001, 0.03)]
    learners += [onkel.norma(onkel.RBF(6.0), onkel.Square(), eta=0.2, lam=0.1, budget=size) for size in (400, 500)]
    learners += [onkel.norma(onkel.RBF(6.0), onkel.Huber(), eta=0.2, lam=0.1, budget=500, **more) for more in ({}, {"nu": 0.3})]
    assert_same(onkel.learn_many(learners, X, y), alone(learners, X, y), rtol=0, atol=0)


def test_going_on_from_states():
    X, y = stream(800)
    half = onkel.learn_many(grid(), X[:300], y[:300])
    whole = onkel.learn_many(grid(), X[300:], y[300:], states=[state for state, _ in half])
    for (state, _), (other, _) in zip(whole, alone(grid(), X, y), strict=True):
        np.testing.assert_allclose(state.coef, other.coef, rtol=1e-3, atol=1e-6)


def test_an_error_names_the_example_of_the_whole_call():
    X, y = stream(600)
    y = y.astype(float)
    y[580] = 1e38
    learners = [onkel.norma(onkel.RBF(9.0), onkel.Square(), eta=eta, budget=500) for eta in (0.3, 0.4)]
    with pytest.raises(FloatingPointError, match="at example 580 of this call"):
        onkel.learn_many(learners, X, y)
