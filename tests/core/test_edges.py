"""Corners: first examples, ties, points without length, budgets of one, single precision."""



import numpy as np
import pytest

import onkel
from onkel import (
    RBF,
    Adaptive,
    Alma,
    Budget,
    Explicit,
    Hinge,
    Implicit,
    Labels,
    Learner,
    Linear,
    Novelty,
    Softmax,
    Square,
    Structured,
)  # fmt: skip
from tests.core.support import (
    BUDGETS,
    LABELS,
    STEPS,
    every_step,
    run,
    stream,
)

# --- edges -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [*STEPS, "alma"])
def test_the_first_example_is_a_mistake_and_so_is_a_tie(step, rows):
    rule = Alma() if step == "alma" else STEPS[step]
    X = np.array([[1.0], [0.0], [-2.0], [0.0]])  # with a linear kernel f(0) = 0: a tie for ever
    for loss, y in ((Hinge(), [1.0, 1.0, -1.0, -1.0]), (Structured(LABELS), [1, 2, 0, 1])):
        if step == "alma" and isinstance(loss, Structured):
            continue
        learner = Learner(Linear(), loss, rule)
        state, trace = run(learner, X, np.array(y))
        np.testing.assert_array_equal(trace.scores[0], np.zeros_like(trace.scores[0]))
        assert trace.mistake[[0, 1, 3]].all()
        assert np.isfinite(state.coef).all()


@pytest.mark.parametrize("budget", ["all", "oldest", "smallest", "merge", "project"])
@every_step
def test_points_without_length_do_no_harm(step, budget, rows):
    """k(x, x) = 0: the point has no effect; implicit steps of the hinge and of graphs do not store it."""
    X, y = stream(n=90, d=12)
    X[::3] = 0.0
    for loss in (Hinge(), Structured(LABELS)):
        targets = y if isinstance(loss, Hinge) else np.arange(90) % 3
        learner = Learner(Linear(), loss, STEPS[step], BUDGETS[budget])
        state, trace = run(learner, X, targets)
        assert np.isfinite(trace.scores).all()
        assert np.isfinite(state.coef).all()
        if step == "implicit":
            assert (np.abs(state.points).max(1) > 0).all()


@pytest.mark.parametrize("drop", ["oldest", "smallest", "merge", "project"])
@every_step
def test_a_point_that_comes_again_and_again(step, drop, path):
    X = np.tile([[0.3, -0.7]], (40, 1))
    learner = Learner(RBF(1.0), Square(), STEPS[step], Budget(6, drop))
    state, trace = run(learner, X, np.full(40, 2.0))
    assert np.isfinite(trace.scores).all()
    assert state.size == 6
    assert trace.scores[0] == 0.0
    np.testing.assert_allclose(learner.score(state, X[:1]), state.coef.sum(), rtol=1e-9)
    unbounded, full = run(Learner(RBF(1.0), Square(), STEPS[step]), X, np.full(40, 2.0))
    assert unbounded.size == 40
    if drop in ("merge", "project"):  # identical points lose nothing when one goes
        np.testing.assert_allclose(trace.scores, full.scores, rtol=1e-6)


@pytest.mark.parametrize("step", ["explicit", "implicit"])
def test_projection_in_a_small_space_loses_nothing(step, rows):
    """A linear kernel in the plane has two dimensions: what is projected on eight other points is all still there."""
    X, y = stream(n=90)
    _, bounded = run(Learner(Linear(), Hinge(), STEPS[step], Budget(9, "project")), X, y)
    _, free = run(Learner(Linear(), Hinge(), STEPS[step]), X, y)
    np.testing.assert_allclose(bounded.scores, free.scores, rtol=1e-6, atol=1e-6)


def test_budget_of_one(path):
    X, y = stream()
    for drop in ("oldest", "smallest", "merge", "project"):
        for step in STEPS.values():
            state, trace = run(Learner(RBF(1.0), Hinge(), step, Budget(1, drop)), X, y)
            assert state.size == 1
            assert np.isfinite(trace.scores).all()


def test_a_single_label_never_updates(path):
    X, _ = stream()
    for loss in (Structured(Labels.flat(1)), Softmax(Labels.flat(1))):
        state, trace = run(Learner(RBF(1.0), loss, STEPS["implicit"], Budget(9)), X, np.zeros(len(X)))
        assert trace.scores.shape == (70, 1)
        assert not trace.mistake.any()
        assert state.size == 0


def test_ties_at_the_margin_update_in_norma_and_nowhere_else(rows):
    """f(x) = y exactly at the second example: [K] (14) updates, [V] (15) does not."""
    X, y = np.array([[1.0], [1.0]]), np.array([1.0, 1.0])
    for step, size in ((Explicit(1.0, 0.0), 2), (Adaptive(1.0, 0.0, mu=0.0), 1), (Implicit(1.0, 0.0), 1)):
        assert run(Learner(Linear(), Hinge(), step), X, y)[0].size == size
    assert run(Learner(Linear(), Novelty(), Explicit(1.0, 0.0)), X, None)[0].size == 1


def test_the_smallest_goes_the_new_one_competing_and_the_oldest_of_equals(rows):
    X = np.eye(4)  # points that do not see each other: the coefficient of an example is its clipped target
    square = lambda y, **options: run(onkel.silk(Linear(), Square(), lam=0.0, budget=3, **options), X, np.array(y))[0]  # noqa: E731
    np.testing.assert_allclose(square([4.0, 2.0, 6.0, -8.0]).coef, [2.0, 3.0, -4.0])  # 2 goes: the smallest
    np.testing.assert_allclose(square([4.0, 2.0, 6.0, -1.0]).coef, [2.0, 1.0, 3.0])  # the new one goes
    np.testing.assert_allclose(square([4.0, -2.0, 2.0, 6.0]).points[:, :3], np.eye(4)[[0, 2, 3], :3])  # oldest of equals
    np.testing.assert_allclose(square([4.0, 2.0, 6.0, -2.0]).points, X[[0, 2, 3]])  # also against the new one
    np.testing.assert_allclose(square([4.0, 2.0, 6.0, 1.0], drop="oldest").points, X[1:])


@pytest.mark.parametrize("step", ["explicit", "implicit", "adaptive"])
@pytest.mark.parametrize("drop", ["oldest", "merge", "project"])
def test_single_precision_stays_single_and_agrees(step, drop, path):
    X, y = stream(n=200)
    X = X.astype(np.float32)
    learner = Learner(RBF(1.0), Hinge(), STEPS[step], Budget(12, drop))
    single, trace = run(learner, X, y)
    double, expected = run(learner, X.astype(float), y)
    assert single.slots.dtype == single.points.dtype == np.float32
    assert single.slots.dtype.itemsize * 2 == double.slots.dtype.itemsize
    assert (trace.mistake == expected.mistake).mean() > 0.97
    if (step, drop) != ("adaptive", "project"):  # there a rounding turns an eviction, and the models part
        np.testing.assert_allclose(trace.scores, expected.scores, atol=1e-3 if drop == "project" else 1e-5)
    again, _ = learner.learn(single, X.astype(float), y)  # a model keeps the precision that it began with
    assert again.slots.dtype == np.float32
