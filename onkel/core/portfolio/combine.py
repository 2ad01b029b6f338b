"""Who is believed: temperatures, a stack by Newton steps, and over all of them a mixture that shares (Herbster, Warmuth 1998)."""

from __future__ import annotations

import math

import numpy as np

from onkel.core.machine.compiled import compiled

MEMORY = 0.999  # of a temperature's curvature
STACK = 0.5 ** (1.0 / 1000.0)  # of the stack's
RIDGE = 30.0
SHARE = 0.001
LEAST = -12.0  # the smallest log probability that anybody may state


@compiled
def softened(f, slope, out):
    """out = log softmax(exp(slope) f)"""
    a = math.exp(slope)
    top = f[0]
    for k in range(1, len(f)):
        top = max(top, f[k])
    total = 0.0
    for k in range(len(f)):
        total += math.exp(a * (f[k] - top))
    total = math.log(total)
    for k in range(len(f)):
        out[k] = max(a * (f[k] - top) - total, LEAST)


@compiled
def warm(c, e, f, logp, y, weight):
    """A Newton step of member e's log temperature on the log loss."""
    a = math.exp(c.slope[e])
    mean, square, total = 0.0, 0.0, 0.0
    for k in range(len(f)):
        p = math.exp(logp[k])
        total += p
        mean += p * f[k]
        square += p * f[k] * f[k]
    mean /= total
    var = max(square / total - mean * mean, 0.0)
    c.curve[e] = MEMORY * c.curve[e] + weight * a * a * var
    step = weight * a * (mean - f[y]) / (c.curve[e] + 1.0)
    c.slope[e] = min(max(c.slope[e] - min(max(step, -0.5), 0.5), -3.0), 5.0)


@compiled
def stacked(c, logp, q):
    """q = softmax(sum_e stack[e] logp[e])"""
    E, K = logp.shape
    top = -np.inf
    for k in range(K):
        s = 0.0
        for e in range(E):
            s += c.stack[e] * logp[e, k]
        q[k] = s
        top = max(top, s)
    total = 0.0
    for k in range(K):
        q[k] = math.exp(q[k] - top)
        total += q[k]
    for k in range(K):
        q[k] /= total


@compiled
def mixed(c, logp, q, p):
    """p = the mixture's probabilities"""
    E, K = logp.shape
    for k in range(K):
        s = c.share[E] * q[k]
        for e in range(E):
            s += c.share[e] * math.exp(logp[e, k])
        p[k] = s


@compiled
def learn_stack(c, logp, q, y, weight, mean, grad, L):
    """A Newton step on the log loss of the stack: (decayed Hessian + ridge)^-1 gradient."""
    E, K = logp.shape
    for e in range(E):
        s = 0.0
        for k in range(K):
            s += q[k] * logp[e, k]
        mean[e] = s
        grad[e] = weight * (s - logp[e, y])
    H = c.hessian
    for a in range(E):
        for b in range(a + 1):
            H[a, b] *= STACK
    for k in range(K):
        if q[k] > 1e-4:
            for a in range(E):
                d = weight * q[k] * (logp[a, k] - mean[a])
                for b in range(a + 1):
                    H[a, b] += d * (logp[b, k] - mean[b])
    for a in range(E):  # Cholesky of H + ridge, the lower half
        for b in range(a + 1):
            s = H[a, b] + (RIDGE if a == b else 0.0)
            for i in range(b):
                s -= L[a, i] * L[b, i]
            L[a, b] = math.sqrt(max(s, 1e-12)) if a == b else s / L[b, b]
    for a in range(E):
        s = grad[a]
        for i in range(a):
            s -= L[a, i] * grad[i]
        grad[a] = s / L[a, a]
    for a in range(E - 1, -1, -1):
        s = grad[a]
        for i in range(a + 1, E):
            s -= L[i, a] * grad[i]
        grad[a] = s / L[a, a]
    for e in range(E):
        c.stack[e] -= grad[e]


@compiled
def learn_share(c, logp, q, y, weight):
    """Bayes, then everybody gives a share to all."""
    E = len(logp)
    total = 0.0
    for e in range(E):
        c.share[e] *= math.exp(weight * logp[e, y])
        total += c.share[e]
    c.share[E] *= max(q[y], 1e-12) ** weight
    total += c.share[E]
    for e in range(E + 1):
        c.share[e] = (1.0 - SHARE) * c.share[e] / total + SHARE / (E + 1)


@compiled
def note(record, c, t):
    """A line of the record; when it is full, every other line goes."""
    n, lines = record.count[0], len(record.row)
    if n == lines:
        for i in range(lines // 2):
            record.row[i] = record.row[2 * i + 1]
            record.weight[i] = record.weight[2 * i + 1]
            record.path[i] = record.path[2 * i + 1]
        n = lines // 2
        record.count[1] *= 2
    E = len(c.stack)
    total = 0.0
    for e in range(E):
        total += abs(c.stack[e])
    for e in range(E):
        record.weight[n, e] = c.share[e] + c.share[E] * abs(c.stack[e]) / max(total, 1e-12)
    record.row[n] = t
    record.path[n] = record.wrong
    record.count[0] = n + 1
    record.count[2] = t + record.count[1]
