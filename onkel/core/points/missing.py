"""Missing values: a kernel that leaves out the coordinates that either point lacks, and rescales by how many are left.

A row with gaps travels as one row of finite numbers, twice as long: after each value (0 in a gap) 1 if it is there, else 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from onkel.core.maths.kernels import Formula
from onkel.core.maths.value import Value, field
from onkel.core.points.dense import Array, finish_rows


def with_mask(X: Array) -> Array:
    """Rows with NaN as rows of values and of ones where there is a value.

    >>> with_mask(np.array([[3.0, np.nan]]))
    array([[3., 1., 0., 0.]])
    """
    seen = ~np.isnan(X)
    return np.stack([np.where(seen, X, 0), seen], axis=2).reshape(len(X), -1).astype(X.dtype, copy=False)


def without_mask(X: Array) -> Array:
    """The way back: NaN where nothing was.

    >>> without_mask(np.array([[3.0, 1.0, 0.0, 0.0]]))
    array([[ 3., nan]])
    """
    return np.where(X[:, 1::2] > 0, X[:, ::2], np.nan).astype(X.dtype, copy=False)


def _formula(owner: str, name: str, given: Any) -> Formula:
    if isinstance(given, Formula) and given.geometry in _QUANTITY:
        return given
    raise TypeError(f"{owner}: {name} must be a kernel that is a formula of one quantity, such as onkel.RBF(1.0); got {given!r}")


class Observed(Value):
    """k(X, Z) over the coordinates that both points have: product, squared or absolute distance times d / (how many).

    Points without a common coordinate have k = 0.  With gaps the matrix need not be positive definite; the updates only ask for
    k(x, x) > 0, which holds unless all is missing.

    >>> from onkel import RBF
    >>> a, b = np.array([[0.0, np.nan]]), np.array([[1.0, 5.0]])
    >>> bool(np.isclose(Observed(RBF(1.0))(with_mask(a), with_mask(b)), RBF(1.0)([[0.0]], [[2.0 ** 0.5]])))
    True
    """

    kernel: Any = field(check=_formula)

    def __call__(self, X: Array, Z: Array) -> Array:
        d = X.shape[1] // 2
        (x, seen_x), (z, seen_z) = ((A[:, ::2].astype(np.float64), A[:, 1::2].astype(np.float64)) for A in (X, Z))
        common = seen_x @ seen_z.T
        scale = d / np.maximum(common, 1.0)
        both = seen_x, seen_z
        K = np.ascontiguousarray(scale * _QUANTITY[self.kernel.geometry](x, z, *both))
        finish_rows(self.kernel, K, False)
        return np.where(common > 0, K, 0.0)


def _square(x: Array, z: Array, seen_x: Array, seen_z: Array) -> Array:
    return np.asarray(np.maximum((x * x) @ seen_z.T + seen_x @ (z * z).T - 2.0 * (x @ z.T), 0.0))


def _absolute(x: Array, z: Array, seen_x: Array, seen_z: Array) -> Array:
    both = seen_x[:, None, :] * seen_z[None, :, :]
    return np.asarray((np.abs(x[:, None, :] - z[None, :, :]) * both).sum(axis=2))


_QUANTITY = {"product": lambda x, z, *_: x @ z.T, "square": _square, "absolute": _absolute}
