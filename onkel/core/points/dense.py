"""Points as rows of an array, and the kernel matrix between a block of them and the stored ones.

Inner products come from tiles or BLAS (products.py); here they become squared distances, and those kernel values, in place.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numba.core import types
from numpy.typing import NDArray

from onkel.core.machine.compiled import VECTOR, compiled, inner, overload
from onkel.core.machine.lanes import load, store
from onkel.core.points.products import fits, products

Array = NDArray[Any]


def finish(kernel, K, i, n):
    """The first n of row i from products, squared distances or absolute differences to kernel values; for compiled callers."""


@overload(finish, inlined=False)
def _finish(kernel, K, i, n):
    transform = kernel.instance_class.transform

    def row(kernel, K, i, n):
        j = 0
        while j + 16 <= n:
            store(K, i, j, transform(kernel, load(K, i, j)))
            j += 16
        while j < n:
            K[i, j] = transform(kernel, K[i, j])
            j += 1

    return row


@compiled
def finish_rows(kernel, K, lower):
    """The same for all rows, whole or below the diagonal."""
    for i in range(len(K)):
        finish(kernel, K, i, i if lower else K.shape[1])


@inner(fastmath=VECTOR)
def expand(K, i, n, xn, zn, share):
    """K[i, :n] from products x.z to |x|^2 + |z|^2 - 2 x.z; returns how many lost too many digits to be trusted."""
    own, lost = xn[i], np.int32(0)
    for j in range(n):
        both = own + zn[j]
        d = both - (K[i, j] + K[i, j])
        K[i, j] = d if d > 0 else 0
        lost = np.int32(lost + np.int32(not d >= share * both))  # infinity minus infinity is lost as well
    return lost


def distance(X, i, Z, j):
    """|x - z|^2 of two rows, from differences; for compiled callers.  Sparse rows have an overload of their own."""


@overload(distance, fastmath=VECTOR, inlined=False)
def _distance(X, i, Z, j):
    if not isinstance(X, types.Array):
        return None

    def dense(X, i, Z, j):
        total = X.dtype.type(0)
        for c in range(X.shape[1]):
            total += (X[i, c] - Z[j, c]) ** 2
        return total

    return dense


@compiled
def finish_squares(kernel, K, xn, zn, X, Z, lower):
    """From products to kernel values of a distance.  Points close to each other but far from the origin lose their digits in
    |x|^2 + |z|^2 - 2 x.z: those distances are computed again, from differences."""
    share = K.dtype.type(1e-4 if K.itemsize == 8 else 1e-2)
    for i in range(len(K)):
        n = i if lower else K.shape[1]
        if expand(K, i, n, xn, zn, share) > 0:
            for j in range(n):
                if K[i, j] < share * (xn[i] + zn[j]):
                    K[i, j] = distance(X, i, Z, j)
        finish(kernel, K, i, n)


@compiled(fastmath=VECTOR)
def absolutes(X, Z, K):
    for i in range(len(X)):
        for j in range(len(Z)):
            total = K.dtype.type(0)
            for c in range(X.shape[1]):
                total += abs(X[i, c] - Z[j, c])
            K[i, j] = total


@compiled(fastmath=VECTOR)
def measure(X, out):
    for i in range(len(X)):
        total = out.dtype.type(0)
        for c in range(X.shape[1]):
            total += X[i, c] * X[i, c]
        out[i] = total


@compiled
def put_rows(data, lengths, slots, fresh, fresh_lengths, rows):
    for i in range(len(slots)):
        s, r = slots[i], rows[i]
        lengths[s] = fresh_lengths[r]
        for c in range(data.shape[1]):
            data[s, c] = fresh[r, c]


def diagonal(kernel: Any, norms: Array) -> Array:
    """k(x, x) of points of these squared lengths, for a kernel that is a formula."""
    if kernel.own is not None:
        return np.full(len(norms), kernel.own, norms.dtype)
    out = norms.copy() if kernel.geometry == "product" else np.zeros_like(norms)
    finish_rows(kernel, out[:, None], False)
    return out


class Rows:
    """Points as rows of one array, with their squared lengths."""

    kind = "dense"

    def __init__(self, data: Array, lengths: Array | None = None):
        self.data = data
        if lengths is not None:
            self.norms = lengths

    @cached_property
    def norms(self) -> Array:
        out = np.empty(len(self.data), self.data.dtype)
        measure(self.data, out)
        return out

    def __len__(self) -> int:
        return len(self.data)

    @property
    def width(self) -> int:
        return int(self.data.shape[1])

    @property
    def nbytes(self) -> int:
        return int(self.data.nbytes + self.norms.nbytes)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    def take(self, index: Any) -> Rows:
        return Rows(self.data[index], self.norms[index])

    def empty(self, n: int) -> Rows:
        return Rows(np.zeros((n, self.width), self.dtype), np.zeros(n, self.dtype))

    def put(self, slots: Array, block: Rows, rows: Array) -> None:
        put_rows(self.data, self.norms, slots, block.data, block.norms, rows)

    def copy(self) -> Rows:
        return Rows(self.data.copy(), self.norms.copy())

    def plain(self) -> Array:
        return self.data

    @property
    def dense(self) -> Array:
        return self.data

    def kernel(self, k: Any, Z: Rows, K: Array, lower: bool = False) -> Array:
        """k between these rows and the first of Z, into K; ``lower``: only what is below the diagonal counts."""
        n = K.shape[1]
        X, data = self.data, Z.data[:n]
        if k.geometry == "absolute":
            absolutes(X, data, K)
        elif fits(X, n):
            products(X, data, K, lower)
        else:
            np.dot(X, data.T, out=K)
        if k.geometry == "square":
            finish_squares(k, K, self.norms, Z.norms[:n], X, data, lower)
        else:
            finish_rows(k, K, lower)
        return K

    def diagonal(self, k: Any) -> Array:
        return diagonal(k, self.norms)
