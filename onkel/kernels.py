"""Kernels k(x, x'): values with parameters, which know how to fill a row of numbers.

A kernel of this library says which quantity of two points it looks at (``geometry``: their product, their squared distance or
the sum of their absolute differences) and how that quantity becomes a kernel value (``transform``, compiled, a row at a time).
The rest follows: matrices by BLAS, single rows inside the hot loop, sums and products.  Anything callable as
``(X, Z) -> matrix`` is a kernel too, on any kind of points.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

from onkel.compiled import VECTOR, compiled, exp

Array = NDArray[Any]


def _number(kernel: str, name: str, value: Any, positive: bool = True) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (positive and number <= 0.0):
        raise ValueError(f"{kernel}: {name} must be a {'positive ' if positive else ''}finite number; got {value!r}")
    return number


class _Algebra:
    """+ and * between kernels, and k(X, Z) as a matrix."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return Sum(self, other)

    def __mul__(self, other: Any) -> Any:
        return Product(self, other)

    def __call__(self, X: Any, Z: Any = None) -> Array:
        from onkel.blocks import matrix

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

    @compiled(fastmath=VECTOR)
    def transform(kernel, row, spare, n):
        g = row.dtype.type(-0.5 / (kernel.sigma * kernel.sigma))
        for i in range(n):
            row[i] = exp(g * row[i])


class _Laplacian(NamedTuple):
    sigma: float


class Laplacian(_Algebra, _Laplacian):
    """exp(-|x - x'|_1 / sigma), with the sum of absolute differences."""

    __slots__ = ()
    geometry = "absolute"

    def __new__(cls, sigma: float = 1.0) -> Laplacian:
        return super().__new__(cls, _number("Laplacian", "sigma", sigma))

    @compiled(fastmath=VECTOR)
    def transform(kernel, row, spare, n):
        g = row.dtype.type(-1.0 / kernel.sigma)
        for i in range(n):
            row[i] = exp(g * row[i])


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

    @compiled(fastmath=VECTOR)
    def transform(kernel, row, spare, n):
        number = row.dtype.type
        c = number(math.sqrt(2.0 * kernel.nu) / kernel.sigma)
        first = number(0.0 if kernel.nu < 1.0 else 1.0)
        second = number(1.0 / 3.0 if kernel.nu > 2.0 else 0.0)
        for i in range(n):
            u = c * np.sqrt(row[i])
            row[i] = (number(1.0) + first * u + second * u * u) * exp(-u)


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

    @compiled(fastmath=VECTOR)
    def transform(kernel, row, spare, n):
        g = row.dtype.type(kernel.gamma)
        c = row.dtype.type(kernel.coef0)
        for i in range(n):
            row[i] = g * row[i] + c
        left = kernel.degree - 1
        if left > 0:
            for i in range(n):
                spare[i] = row[i]
        while left > 0:  # by squaring, whole rows at a time, so that each pass vectorises
            if left & 1:
                for i in range(n):
                    row[i] *= spare[i]
            left >>= 1
            if left > 0:
                for i in range(n):
                    spare[i] *= spare[i]


class Linear(_Algebra, NamedTuple("_Linear", [])):
    """x.x'"""

    __slots__ = ()
    geometry = "product"

    @compiled
    def transform(kernel, row, spare, n):
        pass


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
    if callable(given):
        return Matrix(given)
    raise TypeError(
        f"kernel: give a kernel such as onkel.RBF(sigma=1.0), onkel.kernel(function), or a callable (X, Z) -> matrix; got {given!r}"
    )


def is_direct(k: Any) -> bool:
    """Whether the hot loop can fill the kernel's rows itself."""
    if isinstance(k, Sum | Product):
        return is_direct(k.left) and is_direct(k.right)
    return isinstance(k, RBF | Polynomial | Linear | Laplacian | Matern)


# --- rows inside the hot loop: points stand in columns, so that SIMD runs over the points ---------------------------------


@compiled(fastmath=VECTOR)
def _squares(points, x, n, out):
    d = x.size
    zero = out.dtype.type(0)
    for i in range(n):
        out[i] = zero
    j = 0
    while j + 4 <= d:  # four features a pass: out is loaded and stored once for them
        a, b, c, e = points[j], points[j + 1], points[j + 2], points[j + 3]
        xa, xb, xc, xe = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(n):
            out[i] += (a[i] - xa) ** 2 + (b[i] - xb) ** 2 + ((c[i] - xc) ** 2 + (e[i] - xe) ** 2)
        j += 4
    while j < d:
        a, xa = points[j], x[j]
        for i in range(n):
            out[i] += (a[i] - xa) ** 2
        j += 1


@compiled(fastmath=VECTOR)
def _absolutes(points, x, n, out):
    for i in range(n):
        out[i] = out.dtype.type(0)
    for j in range(x.size):
        a, xa = points[j], x[j]
        for i in range(n):
            out[i] += abs(a[i] - xa)


@compiled(fastmath=VECTOR)
def _products(points, x, n, out):
    d = x.size
    for i in range(n):
        out[i] = out.dtype.type(0)
    j = 0
    while j + 4 <= d:
        a, b, c, e = points[j], points[j + 1], points[j + 2], points[j + 3]
        xa, xb, xc, xe = x[j], x[j + 1], x[j + 2], x[j + 3]
        for i in range(n):
            out[i] += a[i] * xa + b[i] * xb + (c[i] * xc + e[i] * xe)
        j += 4
    while j < d:
        a, xa = points[j], x[j]
        for i in range(n):
            out[i] += a[i] * xa
        j += 1


@compiled
def _no_loop(points, x, n, out):
    pass


_GEOMETRY = {"square": _squares, "absolute": _absolutes, "product": _products}


def fill(kernel: Any, points: Array, x: Array, n: int, row: Array, spare: Array) -> None:
    """row[i] = k(point i, x) for the first n points; ``spare`` is a second row to work in.  Only for compiled callers."""
    raise TypeError("fill is called from compiled code only")


@overload(fill)
def _fill(kernel, points, x, n, row, spare):
    cls = kernel.instance_class
    if cls is Sum or cls is Product:
        adding = cls is Sum

        def both(kernel, points, x, n, row, spare):
            first = np.empty_like(row)
            fill(kernel.left, points, x, n, first, spare)
            fill(kernel.right, points, x, n, row, spare)
            for i in range(n):
                row[i] = row[i] + first[i] if adding else row[i] * first[i]

        return both
    look, transform = _GEOMETRY[cls.geometry], cls.transform

    def leaf(kernel, points, x, n, row, spare):
        look(points, x, n, row)
        transform(kernel, row, spare, n)

    return leaf


def self_value(kernel: Any, x: Array, spare: Array) -> float:
    """k(x, x), exactly 1 for the kernels of a distance.  ``spare`` has two cells to work in.  Only for compiled callers."""
    raise TypeError("self_value is called from compiled code only")


@overload(self_value)
def _self_value(kernel, x, spare):
    cls = kernel.instance_class
    if cls is Sum:
        return lambda kernel, x, spare: self_value(kernel.left, x, spare) + self_value(kernel.right, x, spare)
    if cls is Product:
        return lambda kernel, x, spare: self_value(kernel.left, x, spare) * self_value(kernel.right, x, spare)
    if cls.geometry != "product":
        return lambda kernel, x, spare: spare.dtype.type(1)
    transform = cls.transform

    def product(kernel, x, spare):
        total = spare.dtype.type(0)
        for j in range(x.size):
            total += x[j] * x[j]
        spare[0] = total
        transform(kernel, spare, spare[1:], 1)
        return spare[0]

    return product
