"""The card learns what the CPU learns, and either continues where the other stopped; see cuda_on_cpu.py for where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import onkel
from onkel import gpu
from onkel.core.learner import Learner
from onkel.core.maths.budget import Budget
from onkel.core.maths.steps import Explicit, Implicit
from tests.gpu import cuda_on_cpu

FLAT = onkel.Labels.flat(10)
WIDE = onkel.RBF(2.0)
LONG = [] if cuda_on_cpu.real() else [pytest.mark.slow]  # on the CPU each of them compiles code of its own
QUICK = ("hinge-silk", "labels-norma")
TREE = onkel.Labels.tree([-1, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3])  # ten leaves under three branches


@pytest.fixture
def card():
    with cuda_on_cpu.card():
        yield


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return (X[order] / 16.0).astype(np.float32), y[order]


def targets(loss, y):
    kind = type(loss).targets
    if kind == "signs":
        return np.where(y % 2 == 0, 1.0, -1.0)
    return {"reals": 0.1 * y + 0.01 * np.sin(np.arange(len(y))), "codes": y, "none": None}[kind]


def same(cpu, card, close=1e-5):
    """Equal decisions, and numbers equal up to ``close`` of their scale."""
    (a, ta), (b, tb) = cpu, card
    scale = np.abs(ta.scores).max() + 1.0
    np.testing.assert_array_equal(ta.size, tb.size)
    np.testing.assert_array_equal(a.born[a.order], b.born[b.order])  # two that go together may swap slots
    np.testing.assert_array_equal(a.points, b.points)
    np.testing.assert_allclose(tb.scores, ta.scores, rtol=0, atol=close * scale)
    np.testing.assert_allclose(tb.loss, ta.loss, rtol=0, atol=close * scale * (np.abs(ta.loss).max() + 1.0))
    np.testing.assert_array_equal(ta.eta, tb.eta)
    np.testing.assert_allclose(tb.theta, ta.theta, rtol=1e-9)
    np.testing.assert_allclose(b.coef, a.coef, rtol=0, atol=close * (np.abs(a.coef).max() + 1e-3))
    np.testing.assert_allclose(b.offset, a.offset, rtol=0, atol=close * scale)
    assert np.mean(ta.mistake != tb.mistake) < 1e-3  # a score at the very threshold may fall on either side
    assert (a.t, a.size, a.nbytes) == (b.t, b.size, b.nbytes)
    for own in ("scores", "loss", "mistake", "eta", "theta", "size"):
        assert getattr(ta, own).dtype == getattr(tb, own).dtype


CASES = {
    "hinge-silk": (onkel.Hinge(), Implicit(0.7, 0.01), "smallest", {}),
    "hinge-norma": (onkel.Hinge(), Explicit(0.2, 0.02), "oldest", {"nu": 0.2, "offset": True}),
    "hinge-schedule": (onkel.Hinge(), Explicit(onkel.InvSqrt(0.5), 0.05), "smallest", {}),
    "hinge-offset": (onkel.Hinge(), Implicit(0.7, 0.01), "oldest", {"offset": True}),
    "novelty": (onkel.Novelty(), Implicit(0.3, 0.1), "smallest", {}),
    "novelty-nu": (onkel.Novelty(), Explicit(0.1, 0.1), "oldest", {"nu": 0.1}),
    "square": (onkel.Square(), Implicit(0.5, 0.01), "smallest", {}),
    "square-explicit": (onkel.Square(), Explicit(0.1, 0.01), "oldest", {"offset": True}),
    "tube": (onkel.EpsilonInsensitive(0.05), Implicit(0.5, 0.01), "smallest", {}),
    "tube-nu": (onkel.EpsilonInsensitive(0.05), Explicit(0.05, 0.01), "oldest", {"nu": 0.3}),
    "huber": (onkel.Huber(0.2), Implicit(0.5, 0.01), "smallest", {}),
    "huber-nu": (onkel.Huber(0.2), Explicit(0.05, 0.01), "oldest", {"nu": 0.3}),
    "logistic": (onkel.Logistic(), Implicit(0.5, 0.01), "smallest", {}),
    "logistic-explicit": (onkel.Logistic(), Explicit(0.5, 0.01), "oldest", {"offset": True}),
    "labels": (onkel.Structured(FLAT), Implicit(0.5, 0.01), "smallest", {}),
    "labels-norma": (onkel.Structured(FLAT), Explicit(0.2, 0.02), "oldest", {"nu": 0.2, "offset": True}),
    "labels-offset": (onkel.Structured(FLAT), Implicit(0.5, 0.01), "smallest", {"offset": True}),
    "tree": (onkel.Structured(TREE), Implicit(0.5, 0.01), "smallest", {}),
    "tree-explicit": (onkel.Structured(TREE), Explicit(0.05, 0.01), "oldest", {}),
    "softmax": (onkel.Softmax(FLAT), Explicit(0.5, 0.01), "smallest", {"offset": True}),
}


def long(test):
    return test if cuda_on_cpu.real() else pytest.mark.slow(test)


def some(names):
    """Those of QUICK, the others where there is a card or time."""
    return [name if name in QUICK else pytest.param(name, marks=LONG) for name in names]


def case(name, budget=400, kernel=WIDE):
    loss, step, drop, more = CASES[name]
    return Learner(kernel, loss, step, Budget(budget, drop), **more)


def both(learner, X, y, weight=None, dtype=np.float32):
    goal = targets(learner.loss, y)
    return [learner.learn(learner.init(), X.astype(dtype), goal, weight, backend=backend) for backend in ("cpu", "gpu")]


@pytest.mark.usefixtures("card")
class TestSame:
    # In float32 two coefficients under "tree" are so nearly equal when one has to go that rounding chooses.
    @pytest.mark.parametrize("name", some(name for name in CASES if name != "tree"))
    def test_as_the_cpu(self, name, digits):
        same(*both(case(name), *digits))

    @long
    @pytest.mark.parametrize("name", ["hinge-silk", "labels", "labels-norma", "tree"])
    def test_to_the_last_digits_in_float64(self, name, digits):
        X, y = digits
        same(*both(case(name), X, y, dtype=np.float64), close=1e-11)

    @long
    # In float32 two coefficients of the last two cases agree to a millionth when one of them has to go, and rounding chooses.
    @pytest.mark.parametrize(
        ("kernel", "budget", "width", "dtype", "close"),
        [
            (onkel.Polynomial(3, 0.05, 1.0), 400, 64, np.float32, 1e-5),
            (WIDE, 1, 64, np.float32, 1e-5),
            (WIDE, 17, 64, np.float32, 1e-5),
            (onkel.Linear(), 400, 64, np.float64, 1e-11),
            (onkel.Matern(3.0, 2.5), 400, 64, np.float64, 1e-11),
            (WIDE, 50, 2, np.float64, 1e-11),
        ],
    )
    def test_kernels_and_sizes(self, kernel, budget, width, dtype, close, digits):
        X, y = digits
        same(*both(case("hinge-silk", budget, kernel), X[:, 20 : 20 + width] if width < 64 else X, y, dtype=dtype), close=close)

    @pytest.mark.parametrize("step", [Implicit(1.0, 0.8), pytest.param(Explicit(1.0, 1.0), marks=LONG)])
    def test_strong_decay_is_folded(self, step, digits):
        same(*both(Learner(onkel.RBF(2.0), onkel.Hinge(), step, Budget(400, "smallest")), *digits))

    @long
    def test_weights(self, digits):
        X, y = digits
        same(*both(case("labels"), X, y, np.random.default_rng(1).integers(0, 3, len(X)).astype(float)))

    @long
    def test_points_far_from_the_origin(self, digits):
        X, y = digits
        same(*both(case("hinge-silk"), X + np.float32(30.0), y), close=1e-4)

    def test_equal_magnitudes_drop_the_oldest(self, digits):
        same(*both(Learner(onkel.RBF(1.0), onkel.Hinge(), Implicit(0.1, 0.0), Budget(400, "smallest")), *digits))

    @long
    def test_scores_of_many_labels_stand_outside_shared_memory(self, digits):
        X, y = digits
        learner = Learner(onkel.RBF(2.0), onkel.Structured(onkel.Labels.flat(300)), Implicit(0.5, 0.01), Budget(400, "smallest"))
        same(*both(learner, X, y * 29))

    @long
    def test_nothing_in_shared_memory(self, digits, monkeypatch):
        monkeypatch.setattr(gpu.Group, "inside", property(lambda self: 0, lambda self, value: None), raising=False)
        same(*both(case("labels"), *digits))


@pytest.mark.usefixtures("card")
class TestStates:
    @pytest.mark.parametrize("name", ["hinge-silk", "labels-norma"])
    def test_each_continues_where_the_other_stopped(self, name, digits):
        X, y = digits
        learner = case(name)
        goal = targets(learner.loss, y)
        whole, _ = learner.learn(learner.init(), X, goal)
        for turns in (("cpu", "gpu"), ("gpu", "cpu"), ("gpu", "gpu", "cpu", "gpu")):
            state = learner.init()
            for part, backend in zip(np.array_split(np.arange(len(X)), len(turns)), turns, strict=True):
                state, _ = learner.learn(state, X[part], goal[part], backend=backend)
            np.testing.assert_array_equal(state.born[state.order], whole.born[whole.order])
            np.testing.assert_allclose(state.coef, whole.coef, rtol=0, atol=1e-5)
            np.testing.assert_array_equal(state.points, whole.points)

    @long
    def test_any_cut_into_blocks_gives_the_same(self, digits):
        X, y = digits
        learner = case("labels")
        whole, trace = learner.learn(learner.init(), X, y, backend="gpu")
        state, scores = learner.init(), []
        for part in np.split(np.arange(len(X)), [1, 34, 700, 701, 1300]):
            state, piece = learner.learn(state, X[part], y[part], backend="gpu")
            scores.append(piece.scores)
        np.testing.assert_array_equal(state.born[state.order], whole.born[whole.order])
        np.testing.assert_allclose(np.concatenate(scores), trace.scores, rtol=0, atol=1e-5)

    def test_long_streams_go_in_chunks(self, digits, monkeypatch):
        X, y = digits
        learner = case("labels-norma")
        first = learner.learn(learner.init(), X, y, backend="gpu")
        inner = gpu.Group.learn
        monkeypatch.setattr(gpu.Group, "learn", lambda self, block, y, weight, share: inner(self, block, y, weight, 1))
        same(first, learner.learn(learner.init(), X, y, backend="gpu"))

    @long
    def test_a_grid_of_learners_is_each_of_them(self, digits):
        X, y = digits
        grid = [
            Learner(onkel.RBF(sigma), onkel.Structured(labels), step, Budget(budget, drop))
            for sigma in (1.0, 2.0)
            for budget, drop in ((100, "oldest"), (400, "smallest"))
            for step in (Implicit(0.5, 0.01), Explicit(onkel.InvSqrt(0.5), 0.02, C=2.0))
            for labels in (FLAT, TREE)
        ]
        X = X.astype(np.float64)
        together = onkel.learn_many(grid, X, y, backend="gpu")
        for learner, pair in zip(grid, together, strict=True):
            same(learner.learn(learner.init(), X, y), pair, close=1e-11)

    def test_leaving_the_finite_numbers_is_an_error_and_changes_nothing(self, digits):
        X, y = digits
        learner = case("hinge-silk", kernel=onkel.Polynomial(30, 1.0, 1.0))
        state = learner.init()
        with pytest.raises(FloatingPointError, match="example 0"):
            learner.learn(state, 100.0 * X, targets(learner.loss, y), backend="gpu")
        assert state.t == 0


@pytest.mark.parametrize(
    ("learner", "names"),
    [
        (onkel.silk(onkel.Laplacian(), onkel.Hinge()), "Laplacian"),
        (onkel.silk(onkel.RBF() + onkel.Linear(), onkel.Hinge()), "Sum"),
        (onkel.silk(onkel.RBF(), onkel.Hinge(), drop="project"), "drop='project'"),
        (onkel.silk(onkel.RBF(), onkel.Softmax(FLAT)), "implicit step for Softmax"),
        (onkel.silk(onkel.RBF(), onkel.Structured(FLAT), exact=True), "exact implicit step"),
        (onkel.ilk(onkel.RBF(), onkel.Hinge()), "without a budget"),
        (onkel.svmd(onkel.RBF(), onkel.Hinge(), budget=10), "Adaptive"),
        (onkel.silk(onkel.RBF(), onkel.loss(lambda z, y: (z - y) ** 2, lambda z, y: 2 * (z - y))), "User"),
    ],
)
def test_what_the_card_does_not_do_is_said(learner, names, digits):
    X, y = digits
    with pytest.raises(ValueError, match=f"does not do .*{names}.*backend='cpu'"):
        learner.learn(learner.init(), X[:10], targets(learner.loss, y[:10]), backend="gpu")


def test_sparse_rows_are_refused(digits):
    from scipy.sparse import csr_matrix

    X, y = digits
    learner = case("hinge-silk")
    with pytest.raises(ValueError, match="dense rows"):
        learner.learn(learner.init(), csr_matrix(X[:10]), targets(learner.loss, y[:10]), backend="gpu")


def test_without_a_card_the_error_says_what_is_missing(digits, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    X, y = digits
    learner = case("hinge-silk")
    with pytest.raises(RuntimeError, match=r"onkel\[gpu\].*backend='cpu'"):
        learner.learn(learner.init(), X[:10], targets(learner.loss, y[:10]), backend="gpu")
