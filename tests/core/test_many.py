"""Several learners at once: each as if it were alone, whatever they share."""

from __future__ import annotations

import time

import numpy as np
import pytest
import scipy.sparse as sp

import onkel
from onkel.core import many

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
    distance = type(many.QUANTITY["square"])
    monkeypatch.setattr(distance, "between", lambda *given, real=distance.between: asked.append(1) or real(*given))
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
    for threads in (1, 2):  # together, and each on its own
        with pytest.raises(FloatingPointError, match="at example 580 of this call"):
            onkel.learn_many(learners, X, y, threads=threads)


def test_when_one_fails_the_others_are_not_begun(monkeypatch):
    X, y = stream(300)
    y = y.astype(float)
    y[3] = 1e38
    learners = [onkel.norma(onkel.RBF(9.0), onkel.Square(), eta=0.3, budget=400 + i) for i in range(40)]
    begun = []
    in_turns = many.in_turns
    monkeypatch.setattr(many, "in_turns", lambda *given: (begun.append(1), time.sleep(0.01), in_turns(*given))[-1])
    with pytest.raises(FloatingPointError, match="at example 3 of this call"):
        onkel.learn_many(learners, X, y, threads=2)
    assert len(begun) < 40


def test_more_learners_than_one_can_count_on_two_hands():
    X, y = stream(600)
    learners = [onkel.norma(onkel.RBF(5.0 + i), onkel.Logistic(), eta=0.3, lam=0.01, budget=500) for i in range(19)]
    assert_same(onkel.learn_many(learners, X, y, threads=2), alone(learners, X, y), rtol=0, atol=0)


def test_given_states_stay_as_they_were_and_are_never_taken_for_each_other():
    """States of different streams hold other points, though they were stored at the same times."""
    X, y = stream(800)
    learners = [onkel.norma(onkel.RBF(s), onkel.Square(), eta=0.3, lam=0.1, budget=400) for s in (6.0, 8.0)]
    states = [learner.learn(learner.init(), *stream(450, seed=seed))[0] for seed, learner in enumerate(learners, 1)]
    before = [(state.t, state.points.copy(), state.coef.copy()) for state in states]
    together = onkel.learn_many(learners, X, y, states=states, threads=1)
    for (t, points, coef), state in zip(before, states, strict=True):
        assert state.t == t
        np.testing.assert_array_equal(state.points, points)
        np.testing.assert_array_equal(state.coef, coef)
    assert_same(together, [learner.learn(state, X, y) for learner, state in zip(learners, states)], rtol=0, atol=0)


def test_each_model_keeps_its_own_precision():
    X, y = stream(300, float)
    learners = [onkel.silk(onkel.RBF(6.0), onkel.Hinge(), budget=30) for _ in range(2)]
    states = [learner.learn(learner.init(), X.astype(kind), y)[0] for learner, kind in zip(learners, (np.float32, float))]
    together = onkel.learn_many(learners, X, y, states=states)
    assert [state.slots.dtype for state, _ in together] == [np.float32, np.float64]
    assert_same(together, [learner.learn(state, X, y) for learner, state in zip(learners, states)], rtol=0, atol=0)


def test_dense_and_sparse_models_do_not_mix():
    X, y = stream(40, float)
    learner = onkel.silk(onkel.RBF(6.0), onkel.Hinge(), budget=3)
    dense, thin = learner.learn(learner.init(), X, y)[0], learner.learn(learner.init(), sp.csr_matrix(X), y)[0]
    for given in (X, sp.csr_matrix(X)):
        for states in ([dense, thin], [thin, dense]):
            with pytest.raises(ValueError, match="sparse and dense rows do not mix"):
                onkel.learn_many([learner, learner], given, y, states=states)
