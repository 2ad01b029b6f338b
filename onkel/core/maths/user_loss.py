"""A user's own loss of one score, made of two plain Python functions: its value and its derivative."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from onkel.core.machine.compiled import compiled
from onkel.core.maths.losses import OneScore, smooth_tangent


class User(OneScore, NamedTuple("_User", [])):
    """A user's convex loss of one score; :func:`loss` makes a class of its own for each."""

    __slots__ = ()
    targets = "reals"
    written: tuple[Callable[..., float], Callable[..., float]]

    def __reduce__(self) -> tuple[Any, ...]:
        return loss, self.written

    def __eq__(self, other: object) -> bool:
        return isinstance(other, User) and self.written == other.written

    def __hash__(self) -> int:
        return hash(self.written)


def loss(value: Callable[[float, float], float], derivative: Callable[[float, float], float]) -> Any:
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
    if key not in _user_losses:
        _user_losses[key] = _user_loss(*key)
    return _user_losses[key]()


_user_losses: dict[Any, type[User]] = {}  # one class, one compilation for each pair of functions


def _user_loss(value: Callable[..., float], derivative: Callable[..., float]) -> type[User]:
    """Nothing of it goes to the disk, nor is anything compiled inherited: no other process knows the class."""
    cost = compiled(value, cache=False)
    steep = compiled(derivative, cache=False)

    @compiled(cache=False)
    def _value(loss, f, y, theta):
        return float(cost(f, y))

    @compiled(cache=False)
    def _slope(loss, f, y, theta, tie):
        return float(steep(f, y))

    @compiled(cache=False)
    def _curvature(loss, f, y, theta):
        h = 1e-5 * max(1.0, abs(f))
        return max(0.0, (float(steep(f + h, y)) - float(steep(f - h, y))) / (2.0 * h))

    @compiled(cache=False)
    def _never(loss, f, y, theta, tie):
        return False

    @compiled(cache=False)
    def _mistake(loss, f, y, theta):
        return False

    @compiled(cache=False)
    def _prox(loss, z, y, theta, cap, k):
        """Root of the increasing a + cap slope(z + k a), between 0 and the explicit step: secants, bisection as a guard."""
        near, far = 0.0, -cap * float(steep(z, y))
        if far == 0.0 or k == 0.0 or not math.isfinite(far):
            return far
        g_near = -far
        g_far = far + cap * float(steep(z + k * far, y))
        if g_near * g_far >= 0.0:  # convexity puts the root between; equality only where the slope is flat
            return far
        side = 0
        for i in range(200):
            a = far - g_far * (far - near) / (g_far - g_near)
            middle = 0.5 * (near + far)
            if i % 3 == 2 or not min(near, far) < a < max(near, far):
                a = middle
            if abs(far - near) <= 4e-16 * abs(middle) or a == near or a == far:
                return a
            g = a + cap * float(steep(z + k * a, y))
            if g == 0.0:
                return a
            if g * g_far > 0.0:
                far, g_far = a, g
                if side == 1:
                    g_near *= 0.5
                side = 1
            else:
                near, g_near = a, g
                if side == -1:
                    g_far *= 0.5
                side = -1
        return a

    @compiled(cache=False)
    def _tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        if cap == 0.0:
            return -dcap * float(steep(z, y))
        u = z + k * a
        h = 1e-6 * max(1.0, abs(u))
        below, above = float(steep(u - h, y)), float(steep(u + h, y))
        return smooth_tangent(-a / cap, max(0.0, (above - below) / (2.0 * h)), cap, k, dz, dcap)

    body = {
        "__slots__": (),
        "__doc__": f"A user's loss: {getattr(value, '__name__', value)} with {getattr(derivative, '__name__', derivative)}.",
        "__module__": __name__,
        "written": (value, derivative),
        "value": _value,
        "slope": _slope,
        "curvature": _curvature,
        "violated": _never,
        "mistake": _mistake,
        "prox": _prox,
        "tangent": _tangent,
    }
    return type("UserLoss", (User,), body)
