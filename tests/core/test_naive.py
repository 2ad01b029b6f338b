"""The oracle's own checks: general minimisers, numerical derivatives, identities. The package is not imported here."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel

from tests.core import naive
from tests.core.naive import CLIPPED, LABELLED, Naive

SCALAR = ["hinge", "novelty", "square", "logistic", "eps", "huber"]
LABELS = {"flat": naive.flat(4), "tree": naive.tree([-1, 0, 0, 1, 1, 2, 2])}  # the tree: two pairs of leaves
CASES = [(loss, "flat", False) for loss in [*SCALAR, "softmax"]] + [("softmax", "tree", False)]
CASES += [("structured", labels, exact) for labels in LABELS for exact in (False, True)]
BUMPY = naive.polynomial(2, 0.3, 0.5)  # k(x, x) differs from point to point


def stream(loss: str, n: int = 40, seed: int = 0):
    """Points in the plane, and targets of the kind that the loss wants, noisy functions of the angle."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    turn = (np.arctan2(X[:, 1], X[:, 0]) + 0.3 * rng.normal(size=n)) % (2 * np.pi)
    if loss in LABELLED:
        return X, (turn / (np.pi / 2)).astype(int) % 4
    if loss in ("hinge", "logistic"):
        return X, np.where(np.sin(turn) > 0, 1.0, -1.0)
    return X, [None] * n if loss == "novelty" else 1.5 * np.sin(turn) + 0.3 * rng.normal(size=n)


def learner(loss: str, step: str, labels: str = "flat", kernel=None, **options) -> Naive:
    kernel = naive.rbf(0.8) if kernel is None else kernel
    return Naive(kernel, loss, step, labels=LABELS[labels] if loss in LABELLED else None, **options)


# ------------------------------------------------------------------------------------------ kernels, labels and losses


def test_kernels_are_the_usual_ones():
    X, Z = np.random.default_rng(0).normal(size=(2, 5, 3))
    usual = {
        naive.rbf(0.7): rbf_kernel(X, Z, gamma=1 / (2 * 0.49)),
        naive.laplacian(0.7): laplacian_kernel(X, Z, gamma=1 / 0.7),
        naive.polynomial(3, 0.4, 2.0): polynomial_kernel(X, Z, degree=3, gamma=0.4, coef0=2.0),
        naive.linear(): X @ Z.T,
    }
    usual |= {naive.matern(0.7, nu): Matern(0.7, nu=nu)(X, Z) for nu in (0.5, 1.5, 2.5)}
    for k, matrix in usual.items():
        assert np.array([[k(x, z) for z in Z] for x in X]) == pytest.approx(matrix, rel=1e-12)


def test_tree_cost_is_path_length_and_kernel_distance():
    cost, kappa = LABELS["tree"]
    own = np.diag(kappa)
    assert np.array_equal(cost, [[0, 1, 2, 2], [1, 0, 2, 2], [2, 2, 0, 1], [2, 2, 1, 0]])
    assert np.array_equal(cost, (own[:, None] + own[None] - 2 * kappa) / 2)
    cost, kappa = naive.tree([-1, 0, 0, 0])
    assert np.array_equal(cost, 1 - np.eye(3))
    assert np.array_equal(kappa, 1 + np.eye(3))


@pytest.mark.parametrize("loss", [*SCALAR, *LABELLED])
def test_xi_and_hessian_are_derivatives(loss):
    rng, h, cost = np.random.default_rng(1), 1e-6, LABELS["tree"][0]
    m = 4 if loss in LABELLED else 1
    for _ in range(20):
        g, theta, y = 2 * rng.normal(size=m), rng.uniform(0.2, 1.5), rng.integers(4) if m == 4 else rng.choice([-1, 1])
        _, xi, H, _ = naive.loss_at(loss, g, y, theta, cost)
        for i, e in enumerate(np.eye(m)):
            up, down = (naive.loss_at(loss, g + s * h * e, y, theta, cost) for s in (1, -1))
            assert (up[0] - down[0]) / (2 * h) == pytest.approx(xi[i], abs=1e-8)
            assert (up[1] - down[1]) / (2 * h) == pytest.approx(H[i], abs=1e-8)


