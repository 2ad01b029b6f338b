"""Adaptive steps and the nu-trick: inner products that are carried along, traces, limits; and what a long stream does."""



import numpy as np
import pytest

import onkel
from onkel import (
    RBF,
    Adaptive,
    Budget,
    Explicit,
    Hinge,
    Huber,
    Implicit,
    Labels,
    Learner,
    Novelty,
    Square,
    Structured,
)  # fmt: skip
from onkel.core.loop import layout as at
from onkel.core.state import State
from tests.core import naive
from tests.core.support import (
    BUDGETS,
    KINDS,
    LABELS,
    run,
    stream,
)

# --- adaptation ------------------------------------------------------------------------------------------------------------------


def products(state: State, kernel, labels=None):
    """<f, v> and |f|^2 as double sums."""
    kappa = np.eye(1) if labels is None else labels.kernel
    K = kernel(state.points)
    f, v = state.coef.reshape(state.size, -1), state.trace_coef.reshape(state.size, -1)
    return np.sum(K * (f @ kappa @ v.T)), np.sum(K * (f @ kappa @ f.T))


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("labels", [None, LABELS, Labels.tree([-1, 0, 0, 1, 1])], ids=["binary", "flat", "tree"])
def test_carried_inner_products_are_the_double_sums(budget, implicit, labels, path):
    X, y = stream("hinge" if labels is None else "structured", 90)
    step = Adaptive(0.3, 0.05, mu=0.2, decay=0.9, implicit=implicit)
    state, _ = run(Learner(RBF(1.0), Hinge() if labels is None else Structured(labels), step, BUDGETS[budget]), X, y)
    pi, n2 = products(state, RBF(1.0), labels)
    tolerance = 1e-6 if budget == "project" else 1e-9
    np.testing.assert_allclose([state.num[at.PI], state.num[at.N2]], [pi, n2], rtol=tolerance, atol=tolerance)


def test_without_repair_the_products_drift_as_the_paper_leaves_them():
    X, y = stream(n=90)
    step = Adaptive(0.3, 0.05, mu=0.2, decay=0.9, repair=False)
    state, _ = run(Learner(RBF(1.0), Hinge(), step, Budget(9)), X, y)
    assert abs(state.num[at.N2] - products(state, RBF(1.0))[1]) > 1e-3


@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("loss", [Hinge(), Square(), Structured(LABELS)], ids=["hinge", "square", "structured"])
def test_the_trace_is_the_derivative_of_the_model_in_log_eta(loss, implicit):
    """With full memory and a step that stands still, v = d f / d log eta: the reason for the whole construction."""
    X, y = stream(KINDS[type(loss)], 40)
    h = 1e-6

    def model(eta):
        return run(Learner(RBF(1.0), loss, Adaptive(eta, 0.05, mu=0.0, decay=1.0, implicit=implicit)), X, y)[0]

    up, here, down = model(0.3 * np.exp(h)), model(0.3), model(0.3 * np.exp(-h))
    assert up.size == here.size == down.size
    np.testing.assert_allclose(here.trace_coef, (up.coef - down.coef) / (2 * h), rtol=1e-5, atol=1e-6)


def test_alma_stays_in_its_ball(path):
    X, y = stream(n=300)
    for alpha in (0.3, 0.9, 1.0):
        state, _ = run(onkel.alma(RBF(1.0), alpha=alpha), X, y)
        norm = state.coef @ RBF(1.0)(state.points) @ state.coef
        assert norm <= 1 + 1e-9
        assert state.num[at.N2] == pytest.approx(norm, rel=1e-9)


def test_steps_of_their_own_stay_between_their_limits():
    X, y = stream(n=200)
    state, trace = run(onkel.svmd(RBF(1.0), Hinge(), eta=0.3, mu=5.0, decay=1.0, eta_min=0.2, eta_max=0.4), X, y)
    assert trace.eta.min() == 0.2
    assert trace.eta.max() == 0.4
    assert state.num[at.ETA] == trace.eta[-1]


