"""The product of skinny matrices: the same as BLAS's, for every shape and remainder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import onkel
from onkel.core.machine.blas import one_blas_thread
from onkel.core.points import products


@pytest.mark.parametrize("d", [16, 17, 31, 32, 100, 784])
@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (5, 7), (64, 64), (66, 130), (259, 4), (7, 1000)])
def test_products_are_those_of_blas(rows, columns, d):
    rng = np.random.default_rng(d)
    X, Z = (rng.normal(size=(n, d)).astype(np.float32) for n in (rows, columns + 3))
    K = np.full((rows, columns), np.nan, np.float32)
    products.products(X, Z, K, False)
    expected = X.astype(float) @ Z[:columns].T.astype(float)
    np.testing.assert_allclose(K, expected, atol=2e-6 * d)


@pytest.mark.parametrize("rows", [4, 6, 64, 67])
def test_below_the_diagonal(rows):
    X = np.random.default_rng(0).normal(size=(rows, 33)).astype(np.float32)
    K = np.full((rows, rows), np.nan, np.float32)
    products.products(X, X, K, True)
    below = np.tril_indices(rows)
    np.testing.assert_allclose(K[below], (X @ X.T)[below], atol=1e-4)


def test_a_product_does_not_depend_on_where_it_stands():
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(70, 50)).astype(np.float32), rng.normal(size=(90, 50)).astype(np.float32)
    whole, part = np.empty((70, 90), np.float32), np.empty((13, 21), np.float32)
    products.products(X, Z, whole, False)
    products.products(np.ascontiguousarray(X[5:18]), np.ascontiguousarray(Z[3:24]), part, False)
    np.testing.assert_array_equal(whole[5:18, 3:24], part)


@pytest.mark.parametrize("budget", [40, 700])
def test_learning_is_the_same_with_blas(monkeypatch, budget):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(900, 900 if budget == 40 else 60)).astype(np.float32)
    y = np.sign(X[:, 0])
    learner = onkel.silk(onkel.RBF(0.8 * X.shape[1] ** 0.5), onkel.Hinge(), lam=0.001, budget=budget)
    ours, trace = learner.learn(learner.init(), X, y)
    assert ours.store is not None
    monkeypatch.setattr(products, "WIDE_REGISTERS", False)
    theirs, other = learner.learn(learner.init(), X, y)
    np.testing.assert_allclose(trace.scores, other.scores, atol=2e-4)
    np.testing.assert_array_equal(ours.points, theirs.points)


@pytest.mark.parametrize("dtype", [np.float32, float])
@pytest.mark.parametrize("kernel", [onkel.RBF(12.0), onkel.Laplacian(200.0) + onkel.Linear()])
def test_threads_share_the_rows_of_kernel_matrices(monkeypatch, dtype, kernel):
    X = np.random.default_rng(3).normal(size=(700, 150)).astype(dtype)
    y = np.sign(X[:, 0])
    learner = onkel.norma(kernel, onkel.Logistic(), eta=0.001, lam=0.01, budget=600)
    one, trace = learner.learn(learner.init(), X, y)
    asked = []
    submit = ThreadPoolExecutor.submit
    monkeypatch.setattr(ThreadPoolExecutor, "submit", lambda *given: asked.append(given) or submit(*given))
    three, other = learner.learn(learner.init(), X, y, threads=3)
    assert asked
    near = {"rtol": 1e-12, "atol": 1e-14}
    if dtype == np.float32:  # tiles change no bit, BLAS may in the last digits
        near = {"rtol": 0, "atol": 0} if products.fits(X, 600) else {"rtol": 1e-4, "atol": 1e-6}
    np.testing.assert_allclose(trace.scores, other.scores, **near)
    np.testing.assert_allclose(learner.score(one, X), learner.score(three, X, threads=2), **near)


def test_the_offset_counts_in_every_part_of_a_large_batch():
    X = np.random.default_rng(4).normal(size=(9000, 64))
    learner = onkel.norma(onkel.RBF(8.0), onkel.Logistic(), eta=0.2, lam=0.01, budget=700, offset=True)
    state, _ = learner.learn(learner.init(), X[:900], np.where(X[:900, 0] > -1.5, 1.0, -1.0))
    assert state.store is not None
    assert abs(state.offset) > 0.1
    np.testing.assert_allclose(learner.score(state, X), [learner.score(state, x[None])[0] for x in X], rtol=1e-9)


def test_a_model_that_grows_out_of_the_loop_goes_on_as_before():
    X = np.random.default_rng(6).normal(size=(1500, 60))
    y = np.sign(X[:, 0])
    learner = onkel.ilk(onkel.RBF(7.0), onkel.Logistic(), eta=0.5, lam=0.001)  # no limit: the loop first, then matrices
    state, trace = learner.learn(learner.init(), X, y)
    early, _ = learner.learn(learner.init(), X[:40], y[:40])
    assert early.store is None
    assert state.store is not None
    K = onkel.RBF(7.0)(X)
    for t in (100, 700, 1499):
        part, _ = learner.learn(learner.init(), X[:t], y[:t])
        np.testing.assert_allclose(trace.scores[t], K[t, :t] @ part.coef, rtol=1e-9)


@pytest.mark.skipif(not products.WIDE_REGISTERS, reason="without wide registers BLAS computes, whose last digits may differ")
@pytest.mark.parametrize(("rows", "threads"), [(5, 2), (8, 2), (9, 2), (11, 2), (17, 4), (65, 16)])
def test_no_part_is_too_small_for_tiles(rows, threads):
    X = np.random.default_rng(7).normal(size=(1300, 784)).astype(np.float32)
    learner = onkel.norma(onkel.RBF(28.0), onkel.Logistic(), eta=0.2, lam=0.01, budget=1024)
    state, _ = learner.learn(learner.init(), X, np.sign(X[:, 0]))
    np.testing.assert_array_equal(learner.score(state, X[:rows]), learner.score(state, X[:rows], threads=threads))


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, None, "2"])
def test_threads_must_be_a_number_of_threads(threads):
    learner = onkel.silk(onkel.RBF(1.0), onkel.Hinge(), budget=8)
    X, y = np.ones((3, 2)), np.ones(3)
    with pytest.raises(ValueError, match="threads must be a whole number, at least 1"):
        learner.learn(learner.init(), X, y, threads=threads)
    state, _ = learner.learn(learner.init(), X, y)
    with pytest.raises(ValueError, match="threads must be"):
        learner.score(state, X, threads=threads)


def test_blas_keeps_its_limit_until_the_last_holder_leaves():
    from threadpoolctl import threadpool_info

    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    before = threads()
    with one_blas_thread():
        with one_blas_thread():
            assert threads() == {1}
        assert threads() == {1}
        with ThreadPoolExecutor(4) as pool:

            def inside(_):
                with one_blas_thread():
                    return threads()

            assert all(found == {1} for found in pool.map(inside, range(20)))
    assert threads() == before
