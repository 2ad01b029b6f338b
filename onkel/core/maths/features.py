"""Features whose inner products are, or nearly are, the values of a kernel: random waves, and projections on chosen points.

A kernel of the difference of its points is a mixture of waves, k(x, z) = E cos(w.(x - z)), with w drawn as the kernel says
(``waves``); D/2 draws, each with its cosine and its sine, give D features with an error of about 1/sqrt(D).  Directions that are
orthogonal in blocks of d make it smaller; where d is large a block is a product of three Hadamard matrices with random signs,
which is multiplied in d log d instead of d^2 steps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
LARGE = 512  # features of a point from which on directions come by Hadamard matrices


class Directions(NamedTuple):
    """Rows like those of a Gaussian matrix: ``lengths`` times the rows of ``blocks``, or times signs and Hadamard matrices."""

    lengths: Array  # one for each row
    blocks: Array | None  # rows of length 1, or None
    signs: Array | None  # three for each block of rows, else
    width: int

    def times(self, X: Array) -> Array:
        """X times the rows, transposed."""
        if self.blocks is not None:
            return np.asarray((X @ self.blocks.T) * self.lengths)
        assert self.signs is not None
        p = self.signs.shape[2]
        padded = np.zeros((len(X), p))
        padded[:, : self.width] = X
        parts = []
        for three in self.signs:
            out = padded
            for signs in three:
                out = hadamard(out * signs) / math.sqrt(p)
            parts.append(out)
        return np.asarray(np.concatenate(parts, axis=1)[:, : len(self.lengths)] * self.lengths)


def hadamard(X: Array) -> Array:
    """The rows of X times the Hadamard matrix of their length, a power of two, in n log n steps.

    >>> hadamard(np.array([[1.0, 2.0, 3.0, 4.0]]))
    array([[10., -2., -4.,  0.]])
    """
    n, p = X.shape
    half = 1
    while half < p:
        pairs = X.reshape(n, p // (2 * half), 2, half)
        X = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2).reshape(n, p)
        half *= 2
    return X


def directions(rng: np.random.Generator, rows: int, width: int) -> Directions:
    """``rows`` directions in ``width`` dimensions, each as if it were Gaussian, orthogonal to the others of its block."""
    if width >= LARGE:
        p = 1 << (width - 1).bit_length()
        signs = rng.choice([-1.0, 1.0], size=(-(-rows // p), 3, p))
        return Directions(np.sqrt(rng.chisquare(p, rows)), None, signs, width)
    blocks = []
    for _ in range(-(-rows // width)):
        q, r = np.linalg.qr(rng.normal(size=(width, width)))
        blocks.append(q * np.sign(np.diag(r)))  # uniform over all rotations
    return Directions(np.sqrt(rng.chisquare(width, rows)), np.concatenate(blocks)[:rows], None, width)


def random_features(drawn: Directions, X: Array) -> Array:
    """Cosines, then sines, so that each row has length 1."""
    turns = drawn.times(np.asarray(X, np.float64))
    return np.concatenate((np.cos(turns), np.sin(turns)), axis=1) / math.sqrt(turns.shape[1])


def projection(K: Array) -> Array:
    """The matrix M with M M' = the inverse of K, on what K spans to its precision: k(x, points) M are Nystroem's features."""
    values, vectors = np.linalg.eigh(np.asarray(K, np.float64))
    kept = values > 1e-12 * max(float(values[-1]), 0.0)
    if not kept.any():
        raise ValueError("Nystroem: the points have no length in the kernel; give points for which k(x, x) is above 0")
    return np.asarray(vectors[:, kept] / np.sqrt(values[kept]))