def test_large_scores_do_not_overflow():
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        for size in (1e4, -1e4):
            value, xi, H, _ = naive.loss_at("logistic", np.array([size]), 1.0, 0.0)
            assert np.isfinite([value, *xi, *H.ravel()]).all()
            value, xi, H, _ = naive.loss_at("softmax", np.array([size, 0.0, -size]), 1, 0.0)
            assert np.isfinite([value, *xi, *H.ravel()]).all()


def test_ties():
    at = np.array([1.0])
    assert naive.loss_at("hinge", at, 1.0, 1.0, tie=True)[3] == 1
    assert naive.loss_at("hinge", at, 1.0, 1.0)[3] == 0
    assert naive.loss_at("novelty", at, None, 1.0, tie=True)[3] == 0
    assert naive.loss_at("eps", at, 2.0, 1.0)[3] == naive.loss_at("huber", at, 2.0, 1.0)[3] == 0
    assert naive.runner_up(np.zeros(4), 0, 1.0, LABELS["flat"][0]) == 1
    assert naive.runner_up(np.zeros(4), 0, 1.0, LABELS["tree"][0]) == 2
    for loss in ("hinge", "logistic", *LABELLED):
        X, y = stream(loss)
        assert learner(loss, "explicit").step(X[0], y[0])["mistake"]


# --------------------------------------------------------------------------------------------------- the implicit step


def prox_brute(loss, F, norm2, K, y, theta, *, eta, lam, C, cost=None, rival=None, exact=False, b=None):
    """The implicit step by a general minimiser, knowing only F = f_t(x), ||f_t||^2 and K.

        1/2 ||f - f_t||^2 + 1/2 |b - b_t|^2 + eta (lam/2 ||f||^2 + C L(f(x) + b)),  f = c f_t + sum_z a_z k((x,z), .)

    Over u = (c, a, b), b fixed at 0 if None is given. A clipped loss enters as a slack above its pieces.
    Returns the best u and the objective as a function of u.
    """
    m, free = len(F), (None, None)
    gram = np.block([[np.array([[norm2]]), F[None]], [F[:, None], K]])  # of f_t and k((x, z), .)
    start = np.concatenate([[1.0], np.zeros(m), np.zeros(m) if b is None else b])

    def scores(u):
        return (gram @ u[: m + 1])[1:] + u[m + 1 : 2 * m + 1]

    def without_loss(u):
        f, moved, shifted = u[: m + 1], u[: m + 1] - start[: m + 1], u[m + 1 : 2 * m + 1] - start[m + 1 :]
        return 0.5 * moved @ gram @ moved + 0.5 * shifted @ shifted + eta * lam / 2 * f @ gram @ f

    def objective(u):
        g = scores(u)
        if loss == "structured" and not exact:  # two labels, the runner-up frozen
            return without_loss(u) + eta * C * max(0.0, theta * cost[y, rival] + g[rival] - g[y])
        return without_loss(u) + eta * C * naive.loss_at(loss, g, y, theta, cost)[0]

    def gaps(u):
        return naive.pieces(loss, scores(u), y, theta, cost, rival, exact)[0]

    settings = {"jac": "3-point", "method": "SLSQP", "options": {"ftol": 1e-16, "maxiter": 2000}}
    bounds = [free] * (m + 1) + [(0.0, 0.0) if b is None else free] * m
    if loss not in CLIPPED:
        return minimize(objective, start, bounds=bounds, **settings).x, objective
    found = minimize(
        lambda u: without_loss(u) + eta * C * u[-1],
        np.append(start, max(0.0, *gaps(start), 0.0)),
        bounds=[*bounds, (0.0, None)],
        constraints=[{"type": "ineq", "fun": lambda u: u[-1] - gaps(u)}],
        **settings,
    )
    return found.x[:-1], objective


