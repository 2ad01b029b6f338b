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
from onkel.core.maths.kernels import Matrix, Pairwise, Product, Sum, as_kernel, is_direct
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
        """``evaluate`` into the matrix "K", between a block and stored points, or into "inner", within the block.  ``at`` tells
        where the block begins and when the stored points came, for those who share this work (many.py)."""
        K = self.matrix(name, len(X), columns)
        small = K.size * X.width < WORTH_SHARING or not is_direct(kernel) or not isinstance(X, Rows)
        if self._pool is None or name == "inner" or small:
            return evaluate(kernel, X, Z, live, K, name == "inner")
        share = -(-len(X) // (4 * self._threads)) * 4  # whole tiles of four rows
        edges = [*range(0, max(share, len(X) - 3), share), len(X)]  # fewer than four rows more go with the last
        first, *others = (slice(i, j) for i, j in pairwise(edges))
        running = [self._pool.submit(evaluate, kernel, X.take(part), Z, live, K[part]) for part in others]
        evaluate(kernel, X.take(first), Z, live, K[first])
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


def evaluate(kernel: Any, X: Store, Z: Store, live: int, K: Array, lower: bool = False) -> Array:
    """k between the block X and the first points of Z, into K.  Beyond the first ``live`` points Z is empty room: there K only
    has to be finite; with ``lower`` that goes for all but what is below the diagonal."""
    if isinstance(kernel, Sum | Product):
        left = evaluate(kernel.left, X, Z, live, np.empty_like(K))
        return kernel.combine(left, evaluate(kernel.right, X, Z, live, K), out=K)  # type: ignore[no-any-return, arg-type]
    if not isinstance(kernel, Matrix | Pairwise):
        return X.kernel(kernel, Z, K, lower)  # type: ignore[union-attr, arg-type]
    K[:, live:] = 0.0
    if isinstance(kernel, Pairwise):
        K[:, :live] = X.kernel(kernel, Z, np.empty((len(X), live), K.dtype))  # type: ignore[union-attr, arg-type]
    elif live:
        K[:, :live] = _asked(kernel, X.plain(), Z.take(slice(live)).plain(), (len(X), live))
    return K


def diagonal(kernel: Any, X: Store) -> Array:
    """k(x, x) of each point of the block."""
    if isinstance(kernel, Sum | Product):
        return kernel.combine(diagonal(kernel.left, X), diagonal(kernel.right, X))  # type: ignore[no-any-return, arg-type]
    if not isinstance(kernel, Matrix):
        return X.diagonal(kernel)  # type: ignore[union-attr]
    out = np.empty(len(X), X.dtype)
    for i in range(len(X)):
        one = X.take(slice(i, i + 1)).plain()
        out[i] = _asked(kernel, one, one, (1, 1))[0, 0]
    return out


def _asked(kernel: Matrix, X: Any, Z: Any, shape: tuple[int, int]) -> Array:
    try:
        K = np.asarray(kernel.function(X, Z), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the kernel callable must return a matrix of numbers; it failed with: {error}") from error
    if K.shape != shape:
        raise ValueError(
            f"the kernel callable returned shape {K.shape} for {shape[0]} and {shape[1]} points; it must return {shape}"
        )
    if not np.isfinite(K).all():
        raise ValueError("the kernel callable returned NaN or infinity; kernel values must be finite")
    return K


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
    return evaluate(kernel, left, right, len(right), np.empty((len(left), len(right)), left.dtype))
