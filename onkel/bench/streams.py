"""The data of the benchmark, all made from a seed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

CLUSTERS, NOISE, SPREAD = 24, 0.05, 0.5


def width(d: int) -> float:
    """A kernel width for ``clusters``: k = 1/e between two typical points of one cluster."""
    return float(SPREAD * np.sqrt(d))


def clusters(d: int, classes: int, n: int, seed: int = 0) -> tuple[Array, Array]:
    """24 Gaussian clusters, each of one class, 5 % of the labels drawn at random: float32 rows and class codes.

    In few dimensions the clusters are further apart, so that they stay clusters.

    >>> X, y = clusters(3, 2, 100)
    >>> X.shape, X.dtype, sorted(set(y.tolist()))
    ((100, 3), dtype('float32'), [0.0, 1.0])
    """
    world = np.random.default_rng(7)  # the clusters are the same for every seed, so that streams continue each other
    centres = (world.normal(size=(CLUSTERS, d)) * max(1.0, 6.0 / np.sqrt(d))).astype(np.float32)
    rng = np.random.default_rng([seed, d])
    which = rng.integers(0, CLUSTERS, n)
    X = rng.standard_normal((n, d), np.float32)
    X *= SPREAD
    X += centres[which]
    y = (which % classes).astype(float)
    noisy = rng.random(n) < NOISE
    y[noisy] = rng.integers(0, classes, noisy.sum())
    return X, y


def signs(d: int, n: int, seed: int = 0) -> tuple[Array, Array]:
    """The same with two classes, called -1 and +1."""
    X, y = clusters(d, 2, n, seed)
    return X, 2.0 * y - 1.0


def documents(n: int, seed: int = 0, words: int = 34_000, length: int = 80) -> tuple[Any, Array]:
    """CSR rows of unit length with ``length`` different words each, popular as Zipf has it; labels from a hidden direction."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, words + 1)
    total = np.cumsum(popularity / popularity.sum())
    indices = np.empty((n, length), np.int32)
    for i in range(n):
        drawn = np.unique(np.minimum(np.searchsorted(total, rng.random(3 * length)), words - 1))
        while len(drawn) < length:
            more = np.minimum(np.searchsorted(total, rng.random(length)), words - 1)
            drawn = np.unique(np.concatenate([drawn, more]))
        indices[i] = np.sort(rng.choice(drawn, length, replace=False))
    data = rng.exponential(size=(n, length)).astype(np.float32)
    data /= np.sqrt((data**2).sum(1, keepdims=True))
    X = csr_matrix((data.ravel(), indices.ravel(), np.arange(0, n * length + 1, length)), shape=(n, words))
    direction = np.random.default_rng(7).normal(size=words)
    return X, np.where(X @ direction > 0, 1.0, -1.0)


def with_outliers(n: int, seed: int = 0, share: float = 0.02) -> tuple[Array, NDArray[np.bool_]]:
    """Points of the 2-d clusters, scaled into the unit square, and among them a few from anywhere: rows, and which are those."""
    X, _ = clusters(2, 2, n, seed)
    X = np.clip((X + 14.0) / 28.0, 0.0, 1.0)
    rng = np.random.default_rng([seed, 99])
    odd = rng.random(n) < share
    X[odd] = rng.random((odd.sum(), 2))
    return X, odd


def area_under_roc(scores: Array, positive: NDArray[np.bool_]) -> float:
    """The share of pairs that the scores put in the right order.

    >>> area_under_roc(np.array([0.1, 0.9, 0.5]), np.array([False, True, False]))
    1.0
    """
    if positive.all() or not positive.any():
        return 0.5  # no pairs: as good as guessing
    ranks = np.empty(len(scores))
    ranks[np.argsort(scores, kind="stable")] = np.arange(1, len(scores) + 1)
    ones = int(positive.sum())
    return float((ranks[positive].sum() - ones * (ones + 1) / 2) / (ones * (len(scores) - ones)))