@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize(("loss", "labels", "exact"), CASES)
def test_implicit_step_is_the_minimum(loss, labels, exact, offset):
    for seed in range(4):
        rng, (X, y), theta = np.random.default_rng(seed), stream(loss, 9, seed), 0.7
        weights = {"eta": rng.uniform(0.3, 3), "lam": rng.uniform(0.05, 0.5), "C": rng.uniform(0.3, 2)}
        twin = learner(loss, "implicit", labels, BUMPY, offset=offset, exact=exact, theta=theta, **weights)
        twin.run(X[:-1], y[:-1])
        F, K, b, before = twin.f(X[-1]), BUMPY(X[-1], X[-1]) * twin.kappa, twin.b, twin.coef
        rival = naive.runner_up(F + b, y[-1], theta, twin.cost) if loss == "structured" else None
        norm2, extras = twin.inner(twin.alpha, twin.alpha), {"b": b} if offset else {}
        extras |= weights | {"cost": twin.cost, "rival": rival, "exact": exact}
        numerical, objective = prox_brute(loss, F, norm2, K, y[-1], theta, **extras)
        twin.step(X[-1], y[-1])
        q = 1 / (1 + weights["eta"] * weights["lam"])
        assert twin.coef[: len(before)] == pytest.approx(q * before, rel=1e-14)
        a = twin.alpha[-1] if len(twin.alpha) > len(before) else np.zeros(twin.m)
        exactly = np.concatenate([[q], a, twin.b])
        assert objective(exactly) <= objective(numerical) + 1e-12 * (1 + norm2)
        assert exactly == pytest.approx(numerical, abs=1e-4)


@pytest.mark.parametrize(("loss", "labels", "exact"), CASES)
def test_prox_solves_its_equation_to_rounding(loss, labels, exact):
    """Smooth: a = -U xi(z + K a). Clipped: a is a mixture, of total weight U, of the active pieces' directions."""
    rng = np.random.default_rng(3)
    cost, kappa = LABELS[labels] if loss in LABELLED else (None, np.eye(1))
    for _ in range(50):
        z, K, U = 3 * rng.normal(size=len(kappa)), rng.uniform(0.1, 3) * kappa, 10 ** rng.uniform(-2, 2)
        y = rng.integers(4) if loss in LABELLED else rng.choice([-1, 1])
        rival = naive.runner_up(z, y, 0.7, cost) if loss == "structured" else None
        a, _ = naive.prox(loss, z, K, U, y, 0.7, cost, rival, exact)
        if loss not in CLIPPED:
            assert a == pytest.approx(-U * naive.loss_at(loss, z + K @ a, y, 0.7)[1], rel=1e-12, abs=1e-12)
            continue
        gaps, _ = naive.pieces(loss, z + K @ a, y, 0.7, cost, rival, exact)
        _, directions = naive.pieces(loss, z, y, 0.7, cost, rival, exact)
        p = -np.linalg.pinv(directions).T @ a
        assert p.min() >= -1e-12
        assert p.sum() <= U + 1e-12
        assert p @ (gaps.max() - gaps) <= 1e-10 * (1 + U)  # weight only where the gap is largest,
        assert (U - p.sum()) * max(0.0, *gaps, 0.0) <= 1e-10 * (1 + U)  # short of U only if no gap is left,
        assert p.sum() * max(0.0, -gaps.max()) <= 1e-10 * (1 + U)  # and none where the loss was already 0


def test_simplex_qp_meets_its_optimality_conditions():
    rng, kinds = np.random.default_rng(5), set()
    for _ in range(200):
        n, U = rng.integers(1, 5), 10 ** rng.uniform(-1.5, 1)
        root, gaps = rng.normal(size=(n, n)) + 0.3 * np.eye(n), rng.normal(size=n)
        M = root @ root.T + 0.1 * np.eye(n)
        p, S, capped = naive.simplex_qp(M, gaps, U)
        slope = M @ p - gaps
        level = max(0.0, *-slope)  # the multiplier of sum p <= U
        kinds.add((len(S), capped))
        assert p.min() >= 0
        assert p.sum() <= U + 1e-12
        assert (U - p.sum()) * level == pytest.approx(0, abs=1e-11)
        assert p * (slope + level) == pytest.approx(0, abs=1e-11)
    assert {(0, False), (1, False), (1, True), (3, False), (3, True)} <= kinds


def test_implicit_without_decay_is_pa1():
    X, y = stream("hinge", 60)
    twin, w = learner("hinge", "implicit", eta=0.5, lam=0.0, C=0.8), []
    trace = twin.run(X, y)
    for t, (x, label) in enumerate(zip(X, y)):
        score = sum(a * twin.kernel(X[i], x) for i, a in w)
        assert trace["scores"][t] == pytest.approx(score, abs=1e-12)
        if (tau := min(0.5 * 0.8, max(0.0, 1 - label * score))) > 0:
            w.append((t, tau * label))
    assert [i + 1 for i, _ in w] == twin.born


