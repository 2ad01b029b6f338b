"""Laws of every loss: values, slopes, curvatures, implicit steps and their derivatives, checked against each other and against
general minimisers. One list of losses; each law runs over all of it."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar

import onkel
from onkel import (
    RBF,
    Adaptive,
    Budget,
    EpsilonInsensitive,
    Explicit,
    Hinge,
    Huber,
    Implicit,
    Labels,
    Learner,
    Logistic,
    Novelty,
    Softmax,
    Square,
    Structured,
)

TREE = [-1, 0, 0, 1, 1, 2, 2]
RELATED = Labels(
    [[0, 1, 2, 0.5], [1, 0, 0.5, 1], [2, 0.5, 0, 1.5], [0.5, 1, 1.5, 0]],
    np.diag([1.0, 0.5, 1.5, 1.0]) + np.full((4, 4), 0.3),
)


def _logistic_value(z, y):
    return max(0.0, -y * z) + math.log1p(math.exp(-abs(y * z)))


def _logistic_slope(z, y):
    return -y / (1.0 + math.exp(y * z)) if y * z < 700.0 else 0.0


def _hinge_value(z, y):
    return max(0.0, 1.0 - y * z)


def _hinge_slope(z, y):
    return -y if y * z < 1.0 else 0.0


def _tube_value(z, y):
    return max(0.0, abs(y - z) - 0.3)


def _tube_slope(z, y):
    return 0.0 if abs(y - z) <= 0.3 else (1.0 if z > y else -1.0)


def _huber_value(z, y):
    return abs(y - z) - 0.35 if abs(y - z) >= 0.7 else (y - z) ** 2 / 1.4


def _huber_slope(z, y):
    return max(-1.0, min(1.0, (z - y) / 0.7))


WRITTEN = {  # a user's words for a loss that is built in
    "square": (Square(), onkel.loss(lambda z, y: 0.5 * (y - z) ** 2, lambda z, y: z - y)),
    "logistic": (Logistic(), onkel.loss(_logistic_value, _logistic_slope)),
    "hinge": (Hinge(), onkel.loss(_hinge_value, _hinge_slope)),
    "tube": (EpsilonInsensitive(0.3), onkel.loss(_tube_value, _tube_slope)),
    "huber": (Huber(0.7), onkel.loss(_huber_value, _huber_slope)),
}
SCALAR = [Hinge(), Hinge(0.2), Novelty(0.7), Square(), Logistic(), EpsilonInsensitive(0.3), Huber(0.7)]
SCALAR += [onkel.loss(lambda z, y: (z - y) ** 4, lambda z, y: 4 * (z - y) ** 3), WRITTEN["hinge"][1], WRITTEN["logistic"][1]]
NAMES = ["hinge", "hinge-0.2", "novelty", "square", "logistic", "tube", "huber", "user-quartic", "user-hinge", "user-logistic"]
CLIPPED = ["hinge", "hinge-0.2", "novelty", "tube"]  # piecewise linear, closed forms

scalar = pytest.mark.parametrize("loss", SCALAR, ids=NAMES)
labelled = pytest.mark.parametrize(
    "loss",
    [
        Structured(Labels.flat(4)),
        Structured(Labels.tree(TREE), 0.8),
        Structured(RELATED),
        Softmax(Labels.flat(4)),
        Softmax(RELATED),
    ],
    ids=["structured", "structured-tree", "structured-related", "softmax", "softmax-related"],
)


def targets(loss) -> tuple[float, ...]:
    if loss.targets == "none":
        return (1.0,)
    signs = loss.targets == "signs" or "_hinge" in loss.__doc__ or "_logistic" in loss.__doc__
    return (-1.0, 1.0) if signs else (-0.8, 0.0, 1.3)


def cases(loss, n=40, seed=0):
    """Random scores, targets, caps and curvatures; none of them at a kink."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        z, y = 2 * rng.normal(), rng.choice(targets(loss))
        yield float(z), float(y), float(rng.uniform(0.05, 3.0)), float(rng.uniform(0.1, 4.0))


