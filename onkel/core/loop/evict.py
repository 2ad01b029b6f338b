"""Making room for a new term: which point goes, and what of it the others take over (the rules of maths/budget.py)."""

from __future__ import annotations

import numpy as np

from onkel.core.loop.layout import (  # fmt: skip
    BUDGET,
    DA,
    DROP,
    FN,
    FO,
    HEAD,
    KXX,
    MAG,
    MERGE,
    N2,
    NOT_STORED,
    OLDEST,
    OTHER,
    PI,
    PROJECT,
    RAW,
    REPAIR,
    ROOM,
    SCALE,
    SPARE,
    STALE,
    USED,
    VN,
    VO,
    A,
    N,
    P,
    R,
    T,
)
from onkel.core.loop.vectors import dot, mix, padded, place
from onkel.core.machine.calls import jumper
from onkel.core.machine.compiled import VECTOR, compiled, overload

_make_room = jumper("make room")  # of a rule that the loop does not know; its address stands among the learner's settings


def integer(slots):
    """The integer type as wide as the floats: floats that are not negative compare like their bits, and minima over integers
    vectorise."""


@overload(integer)
def _integer(slots):
    kind = np.int32 if slots.dtype.bitwidth == 32 else np.int64
    return lambda slots: kind


@compiled(melt=True)
def weakest(keys, row, born, n):
    """The slot of smallest magnitude among the first n, the oldest on ties."""
    low = keys[row, 0]
    for i in range(1, n):
        low = min(low, keys[row, i])
    return oldest_of(keys, row, low, born, n)


@compiled(melt=True)
def strongest(keys, row, born, n):
    """The slot of largest merit among the first n, the oldest on ties; a negative merit never wins over another."""
    high = keys[row, 0]
    for i in range(1, n):
        high = max(high, keys[row, i])
    return oldest_of(keys, row, high, born, n)


@compiled(melt=True)
def oldest_of(keys, row, key, born, n):
    """Of the slots with that key the oldest: one pass that vectorises, and a slow one only where there are ties."""
    many, best = np.int32(0), np.int32(0)
    for i in range(n):
        many = np.int32(many + np.int32(keys[row, i] == key))
        best = max(best, np.int32(i) if keys[row, i] == key else np.int32(0))
    if many > 1:
        for i in range(n):
            if keys[row, i] == key and born[i] < born[best]:
                best = np.int32(i)
    return best


@compiled(melt=True)
def magnitude(slots, m, i):
    top = abs(slots[0, i])
    for z in range(1, m):
        top = max(top, abs(slots[z, i]))
    return top


@compiled
def evaluate(kappa, i, K, r, kxx, num, slots, gram, m, f, v):
    """f and v at stored point i (-1: the new point), the new term included, from kernel values that are at hand."""
    n = padded(int(num[USED]), slots)
    near = K[r, i] if i >= 0 else kxx
    a, u, raw = place(A, m), place(DA, m), place(RAW, m)
    own = gram[0]
    for z in range(m):
        num[raw + z] = (dot(own, i, slots, z, n) if i >= 0 else dot(K, r, slots, z, n)) + near * num[a + z]
    mix(kappa, num, raw, f, m)
    for z in range(m):
        num[raw + z] = (dot(own, i, slots, m + z, n) if i >= 0 else dot(K, r, slots, m + z, n)) + near * num[u + z]
    mix(kappa, num, raw, v, m)
    for z in range(m):
        num[v + z] = num[P] * num[v + z] + num[R] * num[f + z]
        num[f + z] *= num[SCALE]


@compiled
def coefficients(i, num, slots, m, alpha, beta):
    """Coefficients of stored point i (-1: the new point) in f and in v, with all decay."""
    for z in range(m):
        a = slots[z, i] if i >= 0 else num[place(A, m) + z]
        u = slots[m + z, i] if i >= 0 else num[place(DA, m) + z]
        num[alpha + z] = num[SCALE] * a
        num[beta + z] = num[P] * u + num[R] * a


@compiled
def repair(kappa, j, n, c, residual, K, r, kxx, num, slots, gram, m):
    """<f, v> and |f|^2 after the term j gives way to c times point n: f loses alpha_j r, r = k(x_j, .) - c k(x_n, .).

    ``residual`` is |r|^2.  With f, v before the change:  <f, v> -= alpha.(v(x_j) - c v(x_n)) + beta.(f(x_j) - c f(x_n)) -
    alpha' kappa beta |r|^2,  |f|^2 likewise.  c = 0 is the plain removal of [V] sec. 5.5.
    """
    f, v, alpha, beta, mixed = place(FO, m), place(VO, m), place(FN, m), place(VN, m), place(RAW, m)
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
        num[PI] -= al * num[v + z] + be * num[f + z] - residual * al * num[mixed + z]
    mix(kappa, num, alpha, mixed, m)
    for z in range(m):
        num[N2] -= num[alpha + z] * (2.0 * num[f + z] - residual * num[mixed + z])


@compiled
def add_term(i, j, c, num, slots, m, base):
    """Point i takes c times the coefficients of point j; -1 is the new point, whose coefficients wait in num."""
    for z in range(base):
        # rows m.. of slots (the trace) pair with the vector DA, rows 0..m-1 with A
        cell = place(A, m) + z if z < m else place(DA, m) + z - m
        amount = c * (slots[z, j] if j >= 0 else num[cell])
        if i >= 0:
            slots[z, i] += amount
        else:
            num[cell] += amount
    if i >= 0:
        slots[base + MAG, i] = magnitude(slots, m, i)


