"""One example: predict, shrink, append, drop.

Every algorithm of the papers is    f <- s f + a k(x, .),   then the budget   (docs/maths.md derives each).
``step`` does that for one example, given the row of kernel values between it and the stored points.  Only the loss (dispatch.py
makes them all look alike) is a compile-time type; all the rest are numbers in ``rule`` and ``num`` (layout.py says where) and
cheap branches.
"""

from __future__ import annotations

import math

import numpy as np

from onkel.core.loop.dispatch import consider, convex, curve, lowest_theta, mistake, prox, slope, tangent, tube, value
from onkel.core.loop.evict import drop_oldest, fold, insert
from onkel.core.loop.layout import (  # fmt: skip
    ADAPTIVE,
    ALMA,
    ALMA_MARGIN,
    ALMA_STEP,
    COUNT,
    DA,
    DECAY,
    DZ,
    ETA,
    ETA_B,
    ETA_MAX,
    ETA_MIN,
    ETA_THETA,
    ETA_USED,
    EXACT,
    EXPLICIT,
    HEAD,
    IMPLICIT,
    LAM,
    LOSS,
    MISTAKE,
    MU,
    N2,
    NOT_CONVEX,
    NOT_FINITE,
    NOT_STORED,
    NU,
    OFFSET,
    PI,
    RAW,
    SCALE,
    SIZE,
    STEP,
    THETA,
    THETA_AFTER,
    TIE,
    USED,
    V_B,
    V_THETA,
    XI,
    A,
    B,
    C,
    F,
    N,
    P,
    R,
    S,
    T,
    V,
    Z,
)
from onkel.core.loop.vectors import dot, mix, padded, place, sums
from onkel.core.machine.compiled import compiled


@compiled(melt=True)
def adapt(eta, gain, low, high):
    """eta max(1/2, 1 - gain), inside its limits.  [V] (33)"""
    return min(max(eta * max(0.5, 1.0 - gain), low), high)