def vector_cases(m=4, n=25, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield rng.normal(size=m), int(rng.integers(m)), float(rng.uniform(0.1, 2.0)), float(rng.uniform(0.2, 3.0))


# --- one score -------------------------------------------------------------------------------------------------------------------


@scalar
def test_slope_is_the_derivative_of_the_value_and_curvature_of_the_slope(loss):
    h = 1e-6
    for f, y, _, _ in cases(loss):
        numeric = (loss.value(f + h, y, loss.theta) - loss.value(f - h, y, loss.theta)) / (2 * h)
        assert loss.slope(f, y, loss.theta, False) == pytest.approx(numeric, rel=1e-6, abs=1e-7)
        numeric = (loss.slope(f + h, y, loss.theta, False) - loss.slope(f - h, y, loss.theta, False)) / (2 * h)
        assert loss.curvature(f, y, loss.theta) == pytest.approx(numeric, rel=1e-5, abs=1e-6)


@scalar
def test_values_are_convex_and_never_negative(loss):
    scores = np.linspace(-4, 4, 401)
    for y in targets(loss):
        values = np.array([loss.value(f, y, loss.theta) for f in scores])
        slopes = np.array([loss.slope(f, y, loss.theta, False) for f in scores])
        assert (values >= 0).all()
        assert (np.diff(slopes) >= -1e-12).all()


@pytest.mark.parametrize(("loss", "name"), list(zip(SCALAR, NAMES)), ids=NAMES)
def test_prox_without_curvature_is_the_explicit_step(loss, name):
    """a = -cap slope(z) at k = 0; where the papers ask for a point without effect not to be stored, as k goes to 0."""
    for z, y, cap, _ in cases(loss):
        k = 1e-13 if name in CLIPPED else 0.0
        assert loss.prox(z, y, loss.theta, cap, k) == pytest.approx(-cap * loss.slope(z, y, loss.theta, False), rel=1e-9, abs=1e-15)
        if name in CLIPPED:
            assert loss.prox(z, y, loss.theta, cap, 0.0) == 0.0


@scalar
def test_prox_minimises(loss):
    """a minimises 1/2 k a^2 + cap loss(z + k a): nothing near it or found by a general minimiser is better."""
    for z, y, cap, k in cases(loss, 25):

        def objective(a, z=z, y=y, cap=cap, k=k):
            return 0.5 * k * a * a + cap * loss.value(z + k * a, y, loss.theta)

        a = loss.prox(z, y, loss.theta, cap, k)
        reach = 3 * abs(a) + 3 * cap
        best = minimize_scalar(objective, bounds=(-reach, reach), method="bounded", options={"xatol": 1e-12})
        assert objective(a) <= best.fun + 1e-12
        assert a == pytest.approx(best.x, abs=2e-5)


@scalar
def test_prox_solves_its_equation(loss):
    """a lies between -cap times the slopes just left and right of the new score."""
    for z, y, cap, k in cases(loss, 40, seed=1):
        a = loss.prox(z, y, loss.theta, cap, k)
        h = 1e-9 * max(1.0, abs(z))
        low, high = (-cap * loss.slope(z + k * a + s * h, y, loss.theta, False) for s in (1, -1))
        assert low - 1e-7 <= a <= high + 1e-7


@scalar
def test_tangent_is_the_derivative_of_prox(loss):
    h, seen = 1e-6, 0
    rng = np.random.default_rng(5)
    for z, y, cap, k in cases(loss, 60):
        dz, dcap = rng.normal(size=2)
        a = loss.prox(z, y, loss.theta, cap, k)
        up, down = (loss.prox(z + s * h * dz, y, loss.theta, cap + s * h * dcap, k) for s in (1, -1))
        if abs(up - 2 * a + down) < 1e-9:  # not across the edge of a clip
            seen += 1
            ours = loss.tangent(z, y, loss.theta, cap, k, a, dz, dcap)
            # a user's kink is seen as a very steep slope, one thousandth of a thousandth wide
            rel = 1e-4 if type(loss).__name__ == "UserLoss" else 1e-5
            assert ours == pytest.approx((up - down) / (2 * h), rel=rel, abs=2e-6)
    assert seen > 40


@scalar
def test_far_scores_stay_finite(loss):
    quiet = loss.targets == "reals" and "quartic" in NAMES[SCALAR.index(loss)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for f in (-1e8, -1e4, -710.0, 710.0, 1e4, 1e8):
            for y in targets(loss):
                value, slope = loss.value(f, y, loss.theta), loss.slope(f, y, loss.theta, False)
                assert math.isfinite(value)
                assert math.isfinite(slope)
                assert math.isfinite(loss.curvature(f, y, loss.theta))
                a = loss.prox(f, y, loss.theta, 0.7, 1.3)
                assert math.isfinite(a)
                assert math.isfinite(loss.tangent(f, y, loss.theta, 0.7, 1.3, a, 0.1, 0.2))
                if not quiet:
                    assert abs(a) <= 0.7 * max(1.0, abs(slope))


def test_far_logistic_has_the_right_limits():
    loss = Logistic()
    assert loss.value(-1e4, 1.0, math.nan) == 1e4
    assert loss.value(1e4, 1.0, math.nan) == 0.0
    assert loss.slope(-1e4, 1.0, math.nan, False) == -1.0
    assert loss.prox(-1e4, 1.0, math.nan, 0.7, 1.3) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("loss", "at", "y", "steep"),
    [(Hinge(), 1.0, 1.0, -1.0), (Hinge(), -1.0, -1.0, 1.0), (Hinge(0.0), 0.0, 1.0, -1.0), (Novelty(0.7), 0.7, 1.0, 0.0),
     (EpsilonInsensitive(0.25), 0.75, 1.0, 0.0), (Huber(0.5), 0.5, 1.0, -1.0)],
)  # fmt: skip
def test_at_the_threshold(loss, at, y, steep):
    """NORMA's hinge updates exactly at its margin, everything else does not; Huber's branches agree there."""
    assert loss.slope(at, y, loss.theta, True) == steep
    assert loss.slope(at, y, loss.theta, False) == (steep if isinstance(loss, Huber) else 0.0)
    assert bool(loss.violated(at, y, loss.theta, True)) == isinstance(loss, Hinge)
    assert not loss.violated(at, y, loss.theta, False)


def test_sign_of_nothing_is_nothing():
    loss = EpsilonInsensitive(0.0)
    assert loss.slope(1.0, 1.0, 0.0, False) == 0.0
    assert loss.prox(1.0, 1.0, 0.0, 0.5, 1.0) == 0.0


# --- a user's own ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITTEN)
def test_written_loss_has_the_closed_form_of_the_built_in(name):
    built, written = WRITTEN[name]
    for z, y, cap, k in cases(built, 300, seed=3):
        expected = built.prox(z, y, built.theta, cap, k)
        assert written.prox(z, y, math.nan, cap, k) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def stream(loss, n=150):
    X = np.random.default_rng(2).normal(size=(n, 2))
    return X, np.sin(2 * X[:, 0]) if loss.targets == "reals" else np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)


