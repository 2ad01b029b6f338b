"""Kernels k(x, x'): values with parameters, which know how to fill a row of numbers.

A kernel of this library says which quantity of two points it looks at (``geometry``: their product, their squared distance or
the sum of their absolute differences) and how that quantity becomes a kernel value (``transform``, compiled, of one number or of
sixteen at once).  The rest follows: matrices by BLAS, single rows inside the hot loop, sums and products.  Anything callable as
``(X, Z) -> matrix`` is a kernel too, on any kind of points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from onkel.core.machine.compiled import Value, compiled
from onkel.core.machine.lanes import LOG2E, capped, exp2, like, root

Array = NDArray[Any]

STEEPEST = -1e38  # a width so small that 1/sigma overflows: finite even in float32, so that 2^(0 * STEEPEST) is 1


def _number(kernel: str, name: str, value: Any, positive: bool = True) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (positive and number <= 0.0):
        raise ValueError(f"{kernel}: {name} must be a {'positive ' if positive else ''}finite number; got {value!r}")
    return number


class _Algebra(Value):
    """+ and * between kernels, and k(X, Z) as a matrix."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return Sum(self, other)

    def __mul__(self, other: Any) -> Any:
        return Product(self, other)

    def __call__(self, X: Any, Z: Any = None) -> Array:
        from onkel.core.points.matrices import matrix

        return matrix(self, X, X if Z is None else Z)


class _RBF(NamedTuple):
    sigma: float


class RBF(_Algebra, _RBF):
    """Gaussian kernel exp(-|x - x'|^2 / (2 sigma^2)).  [V] (60)

    >>> float(RBF(sigma=2.0)([[0.0, 0.0]], [[2.0, 0.0]])[0, 0]) == math.exp(-0.5)
    True
    """

    __slots__ = ()
    geometry = "square"

    def __new__(cls, sigma: float = 1.0) -> RBF:
        return super().__new__(cls, _number("RBF", "sigma", sigma))

    @compiled(melt=True)
    def transform(kernel, q):
        return exp2(q * like(q, max(-0.5 * LOG2E / (kernel.sigma * kernel.sigma), STEEPEST)))


class _Laplacian(NamedTuple):
    sigma: float


class Laplacian(_Algebra, _Laplacian):
    """exp(-|x - x'|_1 / sigma), with the sum of absolute differences."""

    __slots__ = ()
    geometry = "absolute"

    def __new__(cls, sigma: float = 1.0) -> Laplacian:
        return super().__new__(cls, _number("Laplacian", "sigma", sigma))

    @compiled(melt=True)
    def transform(kernel, q):
        return exp2(q * like(q, max(-LOG2E / kernel.sigma, STEEPEST)))


class _Matern(NamedTuple):
    sigma: float
    nu: float


class Matern(_Algebra, _Matern):
    """Matern kernel of smoothness nu = 1/2, 3/2 or 5/2: with u = sqrt(2 nu) |x - x'| / sigma,
    exp(-u), (1 + u) exp(-u) or (1 + u + u^2/3) exp(-u)."""

    __slots__ = ()
    geometry = "square"

    def __new__(cls, sigma: float = 1.0, nu: float = 1.5) -> Matern:
        if nu not in (0.5, 1.5, 2.5):
            raise ValueError(f"Matern: nu must be 0.5, 1.5 or 2.5; got {nu!r}")
        return super().__new__(cls, _number("Matern", "sigma", sigma), float(nu))

    @compiled(melt=True)
    def transform(kernel, q):
        scale = like(q, min(math.sqrt(2.0 * kernel.nu) / kernel.sigma, -STEEPEST))
        u = capped(root(q) * scale, 1000.0)  # beyond, exp(-u) is nothing, but u^2 may be infinite
        first = like(q, 0.0 if kernel.nu < 1.0 else 1.0)
        second = like(q, 1.0 / 3.0 if kernel.nu > 2.0 else 0.0)
        return ((u * second + first) * u + like(q, 1.0)) * exp2(u * like(q, -LOG2E))


class _Polynomial(NamedTuple):
    degree: int
    gamma: float
    coef0: float


