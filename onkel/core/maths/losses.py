"""Losses: what a wrong score costs, how steep that cost is, and the exact implicit step for it.

A loss of one score f has, compiled, with theta its margin or tube (which the nu-trick may move, hence an argument):

    value(f, y, theta)                 the cost
    slope(f, y, theta, tie)            its derivative in f; at the kink 0, unless ``tie`` asks for the steep side ([K] (14))
    curvature(f, y, theta)             its second derivative
    prox(z, y, theta, cap, k)          a with  a = -cap slope(z + k a)
    tangent(...)                       how that a moves when z and cap move by dz and dcap (meta-descent on implicit steps)
    mistake, violated                  what counts as an online mistake, and as a violation for the nu-trick

``labelled.py`` has the same on vectors of scores, ``user_loss.py`` makes a loss of two functions of the user's.
Each class states which subgradient it takes at its kink.  ``cuda`` says the same in C, with ``gain`` = 1 / k, or 0 for a k that is
not positive; ``slope`` there is that of an explicit step, with the steep side taken.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from onkel.core.machine.compiled import inner
from onkel.core.machine.numbers import larger
from onkel.core.maths.prox import clip, logistic_root, sigmoid
from onkel.core.maths.value import Value, number

TARGETS = {"signs": "+1 and -1", "reals": "real numbers", "codes": "class codes", "none": "nothing"}


class Threshold:
    """The field that is a loss's theta: a ``margin``, which violations shrink under the nu-trick, or a ``tube``, which they widen.

    On a value it reads as the number; a loss without one says ``theta = Threshold(None)`` and reads NaN.
    """

    def __init__(self, field: str | None, tube: bool = False, lowest: float = 0.0):
        self.field, self.tube, self.lowest = field, tube, lowest

    def __get__(self, loss: Any, cls: Any = None) -> Any:
        if loss is None:
            return self
        return math.nan if self.field is None else getattr(loss, self.field)

    @property
    def margin(self) -> bool:
        return self.field is not None and not self.tube


class Loss(Value, abstract=True):
    """What every loss says, of one score or over labels."""

    asked: ClassVar = {
        "targets": f"what it learns from: {', '.join(map(repr, TARGETS))}",
        "theta": "its margin or tube: Threshold(field, tube, lowest), or Threshold(None)",
        "stores_all": "whether every example moves the scores, so that all of them are stored",
        "cuda": "its formulas in C, or None where the card is not to know it",
    }
    targets: ClassVar[str]
    theta: ClassVar[Any]
    stores_all: ClassVar[bool]
    cuda: ClassVar[Mapping[str, str] | None]
    labelled: ClassVar[bool] = False
    doubtful: ClassVar[bool] = False  # whether it might not be convex, so that the loop has a look

    @classmethod
    def complete(cls) -> None:
        super().complete()
        if cls.targets not in TARGETS:
            raise TypeError(f"{cls.__name__}: targets must be one of {', '.join(map(repr, TARGETS))}; got {cls.targets!r}")
        theta: Any = cls.theta
        if not isinstance(theta, Threshold) or (theta.field is not None and theta.field not in cls._fields):
            raise TypeError(f"{cls.__name__}: theta must be a Threshold of one of its fields {cls._fields}; got {theta!r}")


@inner
def smooth_tangent(slope, curvature, cap, k, dz, dcap):
    """Of a = -cap slope(z + k a), differentiated; slope and curvature at the new score."""
    return -(dcap * slope + cap * curvature * dz) / (1.0 + cap * curvature * k)


class OneScore(Loss, abstract=True):
    """Losses of one score."""

    formulas: ClassVar = {name: {} for name in ("value", "slope", "curvature", "violated", "mistake", "prox", "tangent")}
    asked: ClassVar = {
        **Loss.asked,
        **dict.fromkeys(formulas, "a function, as onkel/core/maths/losses.py lists it"),
    }


class Straight(OneScore, abstract=True):
    """Losses of straight pieces with one kink, whose prox is clipped between 0 and the cap."""

    def curvature(loss, f, y, theta):
        return 0.0

    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        """Of a = clip(-(z - kink)/k, -cap, cap): at the cap it moves with the cap, between it holds the score at the kink."""
        if a == 0.0:
            return 0.0
        if abs(a) >= cap:
            return np.sign(a) * dcap
        return -dz / k


class Unlimited(OneScore, abstract=True):
    """Losses without margin or tube: there is nothing to violate."""

    theta = Threshold(None)

    def violated(loss, f, y, theta, tie):
        return False


class Tube(OneScore, abstract=True):
    """Regression with a tube of width theta around the targets; what lies outside counts."""

    targets = "reals"

    def violated(loss, f, y, theta, tie):
        return abs(y - f) > theta

    def mistake(loss, f, y, theta):
        return abs(y - f) > theta


class Hinge(Straight):
    """max(0, rho - y f), y = +1 or -1.  rho = 0 makes the perceptron of an explicit step.

    At y f = rho an explicit step updates ([K] (14)), an adaptive one does not ([V] (15)).
    """

    rho: float = number(1.0, low=0)

    targets = "signs"
    theta = Threshold("rho")
    stores_all = False
    cuda: ClassVar = {
        "value": "fmax(0.0, theta - y * f)",
        "slope": "y * f <= theta ? -y : 0.0",
        "violated": "y * f <= theta",
        "mistake": "y * f <= 0.0",
        "prox": "y * clip((theta - y * z) * gain, 0.0, cap)",
    }

    def value(loss, f, y, theta):
        return larger(0.0, theta - y * f)

    def slope(loss, f, y, theta, tie):
        return -y if y * f < theta or (tie and y * f == theta) else 0.0

    def violated(loss, f, y, theta, tie):
        return y * f < theta or (tie and y * f == theta)

    def mistake(loss, f, y, theta):
        return y * f <= 0.0

    def prox(loss, z, y, theta, cap, k):
        return y * clip((theta - y * z) / k, 0.0, cap) if k > 0.0 else 0.0


class Novelty(Straight):
    """max(0, rho - f): points of low score are novel.  Only f < rho updates.  A "mistake" of the trace is an alert, f < rho."""

    rho: float = number(1.0, low=0)

    name = "novelty"
    targets = "none"
    theta = Threshold("rho")
    stores_all = False
    cuda: ClassVar = {
        "value": "fmax(0.0, theta - f)",
        "slope": "f < theta ? -1.0 : 0.0",
        "violated": "f < theta",
        "mistake": "f < theta",
        "prox": "clip((theta - z) * gain, 0.0, cap)",
    }

    def value(loss, f, y, theta):
        return larger(0.0, theta - f)

    def slope(loss, f, y, theta, tie):
        return -1.0 if f < theta else 0.0

    def violated(loss, f, y, theta, tie):
        return f < theta

    def mistake(loss, f, y, theta):
        return f < theta

    def prox(loss, z, y, theta, cap, k):
        return clip((theta - z) / k, 0.0, cap) if k > 0.0 else 0.0


class Square(Unlimited):
    """1/2 (y - f)^2"""

    name = "squared"
    targets = "reals"
    stores_all = True
    cuda: ClassVar = {
        "value": "0.5 * (y - f) * (y - f)",
        "slope": "f - y",
        "violated": "false",
        "mistake": "false",
        "prox": "cap * (y - z) / (1.0 + cap * k)",
    }

    def value(loss, f, y, theta):
        return 0.5 * (y - f) * (y - f)

    def slope(loss, f, y, theta, tie):
        return f - y

    def curvature(loss, f, y, theta):
        return 1.0

    def mistake(loss, f, y, theta):
        return False

    def prox(loss, z, y, theta, cap, k):
        return cap * (y - z) / (1.0 + cap * k)

    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        return smooth_tangent(z + k * a - y, 1.0, cap, k, dz, dcap)


class Logistic(Unlimited):
    """log(1 + exp(-y f)), y = +1 or -1"""

    targets = "signs"
    stores_all = True
    cuda: ClassVar = {
        "value": "fmax(0.0, -(y * f)) + log1p(exp(-fabs(y * f)))",
        "slope": "-y * sigmoid(-y * f)",
        "violated": "false",
        "mistake": "y * f <= 0.0",
        "prox": "y * logistic_root(y * z, k, cap)",
    }

    def value(loss, f, y, theta):
        margin = y * f
        return larger(0.0, -margin) + math.log1p(math.exp(-abs(margin)))

    def slope(loss, f, y, theta, tie):
        return -y * sigmoid(-y * f)

    def curvature(loss, f, y, theta):
        return sigmoid(f) * sigmoid(-f)

    def mistake(loss, f, y, theta):
        return y * f <= 0.0

    def prox(loss, z, y, theta, cap, k):
        return y * logistic_root(y * z, k, cap)

    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        u = z + k * a
        return smooth_tangent(-y * sigmoid(-y * u), sigmoid(u) * sigmoid(-u), cap, k, dz, dcap)


class EpsilonInsensitive(Tube, Straight):
    """max(0, |y - f| - epsilon).  Only |y - f| > epsilon updates.  A "mistake" of the trace is a point outside the tube."""

    epsilon: float = number(0.1, low=0)

    name = "epsilon_insensitive"
    theta = Threshold("epsilon", tube=True)
    stores_all = False
    cuda: ClassVar = {
        "value": "fmax(0.0, fabs(y - f) - theta)",
        "slope": "fabs(y - f) > theta ? -sign(y - f) : 0.0",
        "violated": "fabs(y - f) > theta",
        "mistake": "fabs(y - f) > theta",
        "prox": "sign(y - z) * clip((fabs(y - z) - theta) * gain, 0.0, cap)",
    }

    def value(loss, f, y, theta):
        return larger(0.0, abs(y - f) - theta)

    def slope(loss, f, y, theta, tie):
        return -np.sign(y - f) if abs(y - f) > theta else 0.0

    def prox(loss, z, y, theta, cap, k):
        return np.sign(y - z) * clip((abs(y - z) - theta) / k, 0.0, cap) if k > 0.0 else 0.0


class Huber(Tube):
    """With d = y - f:  |d| - sigma/2 if |d| >= sigma, else d^2 / (2 sigma).  A "mistake" of the trace is |d| > sigma."""

    sigma: float = number(1.0, above=0)

    name = "huber"
    theta = Threshold("sigma", tube=True, lowest=1e-12)  # the loss divides by it
    stores_all = True
    cuda: ClassVar = {
        "value": "fabs(y - f) >= theta ? fabs(y - f) - 0.5 * theta : 0.5 * (y - f) * (y - f) / theta",
        "slope": "clip((f - y) / theta, -1.0, 1.0)",
        "violated": "fabs(y - f) > theta",
        "mistake": "fabs(y - f) > theta",
        "prox": "clip(cap * (y - z) / (theta + cap * k), -cap, cap)",
    }

    def value(loss, f, y, theta):
        d = abs(y - f)
        return d - 0.5 * theta if d >= theta else 0.5 * d * d / theta

    def slope(loss, f, y, theta, tie):
        return clip((f - y) / theta, -1.0, 1.0)

    def curvature(loss, f, y, theta):
        return 1.0 / theta if abs(y - f) < theta else 0.0

    def prox(loss, z, y, theta, cap, k):
        return clip(cap * (y - z) / (theta + cap * k), -cap, cap)

    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        if abs(a) >= cap:
            return np.sign(a) * dcap
        return smooth_tangent((z + k * a - y) / theta, 1.0 / theta, cap, k, dz, dcap)
