"""The losses of one score once more, from their definitions and on whole arrays: what a certificate is computed with.

Nothing here is shared with the loop, so a certificate is a second opinion.  ``c`` bounds the slope; infinity where nothing does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Score = Any  # a number, or an array of them


class Convex(NamedTuple):
    """A loss at given targets: value and slope of scores z, and the a that solves a = -cap slope(z + k a)."""

    name: str
    c: float
    value: Callable[[Score, Score], Score]
    slope: Callable[[Score, Score], Score]
    prox: Callable[[Score, Score, Score, Score], Score]


def convex(loss: Any, tie: bool = False) -> Convex | None:
    """The twin of a loss, ``tie`` as an explicit step takes the hinge at its kink; None for label losses and a user's own."""
    name = type(loss).__name__
    if name in ("Hinge", "Novelty"):
        rho = float(loss.rho)
        inside = np.less_equal if tie and name == "Hinge" else np.less
        return Convex(
            name,
            1.0,
            lambda z, y: np.maximum(0.0, rho - y * z),
            lambda z, y: np.where(inside(y * z, rho), -y, 0.0),
            lambda z, y, cap, k: y * np.clip((rho - y * z) / k, 0.0, cap),
        )
    if name == "Square":
        return Convex(
            name,
            math.inf,
            lambda z, y: 0.5 * (y - z) ** 2,
            lambda z, y: z - y,
            lambda z, y, cap, k: cap * (y - z) / (1.0 + cap * k),
        )
    if name == "EpsilonInsensitive":
        epsilon = float(loss.epsilon)
        return Convex(
            name,
            1.0,
            lambda z, y: np.maximum(0.0, np.abs(y - z) - epsilon),
            lambda z, y: np.where(np.abs(y - z) > epsilon, np.sign(z - y), 0.0),
            lambda z, y, cap, k: np.sign(y - z) * np.clip((np.abs(y - z) - epsilon) / k, 0.0, cap),
        )
    if name == "Huber":
        sigma = float(loss.sigma)
        return Convex(
            name,
            1.0,
            lambda z, y: np.where(np.abs(y - z) >= sigma, np.abs(y - z) - 0.5 * sigma, 0.5 * (y - z) ** 2 / sigma),
            lambda z, y: np.clip((z - y) / sigma, -1.0, 1.0),
            lambda z, y, cap, k: np.clip(cap * (y - z) / (sigma + cap * k), -cap, cap),
        )
    if name == "Logistic":
        return Convex(name, 1.0, lambda z, y: np.logaddexp(0.0, -y * z), lambda z, y: -y * _sigmoid(-y * z), _logistic_prox)
    return None


def _sigmoid(z: Score) -> Score:
    e = np.exp(-np.abs(z))
    return np.where(np.asarray(z) >= 0, 1.0, e) / (1.0 + e)


def _logistic_prox(z: Score, y: Score, cap: Score, k: Score) -> Score:
    """y s with s = cap sigmoid(-(y z + k s)): Newton inside a bracket."""
    margin = np.asarray(y * z, float)
    low, high = np.zeros_like(margin), np.zeros_like(margin) + cap
    s = 0.5 * (low + high)
    for _ in range(60):
        p = _sigmoid(-(margin + k * s))
        error = s - cap * p
        low, high = np.where(error < 0, s, low), np.where(error < 0, high, s)
        step = s - error / (1.0 + cap * k * p * (1.0 - p))
        new = np.where((step > low) & (step < high), step, 0.5 * (low + high))
        if np.all(np.abs(new - s) <= 1e-15 * (1.0 + np.abs(new))):
            return y * new
        s = new
    return y * s
