"""The loop over rows without targets: how unlike the rows before is each, and where an alert begins.

Kept is a uniform sample of all rows so far (recent rows would learn the anomalies), in eight bits a value.  Six measures, each
brought to mean 0 and deviation 1 over its own past, are averaged: ranks in the tails of every column (an online ECOD), the sum of
squares of the scaled row, and four Parzen densities, of widths .2 and .4 in both views.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from onkel.core.machine.compiled import compiled
from onkel.core.machine.lanes import LOG2E
from onkel.core.portfolio.features import noise
from onkel.core.portfolio.kernels import TILE, kernels
from onkel.core.portfolio.parts import Members, Views
from onkel.core.portfolio.views import WATCHED, absorb, base, due, medians, recode, see

PARZEN = 256  # rows of the densities; ranks are taken among all
MEASURES = 6


class Sample(NamedTuple):
    """Some rows, and what was measured."""

    code: Any  # (columns, places)
    mean: Any  # (measures,)
    spread: Any
    level: Any  # rows judged, threshold of alerts, mean score, sum of squares


class Novelty(NamedTuple):
    members: Members
    views: Views
    sample: Sample


class Room(NamedTuple):
    """Where a row is worked on."""

    z: Any
    q: Any
    u: Any
    metric: Any
    K: Any
    tile: Any
    found: Any


def novelty(d: int, places: int) -> Novelty:
    """Nothing seen yet."""
    i64 = np.int64
    zero = np.zeros(4, i64)
    members = Members(
        zero.copy(), np.array([0, 0, 1, 1], i64), np.array([0.2, 0.4, 0.2, 0.4]), np.ones(4), np.ones(4), np.zeros(4), zero.copy(),
        zero.copy(), zero.copy(),
    )  # fmt: skip
    views = Views(
        np.zeros(d), np.zeros(d), np.zeros(d), np.zeros(d), np.ones(d, i64), np.zeros(d, i64), np.zeros(d), np.ones(d),
        np.full(4, float(max(d, 1))), np.array([0, 0, 1], i64),
    )  # fmt: skip
    return Novelty(members, views, Sample(np.zeros((d, places), np.int8), np.zeros(MEASURES), np.zeros(MEASURES), np.zeros(4)))


@compiled
def room(s):
    d, n = s.sample.code.shape
    f32 = np.float32
    n = min(n, PARZEN)
    return Room(np.zeros(d, f32), np.zeros(d, f32), np.zeros(d, f32), np.zeros((4, d), f32), np.zeros((4, n), f32),
                np.zeros((4, TILE), f32), np.zeros(MEASURES))  # fmt: skip


@compiled
def measures(s, x, r):
    """found: the six measures of x, each the higher, the stranger."""
    v, n, d = s.views, s.views.count[1], len(x)
    see(v, x, r.z, r.q, r.u)
    square = 0.0
    for j in range(d):
        square += float(r.z[j]) ** 2
    r.found[1] = math.log1p(square)
    low, high = 0.0, 0.0
    for j in range(d):
        c, q = s.sample.code[j], r.q[j]
        below, above = 0, 0
        for p in range(n):
            below += c[p] <= q
            above += c[p] >= q
        low -= math.log((below + 1.0) / (n + 1.0))
        high -= math.log((above + 1.0) / (n + 1.0))
    r.found[0] = max(low, high)
    few = min(n, PARZEN)
    for m in range(4):
        raw, width = s.members.raw[m], s.members.width[m]
        whole = LOG2E / (2.0 * width * width * v.median[2 * raw])
        for j in range(d):
            b = base(v, raw, j)
            r.metric[m, j] = whole * b * b
    if few > 0:
        kernels(s.members, s.sample.code, few, r.q, r.metric, r.K, r.tile)
    for m in range(4):
        total = 1e-30
        for p in range(few):
            total += r.K[m, p]
        r.found[2 + m] = -math.log(total / max(few, 1))


@compiled
def judged(s, r):
    """The score: the lower, the more novel; 0 before there is anything to compare with."""
    t = s.views.count[0]
    if t < 2:
        return 0.0
    total = 0.0
    for i in range(MEASURES):
        sd = math.sqrt(s.sample.spread[i] / t)
        if sd > 0.0:
            total += min(max((r.found[i] - s.sample.mean[i]) / sd, -20.0), 20.0)
    return -total / MEASURES


@compiled
def learn(s, X, nu, p):
    """Rows in their order; p[i]: the score of row i before it was learned, and the threshold of alerts then."""
    r = room(s)
    v, level = s.views, s.sample.level
    for i in range(len(X)):
        x = X[i]
        measures(s, x, r)
        score = judged(s, r)
        p[i, 0], p[i, 1] = score, level[1]
        absorb(v, x)
        t = v.count[0]
        if t > 2:
            level[0] += 1.0
            off = score - level[2]
            level[2] += off / level[0]
            level[3] += off * (score - level[2])
            step = math.sqrt(level[3] / level[0]) * max(0.05, 2.0 / level[0])
            level[1] += step * (nu - 1.0 if score < level[1] else nu)
        for k in range(MEASURES):
            off = r.found[k] - s.sample.mean[k]
            s.sample.mean[k] += off / t
            s.sample.spread[k] += off * (r.found[k] - s.sample.mean[k])
        n, places = v.count[1], s.sample.code.shape[1]
        if t >= v.count[2]:
            recode(v, s.sample.code, n)
            if t <= WATCHED:
                medians(v, s.sample.code, n, len(x))
            v.count[2] = due(t)
            see(v, x, r.z, r.q, r.u)
        at = n
        if n >= places:  # row t takes the place of one of those before with chance places / t
            at = np.int64(noise(np.uint64(t)) % np.uint64(t))
        else:
            v.count[1] = n + 1
        if at < places:
            for j in range(len(x)):
                s.sample.code[j, at] = np.int8(r.q[j])


@compiled
def score(s, X, p):
    """p[i]: the score of row i if it comes next, and the threshold of alerts."""
    r = room(s)
    for i in range(len(X)):
        measures(s, X[i], r)
        p[i, 0], p[i, 1] = judged(s, r), s.sample.level[1]
