"""Making room for a new term: which point goes, and what of it the others take over (the rules of maths/budget.py)."""

from __future__ import annotations

import numpy as np

from onkel.core.loop import layout as at
from onkel.core.loop.vectors import dot, mix, padded, place
from onkel.core.machine.calls import jumper
from onkel.core.machine.compiled import VECTOR, compiled, inner
from onkel.core.machine.numbers import epsilon_of, larger, smaller, tiny_of, whole

# Compiled apart: a learner that needs them puts their addresses into its settings.
_repair, _project, _make_room = jumper("repair"), jumper("project"), jumper("make room")


@inner(inlined=True, alone=True)
def weakest(keys, row, born, n):
    """The slot of smallest magnitude among the first n, the oldest on ties."""
    low = keys[row, 0]
    for i in range(1, n):
        low = smaller(low, keys[row, i])
    return oldest_of(keys, row, low, born, n)


@inner(inlined=True, alone=True)
def strongest(keys, row, born, n):
    """The slot of largest merit among the first n, the oldest on ties; a negative merit never wins over another."""
    high = keys[row, 0]
    for i in range(1, n):
        high = larger(high, keys[row, i])
    return oldest_of(keys, row, high, born, n)


@inner(inlined=True, alone=True)
def oldest_of(keys, row, key, born, n):
    """Of the slots with that key the oldest: one pass that vectorises, and a slow one only where there are ties."""
    many, best = np.int32(0), np.int32(0)
    for i in range(n):
        many = np.int32(many + np.int32(keys[row, i] == key))
        best = larger(best, np.int32(i) if keys[row, i] == key else np.int32(0))
    if many > 1:
        for i in range(n):
            if keys[row, i] == key and born[i] < born[best]:
                best = np.int32(i)
    return best


@inner(inlined=True)
def magnitude(slots, m, i):
    top = abs(slots[0, i])
    for z in range(1, m):
        top = larger(top, abs(slots[z, i]))
    return top


@inner(borrow=True)
def evaluate(kappa, i, K, r, kxx, num, slots, gram, m, f, v):
    """f and v at stored point i (-1: the new point), the new term included, from kernel values that are at hand."""
    n = padded(whole(num[at.USED]), slots)
    near = K[r, i] if i >= 0 else kxx
    a, u, raw = place(at.A, m), place(at.DA, m), place(at.RAW, m)
    own = gram[0]
    for z in range(m):
        num[raw + z] = (dot(own, i, slots, z, n) if i >= 0 else dot(K, r, slots, z, n)) + near * num[a + z]
    mix(kappa, num, raw, f, m)
    for z in range(m):
        num[raw + z] = (dot(own, i, slots, m + z, n) if i >= 0 else dot(K, r, slots, m + z, n)) + near * num[u + z]
    mix(kappa, num, raw, v, m)
    for z in range(m):
        num[v + z] = num[at.TRACE_SCALE] * num[v + z] + num[at.TRACE_MIX] * num[f + z]
        num[f + z] *= num[at.SCALE]


@inner(borrow=True)
def coefficients(i, num, slots, m, alpha, beta):
    """Coefficients of stored point i (-1: the new point) in f and in v, with all decay."""
    for z in range(m):
        a = slots[z, i] if i >= 0 else num[place(at.A, m) + z]
        u = slots[m + z, i] if i >= 0 else num[place(at.DA, m) + z]
        num[alpha + z] = num[at.SCALE] * a
        num[beta + z] = num[at.TRACE_SCALE] * u + num[at.TRACE_MIX] * a