@compiled
def merge(kappa, j, K, r, kxx, rule, num, slots, keys, born, gram, m, base):
    """Project term j (-1: the new one) on the one remaining point that leaves the least behind: largest k_nj^2 / k_nn."""
    n = int(num[N])
    merit, own = base + SPARE, base + KXX
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
    k = K[r, max(j, target)] if j < 0 or target < 0 else gram[0, j, target]
    k_target = slots[own, target] if target >= 0 else kxx
    if k_target > 0.0:
        c = float(k) / float(k_target)
        if base > m and rule[REPAIR] != 0.0:
            k_j = slots[own, j] if j >= 0 else kxx
            repair(kappa, j, target, c, float(k_j) - c * float(k), K, r, kxx, num, slots, gram, m)
        add_term(target, j, c, num, slots, m, base)


@compiled
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
    num[STALE] = n


@compiled(fastmath=VECTOR)
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
    n = int(num[N])
    new = min(j, -1)  # not the constant: that would compile everything it is passed to a second time
    K, Q = gram[0], gram[1]
    exactness = 1e-8 if slots.itemsize == 8 else 1e-7
    if num[STALE] <= 0.0:
        refresh(num, gram, n, exactness)
    num[STALE] -= 1.0
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
        own = float(slots[base + KXX, j])
        for i in range(n):
            c[i] += move[i]
            own -= c[i] * k_j[i]
        c[n] = c[j]
        c[j] = 0.0
    if base > m and rule[REPAIR] != 0.0:  # f = f' + alpha r with f' orthogonal to r
        alpha, beta, mixed = place(FO, m), place(VO, m), place(RAW, m)
        coefficients(j, num, slots, m, alpha, beta)
        mix(kappa, num, alpha, mixed, m)
        for z in range(m):
            num[PI] -= own * num[mixed + z] * num[beta + z]
            num[N2] -= own * num[mixed + z] * num[alpha + z]
    for i in range(n):
        if i != j:
            add_term(i, j, c[i], num, slots, m, base)
    if j >= 0:
        add_term(new, j, c[n], num, slots, m, base)
    return j


@compiled
def drop_oldest(kappa, K, r, kxx, rule, num, slots, born, gram, m, base):
    head = int(num[HEAD])
    if base > m and rule[REPAIR] != 0.0 and gram.shape[0] > 0:
        repair(kappa, head, head, 0.0, float(slots[base + KXX, head]), K, r, kxx, num, slots, gram, m)
    for z in range(base + 1):
        slots[z, head] = 0.0
    born[head] = -1
    head += 1
    num[HEAD] = head if head < slots.shape[1] else 0
    num[N] -= 1.0


@compiled(melt=True)
def insert(kappa, K, r, kxx, rule, num, slots, keys, born, gram, m, base):
    """Make room for the new term, whose coefficients wait in num, and store it; returns its slot, or NOT_STORED."""
    a, u, scale = place(A, m), place(DA, m), num[SCALE]
    size = 0.0
    for z in range(m):
        num[a + z] /= scale
        size = max(size, abs(num[a + z]))
    for z in range(base - m):
        num[u + z] = (num[u + z] - num[R] * num[a + z]) / num[P]
    n, drop = int(num[N]), int(rule[DROP])
    if drop == OLDEST:
        if n >= rule[BUDGET]:
            drop_oldest(kappa, K, r, kxx, rule, num, slots, born, gram, m, base)
            n -= 1
        slot = int(num[HEAD]) + n
        if slot >= slots.shape[1]:
            slot -= slots.shape[1]
        num[N] = n + 1.0
    elif n < rule[BUDGET]:
        slot = n
        num[N] = n + 1.0
    else:
        slot = weakest(keys, base + MAG, born, n)
        if size * (1.0 + 8.0 * np.finfo(slots.dtype).eps) < slots[base + MAG, slot]:
            slot = NOT_STORED  # outright: what decay makes equal up to rounding is a tie, and then the older one goes
        if drop == MERGE:
            merge(kappa, slot, K, r, kxx, rule, num, slots, keys, born, gram, m, base)
        elif drop == PROJECT:
            slot = project(kappa, slot, K, r, kxx, rule, num, slots, gram, m, base)
        elif drop == OTHER:
            slot = _make_room(int(rule[ROOM]), (kappa, slot, K, r, kxx, rule, num, slots, gram, m, base))
        elif base > m and rule[REPAIR] != 0.0:
            own = slots[base + KXX, slot] if slot >= 0 else kxx
            repair(kappa, slot, slot, 0.0, float(own), K, r, kxx, num, slots, gram, m)
        if slot < 0:
            return NOT_STORED
    size = 0.0
    for z in range(m):
        size = max(size, abs(num[a + z]))
        slots[z, slot] = num[a + z]
        if base > m:
            slots[m + z, slot] = num[u + z]
    slots[base + MAG, slot] = size
    slots[base + KXX, slot] = kxx
    born[slot] = int(num[T])
    num[USED] = max(num[USED], slot + 1.0)
    if gram.shape[0] > 0:
        for i in range(int(num[USED])):
            gram[0, slot, i] = K[r, i]
        for i in range(int(num[USED])):
            gram[0, i, slot] = K[r, i]
        gram[0, slot, slot] = kxx
    return slot


@compiled
def fold(num, slots, m, base):
    """Write the lazy decay into the coefficients.  What falls below the smallest normal number is nothing."""
    tiny = np.finfo(slots.dtype).tiny
    scale = num[SCALE]
    for z in range(m):
        for i in range(slots.shape[1]):
            if base > m:
                slots[m + z, i] = num[P] * slots[m + z, i] + num[R] * slots[z, i]
            folded = scale * slots[z, i]
            slots[z, i] = folded if abs(folded) >= tiny else 0.0
    for i in range(slots.shape[1]):
        slots[base + MAG, i] = abs(scale * slots[base + MAG, i])
    num[SCALE], num[P], num[R] = 1.0, 1.0, 0.0
