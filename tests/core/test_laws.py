"""Laws that every learner obeys, whatever its step, loss, budget, and way to kernel values."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import onkel
from onkel import (
    RBF,
    Adaptive,
    Alma,
    Budget,
    Explicit,
    Hinge,
    Huber,
    Implicit,
    InvSqrt,
    Labels,
    Learner,
    Linear,
    Logistic,
    Novelty,
    Softmax,
    Square,
    Structured,
)  # fmt: skip
from onkel.core import drive as engine
from onkel.core import single
from onkel.core.loop import layout as at
from onkel.core.state import State
from tests.core import naive

LABELS = Labels.flat(3)
LOSSES = {"hinge": Hinge(), "square": Square(), "structured": Structured(LABELS), "novelty": Novelty()}
STEPS = {
    "explicit": Explicit(0.3, 0.05, 1.3),
    "schedule": Explicit(InvSqrt(0.7), 0.05),
    "implicit": Implicit(0.8, 0.05, 1.3),
    "adaptive": Adaptive(0.3, 0.05, mu=0.2, decay=0.9),
    "adaptive-implicit": Adaptive(0.3, 0.05, mu=0.2, decay=0.9, implicit=True),
}
BUDGETS = {
    "all": Budget(),
    "oldest": Budget(9),
    "smallest": Budget(9, "smallest"),
    "merge": Budget(9, "merge"),
    "project": Budget(9, "project"),
    "window": Budget(window=11),
    "growing": Budget(window=lambda t: t if t <= 20 else int(t**0.8) + 1),
}


def stream(loss: str = "hinge", n: int = 70, seed: int = 0, d: int = 2):
    """Examples with some of them seen again, to the bit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    again = rng.integers(0, n // 2, n // 7)
    X[n // 2 : n // 2 + len(again)] = X[again]
    if loss == "structured":
        return X, rng.integers(0, 3, n)
    if loss == "square":
        return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n)
    return X, None if loss == "novelty" else np.where(X[:, 0] * X[:, 1] + 0.2 * rng.normal(size=n) > 0, 1.0, -1.0)


def as_bytes(state: State) -> bytes:
    """Everything that a state holds, to the bit."""
    arrays = [state.num, state.slots, state.born, state.gram]
    if state.store is not None:
        arrays += [part for part in vars(state.store).values() if isinstance(part, np.ndarray)]
    kept = repr(state.store.items).encode() if hasattr(state.store, "items") else b""
    return b"|".join(a.tobytes() for a in arrays) + kept + bytes(f"{state.m} {state.base} {state.width}", "ascii")


def same(a: State, b: State, tolerance: float = 0.0) -> None:
    """The same model: points in the same order, coefficients, trace, offset, margin, clock."""
    assert (a.t, a.size) == (b.t, b.size)
    np.testing.assert_array_equal(a.points, b.points)
    for ours, theirs in ((a.coef, b.coef), (a.trace_coef, b.trace_coef), (a.offset, b.offset)):
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    for cell in (at.THETA, at.ETA, at.PI, at.N2, at.COUNT):
        np.testing.assert_allclose(a.num[cell], b.num[cell], rtol=tolerance, atol=tolerance)


def part(y, cut):
    return None if y is None else y[cut]


@pytest.fixture(params=["direct", "rows"])
def path(request, monkeypatch):
    """Kernel values computed in the loop, or taken from matrices."""
    if request.param == "rows":
        monkeypatch.setattr(engine, "DIRECT_SIZE", 0)
    return request.param


@pytest.fixture
def rows(monkeypatch):
    """Kernel values from matrices alone: for kernels that would otherwise have to be compiled with every loss."""
    monkeypatch.setattr(engine, "DIRECT_SIZE", 0)


every_step = pytest.mark.parametrize("step", STEPS)
every_budget = pytest.mark.parametrize("budget", BUDGETS)
every_loss = pytest.mark.parametrize("loss", LOSSES)

# --- how a stream is cut does not matter -----------------------------------------------------------------------------------------

MODELS = [Learner(RBF(1.0), LOSSES["hinge"], step, budget) for step in STEPS.values() for budget in BUDGETS.values()]
MODELS += [Learner(RBF(1.0), loss, STEPS["implicit"], BUDGETS["merge"]) for loss in LOSSES.values()]
MODELS += [Learner(RBF(1.0), LOSSES["structured"], step, BUDGETS["oldest"]) for step in STEPS.values()]
MODELS += [
    Learner(RBF(1.0), LOSSES["hinge"], STEPS["explicit"], BUDGETS["oldest"], nu=0.3, offset=True),
    Learner(RBF(1.0), LOSSES["hinge"], STEPS["adaptive"], BUDGETS["oldest"], nu=0.3, offset=True),
    Learner(RBF(1.0), LOSSES["novelty"], STEPS["explicit"], BUDGETS["window"], nu=0.3),
    Learner(RBF(1.0), LOSSES["structured"], STEPS["implicit"], BUDGETS["smallest"], offset=True),
    Learner(RBF(1.0), LOSSES["structured"], Implicit(0.8, 0.05, exact=True), BUDGETS["project"]),
    onkel.alma(RBF(1.0)),
]
KINDS = {type(value): name for name, value in LOSSES.items()}


@settings(max_examples=120)
@given(
    model=st.sampled_from(MODELS),
    cuts=st.lists(st.integers(1, 69), max_size=8).map(sorted),
    seed=st.integers(0, 2),
    direct=st.sampled_from([0, 24_000]),
)
def test_chunking_does_not_matter(model, cuts, seed, direct):
    X, y = stream(KINDS[type(model.loss)], seed=seed)
    before = engine.DIRECT_SIZE
    try:
        engine.DIRECT_SIZE = direct
        whole, trace = model.learn(model.init(), X, y)
        pieces, traces = model.init(), []
        for first, last in zip([0, *cuts], [*cuts, len(X)]):
            if first < last:
                pieces, some = model.learn(pieces, X[first:last], part(y, slice(first, last)))
                traces.append(some)
    finally:
        engine.DIRECT_SIZE = before
    # in the loop nothing depends on the block, except in which order growing room is filled; products of matrices round by shape
    tolerance = 0.0 if direct and not callable(model.budget.window) else 1e-7 if model.budget.drop == "project" else 1e-9
    same(whole, pieces, tolerance)
    for name in trace._fields:
        joined = np.concatenate([getattr(some, name) for some in traces])
        np.testing.assert_allclose(joined, getattr(trace, name), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("model", MODELS[::3], ids=[f"model{i}" for i in range(len(MODELS[::3]))])
def test_one_row_at_a_time_is_the_same(model):
    X, y = stream(KINDS[type(model.loss)])
    y = np.ones(len(X)) if y is None else y
    whole, trace = model.learn(model.init(), X, y)
    rows, _ = model.learn(model.init(), X[:1], y[:1])
    if not single.is_open(model, rows):
        assert model.fixed_eta is None or model.budget.size is None
        return
    learn, score, best = single.learning(model, rows), single.scoring(model, rows), single.scoring(model, rows, best=True)
    for t in range(1, len(X)):
        scores = np.atleast_1d(trace.scores[t])
        np.testing.assert_allclose(score(X[t]), scores[0], rtol=1e-12, atol=1e-14)
        assert scores[best(X[t])] == pytest.approx(scores.max(), rel=1e-12, abs=1e-14)
        assert learn(X[t], float(y[t])) >= 0
    same(whole, rows)


@every_step
@pytest.mark.parametrize("limit", [50, 300])  # four times as many numbers, with few features
def test_a_model_that_outgrows_the_loop_moves_to_matrices(step, limit, monkeypatch):
    X, y = stream(n=700)
    learner = Learner(RBF(0.5), Hinge(), STEPS[step])
    a, _ = learner.learn(learner.init(), X, y)
    monkeypatch.setattr(engine, "DIRECT_SIZE", limit)
    b = learner.init()
    for first in range(0, 700, 50):
        b, _ = learner.learn(b, X[first : first + 50], y[first : first + 50])
    assert a.store is None
    assert b.store is not None
    same(a, b, 1e-8)


# --- what learning and scoring leave alone ---------------------------------------------------------------------------------------


@every_loss
@every_step
def test_scoring_changes_nothing_and_an_old_state_stays_valid(loss, step, path):
    X, y = stream(loss)
    learner = Learner(RBF(1.0), LOSSES[loss], STEPS[step], Budget(9))
    old, _ = learner.learn(learner.init(), X[:40], part(y, slice(40)))
    before = as_bytes(old)
    scores = learner.score(old, X)
    assert as_bytes(old) == before
    new, _ = learner.learn(old, X[40:], part(y, slice(40, None)))
    assert as_bytes(old) == before
    np.testing.assert_array_equal(learner.score(old, X), scores)
    twice, _ = learner.learn(old, X[40:], part(y, slice(40, None)))
    assert as_bytes(twice) == as_bytes(new)
    for clone in (copy.deepcopy(old), pickle.loads(pickle.dumps(old)), old.copy()):
        assert as_bytes(clone) == before
        same(learner.learn(clone, X[40:], part(y, slice(40, None)))[0], new)


def test_a_row_learned_in_a_copy_leaves_the_original(path):
    X, y = stream()
    learner = Learner(RBF(1.0), Hinge(), STEPS["implicit"], Budget(9, "merge"))
    old, _ = learner.learn(learner.init(), X[:40], y[:40])
    if not single.is_open(learner, old):
        return
    single.learning(learner, old)(X[40], y[40])
    before, clone = as_bytes(old), old.copy()
    learn = single.learning(learner, clone)
    for t in range(41, 60):
        assert learn(X[t], y[t]) >= 0
    assert as_bytes(old) == before
    assert clone.t == 60


@every_step
@every_budget
def test_budgets_hold_and_memory_is_what_it_says(step, budget, path):
    X, y = stream(n=200)
    learner = Learner(RBF(1.0), Hinge(), STEPS[step], BUDGETS[budget])
    state = learner.init()
    held = []
    for first in range(0, 200, 20):
        state, trace = learner.learn(state, X[first : first + 20], y[first : first + 20])
        assert trace.size[-1] == state.size == len(state.points) == len(state.coef)
        reach = {"window": 11, "growing": 200**0.8 + 2, "all": 200}.get(budget, 9)
        assert (trace.size <= reach).all()
        parts = [state.num, state.slots, state.born, state.gram]
        parts += [] if state.store is None else [a for a in vars(state.store).values() if isinstance(a, np.ndarray)]
        assert state.nbytes == sum(a.nbytes for a in parts)
        held.append(state.nbytes)
    if budget in ("oldest", "smallest", "merge", "project"):
        assert len(set(held)) == 1
        assert state.size == 9


def test_only_what_was_learned_in_the_last_steps_is_in_a_window(path):
    X, y = stream(n=60)
    learner = Learner(RBF(1.0), Hinge(), STEPS["implicit"], Budget(window=7))
    state, _ = learner.learn(learner.init(), X, y)
    kept = {tuple(point) for point in state.points}
    assert kept <= {tuple(point) for point in X[-7:]}


# --- one algorithm is another ----------------------------------------------------------------------------------------------------


def run(learner, X, y, weight=None):
    return learner.learn(learner.init(), X, y, weight)


def test_passive_aggressive_is_ilk_without_forgetting():
    X, y = stream()
    for C in (0.2, 1.0, 5.0):
        a, b = run(onkel.pa(RBF(1.0), C=C), X, y), run(onkel.ilk(RBF(1.0), Hinge(), lam=0.0, C=C), X, y)
        same(a[0], b[0])
        scores, expected = np.zeros(len(X)), []  # and the rule of PA-I as it is usually written
        for t in range(len(X)):
            expected.append(min(C, max(0.0, 1.0 - y[t] * scores[t])) * y[t])
            scores += expected[-1] * RBF(1.0)(X[t : t + 1], X)[0]
        np.testing.assert_allclose(a[0].coef, [c for c in expected if c], rtol=1e-9)


@pytest.mark.parametrize("step", ["explicit", "implicit", "adaptive", "adaptive-implicit"])
def test_multiclass_hinge_is_structured_on_a_flat_tree(step):
    """A flat tree has the label kernel 1 + delta; the constant part cannot be seen, since steps sum to nothing."""
    X, y = stream("structured")
    flat, tree, plain = (Learner(RBF(1.0), Structured(labels), STEPS[step], Budget(9)) for labels in
                         (LABELS, Labels.tree([-1, 0, 0, 0]), Labels(1.0 - np.eye(3))))  # fmt: skip
    a, b, c = run(flat, X, y), run(tree, X, y), run(plain, X, y)
    same(a[0], c[0])
    same(a[0], b[0], 1e-9)
    np.testing.assert_allclose(a[1].scores, b[1].scores, rtol=1e-9, atol=1e-9)


def test_multiclass_hinge_as_it_is_usually_written():
    X, y = stream("structured")
    eta, lam = 0.3, 0.05
    state, trace = run(onkel.norma(RBF(1.0), Structured(LABELS), eta=eta, lam=lam), X, y)
    A, K = np.zeros((len(X), 3)), RBF(1.0)(X)
    for t in range(len(X)):
        scores = K[t] @ A
        np.testing.assert_allclose(trace.scores[t], scores, atol=1e-12)
        others = np.where(np.arange(3) == y[t], -np.inf, scores)
        best = int(np.argmax(others))
        assert trace.loss[t] == pytest.approx(max(0.0, 1.0 + others[best] - scores[y[t]]), abs=1e-12)
        assert trace.mistake[t] == (scores[y[t]] <= others[best])
        A *= 1 - eta * lam
        if 1.0 + others[best] - scores[y[t]] > 0:
            A[t, y[t]], A[t, best] = eta, -eta
    np.testing.assert_allclose(state.coef, A[np.abs(A).max(1) > 0], atol=1e-12)


@pytest.mark.parametrize(
    ("many", "two"), [(Structured(Labels.flat(2)), Hinge()), (Softmax(Labels.flat(2)), Logistic())], ids=["hinge", "logistic"]
)
@pytest.mark.parametrize("exact", [False, True])
def test_two_classes_are_binary_with_c_doubled(many, two, exact):
    X, y = stream()
    implicit = Implicit(0.8, 0.05, 0.6, exact), Implicit(0.8, 0.05, 1.2)
    for first, second in (implicit, (Explicit(0.2, 0.05, 0.6), Explicit(0.2, 0.05, 1.2))):
        a, ta = run(Learner(RBF(1.0), many, first, Budget(9, "merge")), X, (y > 0).astype(int))
        b, tb = run(Learner(RBF(1.0), two, second, Budget(9, "merge")), X, y)
        np.testing.assert_allclose(ta.scores[:, 1] - ta.scores[:, 0], tb.scores, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(ta.loss, tb.loss, rtol=1e-9, atol=1e-10)
        np.testing.assert_array_equal(ta.mistake, tb.mistake)
        np.testing.assert_array_equal(a.points, b.points)
        np.testing.assert_allclose(a.coef[:, 1] - a.coef[:, 0], b.coef, rtol=1e-9, atol=1e-10)


@every_loss
def test_step_regularisation_and_cost_are_two_parameters(loss):
    """(eta, lam, C) and (1, eta lam, eta C) are the same implicit step."""
    X, y = stream(loss)
    eta, lam, C = 0.4, 0.07, 1.7
    a = run(Learner(RBF(1.0), LOSSES[loss], Implicit(eta, lam, C), Budget(9, "merge")), X, y)
    b = run(Learner(RBF(1.0), LOSSES[loss], Implicit(1.0, eta * lam, eta * C), Budget(9, "merge")), X, y)
    same(a[0], b[0], 1e-10)


def test_perceptron_mistakes_do_not_depend_on_the_step():
    X, y = stream(n=300)
    runs = [run(onkel.norma(RBF(1.0), Hinge(0.0), eta=eta, lam=0.0), X, y) for eta in (0.125, 1.0, 64.0)]
    for state, trace in runs:
        np.testing.assert_array_equal(trace.mistake, runs[1][1].mistake)
        np.testing.assert_allclose(state.coef / np.abs(state.coef[0]), runs[1][0].coef)
    same(runs[1][0], run(onkel.perceptron(RBF(1.0)), X, y)[0])


def test_novelty_is_a_hinge_with_one_sign():
    X, _ = stream()
    for step in STEPS.values():
        a = run(Learner(RBF(1.0), Novelty(), step, Budget(9)), X, None)
        b = run(Learner(RBF(1.0), Hinge(), step, Budget(9)), X, np.ones(len(X)))
        same(a[0], b[0])


@every_loss
def test_weight_is_a_factor_of_c(loss, path):
    """All weights w: C times w. Each its own: as if learners with C w_t took turns. Zero: nothing but decay."""
    X, y = stream(loss)
    for step in (Implicit(0.8, 0.05, 1.3), Explicit(0.3, 0.05, 1.3), Adaptive(0.3, 0.05, 1.3, mu=0.2)):
        model = Learner(RBF(1.0), LOSSES[loss], step, Budget(9, "merge"))
        doubled = Learner(RBF(1.0), LOSSES[loss], step._replace(C=2.6), Budget(9, "merge"))
        same(run(model, X, y, 2.0)[0], run(doubled, X, y)[0], 1e-12)
    model = Learner(RBF(1.0), LOSSES[loss], Implicit(0.8, 0.05), Budget(9, "merge"))
    weight = np.random.default_rng(3).uniform(0.2, 2.0, len(X))
    turns = model.init()
    for t in range(len(X)):
        one = Learner(RBF(1.0), LOSSES[loss], Implicit(0.8, 0.05, weight[t]), Budget(9, "merge"))
        turns, _ = one.learn(turns, X[t : t + 1], part(y, slice(t, t + 1)))
    same(run(model, X, y, weight)[0], turns, 1e-9)
    state, _ = run(model, X, y)
    for idle_step in (Implicit(0.8, 0.05), Implicit(0.8, 0.05, exact=True)):
        idle, _ = Learner(RBF(1.0), LOSSES[loss], idle_step, Budget(9, "merge")).learn(state, X[:5], part(y, slice(5)), 0.0)
        np.testing.assert_allclose(idle.coef, state.coef / (1 + 0.8 * 0.05) ** 5, rtol=1e-12)


@pytest.mark.parametrize("offset", [False, True])
def test_weight_is_a_factor_of_an_explicit_step_that_forgets_nothing(offset):
    """lam = 0: weights w_t are steps eta w_t, in f, in b and in the margin of the nu-trick."""
    X, y = stream()
    weight = np.random.default_rng(3).uniform(0.2, 2.0, len(X))
    a = run(Learner(RBF(1.0), Hinge(), Explicit(0.3, 0.0), Budget(9), 0.3, offset), X, y, weight)
    b = run(Learner(RBF(1.0), Hinge(), Explicit(lambda t: 0.3 * weight[t - 1], 0.0), Budget(9), 0.3, offset), X, y)
    same(a[0], b[0], 1e-12)


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
