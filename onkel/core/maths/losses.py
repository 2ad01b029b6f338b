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
from typing import ClassVar

import numpy as np

from onkel.core.machine.numbers import larger
from onkel.core.maths.loss import Loss, OneScore, Straight, Threshold, Tube, Unlimited, smooth_tangent
from onkel.core.maths.prox import clip, logistic_root, sigmoid
from onkel.core.maths.value import number

__all__ = ["EpsilonInsensitive", "Hinge", "Huber", "Logistic", "Novelty", "Square"]
__all__ += ["Loss", "OneScore", "Straight", "Threshold", "Tube", "Unlimited", "smooth_tangent"]  # the bases, from loss.py


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