@compiled
def repair(kappa, j, n, c, residual, K, r, kxx, num, slots, gram, m):
    """<f, v> and |f|^2 after the term j gives way to c times point n: f loses alpha_j r, r = k(x_j, .) - c k(x_n, .).

    ``residual`` is |r|^2.  With f, v before the change:  <f, v> -= alpha.(v(x_j) - c v(x_n)) + beta.(f(x_j) - c f(x_n)) -
    alpha' kappa beta |r|^2,  |f|^2 likewise.  c = 0 is the plain removal of [V] sec. 5.5.
    """
    f, v, alpha, beta, mixed = place(at.FO, m), place(at.VO, m), place(at.FN, m), place(at.VN, m), place(at.RAW, m)
    evaluate(kappa, j, K, r, kxx, num, slots, gram, m, f, v)
    if c != 0.0:
        evaluate(kappa, n, K, r, kxx, num, slots, gram, m, alpha, beta)
        for z in range(m):
            num[f + z] -= c * num[alpha + z]
            num[v + z] -= c * num[beta + z]
    coefficients(j, num, slots, m, alpha, beta)
    mix(kappa, num, beta, mixed, m)
    for z in range(m):
        al, be = num[alpha + z], num[beta + z]
        num[at.PI] -= al * num[v + z] + be * num[f + z] - residual * al * num[mixed + z]
    mix(kappa, num, alpha, mixed, m)
    for z in range(m):
        num[at.N2] -= num[alpha + z] * (2.0 * num[f + z] - residual * num[mixed + z])
    return j


@inner(borrow=True)
def add_term(i, j, c, num, slots, m, base):
    """Point i takes c times the coefficients of point j; -1 is the new point, whose coefficients wait in num."""
    new = place(at.A, m)  # DA follows, as the trace's rows follow those of f
    for z in range(base):
        amount = c * (slots[z, j] if j >= 0 else num[new + z])
        if i >= 0:
            slots[z, i] += amount
        else:
            num[new + z] += amount
    if i >= 0:
        slots[base + at.MAG, i] = magnitude(slots, m, i)


@inner(borrow=True)
def merge(kappa, traced, j, K, r, kxx, rule, num, slots, keys, born, gram, m, base):
    """Project term j (-1: the new one) on the one remaining point that leaves the least behind: largest k_nj^2 / k_nn."""
    n = whole(num[at.N])
    merit, own = base + at.SPARE, base + at.KXX
    if j >= 0:
        for i in range(n):
            slots[merit, i] = gram[0, j, i] * gram[0, j, i] / slots[own, i] if slots[own, i] > 0 else 0.0
        slots[merit, j] = -1.0
    else:
        for i in range(n):
            slots[merit, i] = K[r, i] * K[r, i] / slots[own, i] if slots[own, i] > 0 else 0.0
    target = -1
    if j < 0 or n > 1:
        target = strongest(keys, merit, born, n)
    if j >= 0 and kxx > 0 and (target < 0 or slots.dtype.type(K[r, j] * K[r, j] / kxx) > slots[merit, target]):
        target = -1  # the youngest wins only outright
    k = K[r, larger(j, target)] if j < 0 or target < 0 else gram[0, j, target]
    k_target = slots[own, target] if target >= 0 else kxx
    if k_target > 0.0:
        c = float(k) / float(k_target)
        if traced is not None:
            if rule[at.REPAIR] != 0.0:
                k_j = slots[own, j] if j >= 0 else kxx
                residual = float(k_j) - c * float(k)
                _repair(whole(rule[at.REPAIR]), (kappa, j, target, c, residual, K, r, kxx, num, slots, gram, m))
        add_term(target, j, c, num, slots, m, base)


@inner
def refresh(num, gram, n, ridge):
    """The inverse Gram matrix anew; rank-one updates keep it current in between."""
    Q = gram[1]
    for i in range(n):
        for j in range(n):
            Q[i, j] = gram[0, i, j]
        Q[i, i] = (1.0 + ridge) * Q[i, i] if Q[i, i] > 0.0 else 1.0  # k(x, x) = 0: such a point has no share in anything
    for p in range(n):  # Gauss-Jordan in place; positive definite, so the diagonal will do for pivots
        pivot = 1.0 / Q[p, p]
        Q[p, p] = 1.0
        for j in range(n):
            Q[p, j] *= pivot
        for i in range(n):
            if i != p:
                factor = Q[i, p]
                Q[i, p] = 0.0
                for j in range(n):
                    Q[i, j] -= factor * Q[p, j]
    num[at.STALE] = n


