"""One example in, one answer out: the short road, for which handing over the arguments is most of the cost.

``learn_row`` learns an example and calibrates on the scores that it had before; ``best_row`` and ``score_row`` answer.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from onkel.core.loop.dispatch import outputs
from onkel.core.loop.evict import integer
from onkel.core.loop.layout import ADAPTIVE, ADAPTIVE_IMPLICIT, CALL, NOT_STORED, NUMBERS, STEP, TRACE, USED, VECTORS, WORK
from onkel.core.loop.scan import answer, keep_point, look
from onkel.core.loop.step import step
from onkel.core.loop.vectors import padded
from onkel.core.machine.calls import array_at, data_of, matrix_of, unpacked
from onkel.core.machine.compiled import compiled, overload


@compiled(borrow=True, melt=True, nogil=False)
def learn_one(loss, kappa, kernel, keep, rule, num, slots, born, gram, x, y, weight, eta):
    """``scan`` of a single example, whose scores and trace go to the end of num."""
    end = num.size
    num[end - 4], num[end - 3], num[end - 2], num[end - 1] = y, eta, weight, keep
    many = (end - NUMBERS - TRACE - CALL) // (VECTORS + 1)
    X, answers = matrix_of(x, 0, 1, x.size), matrix_of(num, end - CALL - TRACE - many, 1, many)
    traces = matrix_of(num, end - CALL - TRACE, TRACE, 1)
    m = outputs(loss, answers)
    base = 2 * m if rule[STEP] == ADAPTIVE or rule[STEP] == ADAPTIVE_IMPLICIT else m
    keys, nothing = slots.view(integer(slots)), slots[0, :0]
    kxx = look(kernel, X, 0, nothing, slots, base, padded(int(num[USED]), slots))
    slot = step(
        loss, kappa, slots, base + WORK, kxx, y, eta, weight, keep,
        rule, num, slots, keys, born, gram, answers, 0, traces, 0, m, base,
    )  # fmt: skip
    if slot >= 0:
        keep_point(kernel, X, 0, slot, slots, slots, base, born)
    return slot if slot < NOT_STORED else 0


# ``fixed`` is packed by whoever holds the model, who also says what a row is like; anything else is UNFIT, and has to take the
# long way.

UNFIT = -4


class Nothing(NamedTuple):
    """Stands where a calibration would, when there is nothing to calibrate."""


def calibrate(calibration, cells, scores, y, weight):
    """What the model learns about its scores: ``calibration.follow(cells, scores, y, weight)``, compiled, of one example."""


@overload(calibrate)
def _calibrate(calibration, cells, scores, y, weight):
    if calibration.instance_class is Nothing:
        return lambda calibration, cells, scores, y, weight: None
    f = calibration.instance_class.follow
    return lambda calibration, cells, scores, y, weight: f(calibration, cells, scores, y, weight)


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
    cells, calibration, loss, kappa, kernel, rule, num, slots, born, gram, eta, like = unpacked(fixed)
    address = data_of(row, like)
    x = array_at(address, like[2], slots)
    if not sound(address, x):
        return UNFIT
    code = learn_one(loss, kappa, kernel, np.inf, rule, num, slots, born, gram, x, y, 1.0, eta)
    if code >= 0:
        end = num.size - CALL
        m = (end - NUMBERS - TRACE) // (VECTORS + 1)
        scores = num[end - TRACE - m : end - TRACE]
        calibrate(calibration, cells, scores, num[end : end + 1], num[end + 2 : end + 3])
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
