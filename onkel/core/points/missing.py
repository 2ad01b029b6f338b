"""Missing values: a kernel that leaves out the coordinates that either point lacks, and rescales by how many are left.

A row with gaps travels as one row of finite numbers, twice as long: after each value (0 in a gap) 1 if it is there, else 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from onkel.core.maths.kernels import RBF, Laplacian, Linear, Matern, Polynomial
from onkel.core.points.dense import Array


def with_mask(X: Array) -> Array:
    """Rows with NaN as rows of values and of ones where there is a value.

    >>> with_mask(np.array([[3.0, np.nan]]))
    array([[3., 1., 0., 0.]])
    """
    seen = ~np.isnan(X)
    return np.stack([np.where(seen, X, 0), seen], axis=2).reshape(len(X), -1).astype(X.dtype, copy=False)


class Observed(NamedTuple):
    """k(X, Z) over the coordinates that both points have: product, squared or absolute distance times d / (how many).

    Points without a common coordinate have k = 0.  With gaps the matrix need not be positive definite; the updates only ask for
    k(x, x) > 0, which holds unless all is missing.

    >>> a, b = np.array([[0.0, np.nan]]), np.array([[1.0, 5.0]])
    >>> bool(np.isclose(Observed(RBF(1.0))(with_mask(a), with_mask(b)), RBF(1.0)([[0.0]], [[2.0 ** 0.5]])))
    True
    """

    kernel: Any

    def __call__(self, X: Array, Z: Array) -> Array:
        d = X.shape[1] // 2
        (x, seen_x), (z, seen_z) = ((A[:, ::2].astype(np.float64), A[:, 1::2].astype(np.float64)) for A in (X, Z))
        common = seen_x @ seen_z.T
        scale = d / np.maximum(common, 1.0)
        k = self.kernel
        if isinstance(k, Linear | Polynomial):
            product = scale * (x @ z.T)
            K = product if isinstance(k, Linear) else (k.gamma * product + k.coef0) ** k.degree
        elif isinstance(k, Laplacian):
            both = seen_x[:, None, :] * seen_z[None, :, :]
            K = np.exp(-scale * (np.abs(x[:, None, :] - z[None, :, :]) * both).sum(axis=2) / k.sigma)
        else:
            squares = scale * np.maximum((x * x) @ seen_z.T + seen_x @ (z * z).T - 2.0 * (x @ z.T), 0.0)
            K = _of_squares(k, squares)
        return np.where(common > 0, K, 0.0)


def _of_squares(k: RBF | Matern, squares: Array) -> Array:
    if isinstance(k, RBF):
        return np.asarray(np.exp(-squares / (2.0 * k.sigma**2)))
    u = np.sqrt(2.0 * k.nu * squares) / k.sigma
    polynomial = 1.0 + (u if k.nu > 1 else 0.0) + (u * u / 3.0 if k.nu > 2 else 0.0)
    return np.asarray(polynomial * np.exp(-u))