@inner(fastmath=VECTOR)
def times(M, x, n, out):
    """out = M x."""
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += M[i, j] * x[j]
        out[i] = total


@compiled
def project(kappa, j, row, r, kxx, rule, num, slots, gram, m, base):
    """Project term j (-1: the new one) on the span of all the others; returns the slot that is free, -1 if the new one went.

    With Q the inverse Gram matrix of the stored points, w = Q k and s = kxx - k.w the new point's distance from their span:
    the enlarged inverse has the rows Q + ww'/s, -w/s; its column j gives the coefficients -Q_ij/Q_jj, and one more rank-one
    step removes j.  A new point that lies in the span (s ~ 0) is folded into the others instead: nothing is lost by that.
    """
    n = whole(num[at.N])
    new = smaller(j, -1)  # not the constant: that would compile everything it is passed to a second time
    K, Q = gram[0], gram[1]
    exactness = 1e-8 if slots.itemsize == 8 else 1e-7
    if num[at.STALE] <= 0.0:
        refresh(num, gram, n, exactness)
    num[at.STALE] -= 1.0
    k, w, c, left, move = np.empty(n), np.empty(n), np.empty(n + 1), np.empty(n), np.empty(n)
    for i in range(n):
        k[i] = row[r, i]
    times(Q, k, n, w)
    times(K, w, n, left)
    for i in range(n):
        left[i] = k[i] - left[i]
    times(Q, left, n, move)
    s = float(kxx)
    for i in range(n):
        c[i] = w[i] + move[i]
        s -= k[i] * c[i]
    own = s
    if j < 0 or s <= (2e-8 if slots.itemsize == 8 else 1e-6) * float(kxx):
        j = -1
        c[n] = 0.0
    else:
        q = np.empty(n)
        for i in range(n):
            q[i] = Q[i, j] + w[i] * w[j] / s
        q_new, pivot = -w[j] / s, q[j]
        for i in range(n):
            up, down = w[i] / s, q[i] / pivot
            for l in range(n):
                Q[i, l] += up * w[l] - down * q[l]
        for i in range(n):
            Q[i, j] = Q[j, i] = -w[i] / s - q_new * q[i] / pivot
        Q[j, j] = 1.0 / s - q_new * q_new / pivot
        # c over the remaining points, the new one standing in slot j; one refinement against the true Gram matrix
        k_j = K[j].copy()
        for i in range(n):
            c[i] = -q[i] / pivot
            K[i, j] = K[j, i] = k[i]
        c[j] = -q_new / pivot
        K[j, j] = kxx
        k_j[j] = k[j]  # k(x_j, x_new), seen from the slot's new owner
        times(K, c, n, left)
        for i in range(n):
            left[i] = k_j[i] - left[i]
        times(Q, left, n, move)
        own = float(slots[base + at.KXX, j])
        for i in range(n):
            c[i] += move[i]
            own -= c[i] * k_j[i]
        c[n] = c[j]
        c[j] = 0.0
    if base > m and rule[at.REPAIR] != 0.0:  # f = f' + alpha r with f' orthogonal to r
        alpha, beta, mixed = place(at.FO, m), place(at.VO, m), place(at.RAW, m)
        coefficients(j, num, slots, m, alpha, beta)
        mix(kappa, num, alpha, mixed, m)
        for z in range(m):
            num[at.PI] -= own * num[mixed + z] * num[beta + z]
            num[at.N2] -= own * num[mixed + z] * num[alpha + z]
    for i in range(n):
        if i != j:
            add_term(i, j, c[i], num, slots, m, base)
    if j >= 0:
        add_term(new, j, c[n], num, slots, m, base)
    return j


@inner(borrow=True)
def drop_oldest(kappa, traced, K, r, kxx, rule, num, slots, born, gram, m, base):
    head = whole(num[at.HEAD])
    if traced is not None:
        if rule[at.REPAIR] != 0.0 and gram.shape[0] > 0:
            residual = float(slots[base + at.KXX, head])
            _repair(whole(rule[at.REPAIR]), (kappa, head, head, 0.0, residual, K, r, kxx, num, slots, gram, m))
    for z in range(base + 1):
        slots[z, head] = 0.0
    born[head] = -1
    head += 1
    num[at.HEAD] = head if head < slots.shape[1] else 0
    num[at.N] -= 1.0


