"""Kernel matrices between blocks and stored points, and how much of them at a time.

Each kind of points has a store that keeps the points of the budget by slot, and a way to get the kernel matrix between a block
of examples and a store: matrix products for products and distances, compiled loops for the rest, the user's own callable for
his kernels.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import numpy as np

from onkel.core.machine.blas import one_blas_thread
from onkel.core.machine.lanes import WIDTH
from onkel.core.maths.kernels import as_kernel
from onkel.core.points.dense import Array, Rows
from onkel.core.points.products import fits
from onkel.core.points.read import Store, read

WORTH_SHARING = 4_000_000  # products of numbers; fewer are done before another thread has woken up


class Workspace:
    """Buffers that serve one block after the other: fresh pages of memory cost as much as the arithmetic on them.

    With more than one thread the rows of a kernel matrix are shared out; where tiles compute it, no bit depends on how many.
    """

    def __init__(self, dtype: Any, threads: int = 1):
        self._dtype = dtype
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._flat: dict[str, Array] = {}

    def matrix(self, name: str, rows: int, columns: int) -> Array:
        flat = self._flat.get(name)
        if flat is None or flat.size < rows * columns:
            flat = self._flat[name] = np.empty(rows * columns, self._dtype)
        return flat[: rows * columns].reshape(rows, columns)

    def evaluate(self, name: str, kernel: Any, X: Store, Z: Store, live: int, columns: int, at: tuple[int, Array]) -> Array:
        """Kernel values in the matrix "K", between a block and stored points, or in "inner", within the block.  ``at`` tells where
        the block begins and when the stored points came, for those who share this work (many.py)."""
        K = self.matrix(name, len(X), columns)
        small = K.size * X.width < WORTH_SHARING or not kernel.direct or not isinstance(X, Rows)
        if self._pool is None or name == "inner" or small:
            return kernel.between(X, Z, live, K, name == "inner")  # type: ignore[no-any-return]
        share = -(-len(X) // (4 * self._threads)) * 4  # whole tiles of four rows
        edges = [*range(0, max(share, len(X) - 3), share), len(X)]  # fewer than four rows more go with the last
        first, *others = (slice(i, j) for i, j in pairwise(edges))
        running = [self._pool.submit(kernel.between, X.take(part), Z, live, K[part]) for part in others]
        kernel.between(X.take(first), Z, live, K[first])
        for part in running:
            part.result()
        return K


def calm_blas(block: Store) -> AbstractContextManager[None]:
    """BLAS on one thread, where the matrix products of this block go to BLAS at all."""
    return nullcontext() if isinstance(block, Rows) and fits(block.data, WIDTH) else one_blas_thread()


def rows_at_once(block: Store, points: float) -> int:
    """How many examples to take in one matrix product: BLAS wants more of them for larger budgets."""
    if isinstance(block, Rows) and fits(block.data, WIDTH):
        return 64
    return 64 if points <= 256 else 128 if points <= 512 else 256


# --- kernel matrices -------------------------------------------------------------------------------------------------------------


def matrix(kernel: Any, X: Any, Z: Any) -> Array:
    """The kernel matrix between the rows of X and of Z.

    >>> from onkel import Linear
    >>> matrix(Linear(), [[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]])
    array([[11., 17.]])
    """
    kernel = as_kernel(kernel)
    left = read(X, kernel)
    right = read(Z, kernel, left.dtype)
    if left.width != right.width:
        raise ValueError(f"X has {left.width} features and Z has {right.width}; they must agree")
    return kernel.between(left, right, len(right), np.empty((len(left), len(right)), left.dtype))  # type: ignore[no-any-return]
