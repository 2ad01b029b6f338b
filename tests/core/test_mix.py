"""The weighted mean of several states against brute force in the kernel's space: its scores, and the norm of what went."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import onkel
from onkel import RBF, Adaptive, Budget, Hinge, Implicit, Labels, Learner, Structured
from onkel.core.loop import layout as at
from onkel.core.single import is_open
from tests.core.support import as_bytes
from tests.core.test_extending import Alike

RELATED = Labels((1.0 - np.eye(3)), [[2.0, 0.5, 0.1], [0.5, 1.0, 0.3], [0.1, 0.3, 1.5]])
HINGE = Hinge()
ADAPTIVE = Adaptive(0.3, 0.05, mu=0.2, decay=0.9)
LEARNERS = {
    "all": Learner(RBF(1.0), HINGE, Implicit(0.8, 0.02), offset=True),
    "oldest": Learner(RBF(1.0), HINGE, Implicit(0.8, 0.02), Budget(12)),
    "smallest": Learner(RBF(1.0), HINGE, Implicit(0.8, 0.02), Budget(12, "smallest"), offset=True),
    "merge": Learner(RBF(1.0), HINGE, Implicit(0.8, 0.02), Budget(12, "merge")),
    "project": Learner(RBF(0.2), HINGE, Implicit(0.8, 0.02), Budget(12, "project")),
    "window": Learner(RBF(1.0), HINGE, Implicit(0.8, 0.02), Budget(window=15)),
    "adaptive": Learner(RBF(1.0), HINGE, ADAPTIVE, Budget(12, "merge"), nu=0.3),
    "labels": Learner(RBF(1.0), Structured(Labels.flat(3)), Implicit(0.8, 0.02), Budget(12, "merge")),
    "related": Learner(RBF(0.2), Structured(RELATED), Implicit(0.8, 0.02), Budget(12, "project")),
}
every_learner = pytest.mark.parametrize("learner", LEARNERS.values(), ids=LEARNERS.keys())
ROUNDING = {"rtol": 1e-12, "atol": 1e-12}
NEW = np.random.default_rng(99).normal(size=(50, 2))


def stream(learner, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, rng.integers(0, 3, n) if learner.loss.labelled else np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)


def three(learner):
    """States of streams of different lengths."""
    return [learner.learn(learner.init(), *stream(learner, 40 + 13 * i, seed=i))[0] for i in range(3)]


def gram_of(Z, sigma=1.0):
    return np.exp(-((Z[:, None] - Z[None]) ** 2).sum(-1) / (2 * sigma**2))


def kappa_of(learner):
    return np.eye(1) if learner.scalar else learner.loss.labels.kernel


def distance(learner, a, b):
    """The norm of the difference of two expansions."""
    Z = np.concatenate([a.points, b.points]).astype(float)
    d = np.concatenate([a.coef.reshape(a.size, -1), -b.coef.reshape(b.size, -1)])
    K = gram_of(Z, learner.kernel.sigma)
    return np.sqrt(max(0.0, np.trace(d.T @ K @ d @ kappa_of(learner))))


@every_learner
def test_scores_are_the_weighted_mean(learner, path):
    states, w = three(learner), np.array([1.0, 2.5, 0.25])
    before = [as_bytes(state) for state in states]
    mixed, lost = onkel.mix(learner, states, w)
    scores = np.array([learner.score(state, NEW) for state in states])
    np.testing.assert_allclose(learner.score(mixed, NEW), np.tensordot(w / w.sum(), scores, 1), **ROUNDING)
    assert lost == 0.0
    assert mixed.t == sum(state.t for state in states)
    assert mixed.size == sum(state.size for state in states)
    np.testing.assert_allclose(learner.score(onkel.mix(learner, states)[0], NEW), scores.mean(0), **ROUNDING)
    assert [as_bytes(state) for state in states] == before


@every_learner
def test_linear_and_order_free(learner):
    a, b, c = three(learner)
    score = lambda state: learner.score(state, NEW)  # noqa: E731
    mixed = score(onkel.mix(learner, [a, b, c], [1, 2, 3])[0])
    np.testing.assert_allclose(score(onkel.mix(learner, [c, a, b], [3, 1, 2])[0]), mixed, **ROUNDING)
    nested = onkel.mix(learner, [onkel.mix(learner, [a, b], [1, 2])[0], c])[0]
    np.testing.assert_allclose(score(nested), mixed, **ROUNDING)
    np.testing.assert_allclose(score(onkel.mix(learner, [a, b], [1, 0])[0]), score(a), **ROUNDING)
    assert onkel.mix(learner, [a, b], [1, 0])[0].size == a.size


@every_learner
def test_one_state_equals_itself_to_the_bit(learner):
    state = three(learner)[0]
    mixed, lost = onkel.mix(learner, [state], [0.3], budget=1000)
    assert as_bytes(mixed) == as_bytes(state)
    assert lost == 0.0
    assert mixed is not state


@every_learner
def test_equal_points_become_one(learner):
    """Partitions that went on from one model hold its points in common."""
    state = three(learner)[0]
    if learner.budget.size is None:
        state = three(learner)[1]
    mixed, _ = onkel.mix(learner, [state, state, state])
    assert mixed.size == state.size
    np.testing.assert_allclose(mixed.coef, state.coef, **ROUNDING)
    np.testing.assert_array_equal(mixed.points, state.points)


def reduced_by_hand(learner, mixed, size):
    """Term after term by the definition of the rule: coefficients over all points, zero where a term went."""
    Z, a = mixed.points, mixed.coef.reshape(mixed.size, -1).copy()
    K = gram_of(Z, learner.kernel.sigma)
    live = list(range(len(Z)))
    while len(live) > size:
        j = live[0] if learner.budget.drop == "oldest" else min(live, key=lambda i: np.abs(a[i]).max())
        live.remove(j)
        if learner.budget.drop == "merge":
            a[max(live, key=lambda i: K[i, j])] += max(K[i, j] for i in live) * a[j]
        elif learner.budget.drop == "project":
            a[live] += np.linalg.solve(K[np.ix_(live, live)], K[live, j])[:, None] * a[j]
        a[j] = 0.0
    return live, a[live]


@pytest.mark.parametrize("name", ["all", "oldest", "smallest", "merge", "project", "window", "adaptive", "labels", "related"])
@pytest.mark.parametrize("size", [20, 12, 3])
def test_reduced_by_the_learners_own_rule(name, size):
    learner = LEARNERS[name]
    states = three(learner)
    exact, _ = onkel.mix(learner, states, [1, 2, 3])
    mixed, lost = onkel.mix(learner, states, [1, 2, 3], budget=size)
    live, coef = reduced_by_hand(learner, exact, size)
    np.testing.assert_array_equal(mixed.points, exact.points[live])
    np.testing.assert_allclose(mixed.coef.reshape(size, -1), coef, rtol=1e-6, atol=1e-6)
    assert lost == pytest.approx(distance(learner, exact, mixed), rel=1e-6, abs=1e-6)
    assert lost > 0
    assert mixed.t == exact.t
    assert np.array_equal(mixed.offset, exact.offset)
    assert onkel.mix(learner, states, budget=10**6)[1] == 0.0


def test_a_projection_is_the_nearest_even_where_points_nearly_coincide():
    learner = Learner(RBF(3.0), HINGE, Implicit(0.8, 0.02), Budget(30, "project"))
    states = three(learner)
    exact, _ = onkel.mix(learner, states)
    for size in (30, 10, 3):
        mixed, lost = onkel.mix(learner, states, budget=size)
        Z, P = exact.points, mixed.points
        values = gram_of(np.concatenate([Z, P]), 3.0)
        cross, inside = values[len(Z) :, : len(Z)], values[len(Z) :, len(Z) :]
        best = np.linalg.pinv(inside, rcond=1e-12, hermitian=True) @ cross @ exact.coef
        d = np.concatenate([exact.coef, -best])
        assert lost <= np.sqrt(max(0.0, d @ values @ d)) + 1e-3 * np.sqrt(exact.coef @ gram_of(Z, 3.0) @ exact.coef)
        assert lost == pytest.approx(distance(learner, exact, mixed), rel=1e-4, abs=1e-5)


@every_learner
def test_learning_goes_on(learner, path):
    """The first thing is to reduce; what comes then is as if the reduced state had come."""
    states, more = three(learner), stream(learner, 45, seed=7)
    mixed, _ = onkel.mix(learner, states)
    most = learner.budget.limit()
    assert mixed.size <= most or not is_open(learner, mixed)  # rows one by one are not learned before it is reduced
    on, _ = learner.learn(mixed, *more)
    assert on.t == mixed.t + 45
    assert on.size <= most
    if learner.budget.size is not None:
        reduced, lost = onkel.mix(learner, states, budget=learner.budget.size)
        assert lost > 0
        assert as_bytes(learner.learn(reduced, *more)[0]) == as_bytes(on)
    a, b = stream(learner, 45, seed=7)
    again = learner.learn(learner.learn(mixed, a[:1], b[:1])[0], a[1:], b[1:])[0]
    np.testing.assert_allclose(again.coef, on.coef, **ROUNDING)
    assert onkel.learn_many([learner], *more, states=[mixed])[0][0].size == on.size


def test_numbers_beside_the_points():
    learner = LEARNERS["adaptive"]
    states, w = three(learner), np.array([0.5, 0.3, 0.2])
    mixed, _ = onkel.mix(learner, states, w)
    for name in ("THETA", "ETA", "ETA_THETA"):
        cell = getattr(at, name)
        assert mixed.num[cell] == pytest.approx(sum(w * [state.num[cell] for state in states]), rel=1e-12)
    assert not mixed.trace_coef.any()
    f = mixed.coef[:, None]
    K = gram_of(mixed.points)
    assert mixed.num[at.N2] == pytest.approx(float((f.T @ K @ f)[0, 0]), rel=1e-9)
    assert mixed.num[at.PI] == 0.0
    learner = LEARNERS["smallest"]
    states = three(learner)
    assert onkel.mix(learner, states, w)[0].offset == pytest.approx(sum(w * [state.offset for state in states]), rel=1e-12)


def test_alma_keeps_its_count_and_its_norm():
    learner = onkel.alma(RBF(1.0))
    states = three(learner)
    mixed, _ = onkel.mix(learner, states)
    assert mixed.num[at.COUNT] - 1 == sum(state.num[at.COUNT] - 1 for state in states)
    assert mixed.num[at.N2] <= 1.0 + 1e-12
    one = onkel.mix(learner, [states[0], states[0]])[0]
    assert one.num[at.N2] == pytest.approx(states[0].num[at.N2], rel=1e-9)


def test_points_are_as_old_as_if_examples_had_come_in_turns():
    learner = Learner(RBF(100.0), onkel.Square(), Implicit(0.5, 0.0))
    X = np.arange(7.0)[:, None]
    a, b = (learner.learn(learner.init(), X[part], np.ones(len(X[part])))[0] for part in (slice(0, 2), slice(2, 7)))
    mixed, _ = onkel.mix(learner, [b, a])
    assert mixed.points[:, 0].tolist() == [2.0, 3.0, 4.0, 0.0, 5.0, 1.0, 6.0]
    assert mixed.born[mixed.order].tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_ids_stay_with_their_points():
    learner = LEARNERS["smallest"]
    (X, y), (Z, z) = stream(learner, 40), stream(learner, 40, seed=1)
    a, _ = learner.learn(learner.init(), X, y, ids=[f"a{i}" for i in range(40)])
    b, _ = learner.learn(learner.init(), Z, z, ids=[f"b{i}" for i in range(40)])
    names = {x.tobytes(): f"{who}{i}" for who, rows in (("a", X), ("b", Z)) for i, x in enumerate(rows)}
    for budget in (None, 7):
        mixed, _ = onkel.mix(learner, [a, b], budget=budget)
        assert mixed.ids == [names[x.tobytes()] for x in mixed.points]
    c, _ = learner.learn(learner.init(), X, y, ids=[f"c{i}" for i in range(40)])
    assert set(onkel.mix(learner, [a, c])[0].ids) == set(a.ids) | set(c.ids)  # equal points of different people stay apart


def test_float32():
    learner = LEARNERS["merge"]
    states = [learner.learn(learner.init(), X.astype(np.float32), y)[0] for X, y in (stream(learner, seed=i) for i in range(2))]
    mixed, _ = onkel.mix(learner, states)
    assert mixed.slots.dtype == np.float32
    new = NEW.astype(np.float32)
    np.testing.assert_allclose(learner.score(mixed, new), np.mean([learner.score(s, new) for s in states], 0), atol=1e-5)
    small, lost = onkel.mix(learner, states, budget=5)
    assert lost == pytest.approx(distance(learner, mixed, small), rel=1e-4)
    assert small.slots.dtype == np.float32
    other = learner.learn(learner.init(), *stream(learner))[0]
    with pytest.raises(ValueError, match=r"float64 numbers, but states\[0\] dense rows of 2 float32"):
        onkel.mix(learner, [states[0], other])


def strings(X, Z):
    return np.array([[np.exp(-abs(len(x) - len(z)) - (x[0] != z[0])) for z in Z] for x in X], dtype=float)


def test_sparse_rows_and_objects():
    learner = LEARNERS["merge"]
    (X, y), (Z, z) = stream(learner, 40), stream(learner, 40, seed=1)
    dense = [learner.learn(learner.init(), a, b)[0] for a, b in ((X, y), (Z, z))]
    sparse = [learner.learn(learner.init(), csr_matrix(a), b)[0] for a, b in ((X, y), (Z, z))]
    for budget in (None, 6):
        a, b = (onkel.mix(learner, states, [1, 2], budget=budget) for states in (dense, sparse))
        np.testing.assert_allclose(learner.score(a[0], NEW), learner.score(b[0], csr_matrix(NEW)), rtol=1e-9, atol=1e-9)
        assert a[1] == pytest.approx(b[1], rel=1e-9)
    assert onkel.mix(learner, [sparse[0], sparse[0]])[0].size == sparse[0].size
    words = Learner(strings, HINGE, Implicit(0.8, 0.02), Budget(4, "merge"))
    texts = [["a", "bb", "accc", "bbbbb", "aaaaaa", "b"], ["bbbb", "a", "aaa", "bb", "ab"]]
    states = [words.learn(words.init(), t, [1.0 if x[0] == "a" else -1.0 for x in t])[0] for t in texts]
    mixed, lost = onkel.mix(words, states)
    expected = np.mean([words.score(state, texts[0]) for state in states], 0)
    np.testing.assert_allclose(words.score(mixed, texts[0]), expected, **ROUNDING)
    assert len(set(mixed.points)) == mixed.size > 4
    assert lost == 0.0
    assert words.learn(mixed, ["zz"], [1.0])[0].size == 4
    for other in (dense[0], states[0]):
        with pytest.raises(ValueError, match="mix: states"):
            onkel.mix(learner, [sparse[0], other])


@every_learner
def test_saved_and_loaded(learner, path, tmp_path):
    for budget in (None, 9):
        mixed, _ = onkel.mix(learner, three(learner), budget=budget)
        onkel.save((learner, mixed), tmp_path / "m.onkel")
        _, loaded = onkel.load(tmp_path / "m.onkel")
        pickled = pickle.loads(pickle.dumps(mixed))
        for again in (loaded, pickled):
            np.testing.assert_array_equal(learner.score(again, NEW), learner.score(mixed, NEW))
            more = stream(learner, 30, seed=5)
            assert as_bytes(learner.learn(again, *more)[0]) == as_bytes(learner.learn(mixed, *more)[0])


def test_states_without_examples():
    learner = LEARNERS["smallest"]
    state = three(learner)[0]
    mixed, _ = onkel.mix(learner, [state, learner.init()])
    np.testing.assert_allclose(learner.score(mixed, NEW), learner.score(state, NEW) / 2, **ROUNDING)
    nothing, lost = onkel.mix(learner, [learner.init(), learner.init()])
    assert as_bytes(nothing) == as_bytes(learner.init())
    assert lost == 0.0


@pytest.mark.parametrize("weights", [[1, -1], [1, 2, 3], [0, 0], [1, np.nan], [1, np.inf], "ab", [[1, 1]], 2.0, [None, 1]])
def test_weights_are_refused(weights):
    learner = LEARNERS["merge"]
    with pytest.raises(ValueError, match="weights must be 2 finite numbers"):
        onkel.mix(learner, three(learner)[:2], weights)


def test_what_cannot_be_mixed():
    learner = LEARNERS["merge"]
    states = three(learner)
    for wrong in ([], states[0], None, 3):
        with pytest.raises(ValueError, match="states must be a list of at least one state"):
            onkel.mix(learner, wrong)
    with pytest.raises(TypeError, match=r"states\[1\] must be a State"):
        onkel.mix(learner, [states[0], 3])
    with pytest.raises(TypeError, match="give the learner"):
        onkel.mix(states, learner)
    for budget in (0, -1, 2.5, True, "ten"):
        with pytest.raises(ValueError, match="budget must be a whole number"):
            onkel.mix(learner, states, budget=budget)
    with pytest.raises(ValueError, match=r"states\[1\]: state: it was made by a learner of another budget"):
        onkel.mix(learner, [states[0], three(LEARNERS["oldest"])[0]])
    wide = learner.learn(learner.init(), np.ones((1, 5)), [1.0])[0]
    with pytest.raises(ValueError, match=r"states\[1\] holds dense rows of 5 float64 numbers"):
        onkel.mix(learner, [states[0], wide])
    own = Learner(RBF(1.0), HINGE, Implicit(0.8, 0.02), Budget(12, Alike()))
    parts = three(own)
    assert onkel.mix(own, parts)[1] == 0.0
    with pytest.raises(ValueError, match=r"cannot take .* at once"):
        onkel.mix(own, parts, budget=5)
