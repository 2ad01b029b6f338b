"""Laws of every kernel: the definition, symmetry, positive semi-definiteness, diagonal, sums and products, sparse as dense, far
from the origin, in both precisions; and a user's own kernels, compiled or not, on numbers and on strings."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
import scipy.sparse as sp

import onkel
from onkel import RBF, Budget, Explicit, Hinge, Implicit, Laplacian, Learner, Linear, Matern, Novelty, Polynomial
from onkel.core import drive as engine
from onkel.core.maths.kernels import Constant
from onkel.core.maths.user_kernel import Matrix
from onkel.core.points.read import read
from tests.core import naive

KERNELS = {
    "rbf": (RBF(0.8), naive.rbf(0.8)),
    "laplacian": (Laplacian(1.5), naive.laplacian(1.5)),
    "matern-1/2": (Matern(1.2, 0.5), naive.matern(1.2, 0.5)),
    "matern-3/2": (Matern(1.2, 1.5), naive.matern(1.2, 1.5)),
    "matern-5/2": (Matern(1.2, 2.5), naive.matern(1.2, 2.5)),
    "linear": (Linear(), naive.linear()),
    "polynomial-1": (Polynomial(1, 0.5, 0.0), naive.polynomial(1, 0.5, 0.0)),
    "polynomial-3": (Polynomial(), naive.polynomial(3, 1.0, 1.0)),
    "polynomial-6": (Polynomial(6, 0.5, 0.7), naive.polynomial(6, 0.5, 0.7)),
    "polynomial-7": (Polynomial(7, 0.4, 0.2), naive.polynomial(7, 0.4, 0.2)),
    "sum": (RBF(0.8) + Linear(), lambda x, z: naive.rbf(0.8)(x, z) + naive.linear()(x, z)),
    "product": (RBF(2.0) * Polynomial(2), lambda x, z: naive.rbf(2.0)(x, z) * naive.polynomial(2)(x, z)),
    "scaled": (0.5 * RBF(0.8) + 2, lambda x, z: 0.5 * naive.rbf(0.8)(x, z) + 2.0),
    "nested": (
        (RBF(1.0) + Laplacian(2.0)) * (Linear() + Matern(1.0)),
        lambda x, z: (naive.rbf(1.0)(x, z) + naive.laplacian(2.0)(x, z)) * (naive.linear()(x, z) + naive.matern(1.0)(x, z)),
    ),
}
every = pytest.mark.parametrize("name", KERNELS)
DISTANCES = ["rbf", "laplacian", "matern-1/2", "matern-3/2", "matern-5/2"]


def points(n=23, d=5, seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.uniform(size=(n, d)) < density)
    X[3] = X[7]  # a repeated point
    X[4] = 0.0  # and an empty one
    return X


def definition(k, X, Z):
    return np.array([[k(x, z) for z in Z] for x in X])


@every
@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
def test_matrix_is_the_definition(name, d):
    ours, theirs = KERNELS[name]
    X, Z = points(23, d), points(17, d, seed=1)
    np.testing.assert_allclose(ours(X, Z), definition(theirs, X, Z), rtol=1e-11, atol=1e-13)


@every
def test_symmetric_positive_semidefinite_and_diagonal(name):
    k = KERNELS[name][0]
    X = points()
    K = k(X)
    np.testing.assert_allclose(K, K.T, rtol=1e-13, atol=1e-14)
    assert np.linalg.eigvalsh(K)[0] >= -1e-10 * np.abs(K).max()
    own = k.diagonal(read(X, k))
    np.testing.assert_allclose(own, np.diag(K), rtol=1e-12)
    if name in DISTANCES:
        np.testing.assert_array_equal(own, 1.0)
        assert (K <= 1.0).all()


@every
def test_sparse_is_dense(name):
    k = KERNELS[name][0]
    X, Z = points(density=0.3), points(17, seed=1, density=0.3)
    for form in (sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array):
        np.testing.assert_allclose(k(form(X), form(Z)), k(X, Z), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(k.diagonal(read(sp.csr_matrix(X), k)), k.diagonal(read(X, k)), rtol=1e-12)


def test_sparse_with_repeated_entries_counts_their_sum():
    twice = sp.csr_matrix((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 2]), np.array([0, 2, 3])), shape=(2, 3))
    np.testing.assert_array_equal(Linear()(twice), [[9.0, 0.0], [0.0, 25.0]])
    assert twice.nnz == 3  # and the user's matrix is left alone


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_own_precision(name, dtype):
    ours, theirs = KERNELS[name]
    X, Z = points().astype(dtype), points(17, seed=1).astype(dtype)
    K = ours(X, Z)
    assert K.dtype == dtype
    expected = definition(theirs, X.astype(float), Z.astype(float))
    rtol, atol = (1e-4, 1e-5) if dtype == np.float32 else (1e-11, 1e-12)
    np.testing.assert_allclose(K, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("kind", ["matrix", "loop"])
@pytest.mark.parametrize(("dtype", "away"), [(np.float32, 1e3), (np.float64, 1e3), (np.float64, 1e7)])
def test_far_from_the_origin(name, kind, dtype, away):
    """A distance does not change when all points move; |x|^2 + |z|^2 - 2 x.z would lose it."""
    ours, theirs = KERNELS[name]
    if kind == "loop" and dtype == np.float32 and name != "rbf":
        pytest.skip("differences do not depend on the kernel; one compilation will do")
    X, Z = ((points(n, seed=n) + away).astype(dtype) for n in (23, 17))
    expected = definition(theirs, X.astype(float), Z.astype(float))
    if kind == "matrix":
        K = ours(X, Z)
    else:  # the loop's own rows: unit coefficients, one at a time
        learner = Learner(ours, Hinge(), Explicit(1.0, 0.0, 1.0))
        K = np.array([learner.score(learner.learn(learner.init(), Z[j : j + 1], [1.0])[0], X) for j in range(len(Z))]).T
    np.testing.assert_allclose(K, expected, rtol=2e-4 if dtype == np.float32 else 1e-6, atol=1e-4 if dtype == np.float32 else 1e-7)
    assert (K <= 1 + 1e-6).all()


def test_two_clusters_far_apart_keep_their_inner_distances():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(9, 3)), rng.normal(size=(9, 3)) + 1e7])
    np.testing.assert_allclose(RBF(1.0)(X), definition(naive.rbf(1.0), X, X), atol=1e-7)


def test_sparse_points_close_to_each_other_keep_their_distance():
    rng = np.random.default_rng(0)
    X = 1e4 * rng.normal(size=(40, 30)) * (rng.uniform(size=(40, 30)) < 0.3)
    Z = X + 1e-3 * rng.normal(size=X.shape) * (rng.uniform(size=X.shape) < 0.2)  # some features only one of the two has
    Z[7], X[8] = 0.0, 0.0
    for k, slow in ((Matern(1.0, 0.5), naive.matern(1.0, 0.5)), (RBF(2e-3), naive.rbf(2e-3))):
        np.testing.assert_allclose(k(sp.csr_matrix(X), sp.csr_matrix(Z)), definition(slow, X, Z), atol=1e-8)
        np.testing.assert_array_equal(np.diag(k(sp.csr_matrix(X), sp.csr_matrix(X))), 1.0)


def test_sparse_rows_may_name_features_twice_and_in_any_order():
    X = np.random.default_rng(5).normal(size=(7, 6))
    rows, columns = np.nonzero(X)
    columns = columns.reshape(7, 6)[:, ::-1].ravel()
    halves = np.repeat(X[rows, columns] / 2, 2)
    twice = sp.csr_matrix((halves, np.repeat(columns, 2), np.arange(0, 85, 12)), shape=(7, 6))
    assert not twice.has_canonical_format
    for k in (RBF(2.0), Linear(), Laplacian(3.0)):
        np.testing.assert_allclose(k(twice), k(X), rtol=1e-12)


@pytest.mark.parametrize(("dtype", "large"), [(np.float32, 1e20), (np.float64, 1e160)])
def test_lengths_that_overflow_are_no_reason_to_be_alike(dtype, large):
    X, Z = np.full((4, 20), 2 * large, dtype), np.full((4, 20), large, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_allclose(RBF(1.0)(X, Z), 0.0, atol=1e-30)
        np.testing.assert_allclose(RBF(1.0)(X, X.copy()), 1.0)


def test_the_same_point_is_exactly_itself():
    X = np.random.default_rng(0).normal(size=(40, 6)) * 30
    np.testing.assert_allclose(np.diag(RBF(0.5)(X, X.copy())), 1.0, rtol=1e-12)


@pytest.mark.parametrize(("combine", "numbers"), [(operator.add, np.add), (operator.mul, np.multiply)])
def test_sums_and_products_are_sums_and_products(combine, numbers):
    X, Z = points(), points(17, seed=1)
    written = onkel.kernel(lambda x, z: min(x[0], z[0]))
    for left, right in ((RBF(0.8), Linear()), (Polynomial(2), lambda X, Z: np.cos(X[:, :1] - Z[:, 0])), (written, Laplacian(2.0))):
        k = combine(left, right)
        right = right(X, Z)
        np.testing.assert_allclose(k(X, Z), numbers(left(X, Z), right), rtol=1e-12)


def test_numbers_are_constant_kernels():
    k = RBF(0.8)
    assert 2 * k == Constant(2.0) * k
    assert k + 1 == k + Constant(1.0)
    assert 1 + k == Constant(1.0) + k
    np.testing.assert_array_equal(Constant(3.0)(points(), points(17, seed=1)), 3.0)
    np.testing.assert_array_equal(Constant(3.0)(["a", "b"]), 3.0)  # whatever the points are
    for make in (lambda: 0 * k, lambda: k + (-1), lambda: k * float("nan"), lambda: float("inf") + k):
        with pytest.raises(ValueError, match="Constant: value must be a finite number above 0"):
            make()
    with pytest.raises(TypeError, match="True"):
        k * True


def test_a_number_times_a_kernel_of_strings():
    words, y = ["ab", "ba", "xy", "yx"] * 5, np.array([1.0, 1.0, -1.0, -1.0] * 5)
    scaled = Learner(2 * Matrix(common_letters) + 1, Hinge(), Implicit(1.0, 0.01), Budget(5))
    plain = Learner(lambda a, b: 2 * common_letters(a, b) + 1, Hinge(), Implicit(1.0, 0.01), Budget(5))
    (a, _), (b, _) = (learner.learn(learner.init(), words, y) for learner in (scaled, plain))
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-12)
    with pytest.raises(ValueError, match="numbers in rows"):
        (Matrix(common_letters) * RBF())(["ab"], ["ba"])


def test_kernels_are_values():
    assert RBF(2) == RBF(2.0) != RBF(3.0)
    assert RBF(1.0) != Laplacian(1.0)
    assert len({RBF(1.0), RBF(1.0), Laplacian(1.0), Linear(), Linear()}) == 3
    assert Hinge(1.0) != Novelty(1.0)
    assert Learner(RBF(1.0), Hinge(), Implicit()) != Learner(Laplacian(1.0), Hinge(), Implicit())
    assert repr(Polynomial(2, 0.5)) == "Polynomial(degree=2, gamma=0.5, coef0=1.0)"


def test_an_odd_polynomial_may_be_negative():
    assert Polynomial(3, 1.0, 0.0)([[1.0]], [[-2.0]])[0, 0] == -8.0


# --- through learning ------------------------------------------------------------------------------------------------------------


def stream(n=120, d=3, density=1.0):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, d)) * (rng.uniform(size=(n, d)) < density)
    return X, np.where(X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0, 1.0, -1.0)


def model(k, drop="merge"):
    return Learner(k, Hinge(), Implicit(0.8, 0.05), Budget(14, drop))


@every
def test_sparse_learns_as_dense(name):
    X, y = stream(d=8, density=0.4)
    X[20:25] = X[10:15]
    X[11] = 0.0
    learner = model(KERNELS[name][0])
    a, trace = learner.learn(learner.init(), X, y)
    b, sparse_trace = learner.learn(learner.init(), sp.csr_matrix(X), y)
    np.testing.assert_allclose(trace.scores, sparse_trace.scores, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(a.coef, b.coef, rtol=1e-8, atol=1e-9)
    assert sp.issparse(b.points)
    np.testing.assert_array_equal(b.points.toarray(), a.points)
    np.testing.assert_allclose(learner.score(b, sp.csr_matrix(X[:9])), learner.score(a, X[:9]), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("drop", ["oldest", "smallest", "merge", "project"])
def test_sparse_rows_survive_many_replacements(drop):
    """The heap of sparse rows is packed anew again and again; points, norms and sums must follow."""
    X, y = stream(600, 8, 0.4)
    for k in (RBF(1.0), Laplacian(2.0)):
        learner = model(k, drop)
        a, _ = learner.learn(learner.init(), X, y)
        b = learner.init()
        for part in np.array_split(np.arange(len(X)), 37):
            b, _ = learner.learn(b, sp.csr_matrix(X[part]), y[part])
        np.testing.assert_array_equal(b.points.toarray(), a.points)
        np.testing.assert_allclose(b.coef, a.coef, rtol=1e-6, atol=1e-8)


def test_a_written_kernel_learns_as_the_built_in_does():
    X, y = stream()
    written = onkel.kernel(lambda x, z: math.exp(-((x - z) ** 2).sum() / 2.0))
    called = lambda X, Z: np.exp(-((X[:, None] - Z[None]) ** 2).sum(2) / 2.0)  # noqa: E731
    a, trace = model(RBF(1.0)).learn(model(RBF(1.0)).init(), X, y)
    for k in (written, called, written * onkel.kernel(lambda x, z: 1.0)):
        learner = model(k)
        b, theirs = learner.learn(learner.init(), X, y)
        np.testing.assert_allclose(theirs.scores, trace.scores, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(b.coef, a.coef, rtol=1e-9, atol=1e-10)
        np.testing.assert_array_equal(b.points, a.points)
        np.testing.assert_allclose(learner.score(b, X[:9]), model(RBF(1.0)).score(a, X[:9]), rtol=1e-9, atol=1e-10)


def common_letters(words, others):
    """A kernel between strings: how many pairs of equal letters, normalised."""
    count = [[sum(a == b for a in w for b in o) / math.sqrt(len(w) * len(o)) for o in others] for w in words]
    return np.array(count).reshape(len(words), len(others))


@pytest.mark.parametrize("drop", ["oldest", "merge"])
def test_strings_are_points_too(drop):
    words = [left + right for left in ("ab", "abc", "ba", "xy", "yx", "xyz") for right in ("a", "y", "", "bb")]
    y = np.array([1.0 if word[0] in "ab" else -1.0 for word in words])
    learner = Learner(common_letters, Hinge(), Implicit(1.0, 0.01), Budget(5, drop))
    reference = naive.Naive(
        lambda a, b: float(common_letters([a], [b])[0, 0]), "hinge", "implicit", eta=1.0, lam=0.01, budget=5, drop=drop
    )
    expected = reference.run(words, y)
    state, trace = learner.learn(learner.init(), words, y)
    np.testing.assert_allclose(trace.scores, expected["scores"], atol=1e-12)
    assert state.points == reference.points
    np.testing.assert_allclose(state.coef, reference.coef, atol=1e-12)
    np.testing.assert_allclose(learner.score(state, ["abba", "yyx"]), [reference.score("abba"), reference.score("yyx")], atol=1e-12)
    one = learner.init()
    for word, target in zip(words, y):
        one, _ = learner.learn(one, [word], [target])
    assert one.points == state.points
    np.testing.assert_allclose(one.coef, state.coef, atol=1e-12)


@every
def test_both_ways_to_get_kernel_values_agree(name, monkeypatch):
    X, y = stream()
    X[60:80] = X[20:40]  # points that come again: no distance at all must come out as none
    learner = model(KERNELS[name][0])
    a, trace = learner.learn(learner.init(), X, y)
    scores = learner.score(a, X[:20])
    monkeypatch.setattr(engine, "DIRECT_SIZE", 0)
    b, other = learner.learn(learner.init(), X, y)
    assert a.store is None
    assert b.store is not None
    np.testing.assert_allclose(trace.scores, other.scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(a.points, b.points)
    np.testing.assert_allclose(learner.score(b, X[:20]), scores, rtol=1e-9, atol=1e-9)
