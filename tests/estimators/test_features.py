"""Random features and Nystroem's: near the kernel by a law in D, drawn again from their seed, fit for scikit-learn's ways."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline

import onkel
from onkel import RBF, Laplacian, Linear, Matern, Nystroem, RandomFeatures, persist
from onkel.core.maths import features

KERNELS = [RBF(2.0), Laplacian(4.0), Matern(2.0, 0.5), Matern(2.0, 1.5), Matern(3.0, 2.5), RBF(3.0) * Laplacian(6.0)]
X = np.random.default_rng(0).normal(size=(40, 3))


def error(kernel, D, seeds, rows=X):
    """The root mean square error of the inner products, over seeds."""
    K = kernel(rows)
    made = [RandomFeatures(kernel, D, seed).fit_transform(rows) for seed in seeds]
    return float(np.sqrt(np.mean([((Z @ Z.T - K) ** 2).mean() for Z in made])))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_error_falls_with_the_root_of_D(kernel):
    """Cosine and sine of D/2 independent waves have variance at most 1/D; orthogonal directions can only do better."""
    few, many = error(kernel, 64, range(20)), error(kernel, 1024, range(20))
    assert few < 1.1 / np.sqrt(64)
    assert many < 1.1 / np.sqrt(1024)
    assert 2.5 < few / many < 6.0


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_mean_over_seeds_is_the_kernel(kernel):
    made = [RandomFeatures(kernel, 256, seed).fit_transform(X[:10]) for seed in range(400)]
    mean = np.mean([Z @ Z.T for Z in made], axis=0)
    assert np.abs(mean - kernel(X[:10])).max() < 6 / np.sqrt(256 * 400)


def test_orthogonal_directions_are_better_than_independent_ones():
    wide = np.random.default_rng(1).normal(size=(30, 16)) / 2
    rng = np.random.default_rng(2)
    independent = []
    for _ in range(30):
        turns = wide @ rng.normal(size=(16, 16)) / 2.0
        Z = np.concatenate((np.cos(turns), np.sin(turns)), axis=1) / 4.0
        independent.append(((Z @ Z.T - RBF(2.0)(wide)) ** 2).mean())
    assert error(RBF(2.0), 32, range(30), wide) < 0.8 * np.sqrt(np.mean(independent))


@pytest.mark.parametrize("kernel", [RBF(20.0), Matern(30.0)], ids=repr)
def test_long_rows_go_by_hadamard_matrices(kernel):
    long = np.random.default_rng(3).normal(size=(20, 600))
    drawn = kernel.waves(np.random.default_rng(0), 256, 600)
    assert drawn.blocks is None
    assert drawn.signs.shape == (1, 3, 1024)
    assert error(kernel, 512, range(6), long) < 1.2 / np.sqrt(512)


def test_the_quick_hadamard_transform_is_the_matrix():
    rows = np.random.default_rng(4).normal(size=(5, 64))
    np.testing.assert_allclose(features.hadamard(rows), rows @ hadamard(64), atol=1e-12)


def test_blocks_are_orthogonal_and_lengths_are_those_of_gaussian_rows():
    drawn = features.directions(np.random.default_rng(0), 20, 8)
    np.testing.assert_allclose(drawn.blocks[:8] @ drawn.blocks[:8].T, np.eye(8), atol=1e-12)
    np.testing.assert_allclose(drawn.blocks[8:16] @ drawn.blocks[8:16].T, np.eye(8), atol=1e-12)
    lengths = features.directions(np.random.default_rng(1), 4000, 8).lengths
    assert np.mean(lengths**2) == pytest.approx(8.0, rel=0.05)


def test_nystroem_is_exact_on_its_points_and_a_projection_beyond():
    for kernel in (RBF(1.0), onkel.Polynomial(2), 0.5 * RBF(2.0) + Linear()):
        made = Nystroem(kernel, X[:15]).fit(X)
        Z = made.transform(X)
        K = kernel(X)
        np.testing.assert_allclose(Z[:15] @ Z[:15].T, K[:15, :15], atol=1e-8)
        np.testing.assert_allclose(Z @ Z[:15].T, K[:, :15], atol=1e-6)
        assert np.linalg.eigvalsh(K - Z @ Z.T)[0] > -1e-8  # what is left out is positive
        twice = Nystroem(kernel, np.concatenate([X[:15], X[:15]])).fit_transform(X)
        np.testing.assert_allclose(twice @ twice.T, Z @ Z.T, atol=1e-6)


@pytest.mark.parametrize("made", [RandomFeatures(RBF(1.5), 128, 3), Nystroem(RBF(1.5), X[:20])], ids=["random", "nystroem"])
def test_they_are_transformers(made):
    y = X[:, 0] * X[:, 1] > 0
    pipeline = make_pipeline(clone(made), RidgeClassifier()).fit(X, y)
    assert pipeline.score(X, y) > 0.8
    one = clone(made).fit(X)
    parts = clone(made)
    for part in np.array_split(X, 4):
        parts.partial_fit(part)
    np.testing.assert_array_equal(parts.transform(X), one.transform(X))
    np.testing.assert_allclose(one.transform(csr_matrix(X)), one.transform(X), atol=1e-12)
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.transform(X), one.transform(X))
    assert clone(made) == made != RandomFeatures(RBF(9.0))
    with pytest.raises(ValueError, match=r"2 features.*3"):
        one.transform(X[:, :2])


@pytest.mark.parametrize("made", [RandomFeatures(RBF(1.0), 64, 1), Nystroem(RBF(1.0), X[:9])], ids=["random", "nystroem"])
def test_learners_take_them_for_kernels(made):
    """As a learner with the plain kernel x.z learns from the features themselves."""
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    features = made.fit_transform(X)
    learner = onkel.silk(made, onkel.Hinge(), budget=10)
    plain = onkel.silk(Linear(), onkel.Hinge(), budget=10)
    state, trace = learner.learn(learner.init(), X, y)
    theirs, expected = plain.learn(plain.init(), features, y)
    np.testing.assert_allclose(trace.scores, expected.scores, atol=1e-9)
    np.testing.assert_allclose(state.coef, theirs.coef, atol=1e-9)
    np.testing.assert_allclose(learner.score(state, X[:7]), plain.score(theirs, features[:7]), atol=1e-9)


def test_the_kernel_of_random_features_is_saved():
    learner = onkel.silk(RandomFeatures(Matern(2.0), 32, 5), onkel.Hinge(), budget=10)
    state, _ = learner.learn(learner.init(), X, np.sign(X[:, 0]))
    again, theirs = persist.loads(persist.dumps((learner, state)))
    assert again == learner
    np.testing.assert_array_equal(again.score(theirs, X), learner.score(state, X))


def test_the_waves_are_not_kept_in_files():
    small = len(pickle.dumps(RandomFeatures(RBF(1.0), 2, 0).fit(X)))
    assert len(pickle.dumps(RandomFeatures(RBF(1.0), 20_000, 0).fit(X))) < small + 50


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RandomFeatures(Linear()), "no mixture of waves"),
        (lambda: RandomFeatures(RBF() + 1), "no mixture of waves"),
        (lambda: RandomFeatures(RBF(), 7), "D must be an even number.*got 7"),
        (lambda: RandomFeatures(RBF(), 2**21), "at most 1048576; got 2097152"),
        (lambda: RandomFeatures(RBF(), 0), "D must be a whole number, at least 2; got 0"),
        (lambda: RandomFeatures(RBF(), 8, -1), "seed must be a whole number, at least 0; got -1"),
        (lambda: Nystroem(RBF()), "give points"),
        (lambda: Nystroem(RBF(), X[:, :2]), "points have 2 features, and the rows 3"),
        (lambda: Nystroem(Linear(), np.zeros((2, 3))), "no length"),
    ],
)
def test_bad_parameters_are_refused_by_fit(make, words):
    with pytest.raises(ValueError, match=words):
        make().fit(X)
