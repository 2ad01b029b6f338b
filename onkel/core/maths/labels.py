"""What the classes of a problem have to do with each other: a cost for each confusion and a kernel between labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class _Labels(NamedTuple):
    cost: NDArray[np.float64]
    kernel: NDArray[np.float64]
    plain: bool


class Labels(_Labels):
    """Costs Delta(y, z) and label kernel kappa(y, z) over m classes, coded 0 .. m-1.

    ``Labels.flat(m)`` is the usual multiclass problem, ``Labels.tree(parents)`` a taxonomy ([V] (62), (65)); any symmetric
    cost with zero diagonal and any symmetric, positive semi-definite kernel will do.

    >>> Labels.flat(3).cost
    array([[0., 1., 1.],
           [1., 0., 1.],
           [1., 1., 0.]])
    >>> Labels.tree([-1, 0, 0, 1, 1]).kernel      # leaves 2, 3, 4; 3 and 4 share the inner node 1
    array([[2., 1., 1.],
           [1., 3., 2.],
           [1., 2., 3.]])
    """

    __slots__ = ()

    def __new__(cls, cost: ArrayLike, kernel: ArrayLike | None = None) -> Labels:
        try:
            delta = np.array(cost, dtype=np.float64, ndmin=1)
            kappa = np.eye(len(delta)) if kernel is None else np.array(kernel, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"Labels: cost and kernel must be square matrices of numbers; {error}") from None
        for name, matrix in (("cost", delta), ("kernel", kappa)):
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) == 0:
                raise ValueError(f"Labels: {name} must be a square matrix over the classes, got shape {matrix.shape}")
            if not np.isfinite(matrix).all():
                raise ValueError(f"Labels: {name} holds NaN or infinity; give finite numbers")
            if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12):
                raise ValueError(f"Labels: {name} must be symmetric; {name}[i, j] and {name}[j, i] differ")
        if delta.shape != kappa.shape:
            raise ValueError(f"Labels: cost is over {len(delta)} classes and kernel over {len(kappa)}; they must agree")
        if (np.diag(delta) != 0).any() or (delta < 0).any():
            raise ValueError("Labels: cost must be zero on the diagonal and nowhere negative")
        plain = bool(np.array_equal(kappa, np.eye(len(kappa))))
        lowest = 1.0 if plain else float(np.linalg.eigvalsh(kappa)[0])
        if lowest < -1e-9 * max(1.0, float(np.abs(kappa).max())):
            raise ValueError(f"Labels: kernel must be positive semi-definite; its lowest eigenvalue is {lowest:.3g}")
        return super().__new__(cls, delta, kappa, plain)

    @staticmethod
    def flat(m: int) -> Labels:
        """m classes that have nothing in common: every confusion costs 1, the label kernel is 1[y = z]."""
        if not isinstance(m, int | np.integer) or isinstance(m, bool) or m < 1:
            raise ValueError(f"Labels.flat: m must be a whole number of classes, at least 1; got {m!r}")
        return Labels(1.0 - np.eye(int(m)), np.eye(int(m)))

    @staticmethod
    def tree(parents: Sequence[int]) -> Labels:
        """A taxonomy: parents[i] is the parent of node i, -1 marks the root; the classes are the leaves in order of index.

        kappa counts common ancestors (a node is its own ancestor, the root counts), and
        Delta(y, z) = (kappa(y, y) + kappa(z, z) - 2 kappa(y, z)) / 2: half an edge's length along the way.
        """
        try:
            up = [int(p) for p in parents]
        except (TypeError, ValueError):
            up = []
        if not up or [p for p in up if p < -1 or p >= len(up)]:
            raise ValueError(f"Labels.tree: parents must be node numbers 0 .. {len(up) - 1}, or -1 for a root; got {parents!r}")
        leaves = [i for i in range(len(up)) if i not in set(up)]
        above = np.zeros((len(leaves), len(up)))
        for row, leaf in enumerate(leaves):
            node = leaf
            while node >= 0:
                if above[row, node]:
                    raise ValueError(f"Labels.tree: following the parents of node {leaf} runs in a circle")
                above[row, node] = 1.0
                node = up[node]
        if not leaves:
            raise ValueError("Labels.tree: there is no leaf; following the parents runs in a circle")
        kappa = above @ above.T
        own = np.diag(kappa)
        return Labels(0.5 * (own[:, None] + own[None, :] - 2.0 * kappa), kappa)

    @property
    def m(self) -> int:
        """How many classes."""
        return len(self.cost)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Labels) and np.array_equal(self.cost, other.cost) and np.array_equal(self.kernel, other.kernel)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.cost.tobytes(), self.kernel.tobytes()))

    def __repr__(self) -> str:
        return f"Labels(m={self.m}{'' if self.plain else ', related'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Labels, (self.cost, self.kernel)
