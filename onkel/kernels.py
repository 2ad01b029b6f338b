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

from onkel.compiled import VECTOR, Value, compiled, exp

Array = NDArray[Any]

STEEPEST = -1e38  # a width so small that 1/sigma overflows: finite even in float32, so that exp(0 * STEEPEST) is 1


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

    @compiled(fastmath=VECTOR, melt=True)
    def transform(kernel, K, r, spare, s, n):
        g = K.dtype.type(max(-0.5 / (kernel.sigma * kernel.sigma), STEEPEST))
        for i in range(n):
            K[r, i] = exp(g * K[r, i])


class _Laplacian(NamedTuple):
    sigma: float


class Laplacian(_Algebra, _Laplacian):
    """exp(-|x - x'|_1 / sigma), with the sum of absolute differences."""

    __slots__ = ()
    geometry = "absolute"

    def __new__(cls, sigma: float = 1.0) -> Laplacian:
        return super().__new__(cls, _number("Laplacian", "sigma", sigma))

    @compiled(fastmath=VECTOR, melt=True)
    def transform(kernel, K, r, spare, s, n):
        g = K.dtype.type(max(-1.0 / kernel.sigma, STEEPEST))
        for i in range(n):
            K[r, i] = exp(g * K[r, i])


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

    @compiled(fastmath=VECTOR, melt=True)
    def transform(kernel, K, r, spare, s, n):
        number = K.dtype.type
        c = number(min(math.sqrt(2.0 * kernel.nu) / kernel.sigma, -STEEPEST))
        first = number(0.0 if kernel.nu < 1.0 else 1.0)
        second = number(1.0 / 3.0 if kernel.nu > 2.0 else 0.0)
        for i in range(n):
            u = min(c * np.sqrt(K[r, i]), number(1000.0))  # beyond, exp(-u) is nothing, but u^2 may be infinite
            K[r, i] = (number(1.0) + first * u + second * u * u) * exp(-u)


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

    @compiled(fastmath=VECTOR, melt=True)
    def transform(kernel, K, r, spare, s, n):
        g = K.dtype.type(kernel.gamma)
        c = K.dtype.type(kernel.coef0)
        for i in range(n):
            K[r, i] = g * K[r, i] + c
        left = kernel.degree - 1
        if left > 0:
            for i in range(n):
                spare[s, i] = K[r, i]
        while left > 0:  # by squaring, whole rows at a time, so that each pass vectorises
            if left & 1:
                for i in range(n):
                    K[r, i] *= spare[s, i]
            left >>= 1
            if left > 0:
                for i in range(n):
                    spare[s, i] *= spare[s, i]


class Linear(_Algebra, NamedTuple("_Linear", [])):
    """x.x'"""

    __slots__ = ()
    geometry = "product"

    @compiled(melt=True)
    def transform(kernel, K, r, spare, s, n):
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


# --- rows inside the hot loop: points stand in columns, so that SIMD runs over the points ---------------------------------


@compiled(fastmath=VECTOR, melt=True)
def _squares(slots, first, X, t, n, out, row):
    """The odd features first, then eight a pass: out is loaded and stored once for all of them."""
    d = X.shape[1]
    j = d % 4
    p = first
    if j == 0:
        for i in range(n):
            out[row, i] = 0
    elif j == 1:
        xa = X[t, 0]
        for i in range(n):
            out[row, i] = (slots[p, i] - xa) ** 2
    elif j == 2:
        xa, xb = X[t, 0], X[t, 1]
        for i in range(n):
            out[row, i] = (slots[p, i] - xa) ** 2 + (slots[p + 1, i] - xb) ** 2
    else:
        xa, xb, xc = X[t, 0], X[t, 1], X[t, 2]
        for i in range(n):
            out[row, i] = (slots[p, i] - xa) ** 2 + (slots[p + 1, i] - xb) ** 2 + (slots[p + 2, i] - xc) ** 2
    while j + 8 <= d:
        p = first + j
        xa, xb, xc, xd = X[t, j], X[t, j + 1], X[t, j + 2], X[t, j + 3]
        xe, xf, xg, xh = X[t, j + 4], X[t, j + 5], X[t, j + 6], X[t, j + 7]
        for i in range(n):
            one = (slots[p, i] - xa) ** 2 + (slots[p + 1, i] - xb) ** 2
            two = (slots[p + 2, i] - xc) ** 2 + (slots[p + 3, i] - xd) ** 2
            three = (slots[p + 4, i] - xe) ** 2 + (slots[p + 5, i] - xf) ** 2
            four = (slots[p + 6, i] - xg) ** 2 + (slots[p + 7, i] - xh) ** 2
            out[row, i] += (one + two) + (three + four)
        j += 8
    if j < d:
        p = first + j
        xa, xb, xc, xd = X[t, j], X[t, j + 1], X[t, j + 2], X[t, j + 3]
        for i in range(n):
            low = (slots[p, i] - xa) ** 2 + (slots[p + 1, i] - xb) ** 2
            out[row, i] += low + ((slots[p + 2, i] - xc) ** 2 + (slots[p + 3, i] - xd) ** 2)


