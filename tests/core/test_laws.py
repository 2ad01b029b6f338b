"""Laws that every learner obeys, whatever its step, loss, budget, and way to kernel values."""


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
    Budget,
    Explicit,
    Hinge,
    Implicit,
    Labels,
    Learner,
    Logistic,
    Novelty,
    Softmax,
    Structured,
)  # fmt: skip
from onkel.core import drive as engine
from onkel.core import single
from tests.core.support import (
    BUDGETS,
    KINDS,
    LABELS,
    LOSSES,
    STEPS,
    as_bytes,
    every_budget,
    every_loss,
    every_step,
    part,
    run,
    same,
    stream,
)

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
