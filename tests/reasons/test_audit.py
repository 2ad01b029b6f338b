"""The run followed a second time: coefficients, norms, what was dropped and the average, against states looked at one by one."""

import numpy as np
import pytest

import onkel
from onkel.reasons.audit import audit, average
from onkel.reasons.convex import convex

KERNEL = onkel.RBF(0.8)
HINGE, LOGISTIC, TUBE, HUBER = onkel.Hinge(1.0), onkel.Logistic(), onkel.EpsilonInsensitive(0.1), onkel.Huber(0.5)
SQRT = onkel.InvSqrt(0.7)
LEARNERS = {
    "norma": onkel.norma(KERNEL, HINGE, eta=SQRT, lam=0.5, C=1.5),
    "ilk": onkel.ilk(KERNEL, HINGE, eta=SQRT, lam=0.5),
    "logistic": onkel.ilk(KERNEL, LOGISTIC, eta=0.7, lam=0.1),
    "tube": onkel.norma(KERNEL, TUBE, eta=0.3, lam=0.1, budget=12),
    "huber": onkel.ilk(KERNEL, HUBER, eta=0.7, lam=0.1),
    "window": onkel.norma(KERNEL, HINGE, eta=0.3, lam=0.1, window=20),
    "growing": onkel.norma(KERNEL, HINGE, eta=0.3, lam=0.1, window=lambda t: min(t, 15)),
    "silk": onkel.silk(KERNEL, HINGE, eta=SQRT, lam=0.2, budget=8),
    "tiny": onkel.silk(KERNEL, LOGISTIC, eta=1.0, lam=0.2, budget=1),
    "perceptron": onkel.perceptron(KERNEL),
}
M = 90


def stream(learner, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (M, 2))
    y = np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.2 * rng.normal(size=M)
    return X, np.sign(y) if learner.loss.targets == "signs" else y


def one_by_one(learner, X, y):
    """Coefficients over the stream of f_1 ... f_(m + 1)."""
    state, rows = learner.init(), np.zeros((M + 1, M))
    for t in range(M):
        state, _ = learner.learn(state, X[t : t + 1], y[t : t + 1])
        rows[t + 1, state.born[state.order] - 1] = state.coef
    return rows


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", LEARNERS)
def test_follows_the_run(name, compiled, monkeypatch):
    learner = LEARNERS[name]
    if not compiled:
        monkeypatch.setattr("onkel.reasons.audit.in_compiled_code", lambda kernel: False)
    X, y = stream(learner)
    state, trace = learner.learn(learner.init(), X, y)
    followed = audit(learner, state, trace.scores, trace.eta, X, y, np.ones(M))
    rows, K = one_by_one(learner, X, y), KERNEL(X, X)
    norms = np.sqrt(np.einsum("ti,ij,tj->t", rows, K, rows))
    np.testing.assert_allclose(followed.norms, norms[:-1], atol=1e-7)
    assert followed.last == pytest.approx(norms[-1], abs=1e-7)
    whole, none_left = np.zeros(M), np.zeros(M)
    for t in range(M):  # nothing dropped, the same coefficients
        whole = whole * followed.decays[t]
        whole[t] = followed.coefs[t]
    none_left = whole - rows[-1]
    assert np.sqrt(none_left @ K @ none_left) <= followed.dropped + 1e-7
    if learner.budget.size is None and learner.budget.window is None:
        assert followed.dropped == 0.0
        np.testing.assert_allclose(whole, rows[-1], atol=1e-9)
        np.testing.assert_allclose(average(followed), rows[:-1].mean(axis=0), atol=1e-9)
    else:
        assert followed.dropped > 0.0
        assert followed.drops.shape == (M,)


@pytest.mark.parametrize("compiled", [True, False])
def test_over_several_blocks(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr("onkel.reasons.audit.in_compiled_code", lambda kernel: False)
    learner = LEARNERS["silk"]
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1300, 2))
    y = np.sign(X[:, 0] * X[:, 1])
    state, trace = learner.learn(learner.init(), X, y)
    followed = audit(learner, state, trace.scores, trace.eta, X, y, np.ones(1300))
    points = state.points
    assert followed.last == pytest.approx(np.sqrt(state.coef @ KERNEL(points, points) @ state.coef), abs=1e-7)


def test_says_nothing_where_it_cannot_follow():
    X, y = stream(LEARNERS["silk"])
    merge = onkel.silk(KERNEL, HINGE, budget=8, drop="merge")
    state, trace = merge.learn(merge.init(), X, y)
    assert audit(merge, state, trace.scores, trace.eta, X, y, np.ones(M)).norms is None
    for learner in (
        onkel.norma(KERNEL, HINGE, offset=True),
        onkel.norma(KERNEL, HINGE, nu=0.1),
        onkel.svmd(KERNEL, HINGE),
    ):
        state, trace = learner.learn(learner.init(), X, y)
        assert audit(learner, state, trace.scores, trace.eta, X, y, np.ones(M)) is None


@pytest.mark.parametrize("loss", [HINGE, onkel.Novelty(0.5), LOGISTIC, TUBE, HUBER, onkel.Square()])
def test_the_twins_of_the_losses(loss):
    twin = convex(loss)
    rng = np.random.default_rng(2)
    z, k, cap = rng.normal(size=200) * 3, rng.uniform(0.1, 3, 200), rng.uniform(0.01, 4, 200)
    y = {"signs": np.sign(rng.normal(size=200)), "reals": rng.normal(size=200), "none": np.ones(200)}[loss.targets]
    step = 1e-6
    numerical = (twin.value(z + step, y) - twin.value(z - step, y)) / (2 * step)
    np.testing.assert_allclose(twin.slope(z, y), numerical, atol=1e-4)
    assert np.abs(twin.slope(z, y)).max() <= twin.c
    a = twin.prox(z, y, cap, k)
    best = 0.5 * k * a**2 + cap * twin.value(z + k * a, y)  # a minimises this
    for other in (a + 1e-4, a - 1e-4):
        assert (0.5 * k * other**2 + cap * twin.value(z + k * other, y) >= best - 1e-9).all()
