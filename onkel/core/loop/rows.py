"""Rows of kernel values inside the hot loop: points stand in columns, so that SIMD runs over the points."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from onkel.core.machine.compiled import inner, overload
from onkel.core.machine.lanes import load, magnitude, store, zeros
from onkel.core.machine.numbers import smaller
from onkel.core.maths.kernels import Pair

Array = NDArray[Any]


@inner(inlined=True)
def _square(total, s, x):
    return total + (s - x) * (s - x)


@inner(inlined=True)
def _absolute(total, s, x):
    return total + magnitude(s - x)


@inner(inlined=True)
def _product(total, s, x):
    return total + s * x


@inner(inlined=True)
def _nothing(total, s, x):
    return total


_ADD = {"square": _square, "absolute": _absolute, "product": _product, "constant": _nothing}


def points(kernel: Any, slots: Array, first: int, X: Array, t: int, i: int) -> Any:
    """k between X[t] and the points i .. i+15, as lanes."""
    raise TypeError("points is called from compiled code only")


@overload(points)
def _points(kernel, slots, first, X, t, i):
    cls = kernel.instance_class
    if issubclass(cls, Pair):
        join = cls.join
        return lambda kernel, slots, first, X, t, i: join(
            points(kernel.left, slots, first, X, t, i), points(kernel.right, slots, first, X, t, i)
        )
    add, transform = _ADD[cls.geometry], cls.transform

    def leaf(kernel, slots, first, X, t, i):
        a = zeros(slots)
        for j in range(X.shape[1]):
            a = add(a, load(slots, first + j, i), X[t, j])
        return transform(kernel, a)

    return leaf


def fill(kernel: Any, slots: Array, first: int, X: Array, t: int, n: int, out: Array, row: int) -> None:
    """out[row, i] = k(point i, X[t]) for the first n points, which stand in columns from row ``first`` of slots.

    n is a multiple of 16.  Only for compiled callers.
    """
    raise TypeError("fill is called from compiled code only")


@overload(fill)
def _fill(kernel, slots, first, X, t, n, out, row):
    cls = kernel.instance_class
    if issubclass(cls, Pair):

        def pair(kernel, slots, first, X, t, n, out, row):
            for i in range(0, n, 16):
                store(out, row, i, points(kernel, slots, first, X, t, i))

        return pair
    add, transform = _ADD[cls.geometry], cls.transform

    def leaf(kernel, slots, first, X, t, n, out, row):
        if n < 64:
            for i in range(0, n, 16):
                store(out, row, i, points(kernel, slots, first, X, t, i))
            return
        i = 0
        while i < n:
            i = smaller(i, n - 64)  # the last sixty-four may begin among those before
            a = b = c = d = zeros(out)
            for j in range(X.shape[1]):
                p, x = first + j, X[t, j]
                a = add(a, load(slots, p, i), x)
                b = add(b, load(slots, p, i + 16), x)
                c = add(c, load(slots, p, i + 32), x)
                d = add(d, load(slots, p, i + 48), x)
            store(out, row, i, transform(kernel, a))
            store(out, row, i + 16, transform(kernel, b))
            store(out, row, i + 32, transform(kernel, c))
            store(out, row, i + 48, transform(kernel, d))
            i += 64

    return leaf


def self_value(kernel: Any, X: Array, t: int) -> Any:
    """k(x, x) of x = X[t]: exactly the number that the kernel names, where it is one for all x."""
    raise TypeError("self_value is called from compiled code only")


@overload(self_value)
def _self_value(kernel, X, t):
    cls = kernel.instance_class
    if issubclass(cls, Pair):
        join = cls.join
        return lambda kernel, X, t: join(self_value(kernel.left, X, t), self_value(kernel.right, X, t))
    if cls.own is not None:
        own = float(cls.own)
        return lambda kernel, X, t: X.dtype.type(own)
    add, transform = _ADD[cls.geometry], cls.transform

    def with_itself(kernel, X, t):
        total = X.dtype.type(0)
        for j in range(X.shape[1]):
            total = add(total, X[t, j], X[t, j])
        return transform(kernel, total)

    return with_itself
