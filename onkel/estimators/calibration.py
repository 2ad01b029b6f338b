"""Honest uncertainty, learned on the stream: probabilities from scores, and intervals around predictions.

Both learn from the scores that an example had *before* it was learned, so they are out of sample at every moment.  Their memory
is one small vector of numbers (``fresh`` makes it), which is copied, saved and compared like the rest of a model's state.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.loop.layout import CALL, NUMBERS, TRACE, VECTORS
from onkel.core.loop.scan import answer, learn_one
from onkel.core.machine.calls import array_at, data_of, matrix_of, unpacked
from onkel.core.machine.compiled import compiled

SHARPNESS, INFORMATION, REACH, SPREAD, CENTER, COUNT, CELLS = range(7)
MEMORY = 0.999  # the temperature forgets over about 1000 examples
RATE = 0.1  # by how many typical errors a miss widens the interval
WINDOW = 100.0  # examples over which running means look back


def fresh() -> NDArray[np.float64]:
    """Temperature 1 with the weight of a few examples, a reach of two typical errors, nothing seen."""
    cells = np.zeros(CELLS)
    cells[INFORMATION] = 1.0
    cells[REACH] = 2.0
    return cells


@compiled
def sharpen(cells, scores, codes, weight):
    """Temperature scaling p = softmax(a f), one Gauss-Newton step in log a per example on its log loss.

    With p's mean and variance of the scores, the slope in log a is a (mean f - f_y) and the curvature a^2 var f; curvatures add
    up and fade by MEMORY, so the step shrinks to about 1/1000 of the information in one example.  a > 0: p ranks as f does.
    """
    m = scores.shape[1]
    for t in range(len(codes)):
        w = weight[t]
        a = math.exp(cells[SHARPNESS])
        top = scores[t, 0]
        for z in range(1, m):
            top = max(top, scores[t, z])
        total = mean = square = 0.0
        for z in range(m):
            s = scores[t, z] - top
            p = math.exp(a * s)
            total += p
            mean += p * s
            square += p * s * s
        mean /= total
        spread = max(square / total - mean * mean, 0.0)
        cells[INFORMATION] = MEMORY * cells[INFORMATION] + w * a * a * spread
        slope = w * a * (mean - (scores[t, int(codes[t])] - top))
        step = slope / max(cells[INFORMATION], 1e-3)
        cells[SHARPNESS] = min(max(cells[SHARPNESS] - min(max(step, -0.5), 0.5), -12.0), 12.0)


def probabilities(cells: NDArray[np.float64], scores: NDArray[Any]) -> NDArray[np.float64]:
    """softmax(a f), (n, m); the largest entry of each row stands where the largest score does, rounding or not."""
    p = np.exp(math.exp(cells[SHARPNESS]) * (scores - scores.max(axis=1, keepdims=True)))
    p /= p.sum(axis=1, keepdims=True)
    rows, best = np.arange(len(p)), scores.argmax(axis=1)
    tied = p.argmax(axis=1) != best
    p[rows[tied], best[tied]] = np.nextafter(p[tied].max(axis=1), 2.0)
    return p


# Intervals and alerts.  c is moved by RATE (miss - alpha) after every example, so that the share of misses among T examples is
# exactly alpha + (c_T - c_0) / (RATE T): whatever the data do, it goes to alpha as long as c stays bounded, which it does where
# errors stay within some multiple of their running mean.  (Gibbs and Candes 2021; Angelopoulos, Candes and Tibshirani 2023)


@compiled
def widen(cells, scores, y, alpha):
    """Intervals f -+ c spread that miss a share alpha of the targets; spread is the running mean of |y - f|."""
    for t in range(len(y)):
        residual = abs(y[t] - scores[t])
        missed = residual > cells[REACH] * cells[SPREAD]
        cells[REACH] = max(0.0, cells[REACH] + RATE * ((1.0 if missed else 0.0) - alpha))
        cells[COUNT] += 1.0
        cells[SPREAD] += (residual - cells[SPREAD]) / min(cells[COUNT], WINDOW)


@compiled
def lower(cells, scores, nu):
    """A threshold center - c spread with a share nu of the scores below; center and spread are running means."""
    for t in range(len(scores)):
        away = scores[t] - cells[CENTER]
        below = away < -cells[REACH] * cells[SPREAD]
        cells[REACH] += RATE * ((1.0 if below else 0.0) - nu)
        cells[COUNT] += 1.0
        cells[CENTER] += away / min(cells[COUNT], WINDOW)
        cells[SPREAD] += (abs(away) - cells[SPREAD]) / min(cells[COUNT], WINDOW)


NOTHING, CLASSES, REALS, ALERTS = range(4)


# The short ways in: one call for one example, which learns and calibrates on the scores that it had before.  ``fixed`` is packed
# by Model.bind, which also says what a row is like; anything else is UNFIT, and has to take the long way.

UNFIT = -4


@compiled(melt=True)
def sound(address, x):
    if address == 0:
        return False
    good = True
    for j in range(x.size):
        good = good and math.isfinite(x[j])
    return good


@compiled(borrow=True, nogil=False)
def learn_row(fixed, row, y):
    cells, kind, share, loss, kappa, kernel, rule, num, slots, born, gram, eta, like = unpacked(fixed)
    address = data_of(row, like)
    x = array_at(address, like[2], slots)
    if not sound(address, x):
        return UNFIT
    code = learn_one(loss, kappa, kernel, np.inf, rule, num, slots, born, gram, x, y, 1.0, eta)
    if code >= 0 and kind != NOTHING:
        end = num.size - CALL
        m = (end - NUMBERS - TRACE) // (VECTORS + 1)
        scores = num[end - TRACE - m : end - TRACE]
        if kind == CLASSES:
            sharpen(cells, matrix_of(scores, 0, 1, m), num[end : end + 1], num[end + 2 : end + 3])
        elif kind == REALS:
            widen(cells, scores, num[end : end + 1], share)
        else:
            lower(cells, scores, share)
    return code


@compiled(borrow=True, nogil=False)
def best_row(fixed, row):
    """The code of the highest score, the lowest code on ties."""
    kappa, kernel, first, num, slots, work, raw, like = unpacked(fixed)
    address = data_of(row, like)
    x = array_at(address, like[2], slots)
    if not sound(address, x):
        return UNFIT
    answer(kappa, kernel, matrix_of(x, 0, 1, x.size), 0, first, num, slots, work, raw)
    m = raw.size // 2
    best = 0
    for z in range(1, m):
        best = z if raw[m + z] > raw[m + best] else best
    return best


@compiled(borrow=True, nogil=False)
def score_row(fixed, row):
    """The first score; not a number where the row is unfit."""
    kappa, kernel, first, num, slots, work, raw, like = unpacked(fixed)
    address = data_of(row, like)
    x = array_at(address, like[2], slots)
    if not sound(address, x):
        return math.nan
    answer(kappa, kernel, matrix_of(x, 0, 1, x.size), 0, first, num, slots, work, raw)
    return raw[raw.size // 2]


def half_width(cells: NDArray[np.float64]) -> float:
    """Half the width of the interval around the next prediction."""
    return float(cells[REACH] * cells[SPREAD])


def threshold(cells: NDArray[np.float64]) -> float:
    """Scores below are novel."""
    return float(cells[CENTER] - cells[REACH] * cells[SPREAD])