@inner(inlined=True)
def insert(kappa, traced, K, r, kxx, rule, num, slots, keys, born, gram, m, base):
    """Make room for the new term, whose coefficients wait in num, and store it; returns its slot, or at.NOT_STORED."""
    a, u, scale = place(at.A, m), place(at.DA, m), num[at.SCALE]
    size = 0.0
    for z in range(m):
        num[a + z] /= scale
        size = larger(size, abs(num[a + z]))
    if traced is not None:
        for z in range(m):
            num[u + z] = (num[u + z] - num[at.TRACE_MIX] * num[a + z]) / num[at.TRACE_SCALE]
    n, drop = whole(num[at.N]), whole(rule[at.DROP])
    if drop == at.OLDEST:
        if n >= rule[at.BUDGET]:
            drop_oldest(kappa, traced, K, r, kxx, rule, num, slots, born, gram, m, base)
            n -= 1
        slot = whole(num[at.HEAD]) + n
        if slot >= slots.shape[1]:
            slot -= slots.shape[1]
        num[at.N] = n + 1.0
    elif n < rule[at.BUDGET]:
        slot = n
        num[at.N] = n + 1.0
    else:
        slot = weakest(keys, base + at.MAG, born, n)
        if size * (1.0 + 8.0 * epsilon_of(slots)) < slots[base + at.MAG, slot]:
            slot = at.NOT_STORED  # outright: what decay makes equal up to rounding is a tie, and then the older one goes
        if drop == at.MERGE:
            merge(kappa, traced, slot, K, r, kxx, rule, num, slots, keys, born, gram, m, base)
        elif drop == at.PROJECT:
            slot = _project(whole(rule[at.PROJECTION]), (kappa, slot, K, r, kxx, rule, num, slots, gram, m, base))
        elif drop == at.OTHER:
            slot = _make_room(whole(rule[at.ROOM]), (kappa, slot, K, r, kxx, rule, num, slots, gram, m, base))
        elif traced is not None:
            if rule[at.REPAIR] != 0.0:
                own = slots[base + at.KXX, slot] if slot >= 0 else kxx
                _repair(whole(rule[at.REPAIR]), (kappa, slot, slot, 0.0, float(own), K, r, kxx, num, slots, gram, m))
        if slot < 0:
            return at.NOT_STORED
    size = 0.0
    for z in range(m):
        size = larger(size, abs(num[a + z]))
    for z in range(base):
        slots[z, slot] = num[a + z]
    slots[base + at.MAG, slot] = size
    slots[base + at.KXX, slot] = kxx
    born[slot] = whole(num[at.T])
    num[at.USED] = larger(num[at.USED], slot + 1.0)
    if gram.shape[0] > 0:
        for i in range(whole(num[at.USED])):
            gram[0, slot, i] = K[r, i]
        for i in range(whole(num[at.USED])):
            gram[0, i, slot] = K[r, i]
        gram[0, slot, slot] = kxx
    return slot


@inner(borrow=True)
def fold(num, slots, m, base, traced):
    """Write the lazy decay into the coefficients.  What falls below the smallest normal number is nothing."""
    tiny = tiny_of(slots)
    scale = num[at.SCALE]
    for z in range(m):
        for i in range(slots.shape[1]):
            if traced is not None:
                slots[m + z, i] = num[at.TRACE_SCALE] * slots[m + z, i] + num[at.TRACE_MIX] * slots[z, i]
            folded = scale * slots[z, i]
            slots[z, i] = folded if abs(folded) >= tiny else 0.0
    for i in range(slots.shape[1]):
        slots[base + at.MAG, i] = abs(scale * slots[base + at.MAG, i])
    num[at.SCALE], num[at.TRACE_SCALE], num[at.TRACE_MIX] = 1.0, 1.0, 0.0
