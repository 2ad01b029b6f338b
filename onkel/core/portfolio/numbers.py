"""The loop over rows with real targets: predict, then learn, one after the other."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onkel.core.machine.compiled import compiled
from onkel.core.portfolio.combine import note
from onkel.core.portfolio.halves import narrow, wide
from onkel.core.portfolio.kernels import TILE, bend, kernels, measure
from onkel.core.portfolio.points import expansion, fold, free, weigh
from onkel.core.portfolio.squares import look_line, settle_line
from onkel.core.portfolio.views import WATCHED, absorb, due, medians, recode, see

LAGS = 2  # earlier targets, the last columns of a row
STACK = 0.5 ** (1.0 / 300.0)
RIDGE = 10.0
SHARE = 0.01
ETA = 0.5  # of the mixture, for errors in units of the mean one
LEAST = 0.02  # of a step: smaller ones are not worth a point


class Room(NamedTuple):
    """Where a row is worked on."""

    x: Any  # the row with earlier targets behind it
    z: Any
    q: Any
    u: Any
    inputs: Any
    work: Any
    metric: Any
    K: Any
    other: Any
    tile: Any
    f: Any  # what each expert says, in units of the target
    pull: Any
    g: Any
    step: Any
    grad: Any
    L: Any
    said: Any  # stack, all together


@compiled
def room(s, d):
    f32 = np.float32
    wide_, places = s.points.code.shape
    M, E = len(s.members.cap), len(s.combiner.stack)
    return Room(
        np.zeros(wide_), np.zeros(wide_, f32), np.zeros(wide_, f32), np.zeros(wide_, f32), np.zeros(wide_ + 1), np.zeros(wide_ + 1),
        np.zeros((M, wide_), f32), np.zeros((M, places), f32), np.zeros((M, places), f32), np.zeros((4, TILE), f32), np.zeros(E),
        np.zeros(places, f32), np.zeros(wide_, f32), np.zeros(M, f32), np.zeros(E), np.zeros((E, E)), np.zeros(2),
    )  # fmt: skip


@compiled
def look(s, x, r, lags):
    """said: what the stack, and what all of them together say, in units of the target."""
    v, members, n, t = s.views, s.members, s.views.count[1], s.target.moments
    d, M = len(x), len(s.members.cap)
    r.x[:d] = x
    for i in range(lags):
        r.x[d + i] = t[5 + i]
    see(v, r.x, r.z, r.q, r.u)
    if n > 0:
        measure(members, v, s.points, r.metric, lags)
        kernels(members, s.points.code, n, r.q, r.metric, r.K, r.tile)
    for j in range(d + lags):
        r.inputs[j] = r.z[j]
    r.inputs[d + lags] = 1.0
    lines = len(s.lines.whole)
    for l in range(lines):
        r.f[M + l] = look_line(s.lines, l, r.inputs, d, lags)
    for m in range(M):
        r.f[m] = expansion(s.points.coef[m, 0], r.K[m], n) * s.points.fade[m]
        if members.aim[m] > 0:
            r.f[m] += r.f[M + members.aim[m] - 1]
    e = M + lines
    if lags > 0:
        r.f[e] = 0.0 if t[5] != t[5] else (t[5] - t[3]) / t[4]
    for i in range(len(r.f)):
        r.f[i] = min(max(r.f[i], -100.0), 100.0)
    stack = 0.0
    for i in range(len(r.f)):
        stack += s.combiner.stack[i] * r.f[i]
    said = s.combiner.share[len(r.f)] * stack
    for i in range(len(r.f)):
        said += s.combiner.share[i] * r.f[i]
    r.said[0], r.said[1] = stack, said


@compiled
def newton(c, f, stack, goal, weight, r):
    """A step of the stack on its squared error: (decayed second moments + ridge)^-1 gradient."""
    E, H, L = len(f), c.hessian, r.L
    for a in range(E):
        r.grad[a] = weight * f[a] * (stack - goal)
        for b in range(a + 1):
            H[a, b] = STACK * H[a, b] + weight * f[a] * f[b]
    for a in range(E):
        for b in range(a + 1):
            total = H[a, b] + (RIDGE if a == b else 0.0)
            for i in range(b):
                total -= L[a, i] * L[b, i]
            L[a, b] = math.sqrt(max(total, 1e-12)) if a == b else total / L[b, b]
    for a in range(E):
        total = r.grad[a]
        for i in range(a):
            total -= L[a, i] * r.grad[i]
        r.grad[a] = total / L[a, a]
    for a in range(E - 1, -1, -1):
        total = r.grad[a]
        for i in range(a + 1, E):
            total -= L[i, a] * r.grad[i]
        r.grad[a] = total / L[a, a]
        c.stack[a] -= r.grad[a]


@compiled
def rescale(s):
    """New center and unit of the target; what members say stays what it was, but for the center."""
    t, c = s.target.moments, s.combiner
    center, unit = t[1], math.sqrt(t[2] / t[0]) if t[2] > 0.0 else t[4]
    factor, move = t[4] / unit, (t[3] - center) / unit
    for m in range(len(s.points.fade)):
        s.points.fade[m] *= factor
    for l in range(len(s.lines.whole)):
        end = s.lines.start[l + 1]
        for i in range(s.lines.start[l], end):
            s.lines.weight[i] *= factor
        s.lines.weight[end - 1] += move
    c.hessian[:] *= factor * factor
    s.target.radius[2] *= factor
    t[3], t[4] = center, unit


@compiled
def settle(s, x, y, weight, r, lags, coverage):
    """Learn what ``look`` has just looked at."""
    v, points, members, c, t = s.views, s.points, s.members, s.combiner, s.target.moments
    d, M, E, n, places = len(x), len(members.cap), len(c.stack), v.count[1], points.code.shape[1]
    lines = len(s.lines.whole)
    goal = (y - t[3]) / t[4]
    # 1. how far everybody was off, who is believed
    said = t[3] + t[4] * r.said[1]
    off = abs(y - said)
    wrong, radius = s.record.wrong, s.target.radius
    for e in range(E):
        wrong[e] += t[4] * abs(r.f[e] - goal)
    wrong[E] += t[4] * abs(r.said[0] - goal)
    wrong[E + 1] += off
    if t[5] == t[5]:
        wrong[E + 2] += abs(y - t[5])
    if t[0] >= 1.0:
        radius[1] += (off - radius[1]) * max(0.02, 1.0 / t[0])
        radius[0] = max(radius[0] + 0.1 * radius[1] * (coverage if off > radius[0] else coverage - 1.0), 0.0)
        least = abs(r.said[0] - goal)
        for e in range(E):
            least = min(least, abs(r.f[e] - goal))
        radius[2] += (abs(r.said[1] - goal) - radius[2]) * max(0.01, 1.0 / t[0])
        scale = ETA * weight / max(radius[2], 1e-9)
        total = 0.0
        for e in range(E + 1):
            gone = abs((r.said[0] if e == E else r.f[e]) - goal) - least
            c.share[e] *= math.exp(-min(scale * gone, 30.0))
            total += c.share[e]
        for e in range(E + 1):
            c.share[e] = (1.0 - SHARE) * c.share[e] / total + SHARE / (E + 1)
        newton(c, r.f, r.said[0], min(max(goal, -30.0), 30.0), weight, r)
    # 2. lines and kernel members
    for l in range(lines):
        settle_line(s.lines, l, r.inputs, d, lags, goal - r.f[M + l], weight, r.work)
    store = False
    for m in range(M):
        miss = goal - r.f[m]
        cap = members.cap[m] * weight
        a = min(max(miss, -cap), cap)
        r.step[m] = a
        if abs(a) > LEAST:
            store = True
            if members.rate[m] > 0.0 and n > 0:
                sign = np.float32((1.0 if miss > 0 else -1.0) * points.fade[m])
                for p in range(n):
                    r.pull[p] = sign * r.K[m, p] * wide(points.coef[m, 0, p])
                bend(members, m, points, n, r.q, r.metric, r.pull, r.g)
        points.fade[m] *= members.tau[m]
    fold(points, n)
    # 3. columns and target, in new units when it is time
    absorb(v, r.x)
    t[0] += 1.0
    away = y - t[1]
    t[1] += away / t[0]
    t[2] += away * (y - t[1])
    if v.count[0] >= v.count[2]:
        recode(v, points.code, n)
        if v.count[0] <= WATCHED:
            medians(v, points.code, n, d)
        v.count[2] = due(v.count[0])
        before = t[4]
        rescale(s)
        for m in range(M):
            r.step[m] *= np.float32(before / t[4])
        see(v, r.x, r.z, r.q, r.u)
        measure(members, v, points, r.metric, lags)
    # 4. the point
    if store:
        if n < places:
            at = n
            v.count[1] = n + 1
        else:
            at = free(members, points, n, r.metric, r.other, r.tile, r.g)
        for j in range(len(r.x)):
            points.code[j, at] = np.int8(r.q[j])
        for m in range(M):
            points.coef[m, 0, at] = narrow(np.float32(r.step[m] / points.fade[m]))
        weigh(members, points, at)
    t[6], t[5] = t[5], y
    if v.count[0] >= s.record.count[2]:
        note(s.record, c, v.count[0])


@compiled
def learn(s, X, y, weight, coverage, p):
    """Rows in their order; p[i]: what was said about row i before it was learned, and how far off that may be."""
    lags = s.points.code.shape[0] - X.shape[1]
    r = room(s, X.shape[1])
    for i in range(len(X)):
        look(s, X[i], r, lags)
        p[i, 0], p[i, 1] = s.target.moments[3] + s.target.moments[4] * r.said[1], s.target.radius[0]
        settle(s, X[i], y[i], weight[i], r, lags, coverage)


@compiled
def predict(s, X, p):
    """p[i]: the same about row i if it comes next."""
    lags = s.points.code.shape[0] - X.shape[1]
    r = room(s, X.shape[1])
    for i in range(len(X)):
        look(s, X[i], r, lags)
        p[i, 0], p[i, 1] = s.target.moments[3] + s.target.moments[4] * r.said[1], s.target.radius[0]