@pytest.mark.parametrize("learner", [
    onkel.norma(RBF(1.0), Novelty(), eta=0.01, lam=1.0, nu=0.1, budget=100),
    onkel.norma(RBF(1.0), Novelty(), eta=0.05, lam=1.0, nu=0.4, budget=100),
    onkel.svmd(RBF(1.0), Novelty(), eta=0.05, lam=1.0, mu=0.01, nu=0.2, budget=100, eta_max=0.1),
    onkel.norma(RBF(1.0), Hinge(), eta=0.05, lam=1.0, nu=0.4, budget=100),
], ids=["nu=.1", "nu=.4", "svmd nu=.2", "hinge nu=.4"])  # fmt: skip
def test_the_share_of_violations_is_nu(learner):
    X = np.random.default_rng(0).normal(size=(6000, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    _, trace = run(learner, X, None if isinstance(learner.loss, Novelty) else y)
    theta = np.concatenate([[learner.init().num[at.THETA]], trace.theta[:-1]])
    violated = (trace.scores if isinstance(learner.loss, Novelty) else y * trace.scores) < theta
    assert violated[2000:].mean() == pytest.approx(learner.nu, abs=0.03)
    if isinstance(learner.loss, Novelty):
        np.testing.assert_array_equal(violated, trace.mistake)


def test_a_tube_follows_nu_too():
    X = np.random.default_rng(0).normal(size=(6000, 2))
    y = np.sin(X[:, 0]) + 0.3 * np.random.default_rng(1).normal(size=6000)
    learner = onkel.norma(RBF(1.0), Huber(0.7), eta=0.05, lam=0.01, nu=0.25, budget=100)
    _, trace = run(learner, X, y)
    assert trace.mistake[2000:].mean() == pytest.approx(0.25, abs=0.03)


# --- long streams ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", [
    onkel.norma(RBF(1.0), Hinge(), eta=0.9, lam=1.0, budget=8),
    onkel.silk(RBF(1.0), Hinge(), eta=1.0, lam=0.5, budget=8, drop="merge"),
    onkel.svmd(RBF(1.0), Hinge(), eta=0.1, lam=0.1, mu=0.05, decay=0.5, budget=8, eta_min=1e-3, eta_max=5.0),
    onkel.norma(RBF(1.0), Hinge(0.0), eta=0.5, lam=0.01, budget=8),
], ids=["norma", "silk", "svmd", "perceptron that forgets"])  # fmt: skip
def test_a_million_examples(learner):
    """Decay is lazy and is folded back in time: nothing overflows or underflows, and the last step is as exact as the first."""
    X = np.random.default_rng(0).normal(size=(1_000_000, 2))
    y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1.0, -1.0)
    state, trace = run(learner, X, y)
    assert state.t == 1_000_000
    assert state.size <= 8
    assert np.isfinite(trace.scores).all()
    assert np.isfinite(state.coef).all()
    assert 1e-12 < abs(state.num[at.SCALE]) < 1e12
    assert trace.mistake[-1000:].mean() < 0.45
    f = RBF(1.0)(X[:5], state.points) @ state.coef
    np.testing.assert_allclose(learner.score(state, X[:5]), f, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("drop", ["smallest", "merge"])
@pytest.mark.parametrize("step", ["explicit", "implicit", "adaptive"])
def test_the_same_terms_go_after_the_decay_was_folded_back(step, drop):
    """A third of f goes at each step: every fifty, decay is written into the coefficients and into what is known of them."""
    X, y = stream(n=130)
    adaptive = Adaptive(0.5, 0.6, mu=0.05, decay=0.8)
    rule = {"explicit": Explicit(0.5, 0.6), "implicit": Implicit(1.0, 0.5), "adaptive": adaptive}[step]
    twin = naive.Naive(naive.rbf(1.0), "hinge", step, eta=rule.eta, lam=rule.lam, mu=0.05, decay=0.8, budget=6, drop=drop)
    expected = twin.run(X, y)
    state, trace = run(Learner(RBF(1.0), Hinge(), rule, Budget(6, drop)), X, y)
    np.testing.assert_allclose(trace.scores, expected["scores"], rtol=1e-9, atol=1e-10)
    np.testing.assert_array_equal(state.points, np.array(twin.points))
    np.testing.assert_allclose(state.coef, twin.coef, rtol=1e-9, atol=1e-10)


def test_a_term_that_is_never_touched_fades_to_nothing():
    """0.99^100000 is no number any more: the score becomes 0, which is a tie, a mistake, and a new term."""
    learner = onkel.norma(RBF(1.0), Hinge(0.0), eta=0.5, lam=0.02)
    X = np.zeros((100_000, 1))
    state, trace = run(learner, X, np.ones(100_000))
    assert np.isfinite(trace.scores).all()
    assert (trace.scores >= 0).all()
    assert trace.mistake.sum() == state.size
    assert state.size in range(1, 4)