@compiled(fastmath=VECTOR, melt=True)
def _absolutes(slots, first, X, t, n, out, row):
    for i in range(n):
        out[row, i] = 0
    for j in range(X.shape[1]):
        xa = X[t, j]
        for i in range(n):
            out[row, i] += abs(slots[first + j, i] - xa)


@compiled(fastmath=VECTOR, melt=True)
def _products(slots, first, X, t, n, out, row):
    for i in range(n):
        out[row, i] = 0
    d = X.shape[1]
    j = 0
    while j + 4 <= d:
        p = first + j
        xa, xb, xc, xe = X[t, j], X[t, j + 1], X[t, j + 2], X[t, j + 3]
        for i in range(n):
            low = slots[p, i] * xa + slots[p + 1, i] * xb
            out[row, i] += low + (slots[p + 2, i] * xc + slots[p + 3, i] * xe)
        j += 4
    while j < d:
        xa = X[t, j]
        for i in range(n):
            out[row, i] += slots[first + j, i] * xa
        j += 1


_GEOMETRY = {"square": _squares, "absolute": _absolutes, "product": _products}


def fill(kernel: Any, slots: Array, first: int, X: Array, t: int, n: int, out: Array, row: int) -> None:
    """out[row, i] = k(point i, X[t]) for the first n points, which stand in columns from row ``first`` of slots.

    The row of ``out`` behind it is room to work in.  Only for compiled callers.
    """
    raise TypeError("fill is called from compiled code only")


@overload(fill)
def _fill(kernel, slots, first, X, t, n, out, row):
    cls = kernel.instance_class
    if cls is Sum or cls is Product:
        both, adding = compiled(_both, cache=False), cls is Sum  # afresh, so that sums of sums do not call themselves
        return lambda kernel, slots, first, X, t, n, out, row: both(kernel, adding, slots, first, X, t, n, out, row)
    look, transform = _GEOMETRY[cls.geometry], cls.transform

    def leaf(kernel, slots, first, X, t, n, out, row):
        look(slots, first, X, t, n, out, row)
        transform(kernel, out, row, out, row + 1, n)

    return leaf


def _both(kernel, adding, slots, first, X, t, n, out, row):
    """Its own function, since it allocates and entry points that only borrow may not."""
    left = np.empty((2, n), out.dtype)
    fill(kernel.left, slots, first, X, t, n, left, 0)
    fill(kernel.right, slots, first, X, t, n, out, row)
    for i in range(n):
        out[row, i] = out[row, i] + left[0, i] if adding else out[row, i] * left[0, i]


def self_value(kernel: Any, X: Array, t: int, spare: Array, row: int) -> Any:
    """k(x, x) of x = X[t], exactly 1 for the kernels of a distance; spare[row, 0] and spare[row + 1, 0] are room to work in."""
    raise TypeError("self_value is called from compiled code only")


@overload(self_value)
def _self_value(kernel, X, t, spare, row):
    cls = kernel.instance_class
    if cls is Sum or cls is Product:
        adding = cls is Sum

        def both(kernel, X, t, spare, row):
            left, right = self_value(kernel.left, X, t, spare, row), self_value(kernel.right, X, t, spare, row)
            return left + right if adding else left * right

        return both
    if cls.geometry != "product":
        return lambda kernel, X, t, spare, row: spare.dtype.type(1)
    transform = cls.transform

    def product(kernel, X, t, spare, row):
        total = spare.dtype.type(0)
        for j in range(X.shape[1]):
            total += X[t, j] * X[t, j]
        spare[row, 0] = total
        transform(kernel, spare, row, spare, row + 1, 1)
        return spare[row, 0]

    return product
