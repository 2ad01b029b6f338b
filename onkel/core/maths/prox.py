"""Proximal steps: the new coefficient of an implicit update, for one score and for many.

With z the score after decay, k the curvature (how much one unit of coefficient moves the score) and U the cap, the coefficient
a of an implicit step solves  a = -U loss'(z + k a).  For several labels the same holds with vectors, k being a matrix.
"""

from __future__ import annotations

import math

import numpy as np

from onkel.core.machine.compiled import inner
from onkel.core.machine.numbers import larger, smaller


@inner(inlined=True)
def clip(value, low, high):
    return smaller(larger(value, low), high)


@inner
def logistic_root(margin, k, cap):
    """s in [0, cap] with s = cap / (1 + exp(margin + s k)): Newton inside a bracket that always holds the root."""
    low, high = 0.0, cap
    s = cap * sigmoid(-margin)
    if s <= 0.0 or k == 0.0:
        return s
    s = smaller(s, high)
    for _ in range(100):
        p = sigmoid(-(margin + s * k))
        gap = s - cap * p
        if gap > 0.0:
            high = s
        else:
            low = s
        following = s - gap / (1.0 + cap * k * p * (1.0 - p))
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - s) <= 2e-16 * abs(s):
            return following
        s = following
    return s


@inner(cache=False)
def increasing_root(slope, z, y, cap, k):
    """The root of the increasing a + cap slope(z + k a, y), between 0 and the explicit step: secants, bisection as a guard."""
    near, far = 0.0, -cap * float(slope(z, y))
    if far == 0.0 or k == 0.0 or not math.isfinite(far):
        return far
    g_near = -far
    g_far = far + cap * float(slope(z + k * far, y))
    if g_near * g_far >= 0.0:  # convexity puts the root between; equality only where the slope is flat
        return far
    side = 0
    for i in range(200):
        a = far - g_far * (far - near) / (g_far - g_near)
        middle = 0.5 * (near + far)
        if i % 3 == 2 or not min(near, far) < a < max(near, far):
            a = middle
        if abs(far - near) <= 4e-16 * abs(middle) or a == near or a == far:
            return a
        g = a + cap * float(slope(z + k * a, y))
        if g == 0.0:
            return a
        if g * g_far > 0.0:
            far, g_far = a, g
            if side == 1:
                g_near *= 0.5
            side = 1
        else:
            near, g_near = a, g
            if side == -1:
                g_far *= 0.5
            side = -1
    return a


@inner
def sigmoid(x):
    """1 / (1 + exp(-x)) without overflow."""
    if x >= 0.0:
        return 1.0 / (1.0 + np.exp(-x))
    e = np.exp(x)
    return e / (1.0 + e)


@inner
def solve(A, b, n):
    """Solve A x = b in place (b becomes x) for the leading n by n part; Gauss with row pivots.  False if A is singular."""
    for c in range(n):
        p = c
        for r in range(c + 1, n):
            if abs(A[r, c]) > abs(A[p, c]):
                p = r
        if abs(A[p, c]) <= 1e-300:
            return False
        if p != c:
            for j in range(c, n):
                A[c, j], A[p, j] = A[p, j], A[c, j]
            b[c], b[p] = b[p], b[c]
        for r in range(c + 1, n):
            factor = A[r, c] / A[c, c]
            if factor != 0.0:
                for j in range(c, n):
                    A[r, j] -= factor * A[c, j]
                b[r] -= factor * b[c]
    for r in range(n - 1, -1, -1):
        total = b[r]
        for j in range(r + 1, n):
            total -= A[r, j] * b[j]
        b[r] = total / A[r, r]
    return True


@inner
def _on_support(M, gain, active, count, capped, cap, A, x):
    """Stationary point on the labels ``active[:count]``, the sum held at the cap if ``capped``; x[count] is its multiplier."""
    n = count + 1 if capped else count
    for i in range(count):
        for j in range(count):
            A[i, j] = M[active[i], active[j]]
        # a breath of ridge keeps a singular label kernel solvable; f does not feel it
        A[i, i] += 1e-15 * (1.0 + A[i, i])
        x[i] = gain[active[i]]
        if capped:
            A[i, count] = 1.0
            A[count, i] = 1.0
    if capped:
        A[count, count] = 0.0
        x[count] = cap
    return solve(A, x, n)


