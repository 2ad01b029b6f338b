"""Losses: what a wrong score costs, how steep that cost is, and the exact implicit step for it.

A loss of one score f has, compiled, with theta its margin or tube (which the nu-trick may move, hence an argument):

    value(f, y, theta)                 the cost
    slope(f, y, theta, tie)            its derivative in f; at the kink 0, unless ``tie`` asks for the steep side ([K] (14))
    curvature(f, y, theta)             its second derivative
    prox(z, y, theta, cap, k)          a with  a = -cap slope(z + k a)
    tangent(...)                       how that a moves when z and cap move by dz and dcap (meta-descent on implicit steps)
    mistake, violated                  what counts as an online mistake, and as a violation for the nu-trick

``structured.py`` has the same on vectors of scores, ``user_loss.py`` makes a loss of two functions of the user's.
A kink is resolved in one way everywhere: see each class.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onkel.core.machine.compiled import Value, compiled
from onkel.core.maths.prox import clip, logistic_root, sigmoid


def threshold(loss: str, name: str, value: Any, positive: bool) -> float:
    """A margin or a tube, checked."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or number < 0.0 or (positive and number == 0.0):
        raise ValueError(f"{loss}: {name} must be a finite number {'above' if positive else 'of at least'} 0; got {value!r}")
    return number


@compiled
def smooth_tangent(slope, curvature, cap, k, dz, dcap):
    """Of a = -cap slope(z + k a), differentiated; slope and curvature at the new score."""
    return -(dcap * slope + cap * curvature * dz) / (1.0 + cap * curvature * k)


class OneScore(Value):
    """What losses of one score share where they say nothing else: straight pieces, nothing to mistake, nothing to violate."""

    __slots__ = ()
    theta = math.nan

    @compiled
    def curvature(loss, f, y, theta):
        return 0.0

    @compiled
    def violated(loss, f, y, theta, tie):
        return False

    @compiled
    def mistake(loss, f, y, theta):
        return False

    @compiled
    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        """Of a = clip(-(z - kink)/k, -cap, cap): at the cap it moves with the cap, between it holds the score at the kink."""
        if a == 0.0:
            return 0.0
        if abs(a) >= cap:
            return np.sign(a) * dcap
        return -dz / k


class Tube(OneScore):
    """Regression with a tube of width theta around the targets; what lies outside counts."""

    __slots__ = ()
    targets = "reals"

    @compiled
    def violated(loss, f, y, theta, tie):
        return abs(y - f) > theta

    @compiled
    def mistake(loss, f, y, theta):
        return abs(y - f) > theta


class _Margin(NamedTuple):
    rho: float


class Hinge(OneScore, _Margin):
    """max(0, rho - y f), y = +1 or -1.  rho = 0 makes the perceptron of an explicit step.

    At y f = rho an explicit step updates ([K] (14)), an adaptive one does not ([V] (15)).
    """

    __slots__ = ()
    targets = "signs"
    theta = _Margin.rho

    def __new__(cls, rho: float = 1.0) -> Hinge:
        return super().__new__(cls, threshold("Hinge", "rho", rho, positive=False))

    @compiled
    def value(loss, f, y, theta):
        return max(0.0, theta - y * f)

    @compiled
    def slope(loss, f, y, theta, tie):
        return -y if y * f < theta or (tie and y * f == theta) else 0.0

    @compiled
    def violated(loss, f, y, theta, tie):
        return y * f < theta or (tie and y * f == theta)

    @compiled
    def mistake(loss, f, y, theta):
        return y * f <= 0.0

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return y * clip((theta - y * z) / k, 0.0, cap) if k > 0.0 else 0.0


