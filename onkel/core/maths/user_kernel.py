"""Kernels that a user wrote: a callable (X, Z) -> matrix on points of any kind, or a function of two rows, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onkel.core.machine.compiled import compiled, inner
from onkel.core.maths.kernels import ANY, Array, Kernel
from onkel.core.maths.value import field


def _callable(owner: str, name: str, given: Any) -> Any:
    if not callable(given):
        raise TypeError(f"{owner}: {name} must be a function; got {given!r}")
    return given


class Matrix(Kernel):
    """A user's callable (X, Z) -> matrix, taken as it is; X and Z are arrays, or lists of objects."""

    function: Callable[[Any, Any], Any] = field(check=_callable)

    direct = False
    takes = ANY

    def between(self, X: Any, Z: Any, live: int, K: Array, lower: bool = False) -> Array:
        K[:, live:] = 0.0
        if live:
            K[:, :live] = _asked(self, X.plain(), Z.take(slice(live)).plain(), (len(X), live))
        return K

    def diagonal(self, X: Any) -> Array:
        each = (X.take(slice(i, i + 1)).plain() for i in range(len(X)))
        return np.array([_asked(self, x, x, (1, 1))[0, 0] for x in each], X.dtype)


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


class Pairwise(Kernel):
    """A user's k(x, z) on two rows, compiled; see :func:`kernel`."""

    function: Callable[[Any, Any], float] = field(check=_callable)

    direct = False
    takes = frozenset(("dense",))

    def between(self, X: Any, Z: Any, live: int, K: Array, lower: bool = False) -> Array:
        K[:, live:] = 0.0
        out = np.empty((len(X), live), K.dtype)
        loops(self.function)[0](X.dense, Z.dense[:live], out)
        K[:, :live] = out
        return K

    def diagonal(self, X: Any) -> Array:
        out = np.empty(len(X), X.dtype)
        loops(self.function)[1](X.dense, out)
        return out


_loops: dict[Any, tuple[Any, Any]] = {}  # compiling is dear; the function itself is the key


def loops(function: Callable[[Any, Any], float]) -> tuple[Any, Any]:
    """Compiled from a function of two rows, once: its matrix (X, Z, out) and its diagonal (X, out)."""
    if function not in _loops:
        single = inner(function, cache=False)

        @compiled(cache=False)
        def matrix(X, Z, out):
            for i in range(len(X)):
                for j in range(len(Z)):
                    out[i, j] = single(X[i], Z[j])

        @compiled(cache=False)
        def diagonal(X, out):
            for i in range(len(X)):
                out[i] = single(X[i], X[i])

        _loops[function] = matrix, diagonal
    return _loops[function]


def kernel(function: Callable[[Any, Any], float]) -> Pairwise:
    """Make a kernel of a plain Python function k(x, z) -> float of two rows; it is compiled at its first use.

    >>> k = kernel(lambda x, z: 1.0 + x[0] * z[0])
    >>> k(np.array([[2.0]]), np.array([[3.0], [4.0]]))
    array([[7., 9.]])
    """
    if not callable(function):
        raise TypeError(f"onkel.kernel: give a function k(x, z) -> float; got {function!r}")
    return Pairwise(function)
