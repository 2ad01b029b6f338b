"""One example in, one answer out: the short road, on which handing over the arguments is most of the cost.

The row is looked at where it lies, copied into a block of one, and the same machine code that learns or scores blocks is called at
its address.  So none of this depends on kernel or loss.  A row that is not what was promised is UNFIT, and takes the general road.
"""

from __future__ import annotations

import math

from onkel.core.machine.calls import array_at, data_of, jumper, unpacked
from onkel.core.machine.compiled import compiled, inner

UNFIT = -4

_loop, _after = jumper("loop"), jumper("calibration")


@inner(inlined=True)
def copied(row, like, x):
    """Whether the row was fit, and is now in x."""
    start = data_of(row, like)
    if start == 0:
        return False
    given = array_at(start, like[2], x)
    good = True
    for j in range(x.size):
        x[j] = given[j]
        good = good and math.isfinite(given[j])
    return good


@compiled(borrow=True, nogil=False)
def learn_row(fixed, row, y):
    """Learn one example; what it was scored before goes to the code that calibrates on it, if there is one."""
    loop, pack, x, like, target, calibration, share, cells, scores, weight = unpacked(fixed)
    if not copied(row, like, x):
        return UNFIT
    target[0] = y
    code = _loop(loop, (pack,))
    if code >= 0 and calibration != 0:
        _after(calibration, (cells, scores, target, weight, share))
    return code


@compiled(borrow=True, nogil=False)
def best_row(fixed, row):
    """The code of the highest score, the lowest code on ties."""
    loop, pack, x, like, out = unpacked(fixed)
    if not copied(row, like, x):
        return UNFIT
    _loop(loop, (pack,))
    best = 0
    for z in range(1, out.shape[1]):
        best = z if out[0, z] > out[0, best] else best
    return best


@compiled(borrow=True, nogil=False)
def score_row(fixed, row):
    """The first score; not a number where the row is unfit."""
    loop, pack, x, like, out = unpacked(fixed)
    if not copied(row, like, x):
        return math.nan
    _loop(loop, (pack,))
    return out[0, 0]
