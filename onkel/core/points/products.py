"""Inner products between a block of rows and the stored rows: a matrix product for shapes on which BLAS loses its time packing.

BLAS copies both matrices into panels before it multiplies, which pays when each panel is used thousands of times.  A block has a
hundred rows or two.  Here tiles of 4 x 4 products run down the features with everything in registers, straight from the rows
where they lie; the stored rows are taken in chunks that stay in the second-level cache, and a block with itself only below its
diagonal.  Each product is summed in the same order wherever it stands, so cutting a stream into other blocks, of four rows
at least, changes no bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import binding
from numba.core import config
from numpy.typing import NDArray

from onkel.core.machine.compiled import compiled, inner
from onkel.core.machine.lanes import WIDTH, load, total, zeros

# sixteen sums need half of the thirty-two wide registers; without those BLAS is the better choice
WIDE_REGISTERS = bool(binding.get_host_cpu_features().get("avx512f")) and not getattr(config, "CPU_FEATURES", None)
CHUNK, BLOCK = 256 * 1024, 256  # bytes of stored rows, and rows of a block, that stay in the cache together

_TAIL = np.zeros((1, 2 * WIDTH), np.float32)
_TAIL[0, WIDTH:] = 1.0  # read from place r on: zeros, then r ones


def fits(X: NDArray[Any], columns: int) -> bool:
    """Whether ``products`` takes this shape, and is faster than BLAS."""
    return WIDE_REGISTERS and X.dtype == np.float32 and X.shape[1] >= WIDTH and len(X) >= 4 and columns >= 4


@inner(inlined=True)
def four(X, i, c):
    """Sixteen features of four rows."""
    return load(X, i, c), load(X, i + 1, c), load(X, i + 2, c), load(X, i + 3, c)


@inner(inlined=True)
def add(sums, x, z):
    return sums[0] + x[0] * z, sums[1] + x[1] * z, sums[2] + x[2] * z, sums[3] + x[3] * z


@inner(inlined=True)
def put(K, i, j, sums):
    K[i, j], K[i + 1, j], K[i + 2, j], K[i + 3, j] = total(sums[0]), total(sums[1]), total(sums[2]), total(sums[3])


@inner(inlined=True)
def tile(X, i, Z, j, K, tail):
    """Rows i .. i+3 of X times rows j .. j+3 of Z."""
    d = X.shape[1]
    whole = d // 16 * 16
    nothing = zeros(K)
    p = q = r = s = (nothing, nothing, nothing, nothing)
    for c in range(0, whole, 16):
        x = four(X, i, c)
        p, q, r, s = (
            add(p, x, load(Z, j, c)),
            add(q, x, load(Z, j + 1, c)),
            add(r, x, load(Z, j + 2, c)),
            add(s, x, load(Z, j + 3, c)),
        )
    if whole < d:  # the last features once more, what was counted already set to zero
        c, mask = d - 16, load(tail, 0, d - whole)
        x = four(X, i, c)
        x = x[0] * mask, x[1] * mask, x[2] * mask, x[3] * mask
        p, q, r, s = (
            add(p, x, load(Z, j, c)),
            add(q, x, load(Z, j + 1, c)),
            add(r, x, load(Z, j + 2, c)),
            add(s, x, load(Z, j + 3, c)),
        )
    put(K, i, j, p)
    put(K, i, j + 1, q)
    put(K, i, j + 2, r)
    put(K, i, j + 3, s)


@compiled(borrow=True)
def multiply(X, Z, K, lower, tail):
    columns = K.shape[1]
    chunk = max(4, CHUNK // (4 * X.shape[1]) // 4 * 4)
    for block in range(0, len(X), BLOCK):
        for first in range(0, columns, chunk):
            for row in range(block, min(block + BLOCK, len(X)), 4):
                i = min(row, len(X) - 4)  # the last four rows, and columns, may begin among those before
                last = min(first + chunk, i + 4 if lower else columns, columns)
                for column in range(first, last, 4):
                    tile(X, i, Z, min(column, columns - 4), K, tail)


def products(X: NDArray[Any], Z: NDArray[Any], K: NDArray[Any], lower: bool) -> None:
    """K = X Z' for the first rows of Z; with ``lower`` only what is below the diagonal is sure to be there."""
    multiply(X, Z, K, lower, _TAIL)
