"""A row in two views: its columns brought to one scale, and as they came.  Both follow from one code of eight bits a value.

A code counts sixteenths of a standard deviation (of asinh of it where a column has heavy tails; columns of 0 and 1 stay).  Codes
are made with what was known at the last look at the columns; looks come ever more rarely, and recode what is stored.
"""

from __future__ import annotations

import math

import numpy as np

from onkel.core.machine.compiled import compiled

STEPS = 16.0  # codes per standard deviation
TOP = 127  # the largest code
REACH = 10.0  # standard deviations at which the view is clipped
HEAVY = 9.0  # E z^4 above which tails are heavy
WATCHED = 128  # rows after which median distances stay


@compiled
def see(v, x, z, q, u):
    """x in float: z the scaled view, q the nearest code, u the raw columns (missing: the mean)."""
    for j in range(len(x)):
        if x[j] != x[j]:
            z[j], q[j], u[j] = 0.0, 0.0, v.mean[j]
            continue
        u[j] = x[j]
        s = (x[j] - v.center[j]) / v.unit[j]
        if v.form[j] == 2:
            s = math.asinh(s)
        s = min(max(s, -REACH), REACH)
        z[j] = s
        q[j] = min(max(np.rint(s * STEPS), -TOP), TOP)


@compiled
def absorb(v, x):
    """Count a row in what is known about its columns."""
    v.count[0] += 1
    for j in range(len(x)):
        if x[j] != x[j]:
            continue
        v.seen[j] += 1.0
        off = x[j] - v.mean[j]
        v.mean[j] += off / v.seen[j]
        v.spread[j] += off * (x[j] - v.mean[j])
        sd = math.sqrt(v.spread[j] / v.seen[j])
        if sd > 0.0:
            v.fourth[j] += ((x[j] - v.mean[j]) / sd) ** 4
        if x[j] != 0.0 and x[j] != 1.0:
            v.plain[j] = 0


@compiled
def due(t):
    """The row after t at which codes are made anew: 2, 3, 4, 6, 8, 12, 16, 24, ..."""
    p = 1
    while p * 2 <= t:
        p *= 2
    return p + p // 2 if t < p + p // 2 else 2 * p


@compiled
def recode(v, code, n):
    """Look at the columns: new centers and units, and the stored codes in them."""
    for j in range(len(v.mean)):
        form, center, unit = 0, v.mean[j], 1.0
        if v.plain[j] == 1 and v.seen[j] > 0:
            form, center = 1, 0.0
        elif v.seen[j] > 0:
            sd = math.sqrt(v.spread[j] / v.seen[j])
            if sd > 0.0:
                unit = sd
                form = 2 if v.fourth[j] / v.seen[j] > HEAVY else 0
        old, was, by = v.form[j], v.center[j], v.unit[j]
        for p in range(n):
            s = code[j, p] / STEPS
            raw = was + by * (math.sinh(s) if old == 2 else s)
            s = (raw - center) / unit
            if form == 2:
                s = math.asinh(s)
            code[j, p] = min(max(np.rint(s * STEPS), -TOP), TOP)
        v.form[j], v.center[j], v.unit[j] = form, center, unit


@compiled
def base(v, raw, j):
    """What one step of the code is worth in a view."""
    if raw == 1 and v.form[j] != 1:
        return v.unit[j] / STEPS
    return 1.0 / STEPS


@compiled
def medians(v, code, n, d):
    """Median distances between the first stored points in their first d columns, in both views and both metrics."""
    n = min(n, 48)
    pairs = n * (n - 1) // 2
    if pairs == 0:
        return
    out = np.empty((4, pairs))
    i = 0
    for a in range(n):
        for b in range(a):
            for r in range(2):
                squares, absolute = 0.0, 0.0
                for j in range(d):
                    off = base(v, r, j) * (code[j, a] - code[j, b])
                    squares += off * off
                    absolute += abs(off)
                out[2 * r, i], out[2 * r + 1, i] = squares, absolute
            i += 1
    for r in range(4):
        m = np.median(out[r])
        if m > 0.0:
            v.median[r] = m