class Polynomial(_Algebra, _Polynomial):
    """(gamma x.x' + coef0)^degree.  Scale the data first: degree 9 on raw pixels overflows."""

    __slots__ = ()
    geometry = "product"

    def __new__(cls, degree: int = 3, gamma: float = 1.0, coef0: float = 1.0) -> Polynomial:
        if isinstance(degree, bool) or int(_number("Polynomial", "degree", degree)) != degree:
            raise ValueError(f"Polynomial: degree must be a whole number, at least 1; got {degree!r}")
        gamma = _number("Polynomial", "gamma", gamma)
        coef0 = _number("Polynomial", "coef0", coef0, positive=False)
        if coef0 < 0:
            raise ValueError(f"Polynomial: coef0 must not be negative (the kernel would be indefinite); got {coef0!r}")
        return super().__new__(cls, int(degree), gamma, coef0)

    @compiled(melt=True)
    def transform(kernel, q):
        power = q * like(q, kernel.gamma) + like(q, kernel.coef0)
        value, left = power, kernel.degree - 1
        while left > 0:  # by squaring
            if left & 1:
                value = value * power
            left >>= 1
            power = power * power
        return value


class _AsItIs(_Algebra):
    __slots__ = ()

    @compiled(melt=True)
    def transform(kernel, q):
        return q


class Linear(_AsItIs, NamedTuple("_Linear", [])):
    """x.x'"""

    __slots__ = ()
    geometry = "product"


class SquaredDistance(_AsItIs, NamedTuple("_SquaredDistance", [])):
    """|x - x'|^2: no kernel, but what many kernels are made of, kept where several of them look at the same points."""

    __slots__ = ()
    geometry = "square"


class AbsoluteDistance(_AsItIs, NamedTuple("_AbsoluteDistance", [])):
    """|x - x'|_1, likewise."""

    __slots__ = ()
    geometry = "absolute"


GEOMETRY = {"square": SquaredDistance(), "absolute": AbsoluteDistance(), "product": Linear()}


class _Pair(NamedTuple):
    left: Any
    right: Any


class Sum(_Algebra, _Pair):
    """k1 + k2"""

    __slots__ = ()

    def __new__(cls, left: Any, right: Any) -> Sum:
        return super().__new__(cls, as_kernel(left), as_kernel(right))

    combine = staticmethod(np.add)


class Product(_Algebra, _Pair):
    """k1 k2"""

    __slots__ = ()

    def __new__(cls, left: Any, right: Any) -> Product:
        return super().__new__(cls, as_kernel(left), as_kernel(right))

    combine = staticmethod(np.multiply)


class _Function(NamedTuple):
    function: Callable[[Any, Any], Any]


class Matrix(_Algebra, _Function):
    """A user's callable (X, Z) -> matrix, taken as it is; X and Z are arrays, or lists of objects."""

    __slots__ = ()


class Pairwise(_Algebra, _Function):
    """A user's k(x, z) on two rows, compiled; see :func:`kernel`."""

    __slots__ = ()


class _Compiled(NamedTuple):
    """The compiled loops of a Pairwise kernel, made once per function."""

    matrix: Any
    diagonal: Any


_loops: dict[Any, _Compiled] = {}  # compiling is dear; the function itself is the key


def loops(function: Callable[[Any, Any], float]) -> _Compiled:
    if function not in _loops:
        single = numba.njit(function, error_model="numpy")

        @numba.njit(error_model="numpy")
        def matrix(X, Z, out):
            for i in range(len(X)):
                for j in range(len(Z)):
                    out[i, j] = single(X[i], Z[j])

        @numba.njit(error_model="numpy")
        def diagonal(X, out):
            for i in range(len(X)):
                out[i] = single(X[i], X[i])

        _loops[function] = _Compiled(matrix, diagonal)
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


def as_kernel(given: Any) -> Any:
    """A kernel of ours as it is, any other callable as a matrix kernel."""
    if isinstance(given, _Algebra):
        return given
    if callable(given) and not isinstance(given, type):
        return Matrix(given)
    raise TypeError(
        f"kernel: give a kernel such as onkel.RBF(sigma=1.0), onkel.kernel(function), or a callable (X, Z) -> matrix; got {given!r}"
    )


def is_direct(k: Any) -> bool:
    """Whether the hot loop can fill the kernel's rows itself."""
    if isinstance(k, Sum | Product):
        return is_direct(k.left) and is_direct(k.right)
    return isinstance(k, RBF | Polynomial | Linear | Laplacian | Matern)
