"""The shared points: which one goes, into which neighbour, and where a new one comes."""

from __future__ import annotations

import numpy as np

from onkel.core.machine.compiled import VECTOR, compiled
from onkel.core.portfolio.halves import narrow, wide
from onkel.core.portfolio.kernels import kernels


@compiled(fastmath=VECTOR)
def weigh(members, points, p):
    """What would be lost with point p: the coefficients in units of each member's largest step."""
    lost = 0.0
    for m in range(len(members.cap)):
        size = 0.0
        for k in range(points.coef.shape[1]):
            size += abs(wide(points.coef[m, k, p]))
        lost += size * points.fade[m] / members.cap[m]
    points.heft[p] = lost


@compiled
def lightest(heft, n):
    found = 0
    for p in range(1, n):
        if heft[p] < heft[found]:
            found = p
    return found


@compiled
def free(members, points, n, metric, K, tile, q):
    """Merge the lightest of n points into each member's nearest neighbour of it; its place."""
    gone = lightest(points.heft, n)
    for j in range(len(q)):
        q[j] = points.code[j, gone]
    kernels(members, points.code, n, q, metric, K, tile)
    for m in range(len(members.cap)):
        near, best = -1, np.float32(-1.0)
        for p in range(n):
            if p != gone and K[m, p] > best:
                near, best = p, K[m, p]
        moved = np.float32(0.0)
        for k in range(points.coef.shape[1]):
            part = wide(points.coef[m, k, gone])
            moved += abs(part)
            if near >= 0 and part != 0.0:
                points.coef[m, k, near] = narrow(wide(points.coef[m, k, near]) + best * part)
            points.coef[m, k, gone] = 0
        if near >= 0 and moved > 0.0:
            weigh(members, points, near)
    return gone


@compiled
def fold(points, n):
    """Keep the common factors of coefficients from vanishing."""
    for m in range(len(points.fade)):
        if points.fade[m] < 1e-3:
            for k in range(points.coef.shape[1]):
                for p in range(n):
                    points.coef[m, k, p] = narrow(wide(points.coef[m, k, p]) * np.float32(points.fade[m]))
            points.fade[m] = 1.0


@compiled(fastmath=VECTOR)
def expansion(coef, K, n):
    """sum_p coef_p K_p"""
    s = np.float32(0.0)
    for p in range(n):
        s += wide(coef[p]) * K[p]
    return s