@pytest.mark.parametrize("step", ["implicit", "adaptive_implicit"])
@pytest.mark.parametrize(("loss", "labels", "exact"), CASES)
def test_implicit_step_depends_on_eta_lam_and_eta_C(loss, labels, exact, step):
    X, y = stream(loss, 25)
    adapt = {"mu": 0.0, "exact": exact, "offset": step == "implicit"}
    one = learner(loss, step, labels, eta=0.4, lam=0.5, C=2.0, **adapt)
    other = learner(loss, step, labels, eta=1.0, lam=0.2, C=0.8, **adapt)
    assert one.run(X, y)["scores"] == pytest.approx(other.run(X, y)["scores"], abs=1e-10)


# ----------------------------------------------------------------------------------------------------------- identities


@pytest.mark.parametrize("step", ["explicit", "implicit", "adaptive", "adaptive_implicit"])
def test_two_classes_are_the_binary_problem(step):
    """f_1 - f_0 follows the hinge with C doubled; its <g,v> is twice as large, so that mu is halved."""
    X, y = stream("hinge", 50)
    two = Naive(naive.rbf(), "structured", step, labels=naive.flat(2), lam=0.1, C=0.6, mu=0.4, eta=0.3)
    one = Naive(naive.rbf(), "hinge", step, lam=0.1, C=1.2, mu=0.2, eta=0.3)
    pair, single = two.run(X, (y > 0).astype(int)), one.run(X, y)
    assert pair["scores"][:, 1] - pair["scores"][:, 0] == pytest.approx(single["scores"], abs=1e-10)
    assert pair["eta"] == pytest.approx(single["eta"], rel=1e-10)
    assert two.born == one.born


@pytest.mark.parametrize("step", ["explicit", "implicit", "adaptive", "adaptive_implicit"])
def test_flat_tree_is_multiclass(step):
    """The rows s (e_y - e_y*) sum to 0, so that the root which all labels share does not show."""
    X, y = stream("structured", 40)
    flat = learner("structured", step, eta=0.5).run(X, y)
    tree = Naive(naive.rbf(0.8), "structured", step, eta=0.5, labels=naive.tree([-1, 0, 0, 0, 0])).run(X, y)
    for name in flat:
        assert flat[name] == pytest.approx(tree[name], abs=1e-10)


def test_perceptron_mistakes_do_not_depend_on_eta():
    X, y = stream("hinge", 60)
    small, large = (learner("hinge", "explicit", theta=0.0, lam=0.0, eta=eta) for eta in (0.25, 8.0))
    wrong = small.run(X, y)["mistake"]
    assert wrong[0]
    assert 0 < wrong[1:].sum() < 40
    assert np.array_equal(wrong, large.run(X, y)["mistake"])
    assert small.born == large.born == list(np.flatnonzero(wrong) + 1)


def test_alma_is_its_primal_form():
    X, y = stream("hinge", 60)
    alpha, twin = 0.8, Naive(naive.linear(), step="alma", alpha=0.8)
    trace, w, k, B = twin.run(X, y), np.zeros(2), 1, math.sqrt(8) / 0.8
    for t, (x, label) in enumerate(zip(X, y)):
        assert trace["scores"][t] == pytest.approx(w @ x, abs=1e-12)
        assert trace["eta"][t] == pytest.approx(math.sqrt(2 / k))
        unit = x / np.linalg.norm(x)
        if label * (w @ unit) <= (1 - alpha) * B / math.sqrt(k):
            w = w + math.sqrt(2 / k) * label * unit
            w, k = w / max(1.0, np.linalg.norm(w)), k + 1
        assert trace["theta"][t] == pytest.approx((1 - alpha) * B / math.sqrt(k))
    assert 5 < k - 1 == len(twin.born) < 60


@pytest.mark.parametrize("step", ["explicit", "adaptive"])
@pytest.mark.parametrize("loss", ["hinge", "novelty", "structured", "eps", "huber"])
def test_nu_is_the_share_of_violations(loss, step):
    """Descent settles where violations come at a rate of nu; ascent, the sign printed in [K], would run away.

    In log space each violation counts in proportion to theta. The nu are such that theta stays away from its floor.
    """
    (X, y), nu = stream(loss, 400), 0.9 if loss in naive.MARGIN else 0.3
    twin = learner(loss, step, eta=0.05, lam=0.5, nu=nu, mu=0.0, budget=30)
    theta, seen = [twin.theta], []
    for x, label in zip(X, y):
        seen.append(naive.loss_at(loss, twin.f(x), label, twin.theta, twin.cost, tie=step == "explicit")[3])
        theta.append(twin.step(x, label)["theta"])
    weight = np.array(theta[100:-1]) if step == "adaptive" else np.ones(300)
    assert min(theta[100:]) > 0
    assert np.average(seen[100:], weights=weight) == pytest.approx(nu, abs=0.03)


