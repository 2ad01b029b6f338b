"""Members in primal weights: PA-I and diagonal AROW, of one against its strongest rival."""

from __future__ import annotations

import numpy as np

from onkel.core.machine.compiled import VECTOR, compiled


@compiled(fastmath=VECTOR)
def dot(a, b):
    s = np.float32(0.0)
    for i in range(len(a)):
        s += a[i] * b[i]
    return s


@compiled
def answers(linear, l, u, f):
    """f[k] = w_k . u of member l."""
    begin, length = linear.start[l], linear.length[l]
    for k in range(len(f)):
        f[k] = dot(linear.weight[begin + k * length : begin + (k + 1) * length], u[:length])


@compiled(fastmath=VECTOR)
def update(linear, l, u, outputs, up, down, loss, weight):
    """Move output ``up`` towards u and ``down`` away from it (-1: none), as far as the loss of a margin asks."""
    begin, length = linear.start[l], linear.length[l]
    w = linear.weight
    cap = linear.cap[l] * weight
    if linear.arow[l] == 0:
        norm = dot(u[:length], u[:length])
        if norm <= 0.0:
            return
        step = np.float32(min(cap, loss / (2.0 * norm)))
        for i in range(length):
            if up >= 0:
                w[begin + up * length + i] += step * u[i]
            if down >= 0:
                w[begin + down * length + i] -= step * u[i]
        return
    var = begin + outputs * length
    sure = np.float32(0.0)
    for i in range(length):
        sure += w[var + i] * u[i] * u[i]
    step = np.float32(weight * loss / (2.0 * sure + linear.cap[l]))
    keep = np.float32(weight / linear.cap[l])
    for i in range(length):
        s = step * w[var + i] * u[i]
        if up >= 0:
            w[begin + up * length + i] += s
        if down >= 0:
            w[begin + down * length + i] -= s
        w[var + i] /= np.float32(1.0) + keep * w[var + i] * u[i] * u[i]