@compiled(inline="always")
def step(loss, kappa, K, r, kxx, y, eta, weight, keep, rule, num, slots, keys, born, gram, answers, t, traces, at, m, base):
    """Learn one example, whose kernel values with the slots stand in row r of K.

    Returns the slot of the new point, NOT_STORED, or an error code with nothing changed.
    """
    kind = int(rule[STEP])
    adaptive = base > m
    n = padded(int(num[USED]), slots)
    theta, scale, decay, lam = num[THETA], num[SCALE], rule[DECAY], rule[LAM]
    c = rule[C] * weight
    b, raw, f, scores, v = place(B, m), place(RAW, m), place(F, m), place(S, m), place(V, m)
    xi, a, da, decayed, dz = place(XI, m), place(A, m), place(DA, m), place(Z, m), place(DZ, m)

    # predict
    sums(K, r, slots, 0, n, num, raw, m, scale)
    mix(kappa, num, raw, f, m)
    finite = math.isfinite(kxx)
    for z in range(m):
        num[scores + z] = num[f + z] + num[b + z]
        finite = finite and math.isfinite(num[scores + z])
    if not finite:
        return NOT_FINITE
    if not convex(loss, num, scores, y, theta):
        return NOT_CONVEX
    if adaptive:
        for z in range(m):
            num[raw + z] = num[P] * dot(K, r, slots, m + z, n) + num[R] * (num[raw + z] / scale)
        mix(kappa, num, raw, v, m)

    # the step: f <- shrink f + a k(x, .)
    worst, violation = consider(loss, num, scores, m, y, theta), 0.0
    shrink, turn = 1.0, 0.0  # turn: d shrink / d log eta
    if kind == ALMA:
        length = math.sqrt(kxx)
        theta = rule[ALMA_MARGIN] / math.sqrt(num[COUNT])
        eta = rule[ALMA_STEP] / math.sqrt(num[COUNT])
        margin = y * num[f] / length if kxx > 0.0 else y * num[f]
        num[a] = 0.0
        num[scores] = y * margin
        if kxx > 0.0 and margin <= theta:
            n2 = num[N2] + 2.0 * eta * margin + eta * eta
            shrink = 1.0 / max(1.0, math.sqrt(n2))
            num[a] = shrink * eta * y / length
    else:
        if kind != IMPLICIT:
            violation = slope(loss, num, scores, m, y, theta, worst, rule[TIE] != 0.0, xi)
            for z in range(m):
                num[xi + z] *= c
        if adaptive:
            gain = lam * num[PI]
            for z in range(m):
                gain += num[xi + z] * num[v + z]
            eta = adapt(num[ETA], rule[MU] * gain, rule[ETA_MIN], rule[ETA_MAX])
        if kind == EXPLICIT or kind == ADAPTIVE:
            shrink = 1.0 - eta * lam
            turn = -eta * lam
            for z in range(m):
                num[a + z] = -eta * num[xi + z]
            if adaptive:
                curve(loss, num, scores, m, y, theta, v, da)
                for z in range(m):
                    num[da + z] = -eta * (num[xi + z] + decay * c * num[da + z])
        else:
            shrink = 1.0 / (1.0 + eta * lam)
            turn = -shrink * (1.0 - shrink)
            cap = shrink * eta * c
            extra = 1.0 / shrink if rule[OFFSET] != 0.0 else 0.0
            exact = rule[EXACT] != 0.0
            for z in range(m):
                num[decayed + z] = shrink * num[f + z] + num[b + z]
            prox(loss, num, decayed, m, y, theta, worst, cap, float(kxx), extra, exact, a)
            if adaptive:
                for z in range(m):
                    num[dz + z] = shrink * decay * num[v + z] + turn * num[f + z]
                tangent(loss, num, decayed, m, y, theta, cap, float(kxx), extra, exact, a, dz, cap * shrink, da)
    used = False
    largest = np.finfo(slots.dtype).max * 1e-9  # coefficients are stored divided by the lazy scale, 1e-9 at the least
    for z in range(m):
        finite = finite and abs(num[a + z]) < largest
        used = used or num[a + z] != 0.0
        if adaptive:
            finite = finite and math.isfinite(num[da + z])
            used = used or num[da + z] != 0.0
    if not finite or not math.isfinite(eta):
        return NOT_FINITE

    for z in range(m):
        answers[t, z] = num[f + z] + num[b + z]
    traces[LOSS, at] = value(loss, num, scores, m, y, theta, worst)
    traces[MISTAKE, at] = 1.0 if mistake(loss, num, scores, m, y, theta) else 0.0
    traces[ETA_USED, at] = eta

    # from here on the state changes
    num[T] += 1.0
    if kind == ALMA:
        if used:
            num[N2] = n2 * shrink * shrink
            num[COUNT] += 1.0
        num[THETA] = rule[ALMA_MARGIN] / math.sqrt(num[COUNT])
    elif not math.isnan(rule[NU]):
        pull = rule[NU] - violation  # descent on the loss with -nu rho, resp. + nu epsilon
        if tube(loss):
            pull = -pull
        if adaptive:  # in log space with a step of its own, [V] (56)-(58)
            q = theta * pull * weight
            num[ETA_THETA] = adapt(num[ETA_THETA], -rule[MU] * num[V_THETA] * q, 0.0, np.inf)
            num[V_THETA] = decay * num[V_THETA] + num[ETA_THETA] * q * (1.0 + decay * num[V_THETA])
            num[THETA] = max(theta * math.exp(min(max(num[ETA_THETA] * q, -700.0), 700.0)), lowest_theta(loss))
        else:
            num[THETA] = max(theta + eta * weight * pull, lowest_theta(loss))
    if rule[OFFSET] != 0.0:
        if kind == ADAPTIVE:
            eta_b, v_b = place(ETA_B, m), place(V_B, m)
            for z in range(m):
                num[eta_b + z] = adapt(num[eta_b + z], rule[MU] * num[xi + z] * num[v_b + z], 0.0, np.inf)
                num[v_b + z] = decay * num[v_b + z] - num[eta_b + z] * num[xi + z]
                num[b + z] -= num[eta_b + z] * num[xi + z]
        else:
            for z in range(m):
                num[b + z] += num[a + z] if kind == EXPLICIT else num[a + z] / shrink
    if adaptive:
        num[ETA] = eta
        fv = shrink * decay * num[PI] + turn * num[N2]
        mix(kappa, num, da, raw, m)
        for z in range(m):
            fv += num[da + z] * num[f + z]
            num[v + z] = shrink * decay * num[v + z] + turn * num[f + z] + kxx * num[raw + z]
        mix(kappa, num, a, raw, m)
        num[PI], num[N2] = shrink * fv, shrink * shrink * num[N2]
        for z in range(m):
            num[PI] += num[a + z] * num[v + z]
            num[N2] += num[a + z] * (2.0 * shrink * num[f + z] + kxx * num[raw + z])
        num[R] = shrink * decay * num[R] + turn * scale
        num[P] *= shrink * decay
    num[SCALE] = scale * shrink
    if not 1e-9 < abs(num[SCALE]) < 1e9 or (adaptive and not 1e-9 < abs(num[P]) < 1e9):
        fold(num, slots, m, base)
    slot = NOT_STORED
    if used:
        slot = insert(kappa, K, r, kxx, rule, num, slots, keys, born, gram, m, base)
    if keep < num[T]:  # a window of time: what was born too long ago goes
        for z in range(m):
            num[a + z] = 0.0
            num[da + z] = 0.0
        while num[N] > 0.0 and born[int(num[HEAD])] < num[T] + 1.0 - keep:
            drop_oldest(kappa, K, r, kxx, rule, num, slots, born, gram, m, base)
    traces[THETA_AFTER, at] = num[THETA]
    traces[SIZE, at] = num[N]
    return slot
