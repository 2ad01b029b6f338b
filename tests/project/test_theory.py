"""What was proved is what is measured: no run may exceed a bound whose conditions it meets.

Each law is also run on an opponent that must break it (labels turned round, coefficients left out), so that a bound too
loose to notice a broken learner would fail here.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

import onkel
from onkel import theory
from onkel.theory import growing

LOSSES = {  # loss, y -> admissible y; all Lipschitz with constant 1
    "hinge": (onkel.Hinge(rho=1.0), np.sign),
    "logistic": (onkel.Logistic(), np.sign),
    "huber": (onkel.Huber(sigma=0.5), np.asarray),
    "epsilon": (onkel.EpsilonInsensitive(epsilon=0.1), np.asarray),
}
KERNEL = onkel.RBF(sigma=0.7)


def gram(X, Z):
    return np.exp(-((X[:, None] - Z[None]) ** 2).sum(-1) / (2 * KERNEL.sigma**2))


def values(name, z, y):
    """The losses again, from their definitions."""
    if name == "hinge":
        return np.maximum(0, 1 - y * z)
    if name == "logistic":
        return np.logaddexp(0, -y * z)
    d = np.abs(y - z)
    return np.where(d >= 0.5, d - 0.25, d**2) if name == "huber" else np.maximum(0, d - 0.1)


def stream(m, seed, admissible):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (m, 2))
    return X, admissible(np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.3 * rng.normal(size=m)).astype(float)


def hypotheses(learner, X, y):
    """`(scores, norms, coefs)` of f_1 ... f_m, one example at a time; row t of coefs spans the kernels at X."""
    m = len(X)
    K = gram(X, X)
    state = learner.init()
    scores, coefs = np.empty(m), np.zeros((m, m))
    where = {row.tobytes(): i for i, row in enumerate(X)}
    for t in range(m):
        for point, coef in zip(np.asarray(state.points), np.asarray(state.coef)):
            coefs[t, where[point.tobytes()]] += coef
        state, trace = learner.learn(state, X[t : t + 1], y[t : t + 1])
        scores[t] = trace.scores[0]
    np.testing.assert_allclose(scores, np.einsum("ti,ti->t", coefs, K), atol=1e-9)
    return scores, np.einsum("ti,ij,tj->t", coefs, K, coefs), coefs


def best_in_hindsight(name, X, y, lam):
    """Coefficients of a g with a small regularised risk; any g will do for a bound, a good one makes it tight."""
    K = gram(X, X)

    def risk(a):
        z = K @ a
        return values(name, z, y).mean() + lam / 2 * a @ z

    def slope(a):
        z = K @ a
        step = 1e-5
        return K @ ((values(name, z + step, y) - values(name, z - step, y)) / (2 * step) / len(y) + lam * a)

    a = minimize(risk, np.zeros(len(y)), jac=slope, method="L-BFGS-B", options={"maxiter": 300}).x
    assert risk(a) <= risk(0 * a)
    return a, risk(a)


def regularised(name, scores, norms, y, lam, C=1.0):
    return (C * values(name, scores, y) + lam / 2 * norms).sum()


M = 150


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("rule", ["norma", "truncated", "ilk", "silk"])
def test_regret(name, rule):
    loss, admissible = LOSSES[name]
    lam, eta = 1.0, 0.7
    schedule = onkel.InvSqrt(eta)
    learner, regret = {
        "norma": (onkel.norma(KERNEL, loss, eta=schedule, lam=lam), theory.norma_regret(eta, lam)),
        "truncated": (
            onkel.norma(KERNEL, loss, eta=schedule, lam=lam, window=growing(eta, lam, 0.4)),
            theory.truncated_norma_regret(eta, lam),
        ),
        "ilk": (onkel.ilk(KERNEL, loss, eta=schedule, lam=lam), theory.ilk_regret(eta, lam)),
        "silk": (onkel.silk(KERNEL, loss, eta=schedule, lam=lam, budget=20), theory.silk_regret(eta, lam)),
    }[rule]
    for seed in range(2):
        X, y = stream(M, seed, admissible)
        _, risk = best_in_hindsight(name, X, y, lam)
        scores, norms, _ = hypotheses(learner, X, y)
        assert regularised(name, scores, norms, y, lam) <= M * risk + regret(M)
        assert norms.max() <= theory.norm_bound(eta, lam) ** 2 * (1 + 1e-9)


@pytest.mark.parametrize("budget", [None, 15])
def test_regret_of_a_structured_loss(budget):
    """The setting of [C] Theorem 3: three labels, X^2 = k(x, x) (kappa_yy - 2 kappa_yz + kappa_zz) = 2."""
    lam, eta, C, m = 0.3, 2.0, 2.0, 150
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, m)
    X = np.array([[0.0, 1.0], [1.0, -0.5], [-1.0, -0.5]])[y] + rng.normal(0, 0.3, (m, 2))
    loss = onkel.Structured(onkel.Labels.flat(3))
    shared = {"eta": onkel.InvSqrt(eta), "lam": lam, "C": C}
    learner = onkel.ilk(KERNEL, loss, **shared) if budget is None else onkel.silk(KERNEL, loss, budget=budget, **shared)
    regret = (theory.ilk_regret if budget is None else theory.silk_regret)(eta, lam, C=C, X=math.sqrt(2))

    def cost(scores):
        rival = np.where(np.arange(3) == y[:, None], -np.inf, 1 + scores).max(axis=1)
        return C * np.maximum(0, rival - scores[np.arange(m), y])

    def norm(state):
        return np.einsum("iz,ij,jz->", state.coef, gram(state.points, state.points), state.coef)

    state, scores, norms = learner.init(), np.empty((m, 3)), np.zeros(m)
    for t in range(m):
        norms[t] = norm(state) if t else 0.0
        state, trace = learner.learn(state, X[t : t + 1], y[t : t + 1])
        scores[t] = trace.scores[0]
    in_hindsight = cost(learner.score(state, X)).sum() + m * lam / 2 * norm(state)
    assert in_hindsight < m * C / 2  # a much better g than 0
    assert (cost(scores) + lam / 2 * norms).sum() <= in_hindsight + regret(m)


@pytest.mark.parametrize("rule", ["norma", "ilk"])
def test_regret_would_notice_a_learner_that_climbs(rule):
    """Minus f_t, the hypotheses of a learner that climbs the risk instead, exceed the bound that f_t obeys."""
    lam, eta, m = 0.2, 3.5, 1000
    y = np.random.default_rng(0).choice([-1.0, 1.0], m)
    X = np.stack([5 * y, 0 * y], axis=1)  # two places, so far apart that g = k(right, .) - k(left, .) has |g|^2 = 2
    bound = m * lam / 2 * 2 + theory.norma_regret(eta, lam)(m)
    learner = {"norma": onkel.norma, "ilk": onkel.ilk}[rule](KERNEL, onkel.Hinge(), eta=onkel.InvSqrt(eta), lam=lam)
    _, trace = learner.learn(learner.init(), X, y)
    np.testing.assert_allclose(trace.loss, values("hinge", trace.scores, y), atol=1e-12)
    assert trace.loss.sum() < bound < values("hinge", -trace.scores, y).sum()


def test_ilk_and_norma_share_their_constants():
    for eta, lam in ((0.1, 0.3), (2.0, 0.4)):
        np.testing.assert_allclose(theory.norma_regret(eta, lam, c=2, X=3), theory.ilk_regret(eta, lam, C=2, X=3))


def test_expected_risk_of_the_average_hypothesis():
    lam, eta, delta = 1.0, 0.7, 0.05
    learner = onkel.norma(KERNEL, onkel.Hinge(), eta=onkel.InvSqrt(eta), lam=lam)
    X, y = stream(M, 7, np.sign)
    _, risk = best_in_hindsight("hinge", X, y, lam)
    coef = hypotheses(learner, X, y)[2].mean(0)
    fresh, label = stream(20_000, 8, np.sign)
    norm = coef @ gram(X, X) @ coef
    expected = values("hinge", gram(fresh, X) @ coef, label).mean() + lam / 2 * norm
    bound = theory.expected_risk_bound(risk, theory.norma_regret(eta, lam), M, largest=5 / (2 * lam), delta=delta)
    assert risk * 0.9 < expected <= bound


def travelling_target(m, seed, speed, noise):
    """Unit vectors in the plane, labelled by a target of length 4 that turns; `(X, y, g)` with rows in time."""
    rng = np.random.default_rng(seed)
    angle = speed * np.arange(m) + rng.uniform(0, 2 * np.pi)
    g = 4 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    side = rng.choice([-1.0, 1.0], m)
    turn = rng.uniform(-1.3, 1.3, m) + np.where(side > 0, 0, np.pi)  # |angle| <= 1.3: a margin of 4 cos 1.3 = 1.07
    X = np.stack([np.cos(angle + turn), np.sin(angle + turn)], axis=1)
    return X, side * np.where(rng.random(m) < noise, -1.0, 1.0), g


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("speed", [0.0, 0.002])
def test_mistakes_and_margin_errors(speed, noise):
    m, mu = 2000, 1.0
    for seed in range(5):
        X, y, g = travelling_target(m, seed, speed, noise)
        step = np.linalg.norm(np.diff(g, axis=0), axis=1)
        target = {
            "B": 4.0,
            "K": np.maximum(0, mu - y * (g * X).sum(1)).sum(),
            "D1": step.sum(),
            "D2": (step**2).sum(),
            "m": m,
        }
        for zero_margin in (False, True):
            settings = theory.norma_mistakes(mu, zero_margin=zero_margin, **target)
            trace = run(X, y, settings)
            assert trace.mistake.sum() <= settings.bound
            np.testing.assert_array_equal(trace.mistake, y * trace.scores <= 0)
        for rho in (0.0, 0.3):
            settings = theory.norma_margin_errors(mu, rho, **target)
            assert (y * run(X, y, settings).scores <= rho).sum() <= settings.bound
        learner = onkel.ilk(onkel.Linear(), onkel.Hinge(), eta=1.0, lam=settings.lam * settings.eta)
        _, trace = learner.learn(learner.init(), X, y)
        assert trace.mistake.sum() <= theory.ilk_mistakes(mu, **target)  # not proved, yet true at this eta


def run(X, y, settings):
    learner = onkel.norma(onkel.Linear(), onkel.Hinge(settings.rho), eta=settings.eta, lam=settings.lam)
    return learner.learn(learner.init(), X, y)[1]


def test_the_mistake_bound_bites():
    """16 of 2000 on a target that stands still, and more mistakes than that as soon as it does not."""
    settings = theory.norma_mistakes(1.0, B=4.0)
    still, turning = (travelling_target(2000, 0, speed, 0.0) for speed in (0.0, 0.05))
    assert settings.bound == 16
    assert 1 <= run(*still[:2], settings).mistake.sum() <= 16 < run(*turning[:2], settings).mistake.sum()


def test_the_ilk_bound_is_no_guarantee():
    """[C] Theorem 2 at a tiny eta C: f is about the sum of y x, and the rarer class is always wrong, margin or not."""
    y = np.where(np.arange(1000) % 10 == 0, -1.0, 1.0)
    X = np.stack([np.ones(1000), y / 2], axis=1)
    assert np.all(y * (X @ [0.0, 2.0]) == 1)
    learner = onkel.ilk(onkel.Linear(), onkel.Hinge(), eta=1e-6, lam=0.0)
    _, trace = learner.learn(learner.init(), X, y)
    assert trace.mistake.sum() > 10 * theory.ilk_mistakes(1.0, B=2.0, X=math.sqrt(1.25))


@pytest.mark.parametrize("window", [1, 5, 20, 60])
def test_truncation_error(window):
    eta, lam = 0.3, 0.2
    X, y = stream(M, 3, np.sign)
    learner = onkel.norma(KERNEL, onkel.Hinge(), eta=eta, lam=lam)
    _, _, coefs = hypotheses(learner, X, y)
    K = gram(X, X)
    for t in (window + 2, 100, M - 1):  # row t is f_{t+1} of the paper, which has seen t examples
        dropped = np.where(np.arange(M) < t - window, coefs[t], 0.0)
        bound = theory.truncation_error(window, eta=eta, lam=lam, t=t)
        assert math.sqrt(dropped @ K @ dropped) <= bound * (1 + 1e-12)
        assert bound < theory.truncation_error(window, eta=eta, lam=lam)


def test_truncation_error_is_reached():
    """One point again and again, always a margin error: the proposition holds with equality."""
    eta, lam, window, t = 0.1, 0.05, 7, 40
    learner = onkel.norma(KERNEL, onkel.Hinge(rho=100.0), eta=eta, lam=lam)
    state, _ = learner.learn(learner.init(), np.zeros((t, 2)), np.ones(t))
    left_out = np.asarray(state.coef)[: t - window].sum()
    np.testing.assert_allclose(left_out, theory.truncation_error(window, eta=eta, lam=lam, t=t))


@pytest.mark.parametrize("eta_lam", [0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("e", [0.2, 0.3, 0.4, 0.45])
def test_growth_starts_at_the_smallest_time(eta_lam, e):
    start = growing(2.0, eta_lam / 2, e).start
    horizon = 30_000
    t = np.arange(1.0, horizon)
    holds = (np.exp(-eta_lam * t**e) <= eta_lam / np.sqrt(t)) & (np.ceil(t ** (0.5 + e)) <= 0.75 * t)
    fails = np.flatnonzero(~holds)
    expected = 1 if len(fails) == 0 else fails[-1] + 2
    assert start == expected if expected < horizon else start >= horizon


def test_growth_schedule():
    keep = growing(0.7, 1.0, 0.25)
    assert [keep(t) for t in (1, 757)] == [1, 757]
    assert keep(758) == math.ceil(758**0.75) < 0.75 * 758
    assert growing(0.1, 0.01, 0.25, t0=10)(16) == 8
    with pytest.raises(ValueError, match="between 0 and 1/2"):
        growing(0.1, 0.01, 0.5)
    with pytest.raises(ValueError, match="eta\\*lam"):
        growing(2.0, 0.5, 0.25)


def test_h_without_cancellation():
    for x, K, S in ((1.0, 3.0, 2.0), (0.2, 50.0, 0.7)):
        np.testing.assert_allclose(theory.h(x, K, S), math.sqrt(S / K * (x + S / K)) - S / K)
    np.testing.assert_allclose(theory.h(1.0, 1e-9, 1e9), 0.5)
    assert theory.h(2.0, 0.0, 1.0) == 1.0


def test_h_minimises_the_bound():
    """[K] Lemma 7 (which says maximised): z = h minimises K/(g - z) + S/(z (g - z)), and the minimum is Phi."""
    for gamma, K, S in ((1.0, 3.0, 2.0), (0.2, 50.0, 0.7)):
        z = np.linspace(0, gamma, 100_002)[1:-1]
        objective = K / (gamma - z) + S / (z * (gamma - z))
        np.testing.assert_allclose(z[objective.argmin()], theory.h(gamma, K, S), atol=1e-4)
        np.testing.assert_allclose(objective.min(), theory.mistake_bound(K, S, gamma), rtol=1e-6)
