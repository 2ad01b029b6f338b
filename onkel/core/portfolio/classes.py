"""The loop over rows with classes: predict, then learn, one after the other."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onkel.core.machine.compiled import VECTOR, compiled
from onkel.core.portfolio.combine import learn_share, learn_stack, mixed, note, softened, stacked, warm
from onkel.core.portfolio.features import features
from onkel.core.portfolio.halves import narrow, wide
from onkel.core.portfolio.kernels import TILE, bend, kernels, measure
from onkel.core.portfolio.linear import answers, update
from onkel.core.portfolio.points import expansion, fold, free, weigh
from onkel.core.portfolio.views import WATCHED, absorb, due, medians, recode, see

HALF = 2.0 ** (1.0 / 500.0)  # growth of one count in the chain: a half-life of 500 rows
RECENT = (0.5 ** (1.0 / 1.5), 0.5 ** (1.0 / 20.0))


class Room(NamedTuple):
    """Where a row is worked on."""

    z: Any
    q: Any
    u: Any
    inputs: Any  # (views, longest)
    metric: Any
    K: Any
    tile: Any
    f: Any  # (experts, classes)
    logp: Any
    stack: Any
    p: Any
    other: Any
    pull: Any
    grad: Any
    mean: Any
    g: Any
    L: Any
    work: Any


@compiled
def room(s, classes):
    d, places = s.points.code.shape
    M, E = len(s.members.cap), len(s.combiner.slope)
    longest = 1
    for l in range(len(s.linear.length)):
        longest = max(longest, s.linear.length[l])
    padded = 16
    while padded < d:
        padded *= 2
    f32 = np.float32
    return Room(
        np.zeros(d, f32), np.zeros(d, f32), np.zeros(d, f32), np.zeros((4, longest), f32), np.zeros((M, d), f32),
        np.zeros((M, places), f32), np.zeros((4, TILE), f32), np.zeros((E, classes), f32), np.zeros((E, classes)),
        np.zeros(classes), np.zeros(classes), np.zeros((M, places), f32), np.zeros(places, f32), np.zeros(E),
        np.zeros(E), np.zeros(d, f32), np.zeros((E, E)),
        np.zeros(padded, f32),
    )  # fmt: skip


@compiled
def look(s, x, r, classes):
    """p: the mixture's probabilities of x, everything else that was found out on the way in r."""
    v, past, n = s.views, s.past, s.views.count[1]
    M, outputs, experts = len(s.members.cap), s.points.coef.shape[1], len(s.combiner.slope)
    d = len(x)
    see(v, x, r.z, r.q, r.u)
    if n > 0:
        measure(s.members, v, s.points, r.metric, 0)
        kernels(s.members, s.points.code, n, r.q, r.metric, r.K, r.tile)
    for m in range(M):
        for k in range(outputs):
            r.f[m, k] = expansion(s.points.coef[m, k], r.K[m], n) * np.float32(s.points.fade[m])
    size = math.sqrt(max(s.linear.power[0], 1e-30))
    for j in range(d):
        r.inputs[0, j] = r.z[j]
        r.inputs[1, j] = r.u[j] / size
    r.inputs[0, d] = 1.0
    r.inputs[1, d] = 1.0
    if r.inputs.shape[1] > d + 1:
        r.inputs[2, : d + 1] = r.inputs[0, : d + 1]
        for k in range(classes):
            r.inputs[2, d + 1 + k] = past.recent[0, k]
            r.inputs[2, d + 1 + classes + k] = past.recent[1, k]
    for l in range(len(s.linear.cap)):
        if s.linear.sees[l] == 3:
            features(r.z, v.median[0], s.linear.length[l], r.work, r.inputs[3])
        answers(s.linear, l, r.inputs[s.linear.sees[l]], r.f[M + l, :outputs])
    e = M + len(s.linear.cap)
    if outputs == 1 and classes == 2:
        for i in range(e):
            r.f[i, 1] = r.f[i, 0]
            r.f[i, 0] = -r.f[i, 0]
    for i in range(e):
        softened(r.f[i], s.combiner.slope[i], r.logp[i])
    total = 0.0
    for k in range(classes):
        total += past.prior[k] + 0.5
    for k in range(classes):
        r.logp[e, k] = math.log((past.prior[k] + 0.5) / total)
    if experts > e + 1:
        last = int(past.last[0])
        total = 0.0
        if last >= 0:
            for k in range(classes):
                total += float(past.chain[last, k]) / past.last[1]
        for k in range(classes):
            own = float(past.chain[last, k]) / past.last[1] if last >= 0 else 0.0
            r.logp[e + 1, k] = math.log((own + 0.5 / classes) / (total + 0.5))
    stacked(s.combiner, r.logp, r.stack)
    mixed(s.combiner, r.logp, r.stack, r.p)


@compiled
def best(p):
    found = 0
    for k in range(1, len(p)):
        if p[k] > p[found]:
            found = k
    return found


@compiled
def rival(f, y):
    found = -1
    for k in range(len(f)):
        if k != y and (found < 0 or f[k] > f[found]):
            found = k
    return found


@compiled(fastmath=VECTOR)
def pulled(K, up, down, sign, n, pull):
    """How much each point's kernel adds to the margin."""
    for p in range(n):
        pull[p] = sign * K[p] * (wide(up[p]) - wide(down[p]))