@pytest.mark.parametrize(("loss", "floor"), [("hinge", 0.0), ("eps", 0.0), ("huber", 1e-12)])
def test_theta_stops_at_its_floor(loss, floor):
    (X, y), nu = stream(loss, 60), 0.0 if loss == "hinge" else 1.0
    assert learner(loss, "explicit", eta=0.5, lam=0.5, nu=nu).run(X, y)["theta"].min() == floor


def test_schedules_start_at_t_1():
    X, y = stream("hinge", 3)
    for schedule, etas in (
        (naive.inv_sqrt(0.2), [0.2, 0.2 / math.sqrt(2), 0.2 / math.sqrt(3)]),
        (naive.sqrt_decay(0.2, 4.0), [0.2 * math.sqrt(4 / 5), 0.2 * math.sqrt(4 / 6), 0.2 * math.sqrt(4 / 7)]),
    ):
        assert learner("hinge", "explicit", eta=schedule).run(X, y)["eta"] == pytest.approx(etas)


# --------------------------------------------------------------------------------------------------------- meta-descent


@pytest.mark.parametrize("step", ["adaptive", "adaptive_implicit"])
@pytest.mark.parametrize(("loss", "labels", "exact"), CASES)
def test_v_is_the_derivative_of_f_in_log_eta(loss, labels, exact, step):
    """Exactly so with mu = 0 and without decay of the trace."""
    (X, y), h = stream(loss, 30, seed=2), 1e-6
    options = {"mu": 0.0, "decay": 1.0, "lam": 0.2, "C": 1.5, "theta": 0.6, "exact": exact}
    low, middle, high = (learner(loss, step, labels, BUMPY, eta=0.1 * math.exp(shift), **options) for shift in (-h, 0.0, h))
    for twin in (low, middle, high):
        twin.run(X, y)
    assert low.born == middle.born == high.born
    assert np.abs(middle.beta_coef).max() > 1e-3
    assert (high.coef - low.coef) / (2 * h) == pytest.approx(middle.beta_coef, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("loss", ["hinge", "novelty", "structured", "eps"])
def test_own_steps_of_offset_and_theta_have_their_derivatives(loss):
    """v_b = db / d log eta_b and v_theta = d log theta / d log eta_theta while the violations stay the same."""
    (X, y), h, runs = stream(loss, 30), 1e-6, []
    for shift in (-h, 0.0, h):
        twin = learner(loss, "adaptive", eta=0.2, lam=0.3, mu=0.0, decay=1.0, nu=0.2, epsilon0=0.8, offset=True)
        twin.eta_b, twin.eta_theta = twin.eta_b * math.exp(shift), twin.eta_theta * math.exp(shift)
        twin.run(X, y)
        runs.append(twin)
    low, middle, high = runs
    assert (high.b - low.b) / (2 * h) == pytest.approx(middle.v_b, rel=1e-6, abs=1e-9)
    assert math.log(high.theta / low.theta) / (2 * h) == pytest.approx(middle.v_theta, rel=1e-6)


def algorithm2(twin: Naive, X, y) -> tuple[list[float], list[float], float, float]:
    """Steps 1 to 10 of the specification as printed, with incremental <f,v> and ||f||^2 and their repair on a drop."""
    k, kappa, c, mu, lam = twin.kernel, twin.kappa, twin.lam, twin.mu, twin.decay
    eta, pi, n2, b, etas, thetas = twin.eta, 0.0, 0.0, np.zeros(twin.m), [], []
    eta_b, v_b, eps, eta_eps, v_eps = np.full(twin.m, eta), np.zeros(twin.m), twin.theta, 1.0, 0.0
    points, alpha, beta = [], np.zeros((0, twin.m)), np.zeros((0, twin.m))

    def at(rows, x):
        return kappa @ rows.T @ np.array([k(point, x) for point in points])

    for x, label in zip(X, y):
        F, V, K = at(alpha, x), at(beta, x), k(x, x) * kappa
        _, xi, P, viol = naive.loss_at(twin.loss, F + b, label, eps, twin.cost)
        gv = c * pi + xi @ V
        eta *= max(0.5, 1 - mu * gv)
        if twin.offset:
            eta_b *= np.maximum(0.5, 1 - mu * xi * v_b)
        if twin.nu is not None:
            q = eps * (twin.nu - viol)
            eta_eps *= max(0.5, 1 + mu * v_eps * q)
            v_eps = lam * v_eps + eta_eps * q * (1 + lam * v_eps)
            eps *= math.exp(eta_eps * q)
        chi, s = P @ V, 1 - eta * c
        v_b = lam * v_b - eta_b * xi
        fg = c * n2 + xi @ F
        fv = s * lam * pi - eta * fg - eta * lam * chi @ F
        beta = np.vstack([s * lam * beta - eta * c * alpha, -eta * (xi + lam * chi)])
        V_next = s * lam * V - eta * c * F - eta * K @ (xi + lam * chi)
        pi = s * fv - eta * xi @ V_next
        n2 = s**2 * n2 - 2 * eta * s * xi @ F + eta**2 * xi @ K @ xi
        alpha = np.vstack([s * alpha, -eta * xi])
        b = b - eta_b * xi if twin.offset else b
        points.append(x)
        if not xi.any():
            points, alpha, beta = points[:-1], alpha[:-1], beta[:-1]
        if twin.budget is not None and len(points) > twin.budget:
            x_o, a_o, b_o = points[0], alpha[0], beta[0]
            K_o = k(x_o, x_o) * kappa
            pi -= a_o @ at(beta, x_o) + b_o @ at(alpha, x_o) - a_o @ K_o @ b_o
            n2 -= 2 * a_o @ at(alpha, x_o) - a_o @ K_o @ a_o
            points, alpha, beta = points[1:], alpha[1:], beta[1:]
        etas.append(eta)
        thetas.append(eps)
    return etas, thetas, pi, n2


@pytest.mark.parametrize("extras", [{}, {"budget": 7}, {"budget": 7, "offset": True}, {"nu": 0.2}])
@pytest.mark.parametrize("loss", ["hinge", "novelty", "structured", "logistic", "softmax"])
def test_algorithm_2_as_printed(loss, extras):
    if "nu" in extras and loss in ("logistic", "softmax"):
        extras = {"offset": True}
    X, y = stream(loss, 50)
    options = {"eta": 0.3, "lam": 0.2, "mu": 0.3, "decay": 0.9, "epsilon0": 0.7} | extras
    etas, thetas, pi, n2 = algorithm2(learner(loss, "adaptive", "tree", BUMPY, **options), X, y)
    twin = learner(loss, "adaptive", "tree", BUMPY, **options)
    trace = twin.run(X, y)
    assert trace["eta"] == pytest.approx(etas, rel=1e-9)
    assert trace["theta"] == pytest.approx(thetas, rel=1e-9)
    assert twin.inner(twin.alpha, twin.beta) == pytest.approx(pi, rel=1e-8, abs=1e-10)
    assert twin.inner(twin.alpha, twin.alpha) == pytest.approx(n2, rel=1e-9)


@pytest.mark.parametrize("step", ["adaptive", "adaptive_implicit"])
def test_eta_stays_within_its_limits(step):
    X, y = stream("hinge", 40)
    free = learner("hinge", step, eta=0.1, mu=2.0).run(X, y)["eta"]
    held = learner("hinge", step, eta=0.1, mu=2.0, eta_max=0.11).run(X, y)["eta"]
    assert free.max() > 0.11
    assert held.max() == 0.11
    low = learner("square", step, eta=1.5, mu=2.0, eta_min=1.4).run(*stream("square", 40))["eta"]
    assert low.min() == 1.4


@pytest.mark.parametrize("step", ["adaptive", "adaptive_implicit"])
def test_repair_matters_only_when_terms_are_dropped(step):
    X, y = stream("softmax", 30)
    options = {"eta": 0.3, "lam": 0.2, "mu": 0.3}
    for budget in (None, 5):
        etas = [learner("softmax", step, budget=budget, repair=r, **options).run(X, y)["eta"] for r in (True, False)]
        assert np.allclose(*etas, rtol=1e-10) == (budget is None)
