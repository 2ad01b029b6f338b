"""Comparators: the minimisers that scikit-learn finds where the problem is its, a gap that is one, paths whose lengths are true."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC, SVR, OneClassSVM

import onkel
from onkel.reasons import comparators
from onkel.reasons.comparators import ascend, batch, paths
from onkel.reasons.convex import convex
from onkel.streams import moving_mixtures

KERNEL = onkel.RBF(1.0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(150, 2))
SIGNS = np.sign(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=150))
REALS = np.sin(2 * X[:, 0])
K = KERNEL(X, X)
LAM = 0.05


def risk(loss, b, y):
    z = K @ b
    return float(np.mean(loss.value(z, y))) + LAM / 2 * float(b @ z)


def theirs(name):
    """scikit-learn's coefficients for the same problem: its C is 1/(lam m)."""
    C, gamma, m = 1 / (LAM * len(X)), 0.5, len(X)
    b = np.zeros(m)
    if name == "ridge":
        return KernelRidge(alpha=LAM * m, kernel="precomputed").fit(K, REALS).dual_coef_
    if name == "tube":
        made = SVR(C=C, epsilon=0.1, gamma=gamma, tol=1e-8).fit(X, REALS)
        b[made.support_] = made.dual_coef_[0]
        return b
    made = SVC(C=C, gamma=gamma, tol=1e-8).fit(X, SIGNS)
    b[made.support_] = made.dual_coef_[0]
    return b


def test_kernel_ridge():
    loss = convex(onkel.Square())
    b, gap = ascend(K, loss, REALS, LAM, 1.0, 1e-10, 2000)
    np.testing.assert_allclose(K @ b, K @ theirs("ridge"), atol=1e-4)
    assert gap < 1e-9


@pytest.mark.parametrize(("name", "loss", "y"), [("svc", onkel.Hinge(1.0), SIGNS), ("tube", onkel.EpsilonInsensitive(0.1), REALS)])
def test_no_worse_than_theirs(name, loss, y):
    """Theirs have an offset; without it, and it is small here, ours must be at least as good."""
    twin = convex(loss)
    b, gap = ascend(K, twin, y, LAM, 1.0, 1e-8, 2000)
    assert risk(twin, b, y) <= risk(twin, theirs(name), y) + 1e-8
    assert gap <= 1e-7


def test_one_class():
    """OneClassSVM's (nu) problem, scaled: min 1/2 |w|^2 + 1/(nu m) sum max(0, rho - w(x)) - rho with its own rho."""
    nu, m = 0.3, len(X)
    made = OneClassSVM(nu=nu, gamma=0.5, tol=1e-10).fit(X)
    rho = float(-made.intercept_[0])
    # sklearn's coefficients are scaled by nu m
    coef = np.zeros(m)
    coef[made.support_] = made.dual_coef_[0]
    loss = convex(onkel.Novelty(rho))
    b, _ = ascend(K, loss, np.ones(m), 1.0, m, 1e-10, 3000)
    np.testing.assert_allclose(K @ b, K @ coef, atol=2e-3 * rho)


@pytest.mark.parametrize(
    "loss", [onkel.Hinge(1.0), onkel.Logistic(), onkel.Huber(0.3), onkel.EpsilonInsensitive(0.1), onkel.Square()]
)
def test_the_gap_is_a_gap(loss):
    """What is left to gain is never more than the gap, at any tolerance."""
    twin, y = convex(loss), SIGNS if loss.targets == "signs" else REALS
    best, _ = ascend(K, twin, y, LAM, 1.0, 1e-10, 3000)
    for rounds in (5, 10, 20):
        b, gap = ascend(K, twin, y, LAM, 1.0, 0.0, rounds)
        assert -1e-9 <= risk(twin, b, y) - risk(twin, best, y) <= gap + 1e-9


def test_a_long_stream_is_thinned_out_and_says_so(monkeypatch):
    monkeypatch.setattr(comparators, "WHOLE", 60)
    loss = convex(onkel.Hinge(1.0))
    g = batch(KERNEL, loss, X, SIGNS, lam=LAM)
    assert g.over == 60
    assert len(g.scores) == 150
    assert "the minimiser over 60 examples" in str(g)
    assert g.risk == pytest.approx(np.mean(loss.value(g.scores, SIGNS)) + LAM / 2 * g.norm**2)


def test_paths():
    X, y = moving_mixtures(300, every=10, change=0.2, gaussians=2, width=0.4, seed=1)
    found = paths(KERNEL, convex(onkel.Hinge(1.0)), X, y, pieces=(1, 3, 6), lams=(0.1, 0.01))
    assert {(p.pieces, p.moves) for p in found} == {(n, moves) for n in (1, 3, 6) for moves in ("jumps", "steady")} - {
        (1, "steady")
    }
    for p in found:
        assert np.isfinite(p.bound)
        assert p.bound > 0
        if p.pieces == 1:
            assert (p.D1, p.D2) == (0.0, 0.0)
        elif p.moves == "jumps":  # Cauchy-Schwarz
            assert p.D1**2 <= (p.pieces - 1) * p.D2 * (1 + 1e-9)
        else:  # nearly constant speed: m D2 comes near D1^2 and can never be less
            assert p.D1**2 <= 300 * p.D2 * (1 + 1e-9)
            assert p.D2 < p.D1**2 / 20
