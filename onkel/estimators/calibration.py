"""Honest uncertainty, learned on the stream: probabilities from scores, and intervals around predictions.

Both learn from the scores that an example had *before* it was learned, so they are out of sample at every moment.  Their memory
is one small vector of numbers (``fresh`` makes it), which is copied, saved and compared like the rest of a model's state.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.gate import is_finite, must
from onkel.core.machine.compiled import compiled
from onkel.core.machine.numbers import larger, smaller
from onkel.core.maths.prox import clip

SHARPNESS, INFORMATION, REACH, SPREAD, CENTER, COUNT, CELLS = range(7)
LEAST = CENTER  # of a classifier: the least probability with which a class belongs to a set
SHARPEST = 12.0  # |log a| at most
PACE = 0.02  # by how much probability a miss lowers what it takes to belong to a set
MEMORY = 0.999  # the temperature forgets over about 1000 examples
RATE = 0.1  # by how many typical errors a miss widens the interval
FLOOR = 0.1  # of the typical error everywhere: no place is surer than that
WINDOW = 100.0  # examples over which running means look back


def fresh() -> NDArray[np.float64]:
    """Temperature 1 with the weight of a few examples, a reach of two typical errors, nothing seen."""
    cells = np.zeros(CELLS)
    cells[INFORMATION] = 1.0
    cells[REACH] = 2.0
    return cells


def check(cells: Any) -> None:
    """Refuse what is no such vector, or one that no stream leads to."""
    must(is_finite(cells, (CELLS,), np.float64), "its calibration")
    must(abs(cells[SHARPNESS]) <= SHARPEST and min(cells[[INFORMATION, SPREAD, COUNT]]) >= 0.0, "its calibration")


@compiled(borrow=True)
def sharpen(cells, scores, codes, weight, alpha):
    """Temperature scaling p = softmax(a f), one Gauss-Newton step in log a per example on its log loss.

    With p's mean and variance of the scores, the slope in log a is a (mean f - f_y) and the curvature a^2 var f; curvatures add
    up and fade by MEMORY, so the step shrinks to about 1/1000 of the information in one example.  a > 0: p ranks as f does.

    Beside it a threshold q, for the sets of all classes with p >= q: it moves by PACE (alpha - missed), so that the share of
    misses among T examples is alpha - (q_T - q_0) / (PACE T), to the digit.  q > 1 always misses and q <= 0 never does, so q stays
    between -PACE and 1 + PACE, and the share is alpha up to 1 / (PACE T) whatever the stream does.
    """
    m = scores.shape[1]
    for t in range(len(codes)):
        w = weight[t]
        a = math.exp(cells[SHARPNESS])
        top = scores[t, 0]
        for z in range(1, m):
            top = larger(top, scores[t, z])
        total = mean = square = own = 0.0
        for z in range(m):
            s = scores[t, z] - top
            p = math.exp(a * s)
            own = p if z == codes[t] else own
            total += p
            mean += p * s
            square += p * s * s
        cells[LEAST] += PACE * (alpha - (1.0 if own < cells[LEAST] * total else 0.0))
        mean /= total
        spread = larger(square / total - mean * mean, 0.0)
        cells[INFORMATION] = MEMORY * cells[INFORMATION] + w * a * a * spread
        slope = w * a * (mean - (scores[t, int(codes[t])] - top))
        step = slope / larger(cells[INFORMATION], 1e-3)
        cells[SHARPNESS] = clip(cells[SHARPNESS] - clip(step, -0.5, 0.5), -SHARPEST, SHARPEST)
    return len(codes)


def probabilities(cells: NDArray[np.float64], scores: NDArray[Any]) -> NDArray[np.float64]:
    """softmax(a f), (n, m); the largest entry of each row stands where the largest score does, rounding or not."""
    p = np.exp(math.exp(cells[SHARPNESS]) * (scores - scores.max(axis=1, keepdims=True)))
    p /= p.sum(axis=1, keepdims=True)
    rows, best = np.arange(len(p)), scores.argmax(axis=1)
    tied = p.argmax(axis=1) != best
    p[rows[tied], best[tied]] = np.nextafter(p[tied].max(axis=1), 2.0)
    return np.asarray(p)


def members(cells: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which classes belong to the set of each row, given their probabilities."""
    return np.asarray(p >= cells[LEAST])


