"""A user's own loss of one score, made of two plain Python functions: its value and its derivative."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from onkel.core.machine.compiled import inner
from onkel.core.maths.losses import Unlimited, smooth_tangent
from onkel.core.maths.prox import increasing_root

Function = Callable[..., float]


class User(Unlimited, abstract=True):
    """A user's convex loss of one score; :func:`loss` makes a class of its own for each."""

    targets = "reals"
    stores_all = False
    cuda = None
    doubtful = True
    written: ClassVar[tuple[Function, Function]]

    def mistake(loss, f, y, theta):
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return loss, self.written

    def __eq__(self, other: object) -> bool:
        return isinstance(other, User) and self.written == other.written

    def __hash__(self) -> int:
        return hash(self.written)


def loss(value: Function, derivative: Function) -> Any:
    """Make a loss of two plain Python functions, value(z, y) and derivative(z, y) in z; they are compiled at first use.

    The loss must be convex in z.  Its implicit step is found by a guarded root finder, kinks included; targets y may be any
    real numbers.

    >>> quartic = loss(lambda z, y: (z - y) ** 4, lambda z, y: 4 * (z - y) ** 3)
    >>> round(quartic.prox(0.0, 1.0, 0.0, 0.5, 1.0), 6)      # a = -0.5 * 4 (a - 1)^3
    0.410245
    """
    for name, function in (("value", value), ("derivative", derivative)):
        if not callable(function):
            raise TypeError(f"onkel.loss: {name} must be a function of (z, y); got {function!r}")
        try:
            inspect.signature(function).bind(0.0, 0.0)
        except TypeError:
            raise TypeError(f"onkel.loss: {name} must take two arguments, (z, y); got {function!r}") from None
    key = (value, derivative)
    if key not in _classes:
        _classes[key] = _class_of(*key)
    return _classes[key]()


_classes: dict[Any, type[User]] = {}  # one class, one compilation for each pair of functions


def _class_of(written_value: Function, written_derivative: Function) -> type[User]:
    cost = inner(written_value, cache=False)
    steep = inner(written_derivative, cache=False)

    class UserLoss(User, abstract=True):  # no file knows it by its name
        __doc__ = f"A user's loss: {getattr(cost, '__name__', cost)} with {getattr(steep, '__name__', steep)}."
        ours = False
        written = (written_value, written_derivative)

        def value(loss, f, y, theta):
            return float(cost(f, y))

        def slope(loss, f, y, theta, tie):
            return float(steep(f, y))

        def curvature(loss, f, y, theta):
            h = 1e-5 * max(1.0, abs(f))
            return max(0.0, (float(steep(f + h, y)) - float(steep(f - h, y))) / (2.0 * h))

        def prox(loss, z, y, theta, cap, k):
            """a = -cap slope(z + k a)."""
            return increasing_root(steep, z, y, cap, k)

        def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
            if cap == 0.0:
                return -dcap * float(steep(z, y))
            u = z + k * a
            h = 1e-6 * max(1.0, abs(u))
            below, above = float(steep(u - h, y)), float(steep(u + h, y))
            return smooth_tangent(-a / cap, max(0.0, (above - below) / (2.0 * h)), cap, k, dz, dcap)

    return UserLoss