@inner
def simplex_qp(M, gain, dead, cap, p):
    """minimise 1/2 p'Mp - gain'p over p >= 0, sum p <= cap, p[dead] = 0, by active sets.

    First without the cap; if the sum is then too large the cap binds, and the problem is solved again with the sum held at it.
    Each round either improves the objective with one more label or takes a blocking label out, so it ends.
    """
    m = gain.size
    A = np.empty((m + 1, m + 1))
    x = np.empty(m + 1)
    active = np.empty(m, np.int64)
    tolerance = 1e-13
    best = 1 if dead == 0 else 0
    for z in range(m):
        if z != dead:
            tolerance = max(tolerance, 1e-13 * abs(gain[z]))
            if gain[z] > gain[best]:
                best = z
    for capped in (False, True):
        p[:] = 0.0
        count = 0
        multiplier = 0.0
        if capped:
            for z in range(m):  # the multiplier absorbs a constant; without it far scores keep their digits
                if z != best:
                    gain[z] -= gain[best]
            gain[best] = 0.0
            active[0] = best
            count = 1
            p[best] = cap
            multiplier = gain[best] - M[best, best] * cap
        for _ in range(20 * m + 20):
            enter, rise = -1, tolerance
            for z in range(m):
                inside = z == dead
                for i in range(count):
                    if active[i] == z:
                        inside = True
                if not inside:
                    slope = gain[z] - multiplier
                    for i in range(count):
                        slope -= M[z, active[i]] * p[active[i]]
                    if slope > rise:
                        enter, rise = z, slope
            if enter < 0:
                break
            active[count] = enter
            count += 1
            while True:
                if not _on_support(M, gain, active, count, capped, cap, A, x):
                    count -= 1  # the new label adds nothing that the others do not span
                    p[active[count]] = 0.0
                    break
                step, block = 1.0, -1
                for i in range(count):
                    if x[i] <= 0.0:
                        way = p[active[i]] - x[i]
                        ratio = p[active[i]] / way if way > 0.0 else 0.0
                        if ratio < step or block < 0:
                            step, block = ratio, i
                for i in range(count):
                    p[active[i]] += step * (x[i] - p[active[i]])
                if block < 0:
                    if capped:
                        multiplier = x[count]
                    break
                p[active[block]] = 0.0
                count -= 1
                active[block] = active[count]
                if count == 0:
                    break
        if not capped:
            total = 0.0
            for i in range(count):
                total += p[active[i]]
            if total <= cap:
                return


@inner
def softmax(scores, p):
    """Class probabilities into p; returns log sum exp of the scores."""
    top = scores.max()
    total = 0.0
    for z in range(scores.size):
        p[z] = np.exp(scores[z] - top)
        total += p[z]
    for z in range(scores.size):
        p[z] /= total
    return top + np.log(total)


@inner
def softmax_prox(z, y, cap, K, a):
    """a = cap (e_y - softmax(z + K a)) by Newton on  1/2 a'Ka + cap loss(z + K a), with backtracking: convex, so it ends."""
    m = z.size
    p = np.empty(m)
    trial = np.empty(m)
    J = np.empty((m, m))
    direction = np.empty(m)
    a[:] = 0.0
    u = z.copy()
    objective = cap * (softmax(u, p) - u[y])
    for _ in range(100):
        largest = 0.0
        for i in range(m):
            direction[i] = -a[i] - cap * (p[i] - (1.0 if i == y else 0.0))
            largest = max(largest, abs(direction[i]))
        if largest <= 1e-15 * cap:
            return
        for j in range(m):  # J = I + cap H K,  H = diag(p) - p p'
            mean = 0.0
            for i in range(m):
                mean += p[i] * K[i, j]
            for i in range(m):
                J[i, j] = (1.0 if i == j else 0.0) + cap * p[i] * (K[i, j] - mean)
        if not solve(J, direction, m):
            return
        move = 1.0
        before = objective
        for _ in range(50):
            for i in range(m):
                trial[i] = a[i] + move * direction[i]
            objective = 0.0
            for i in range(m):
                u[i] = z[i]
                for j in range(m):
                    u[i] += K[i, j] * trial[j]
                objective += 0.5 * trial[i] * (u[i] - z[i])
            objective += cap * (softmax(u, p) - u[y])
            if objective <= before + 1e-12 * abs(before):
                break
            move *= 0.5
        moved = 0.0
        for i in range(m):
            moved = max(moved, abs(trial[i] - a[i]))
            a[i] = trial[i]
        if moved <= 1e-16 * cap:
            return