@pytest.mark.parametrize("name", ["hinge", *(pytest.param(n, marks=pytest.mark.slow) for n in WRITTEN if n != "hinge")])
def test_written_loss_learns_as_the_built_in_does(name):
    built, written = WRITTEN[name]
    X, y = stream(built)
    for step in (Explicit(0.3, 0.05), Implicit(0.8, 0.05), Adaptive(0.3, 0.05), Adaptive(0.3, 0.05, implicit=True)):
        pair = [Learner(RBF(0.7), loss, step, Budget(25)) for loss in (built, written)]
        (a, ta), (b, tb) = (learner.learn(learner.init(), X, y) for learner in pair)
        tolerance = 1e-4 if step == Adaptive(0.3, 0.05, implicit=True) else 1e-9  # there kinks are slopes, see above
        np.testing.assert_allclose(ta.scores, tb.scores, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(a.coef, b.coef, rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(a.points, b.points)
        np.testing.assert_array_equal(ta.size, tb.size)


# --- many labels -----------------------------------------------------------------------------------------------------------------


def value_of(loss, scores, y):
    return loss.value(scores, y, loss.theta, loss.consider(scores, y, loss.theta))


def slope_of(loss, scores, y):
    xi = np.empty(len(scores))
    loss.slope(scores, y, loss.theta, loss.consider(scores, y, loss.theta), xi)
    return xi


def prox_of(loss, z, y, cap, k, extra=0.0, exact=True, scores=None):
    a = np.empty(len(z))
    worst = loss.consider(z if scores is None else scores, y, loss.theta)
    if exact and loss.exact_prox is not None:
        loss.exact_prox(z, y, loss.theta, cap, k, extra, a)
    else:
        loss.prox(z, y, loss.theta, worst, cap, k, extra, a)
    return a


@labelled
def test_label_slope_and_curve_are_derivatives(loss):
    h = 1e-6
    for g, y, _, _ in vector_cases():
        v, chi = np.random.default_rng(1).normal(size=4), np.empty(4)
        numeric = [(value_of(loss, g + h * e, y) - value_of(loss, g - h * e, y)) / (2 * h) for e in np.eye(4)]
        np.testing.assert_allclose(slope_of(loss, g, y), numeric, atol=1e-7)
        loss.curve(g, y, loss.theta, v, chi)
        np.testing.assert_allclose(chi, (slope_of(loss, g + h * v, y) - slope_of(loss, g - h * v, y)) / (2 * h), atol=1e-7)


@labelled
@pytest.mark.parametrize("extra", [0.0, 1.1])
def test_exact_label_prox_minimises_over_the_full_span(loss, extra):
    """a minimises 1/2 a'Ka + cap loss(z + K a), K = k kappa + extra I, over all directions."""
    for z, y, cap, k in vector_cases(n=12):
        K = k * loss.labels.kernel + extra * np.eye(4)
        root = np.linalg.cholesky(K + 1e-15 * np.eye(4))

        def objective(a, K=K, z=z, y=y, cap=cap):
            return 0.5 * a @ K @ a + cap * value_of(loss, z + K @ a, y)

        a = prox_of(loss, z, y, cap, k, extra)
        ours = objective(a)
        if isinstance(loss, Softmax):
            best = minimize(lambda u, root=root: objective(np.linalg.solve(root.T, u)), np.zeros(4), options={"gtol": 1e-10})
            assert ours <= best.fun + 1e-9
            np.testing.assert_allclose(a, -cap * slope_of(loss, z + K @ a, y), atol=1e-12)
        else:  # as a quadratic programme with slack: 1/2 |u|^2 + cap s,  s >= 0, s >= each gap

            def gap(v, c, root=root, z=z, y=y):
                g = z + root @ v[:4]
                return v[4] - loss.theta * loss.labels.cost[y, c] - g[c] + g[y]

            limits = [{"type": "ineq", "fun": lambda v: v[4]}]
            limits += [{"type": "ineq", "fun": lambda v, c=c, gap=gap: gap(v, c)} for c in range(4) if c != y]
            start = np.append(np.zeros(4), 10.0)
            best = minimize(lambda v, cap=cap: 0.5 * v[:4] @ v[:4] + cap * v[4], start, method="SLSQP", constraints=limits,
                            options={"ftol": 1e-14, "maxiter": 500})  # fmt: skip
            assert ours <= best.fun + 1e-8
        for _ in range(20):  # and nothing in the neighbourhood is better
            assert ours <= objective(a + 1e-4 * np.random.default_rng(_).normal(size=4)) + 1e-13


@pytest.mark.parametrize("labels", [Labels.flat(4), Labels.tree(TREE), RELATED], ids=["flat", "tree", "related"])
def test_two_label_prox_minimises_its_surrogate(labels):
    """The papers' form: the exact prox of max(0, theta Delta(y, y*) + f(y*) - f(y)), y* frozen at the scores before decay."""
    loss = Structured(labels, 0.9)
    for scores, y, cap, k in vector_cases(n=20, seed=4):
        z = 0.9 * scores
        reach = [0.9 * labels.cost[y, c] + scores[c] if c != y else -np.inf for c in range(4)]
        rival = int(np.argmax(reach))
        along = np.eye(4)[y] - np.eye(4)[rival]
        a = prox_of(loss, z, y, cap, k, exact=False, scores=scores)
        K = k * labels.kernel

        def objective(s, z=z, y=y, cap=cap, K=K, along=along, rival=rival):
            g = z + s * K @ along
            return 0.5 * s * s * along @ K @ along + cap * max(0.0, 0.9 * labels.cost[y, rival] + g[rival] - g[y])

        best = minimize_scalar(objective, bounds=(-1e-9, cap + 1e-9), method="bounded", options={"xatol": 1e-13})
        np.testing.assert_allclose(a, a[y] * along, atol=0)
        assert 0.0 <= a[y] <= cap
        assert objective(a[y]) <= best.fun + 1e-12


@labelled
@pytest.mark.parametrize("exact", [True, False])
def test_label_tangent_is_the_derivative_of_prox(loss, exact):
    h, seen = 1e-6, 0
    rng = np.random.default_rng(8)
    for z, y, cap, k in vector_cases(n=30, seed=6):
        dz, dcap, da = rng.normal(size=4), rng.normal(), np.empty(4)
        a = prox_of(loss, z, y, cap, k, exact=exact)
        up, down = (prox_of(loss, z + s * h * dz, y, cap + s * h * dcap, k, exact=exact, scores=z) for s in (1, -1))
        if np.abs(up - 2 * a + down).max() < 1e-9:
            seen += 1
            loss.tangent(z, y, loss.theta, cap, k, 0.0, a, dz, dcap, da)
            np.testing.assert_allclose(da, (up - down) / (2 * h), rtol=1e-5, atol=1e-6)
    assert seen > 20


@labelled
def test_far_label_scores_stay_finite(loss):
    for far in (1e4, 1e8):
        for scores in ([far, -far, 0.0, 1.0], [-far, far, far, far], [far, far, far, far]):
            g = np.array(scores)
            for y in range(4):
                chi = np.empty(4)
                loss.curve(g, y, loss.theta, np.ones(4), chi)
                a = prox_of(loss, g, y, 0.7, 1.3)
                assert math.isfinite(value_of(loss, g, y))
                assert np.isfinite(slope_of(loss, g, y)).all()
                assert np.isfinite(chi).all()
                assert np.isfinite(a).all()
                assert np.abs(a).max() <= 0.7 + 1e-15 * far
                assert abs(a.sum()) <= 1e-15 * far


def test_rival_is_the_first_of_equals_and_no_rival_no_update():
    loss = Structured(Labels.flat(4))
    np.testing.assert_array_equal(slope_of(loss, np.zeros(4), 2), [1, 0, -1, 0])
    np.testing.assert_array_equal(slope_of(loss, np.zeros(4), 0), [-1, 1, 0, 0])
    np.testing.assert_array_equal(slope_of(loss, np.array([1.0, 0, 0, 0]), 0), [0, 0, 0, 0])  # exactly at the margin: no
    alone = Structured(Labels.flat(1))
    assert value_of(alone, np.zeros(1), 0) == 0.0
    np.testing.assert_array_equal(prox_of(alone, np.zeros(1), 0, 1.0, 1.0), [0.0])
    assert not alone.mistake(np.zeros(1), 0, 1.0)


@labelled
def test_a_tie_among_labels_is_a_mistake(loss):
    assert loss.mistake(np.array([1.0, 1.0, 0.0, -1.0]), 0, loss.theta)
    assert loss.mistake(np.array([1.0, 1.0, 0.0, -1.0]), 1, loss.theta)
    assert not loss.mistake(np.array([1.0, 0.5, 0.0, -1.0]), 0, loss.theta)
    assert loss.mistake(np.array([1.0, 0.5, 0.0, -1.0]), 3, loss.theta)