# Intervals and alerts.  c is moved by RATE (miss - alpha) after every example, so that the share of misses among T examples is
# exactly alpha + (c_T - c_0) / (RATE T): whatever the data do, it goes to alpha as long as c stays bounded, which it does where
# errors stay within some multiple of their running mean.  (Gibbs and Candes 2021; Angelopoulos, Candes and Tibshirani 2023)


@compiled(borrow=True)
def widen(cells, scores, y, weight, alpha):
    """Intervals f -+ c spread that miss a share alpha of the targets; spread is the running mean of |y - f|."""
    for t in range(len(y)):
        residual = abs(y[t] - scores[t, 0])
        missed = residual > cells[REACH] * cells[SPREAD]
        cells[REACH] = larger(0.0, cells[REACH] + RATE * ((1.0 if missed else 0.0) - alpha))
        cells[COUNT] += 1.0
        cells[SPREAD] += (residual - cells[SPREAD]) / smaller(cells[COUNT], WINDOW)
    return len(y)


@compiled
def widen_locally(cells, scores, y, alpha, typical):
    """Intervals f -+ c s(x): the same with a typical error s of its own for each point."""
    for t in range(len(y)):
        residual = abs(y[t] - scores[t])
        missed = residual > cells[REACH] * larger(typical[t], FLOOR * cells[SPREAD])
        cells[REACH] = larger(0.0, cells[REACH] + RATE * ((1.0 if missed else 0.0) - alpha))
        cells[COUNT] += 1.0
        cells[SPREAD] += (residual - cells[SPREAD]) / smaller(cells[COUNT], WINDOW)


@compiled(borrow=True)
def lower(cells, scores, y, weight, nu):
    """A threshold center - c spread with a share nu of the scores below; center and spread are running means."""
    for t in range(len(y)):
        away = scores[t, 0] - cells[CENTER]
        below = away < -cells[REACH] * cells[SPREAD]
        cells[REACH] += RATE * ((1.0 if below else 0.0) - nu)
        cells[COUNT] += 1.0
        cells[CENTER] += away / smaller(cells[COUNT], WINDOW)
        cells[SPREAD] += (abs(away) - cells[SPREAD]) / smaller(cells[COUNT], WINDOW)
    return len(y)


@compiled
def lower_rows(cells, scores, y, weight, nu):
    """The same, and which scores were below."""
    alerts = np.zeros(len(y), np.bool_)
    for t in range(len(y)):
        alerts[t] = scores[t, 0] - cells[CENTER] < -cells[REACH] * cells[SPREAD]
        lower(cells, scores[t : t + 1], y[t : t + 1], weight[t : t + 1], nu)
    return alerts


class Calibration(NamedTuple):
    """Compiled code that hears the scores that examples had before they were learned, and the share that it shall keep."""

    follow: Any
    share: float = 0.0

    def follow_block(self, cells: Any, scores: Any, y: Any, weight: Any, typical: Any = None) -> Any:
        """Hear of a block, each example by the scores that it had before; returns the alerts, where there are such.

        ``typical`` is how large errors at each of the points typically are, where they differ.
        """
        if typical is not None:
            return widen_locally(cells, scores, y, self.share, typical)
        follow = lower_rows if self.follow is lower else self.follow
        told = follow(cells, scores.reshape(len(y), -1), y, np.ones(len(y)) if weight is None else weight, self.share)
        return told if self.follow is lower else None


def half_width(cells: NDArray[np.float64], typical: Any = None) -> Any:
    """Half the width of the interval around the next prediction, or around predictions with these typical errors."""
    return cells[REACH] * (cells[SPREAD] if typical is None else np.maximum(typical, FLOOR * cells[SPREAD]))


def threshold(cells: NDArray[np.float64]) -> float:
    """Scores below are novel."""
    return float(cells[CENTER] - cells[REACH] * cells[SPREAD])
