"""Good input in every form that it comes in: lists, integers, views, tables, sparse formats. The model is the same, and what the
user gave is left alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import onkel
from onkel import RBF, Hinge, Labels, Novelty, Square, Structured
from tests.core.support import same

RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(60, 3)) * 4)  # whole numbers, so that every form can hold them
SIGNS = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
LEARNER = onkel.silk(RBF(3.0), Hinge(), budget=9, drop="merge")
STATE, TRACE = LEARNER.learn(LEARNER.init(), X, SIGNS)

wide = np.zeros((60, 7))
wide[:, ::2][:, :3] = X
FORMS = {
    "lists": X.tolist(),
    "tuples": tuple(map(tuple, X)),
    "integers": X.astype(np.int64),
    "small integers": X.astype(np.int8),
    "column order": np.asfortranarray(X),
    "a view with gaps": wide[:, ::2][:, :3],
    "backwards": X[::-1][::-1],
    "big endian": X.astype(">f8"),
    "objects": X.astype(object),
    "a data frame": pd.DataFrame(X, columns=["a", "b", "c"]),
    "a data frame of integers": pd.DataFrame(X.astype(int)),
}
TARGETS = {
    "integers": SIGNS.astype(int),
    "small integers": SIGNS.astype(np.int8),
    "a list": SIGNS.tolist(),
    "a series": pd.Series(SIGNS, index=np.arange(60)[::-1]),
    "objects": SIGNS.astype(object),
    "single precision": SIGNS.astype(np.float32),
}


@pytest.mark.parametrize("form", FORMS)
def test_points_in_any_form(form):
    given = FORMS[form]
    before = np.array(given, dtype=float)
    state, trace = LEARNER.learn(LEARNER.init(), given, SIGNS)
    same(state, STATE)
    np.testing.assert_array_equal(trace.scores, TRACE.scores)
    np.testing.assert_array_equal(LEARNER.score(STATE, given), LEARNER.score(STATE, X))
    np.testing.assert_array_equal(np.array(given, dtype=float), before)


def test_read_only_points():
    frozen, targets = X.copy(), SIGNS.copy()
    frozen.flags.writeable = targets.flags.writeable = False
    same(LEARNER.learn(LEARNER.init(), frozen, targets)[0], STATE)


@pytest.mark.parametrize("form", TARGETS)
def test_targets_in_any_form(form):
    same(LEARNER.learn(LEARNER.init(), X, TARGETS[form])[0], STATE)


def test_later_changes_to_the_given_arrays_do_not_reach_the_model():
    for direct in (True, False):
        mine, targets = X.copy(), SIGNS.copy()
        learner = LEARNER if direct else onkel.silk(lambda A, B: RBF(3.0)(A, B), Hinge(), budget=9, drop="merge")
        state, trace = learner.learn(learner.init(), mine, targets)
        scores = learner.score(state, X)
        mine[:] = 7.0
        targets[:] = 0.0
        trace.scores[:] = 0.0
        state.points[:] = 0.0
        state.coef[:] = 0.0
        np.testing.assert_array_equal(learner.score(state, X), scores)


@pytest.mark.parametrize(
    ("given", "kept"), [(np.float16, np.float32), (np.float32, np.float32), (np.int32, np.float64), (bool, np.float64)]
)
def test_precision_follows_the_first_block(given, kept):
    state, _ = LEARNER.learn(LEARNER.init(), X.astype(given), SIGNS)
    assert state.points.dtype == kept
    state, _ = LEARNER.learn(state, X, SIGNS)
    assert state.points.dtype == kept


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_matrix, sp.lil_matrix, sp.dok_array])
def test_sparse_forms(form):
    state, trace = LEARNER.learn(LEARNER.init(), form(X), SIGNS)
    np.testing.assert_allclose(trace.scores, TRACE.scores, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(state.points.toarray(), STATE.points)


def test_sparse_rows_with_wide_indices_stored_zeros_and_single_precision():
    wide_index = sp.csr_matrix(X)
    wide_index.indices, wide_index.indptr = wide_index.indices.astype(np.int64), wide_index.indptr.astype(np.int64)
    zeros = sp.csr_matrix((X.ravel(), np.tile(np.arange(3), 60), np.arange(0, 181, 3)), shape=X.shape)  # every zero is stored
    for given in (wide_index, zeros):
        _, trace = LEARNER.learn(LEARNER.init(), given, SIGNS)
        np.testing.assert_allclose(trace.scores, TRACE.scores, rtol=1e-9, atol=1e-12)
    single, _ = LEARNER.learn(LEARNER.init(), sp.csr_matrix(X, dtype=np.float32), SIGNS)
    assert single.points.dtype == np.float32


def test_one_example_one_feature():
    learner = onkel.silk(RBF(), Hinge(), budget=3)
    state, trace = learner.learn(learner.init(), [[0.5]], [1])
    assert trace.scores.shape == (1,)
    np.testing.assert_array_equal(state.points, [[0.5]])
    np.testing.assert_allclose(state.coef, [1 / 1.01])


def test_shapes_of_what_comes_back():
    labels = onkel.silk(RBF(3.0), Structured(Labels.flat(3)), budget=9)
    state, trace = labels.learn(labels.init(), X, np.arange(60) % 3)
    assert trace.scores.shape == (60, 3)
    assert labels.score(state, X[:4]).shape == (4, 3)
    assert state.coef.shape == (9, 3)
    assert np.shape(state.offset) == (3,)
    for column, kind in (("loss", float), ("mistake", bool), ("eta", float), ("theta", float), ("size", np.integer)):
        assert getattr(trace, column).shape == (60,)
        assert np.issubdtype(getattr(trace, column).dtype, kind)
    assert TRACE.scores.shape == (60,)
    assert STATE.coef.shape == (9,)
    assert np.ndim(STATE.offset) == 0
    assert STATE.t == 60


def test_a_fresh_state_knows_nothing():
    state = LEARNER.init()
    assert (state.t, state.size, len(state.coef), state.offset) == (0, 0, 0, 0.0)
    np.testing.assert_array_equal(LEARNER.score(state, X), np.zeros(60))
    labels = onkel.norma(RBF(3.0), Structured(Labels.flat(3)))
    np.testing.assert_array_equal(labels.score(labels.init(), X), np.zeros((60, 3)))


def test_novelty_asks_for_no_targets():
    learner = onkel.norma(RBF(3.0), Novelty(), eta=0.1)
    same(learner.learn(learner.init(), X)[0], learner.learn(learner.init(), X, None)[0])


def test_one_weight_for_all():
    learner = onkel.norma(RBF(3.0), Square(), budget=9)
    a, _ = learner.learn(learner.init(), X, SIGNS, 0.5)
    b, _ = learner.learn(learner.init(), X, SIGNS, np.full(60, 0.5))
    c, _ = learner.learn(learner.init(), X, SIGNS, [0.5] * 60)
    same(a, b)
    same(a, c)


def test_a_block_longer_than_any_piece_of_the_loop(monkeypatch):
    """More rows than are handed to the loop at once, in both ways to kernel values."""
    n = 20_000
    many = np.random.default_rng(1).normal(size=(n, 2))
    y = np.where(many[:, 0] > 0, 1.0, -1.0)
    learner = onkel.silk(RBF(1.0), Hinge(), budget=5)
    whole, trace = learner.learn(learner.init(), many, y)
    assert len(trace.loss) == n
    pieces = learner.init()
    for part in np.array_split(np.arange(n), 7):
        pieces, _ = learner.learn(pieces, many[part], y[part])
    same(whole, pieces)
    assert learner.score(whole, many).shape == (n,)
