"""Kernels of all members between a row and the shared points, in one pass over the codes; and how their widths are learned."""

from __future__ import annotations

import math

import numpy as np

from onkel.core.machine.compiled import VECTOR, compiled
from onkel.core.machine.lanes import LOG2E, exp2
from onkel.core.portfolio.views import base

TILE = 256  # points at a time
SPAN = (-4.0, 3.0)  # of a log width
DECAY = 0.995  # of the mean square gradient


@compiled
def measure(members, v, points, metric, lags):
    """metric[m, j]: what a step of column j's code adds to the exponent of member m; the last ``lags`` are earlier targets."""
    for m in range(len(members.width)):
        raw = members.raw[m]
        median = v.median[2 * raw + members.laplace[m]]
        whole = LOG2E / (members.width[m] * median) if members.laplace[m] else LOG2E / (2.0 * members.width[m] ** 2 * median)
        for j in range(metric.shape[1]):
            b = base(v, raw, j)
            metric[m, j] = whole * (b if members.laplace[m] else b * b)
        if members.lags[m] == 0:
            metric[m, metric.shape[1] - lags :] = 0.0
        if members.rate[m] > 0.0:
            bend = points.bend[members.place[m]]
            for j in range(metric.shape[1]):
                metric[m, j] *= math.exp(bend[j])


@compiled(fastmath=VECTOR)
def kernels(members, code, n, q, metric, K, tile):
    """K[m, p] = exp2(-sum_j metric[m, j] d(q_j, code_jp)), d the square or the absolute difference."""
    d = len(q)
    M = len(members.width)
    gauss = M
    for m in range(M - 1, -1, -1):
        if members.laplace[m]:
            gauss = m
    K[:, :n] = 0.0
    for begin in range(0, n, TILE):
        w = min(TILE, n - begin)
        for j0 in range(0, d, 4):
            js = min(4, d - j0)
            for i in range(js):
                c, at = code[j0 + i, begin : begin + w], tile[i]
                x = q[j0 + i]
                for p in range(w):
                    at[p] = abs(np.float32(c[p]) - x)
            t0, t1, t2, t3 = tile[0], tile[1], tile[2], tile[3]
            for m in range(M):
                k = K[m, begin : begin + w]
                if js == 4:
                    a, b, e, f = metric[m, j0], metric[m, j0 + 1], metric[m, j0 + 2], metric[m, j0 + 3]
                    if m < gauss:
                        for p in range(w):
                            k[p] += a * t0[p] * t0[p] + b * t1[p] * t1[p] + e * t2[p] * t2[p] + f * t3[p] * t3[p]
                    else:
                        for p in range(w):
                            k[p] += a * t0[p] + b * t1[p] + e * t2[p] + f * t3[p]
                else:
                    for i in range(js):
                        a, t = metric[m, j0 + i], tile[i]
                        if m < gauss:
                            for p in range(w):
                                k[p] += a * t[p] * t[p]
                        else:
                            for p in range(w):
                                k[p] += a * t[p]
        for m in range(M):
            k = K[m, begin : begin + w]
            for p in range(w):
                k[p] = exp2(-k[p])


@compiled(fastmath=VECTOR)
def bend(members, m, points, n, q, metric, pull, g):
    """One step of the log widths of member m; pull[p] = (coefficient towards the loss) * k(q, p)."""
    d = len(q)
    code = points.code
    laplace = members.laplace[m]
    total = np.float32(0.0)
    for j in range(d):
        c, x, s = code[j], q[j], np.float32(0.0)
        if laplace:
            for p in range(n):
                s += pull[p] * abs(np.float32(c[p]) - x)
        else:
            for p in range(n):
                t = np.float32(c[p]) - x
                s += pull[p] * t * t
        g[j] = s * metric[m, j]
        total += g[j] * g[j]
    points.rms[m] = DECAY * points.rms[m] + (1.0 - DECAY) * total / d
    if points.rms[m] > 0.0:
        step = members.rate[m] / math.sqrt(points.rms[m])
        here = points.bend[members.place[m]]
        for j in range(d):
            here[j] = min(max(here[j] - step * g[j], SPAN[0]), SPAN[1])