@compiled
def settle(s, x, y, weight, r, classes):
    """Learn what ``look`` has just looked at."""
    v, points, members = s.views, s.points, s.members
    M, outputs, experts = len(members.cap), points.coef.shape[1], len(s.combiner.slope)
    n, places, lines = v.count[1], points.code.shape[1], len(s.linear.cap)
    # 1. who was right, who is believed
    wrong, new = s.record.wrong, s.past.prior[y] == 0.0  # nobody can have said a class that was never there
    for e in range(experts):
        wrong[e] += new or best(r.logp[e]) != y
    wrong[experts] += new or best(r.stack) != y
    wrong[experts + 1] += new or best(r.p) != y
    wrong[experts + 2] += int(s.past.last[0]) != y
    if classes > 1:
        for e in range(M + lines):
            warm(s.combiner, e, r.f[e], r.logp[e], y, weight)
        learn_share(s.combiner, r.logp, r.stack, y, weight)
        learn_stack(s.combiner, r.logp, r.stack, y, weight, r.mean, r.grad, r.L)
    # 2. the primal members
    for l in range(lines):
        if classes < 2:
            break
        f = r.f[M + l]
        down = rival(f, y)
        loss = 1.0 - (f[y] - f[down])
        if loss > 0.0:
            up = y
            if outputs == 1:
                up, down = (0, -1) if y == 1 else (-1, 0)
            update(s.linear, l, r.inputs[s.linear.sees[l]], outputs, up, down, loss, weight)
    # 3. the kernel members: widths first, then what the new point gets
    store = False
    if classes > 1:
        for m in range(M):
            f = r.f[m]
            down = rival(f, y)
            loss = 1.0 - (f[y] - f[down])
            r.other[m, 0], r.other[m, 1] = 0.0, down
            if loss > 0.0:
                store = True
                r.other[m, 0] = min(members.cap[m] * weight, 0.5 * loss)
                if members.rate[m] > 0.0 and n > 0:
                    if outputs == 1:
                        sign = np.float32(2.0 if y == 1 else -2.0) * np.float32(points.fade[m])
                        for p in range(n):
                            r.pull[p] = sign * r.K[m, p] * wide(points.coef[m, 0, p])
                    else:
                        pulled(r.K[m], points.coef[m, y], points.coef[m, down], np.float32(points.fade[m]), n, r.pull)
                    bend(members, m, points, n, r.q, r.metric, r.pull, r.g)
            points.fade[m] *= members.tau[m]
        fold(points, n)
    # 4. the columns, and codes anew when it is time
    absorb(v, x)
    t = v.count[0]
    square = 0.0
    for j in range(len(x)):
        square += float(r.u[j]) * float(r.u[j])
    s.linear.power[0] += (square / len(x) - s.linear.power[0]) / t
    if t >= v.count[2]:
        recode(v, points.code, n)
        if t <= WATCHED:
            medians(v, points.code, n, len(x))
        v.count[2] = due(t)
        see(v, x, r.z, r.q, r.u)
        measure(members, v, points, r.metric, 0)
    # 5. the point
    if store:
        alpha, against = np.empty(M, np.float32), np.empty(M, np.int64)
        for m in range(M):
            alpha[m], against[m] = r.other[m, 0], int(r.other[m, 1])
        if n < places:
            at = n
            v.count[1] = n + 1
        else:
            at = free(members, points, n, r.metric, r.other, r.tile, r.g)
        for j in range(len(x)):
            points.code[j, at] = np.int8(r.q[j])
        for m in range(M):
            a = alpha[m] / np.float32(points.fade[m])
            if outputs == 1:
                points.coef[m, 0, at] = narrow(a if y == 1 else -a)
            else:
                for k in range(outputs):
                    points.coef[m, k, at] = 0
                points.coef[m, y, at] = narrow(a)
                points.coef[m, against[m], at] = narrow(-a)
        weigh(members, points, at)
    # 6. the labels
    past = s.past
    past.prior[y] += weight
    last = int(past.last[0])
    if last >= 0 and len(past.chain) > 0:
        past.chain[last, y] += weight * past.last[1]
    past.last[1] *= HALF
    if past.last[1] > 1e20:
        past.chain[:] /= np.float32(past.last[1])
        past.last[1] = 1.0
    past.last[0] = y
    for i in range(2):
        for k in range(classes):
            past.recent[i, k] *= RECENT[i]
        past.recent[i, y] += 1.0 - RECENT[i]
    if t >= s.record.count[2]:
        note(s.record, s.combiner, t)


@compiled
def learn(s, X, y, weight, p):
    """Rows in their order; p[i]: what was said about row i before it was learned."""
    classes = len(s.past.prior)
    r = room(s, classes)
    for i in range(len(X)):
        look(s, X[i], r, classes)
        p[i] = r.p
        settle(s, X[i], y[i], weight[i], r, classes)


@compiled
def predict(s, X, p):
    """p[i]: what is said about row i if it comes next."""
    classes = len(s.past.prior)
    r = room(s, classes)
    for i in range(len(X)):
        look(s, X[i], r, classes)
        p[i] = r.p
