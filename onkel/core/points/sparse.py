"""Points as rows of a CSR matrix, and the kernel matrix between a block of them and the stored ones.

The block is turned to columns once; each stored row then runs down the columns of its own features, and meets only what both have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types

from onkel.core.machine.compiled import compiled, overload
from onkel.core.points.dense import Array, diagonal, distance, finish_rows, finish_squares

LAST = np.iinfo(np.int32).max  # no feature comes after it


@compiled
def transpose(indptr, indices, data, width, starts, rows, values):
    """CSR to CSC of one block, by counting."""
    starts[:] = 0
    for p in range(len(indices)):
        starts[indices[p] + 1] += 1
    for c in range(width):
        starts[c + 1] += starts[c]
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            at = starts[indices[p]]
            rows[at] = i
            values[at] = data[p]
            starts[indices[p]] = at + 1
    for c in range(width, 0, -1):
        starts[c] = starts[c - 1]
    starts[0] = 0


@compiled
def sparse_products(starts, rows, values, begin, length, indices, data, n, often, acc, K):
    """K[i, j] += x_i.z_j over the features not in ``often``: each stored row runs down the block's columns, so only features
    that both have cost anything.  Sixteen stored rows at a time, so that K is written in whole cache lines."""
    for first in range(0, n, 16):
        last = min(first + 16, n)
        acc[:] = 0
        for j in range(first, last):
            for p in range(begin[j], begin[j] + length[j]):
                c = indices[p]
                if often[c] < 0:
                    v = data[p]
                    for q in range(starts[c], starts[c + 1]):
                        acc[rows[q], j - first] += v * values[q]
        for i in range(len(K)):
            for j in range(first, last):
                K[i, j] += acc[i, j - first]


@compiled
def spread(begin, length, indices, data, often, out):
    """The features that come often, as columns of a dense matrix."""
    out[:] = 0
    for j in range(len(out)):
        for p in range(begin[j], begin[j] + length[j]):
            if often[indices[p]] >= 0:
                out[j, often[indices[p]]] = data[p]


@compiled
def sparse_absolutes(starts, rows, values, begin, length, indices, data, n, xsum, zsum, acc, K):
    """|x - z|_1 = |x|_1 + |z|_1 + sum over common features of |x - z| - |x| - |z|."""
    for j in range(n):
        for i in range(len(K)):
            acc[i] = xsum[i] + zsum[j]
        for p in range(begin[j], begin[j] + length[j]):
            c, v = indices[p], data[p]
            for q in range(starts[c], starts[c + 1]):
                acc[rows[q]] += abs(values[q] - v) - abs(values[q]) - abs(v)
        for i in range(len(K)):
            K[i, j] = max(acc[i], 0)


@overload(distance, inlined=False)
def _distance(X, i, Z, j):
    """The same sum over rows (begin, length, indices, data), which run down their ascending features side by side."""
    if not isinstance(X, types.BaseTuple):
        return None

    def merged(X, i, Z, j):
        (xbegin, xlength, xindices, xdata), (zbegin, zlength, zindices, zdata) = X, Z
        p, q = xbegin[i], zbegin[j]
        xend, zend = p + xlength[i], q + zlength[j]
        total = xdata.dtype.type(0)
        while p < xend or q < zend:
            difference = xdata.dtype.type(0)
            c = min(xindices[p] if p < xend else LAST, zindices[q] if q < zend else LAST)
            if p < xend and xindices[p] == c:
                difference += xdata[p]
                p += 1
            if q < zend and zindices[q] == c:
                difference -= zdata[q]
                q += 1
            total += difference * difference
        return total

    return merged


class Sparse:
    """Points as CSR rows in one heap; a replaced row is appended, the heap is packed anew when it is full of holes."""

    kind = "sparse"

    def __init__(self, begin: Array, length: Array, indices: Array, data: Array, width: int):
        self.begin, self.length, self.indices, self.data, self.width = begin, length, indices, data, width
        self.top = len(indices)
        self.norms = np.zeros(len(begin), data.dtype)
        self.sums = np.zeros(len(begin), data.dtype)
        for s in np.flatnonzero(length):
            self._measure(int(s))

    @staticmethod
    def of(X: Any, dtype: Any) -> Sparse:
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        indptr = X.indptr.astype(np.int64)
        return Sparse(indptr[:-1], np.diff(indptr), X.indices.astype(np.int32), X.data.astype(dtype), int(X.shape[1]))

    def _measure(self, slot: int) -> None:
        row = self.data[self.begin[slot] : self.begin[slot] + self.length[slot]]
        self.norms[slot] = row @ row
        self.sums[slot] = np.abs(row).sum()

    def __len__(self) -> int:
        return len(self.begin)

    @property
    def nbytes(self) -> int:
        return int(sum(a.nbytes for a in (self.begin, self.length, self.indices, self.data, self.norms, self.sums)))

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    def take(self, index: Any) -> Sparse:
        chosen = np.arange(len(self))[index]
        begin, length = self.begin[chosen], self.length[chosen]
        starts = np.concatenate(([0], np.cumsum(length)))
        where = np.repeat(begin - starts[:-1], length) + np.arange(starts[-1])
        taken = Sparse.__new__(Sparse)
        taken.begin, taken.length, taken.width = starts[:-1], length, self.width
        taken.indices, taken.data, taken.top = self.indices[where], self.data[where], int(starts[-1])
        taken.norms, taken.sums = self.norms[chosen], self.sums[chosen]
        return taken

    def empty(self, n: int) -> Sparse:
        nothing = np.zeros(n, np.int64)
        return Sparse(nothing, nothing.copy(), self.indices[:0], self.data[:0], self.width)

    def put(self, slots: Array, block: Sparse, rows: Array) -> None:
        fresh = block.take(rows)
        self.length[slots] = 0
        need = len(fresh.indices)
        if self.top + need > len(self.indices):
            live = self.take(slice(None))
            room = 2 * (live.top + need)
            self.begin, self.top = live.begin, live.top
            self.indices, self.data = (np.concatenate((a, np.zeros(room - len(a), a.dtype))) for a in (live.indices, live.data))
        end = self.top + need
        self.indices[self.top : end], self.data[self.top : end] = fresh.indices, fresh.data
        self.begin[slots], self.length[slots] = fresh.begin + self.top, fresh.length
        self.norms[slots], self.sums[slots] = fresh.norms, fresh.sums
        self.top = end

    @property
    def rows(self) -> tuple[Array, Array, Array, Array]:
        return self.begin, self.length, self.indices, self.data

    def copy(self) -> Sparse:
        return self.take(slice(None))

    @property
    def dense(self) -> Array:
        raise TypeError("onkel.kernel compiles a function of two dense rows; for sparse data give a callable (X, Z) -> matrix")

    def plain(self) -> Any:
        from scipy.sparse import csr_matrix

        packed = self.take(slice(None))
        ends = np.append(packed.begin, packed.top)
        return csr_matrix((packed.data, packed.indices, ends), shape=(len(self), self.width))

    def kernel(self, k: Any, Z: Sparse, K: Array, lower: bool = False) -> Array:
        n = K.shape[1]
        X = self.take(slice(None)) if self.top != len(self.indices) else self
        indptr = np.append(X.begin, X.top)
        starts = np.empty(X.width + 1, np.int64)
        rows, values = np.empty(X.top, np.int32), np.empty(X.top, X.dtype)
        transpose(indptr, X.indices, X.data, X.width, starts, rows, values)
        if k.geometry == "absolute":
            acc = np.empty(len(X), X.dtype)
            sparse_absolutes(starts, rows, values, Z.begin, Z.length, Z.indices, Z.data, n, X.sums, Z.sums, acc, K)
            finish_rows(k, K, lower)
            return K
        # words such as "the" are in every row: those columns go through BLAS, the long tail through the lists
        common = np.flatnonzero(np.diff(starts) > len(X) // 4)
        often = np.full(X.width, -1, np.int32)
        often[common] = np.arange(len(common))
        left, right = np.empty((len(X), len(common)), X.dtype), np.empty((n, len(common)), X.dtype)
        spread(X.begin, X.length, X.indices, X.data, often, left)
        spread(Z.begin[:n], Z.length[:n], Z.indices, Z.data, often, right)
        np.dot(left, right.T, out=K)
        acc = np.empty((len(X), 16), X.dtype)
        sparse_products(starts, rows, values, Z.begin, Z.length, Z.indices, Z.data, n, often, acc, K)
        if k.geometry == "square":
            finish_squares(k, K, X.norms, Z.norms[:n], X.rows, Z.rows, lower)
        else:
            finish_rows(k, K, lower)
        return K

    def diagonal(self, k: Any) -> Array:
        return diagonal(k, self.norms)