class Novelty(OneScore, _Margin):
    """max(0, rho - f): points of low score are novel.  Only f < rho updates.  A "mistake" of the trace is an alert, f < rho."""

    __slots__ = ()
    targets = "none"
    theta = _Margin.rho

    def __new__(cls, rho: float = 1.0) -> Novelty:
        return super().__new__(cls, threshold("Novelty", "rho", rho, positive=False))

    @compiled
    def value(loss, f, y, theta):
        return max(0.0, theta - f)

    @compiled
    def slope(loss, f, y, theta, tie):
        return -1.0 if f < theta else 0.0

    @compiled
    def violated(loss, f, y, theta, tie):
        return f < theta

    @compiled
    def mistake(loss, f, y, theta):
        return f < theta

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return clip((theta - z) / k, 0.0, cap) if k > 0.0 else 0.0


class Square(OneScore, NamedTuple("_Square", [])):
    """1/2 (y - f)^2"""

    __slots__ = ()
    targets = "reals"

    @compiled
    def value(loss, f, y, theta):
        return 0.5 * (y - f) * (y - f)

    @compiled
    def slope(loss, f, y, theta, tie):
        return f - y

    @compiled
    def curvature(loss, f, y, theta):
        return 1.0

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return cap * (y - z) / (1.0 + cap * k)

    @compiled
    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        return smooth_tangent(z + k * a - y, 1.0, cap, k, dz, dcap)


class Logistic(OneScore, NamedTuple("_Logistic", [])):
    """log(1 + exp(-y f)), y = +1 or -1"""

    __slots__ = ()
    targets = "signs"

    @compiled
    def value(loss, f, y, theta):
        margin = y * f
        return max(0.0, -margin) + math.log1p(math.exp(-abs(margin)))

    @compiled
    def slope(loss, f, y, theta, tie):
        return -y * sigmoid(-y * f)

    @compiled
    def curvature(loss, f, y, theta):
        return sigmoid(f) * sigmoid(-f)

    @compiled
    def mistake(loss, f, y, theta):
        return y * f <= 0.0

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return y * logistic_root(y * z, k, cap)

    @compiled
    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        u = z + k * a
        return smooth_tangent(-y * sigmoid(-y * u), sigmoid(u) * sigmoid(-u), cap, k, dz, dcap)


class _Width(NamedTuple):
    epsilon: float


class EpsilonInsensitive(Tube, _Width):
    """max(0, |y - f| - epsilon).  Only |y - f| > epsilon updates.  A "mistake" of the trace is a point outside the tube."""

    __slots__ = ()
    theta = _Width.epsilon

    def __new__(cls, epsilon: float = 0.1) -> EpsilonInsensitive:
        return super().__new__(cls, threshold("EpsilonInsensitive", "epsilon", epsilon, positive=False))

    @compiled
    def value(loss, f, y, theta):
        return max(0.0, abs(y - f) - theta)

    @compiled
    def slope(loss, f, y, theta, tie):
        return -np.sign(y - f) if abs(y - f) > theta else 0.0

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return np.sign(y - z) * clip((abs(y - z) - theta) / k, 0.0, cap) if k > 0.0 else 0.0


class _Scale(NamedTuple):
    sigma: float


class Huber(Tube, _Scale):
    """With d = y - f:  |d| - sigma/2 if |d| >= sigma, else d^2 / (2 sigma).  A "mistake" of the trace is |d| > sigma."""

    __slots__ = ()
    theta = _Scale.sigma

    def __new__(cls, sigma: float = 1.0) -> Huber:
        return super().__new__(cls, threshold("Huber", "sigma", sigma, positive=True))

    @compiled
    def value(loss, f, y, theta):
        d = abs(y - f)
        return d - 0.5 * theta if d >= theta else 0.5 * d * d / theta

    @compiled
    def slope(loss, f, y, theta, tie):
        return clip((f - y) / theta, -1.0, 1.0)

    @compiled
    def curvature(loss, f, y, theta):
        return 1.0 / theta if abs(y - f) < theta else 0.0

    @compiled
    def prox(loss, z, y, theta, cap, k):
        return clip(cap * (y - z) / (theta + cap * k), -cap, cap)

    @compiled
    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        if abs(a) >= cap:
            return np.sign(a) * dcap
        return smooth_tangent((z + k * a - y) / theta, 1.0 / theta, cap, k, dz, dcap)
