"""One example: predict, shrink, append, drop.

Every algorithm of the papers is    f <- s f + a k(x, .),   then the budget   (docs/maths.md derives each).
``step`` does that for one example, given the row of kernel values between it and the stored points.  Only the loss (dispatch.py
makes them all look alike), and whether there is a trace, are compile-time types; all the rest are numbers in ``rule`` and ``num``
(layout.py says where) and cheap branches.
"""

from __future__ import annotations

import math

import numpy as np

from onkel.core.loop import layout as at
from onkel.core.loop.dispatch import consider, convex, curve, lowest_theta, mistake, prox, slope, tangent, tube, value
from onkel.core.loop.evict import drop_oldest, fold, insert
from onkel.core.loop.vectors import dot, mix, padded, place, sums
from onkel.core.machine.compiled import inner
from onkel.core.machine.numbers import larger, largest_of, smaller, whole

# Arguments stand alone, not in tuples: a function with twenty of them is not nice to read, but tuples of arrays would be taken
# apart and put together anew at each call.  ``traced`` is None where there is no trace, so that its branches are not compiled.


@inner(inlined=True)
def adapt(eta, gain, low, high):
    """eta max(1/2, 1 - gain), inside its limits.  [V] (33)"""
    return smaller(larger(eta * larger(0.5, 1.0 - gain), low), high)


@inner(inlined=True)
def predict(loss, kappa, K, r, kxx, y, theta, num, slots, m, traced):
    """f(x) and its scores, and v(x) of the trace, into num; returns 0 or an error code."""
    n, scale = padded(whole(num[at.USED]), slots), num[at.SCALE]
    raw, f, scores, b = place(at.RAW, m), place(at.F, m), place(at.S, m), place(at.B, m)
    sums(K, r, slots, 0, n, num, raw, m, scale)
    mix(kappa, num, raw, f, m)
    finite = math.isfinite(kxx)
    for z in range(m):
        num[scores + z] = num[f + z] + num[b + z]
        finite = finite and math.isfinite(num[scores + z])
    if not finite:
        return at.NOT_FINITE
    if not convex(loss, num, scores, y, theta):
        return at.NOT_CONVEX
    if traced is not None:
        for z in range(m):
            num[raw + z] = num[at.TRACE_SCALE] * dot(K, r, slots, m + z, n) + num[at.TRACE_MIX] * (num[raw + z] / scale)
        mix(kappa, num, raw, place(at.V, m), m)
    return 0


@inner(inlined=True)
def alma(rule, num, kxx, y, m):
    """[G] on the direction of x alone: eta, shrink, theta and |f|^2 after the step, whose coefficient goes to A."""
    f, scores, a = place(at.F, m), place(at.S, m), place(at.A, m)
    length = math.sqrt(kxx)
    theta = rule[at.ALMA_MARGIN] / math.sqrt(num[at.COUNT])
    eta = rule[at.ALMA_STEP] / math.sqrt(num[at.COUNT])
    margin = y * num[f] / length if kxx > 0.0 else y * num[f]
    shrink, n2 = 1.0, 0.0
    num[a] = 0.0
    num[scores] = y * margin
    if kxx > 0.0 and margin <= theta:
        n2 = num[at.N2] + 2.0 * eta * margin + eta * eta
        shrink = 1.0 / larger(1.0, math.sqrt(n2))
        num[a] = shrink * eta * y / length
    return eta, shrink, theta, n2


@inner(inlined=True)
def move(loss, kxx, y, theta, eta, c, worst, rule, num, m, traced):
    """The step f <- shrink f + a k(x, .), a into A, the trace's into DA; returns eta, shrink, d shrink / d log eta, violation."""
    kind, lam, decay = whole(rule[at.STEP]), rule[at.LAM], rule[at.DECAY]
    f, scores, b, v, xi = place(at.F, m), place(at.S, m), place(at.B, m), place(at.V, m), place(at.XI, m)
    a, da, decayed, dz = place(at.A, m), place(at.DA, m), place(at.Z, m), place(at.DZ, m)
    violation = 0.0
    if kind != at.IMPLICIT:
        violation = slope(loss, num, scores, m, y, theta, worst, rule[at.TIE] != 0.0, xi)
        for z in range(m):
            num[xi + z] *= c
    if traced is not None:
        gain = lam * num[at.PI]
        for z in range(m):
            gain += num[xi + z] * num[v + z]
        eta = adapt(num[at.ETA], rule[at.MU] * gain, rule[at.ETA_MIN], rule[at.ETA_MAX])
    if kind == at.EXPLICIT or kind == at.ADAPTIVE:
        shrink = 1.0 - eta * lam
        turn = -eta * lam
        for z in range(m):
            num[a + z] = -eta * num[xi + z]
        if traced is not None:
            curve(loss, num, scores, m, y, theta, v, da)
            for z in range(m):
                num[da + z] = -eta * (num[xi + z] + decay * c * num[da + z])
    else:
        shrink = 1.0 / (1.0 + eta * lam)
        turn = -shrink * (1.0 - shrink)
        cap = shrink * eta * c
        extra = 1.0 / shrink if rule[at.OFFSET] != 0.0 else 0.0
        for z in range(m):
            num[decayed + z] = shrink * num[f + z] + num[b + z]
        prox(loss, num, decayed, m, y, theta, worst, cap, float(kxx), extra, rule[at.EXACT], a)
        if traced is not None:
            for z in range(m):
                num[dz + z] = shrink * decay * num[v + z] + turn * num[f + z]
            tangent(
                loss, num, decayed, m, y, theta, cap, float(kxx), extra, rule[at.TANGENT], a, dz, cap * shrink, da
            )  # fmt: skip
    return eta, shrink, turn, violation


@inner(inlined=True)
def sound(eta, num, slots, m, traced):
    """Whether the new term is finite, and whether there is one."""
    a, da = place(at.A, m), place(at.DA, m)
    finite, used = math.isfinite(eta), False
    largest = largest_of(slots) * 1e-9  # coefficients are stored divided by the lazy scale, 1e-9 at the least
    for z in range(m):
        finite = finite and abs(num[a + z]) < largest
        used = used or num[a + z] != 0.0
        if traced is not None:
            finite = finite and math.isfinite(num[da + z])
            used = used or num[da + z] != 0.0
    return finite, used


@inner(inlined=True)
def move_theta(loss, theta, eta, weight, violation, rule, num, traced):
    """Descent on the loss with -nu rho, resp. + nu epsilon; with a trace in log space and a step of its own, [V] (56)-(58)."""
    pull = rule[at.NU] - violation
    if tube(loss):
        pull = -pull
    if traced is not None:
        decay, q = rule[at.DECAY], theta * pull * weight
        num[at.ETA_THETA] = adapt(num[at.ETA_THETA], -rule[at.MU] * num[at.V_THETA] * q, 0.0, np.inf)
        num[at.V_THETA] = decay * num[at.V_THETA] + num[at.ETA_THETA] * q * (1.0 + decay * num[at.V_THETA])
        num[at.THETA] = larger(theta * math.exp(smaller(larger(num[at.ETA_THETA] * q, -700.0), 700.0)), lowest_theta(loss))
    else:
        num[at.THETA] = larger(theta + eta * weight * pull, lowest_theta(loss))


@inner(inlined=True)
def move_offset(shrink, rule, num, m):
    kind = whole(rule[at.STEP])
    b, a, xi = place(at.B, m), place(at.A, m), place(at.XI, m)
    if kind == at.ADAPTIVE:
        eta_b, v_b = place(at.ETA_B, m), place(at.V_B, m)
        for z in range(m):
            num[eta_b + z] = adapt(num[eta_b + z], rule[at.MU] * num[xi + z] * num[v_b + z], 0.0, np.inf)
            num[v_b + z] = rule[at.DECAY] * num[v_b + z] - num[eta_b + z] * num[xi + z]
            num[b + z] -= num[eta_b + z] * num[xi + z]
    else:
        for z in range(m):
            num[b + z] += num[a + z] if kind == at.EXPLICIT else num[a + z] / shrink


@inner(inlined=True)
def move_trace(kappa, kxx, eta, shrink, turn, decay, num, m):
    """<f, v>, |f|^2 and the lazy numbers of the trace, after f and v have moved."""
    raw, f, v, a, da = place(at.RAW, m), place(at.F, m), place(at.V, m), place(at.A, m), place(at.DA, m)
    num[at.ETA] = eta
    fv = shrink * decay * num[at.PI] + turn * num[at.N2]
    mix(kappa, num, da, raw, m)
    for z in range(m):
        fv += num[da + z] * num[f + z]
        num[v + z] = shrink * decay * num[v + z] + turn * num[f + z] + kxx * num[raw + z]
    mix(kappa, num, a, raw, m)
    num[at.PI], num[at.N2] = shrink * fv, shrink * shrink * num[at.N2]
    for z in range(m):
        num[at.PI] += num[a + z] * num[v + z]
        num[at.N2] += num[a + z] * (2.0 * shrink * num[f + z] + kxx * num[raw + z])
    num[at.TRACE_MIX] = shrink * decay * num[at.TRACE_MIX] + turn * num[at.SCALE]
    num[at.TRACE_SCALE] *= shrink * decay


@inner(inlined=True)
def step(
    loss, kappa, traced, K, r, kxx, y, eta, weight, reach, rule, num, slots, keys, born, gram, answers, t, traces, column, m, base
):  # fmt: skip
    """Learn one example, whose kernel values with the slots stand in row r of K.

    Returns the slot of the new point, NOT_STORED, or an error code with nothing changed.
    """
    theta, n2, turn, violation = num[at.THETA], 0.0, 0.0, 0.0
    code = predict(loss, kappa, K, r, kxx, y, theta, num, slots, m, traced)
    if code < 0:
        return code
    f, scores, a, da, b = place(at.F, m), place(at.S, m), place(at.A, m), place(at.DA, m), place(at.B, m)
    kind, worst = whole(rule[at.STEP]), consider(loss, num, scores, m, y, theta)
    if kind == at.ALMA:
        eta, shrink, theta, n2 = alma(rule, num, kxx, y, m)
    else:
        eta, shrink, turn, violation = move(loss, kxx, y, theta, eta, rule[at.C] * weight, worst, rule, num, m, traced)
    finite, used = sound(eta, num, slots, m, traced)
    if not finite:
        return at.NOT_FINITE

    for z in range(m):
        answers[t, z] = num[f + z] + num[b + z]
    traces[at.LOSS, column] = value(loss, num, scores, m, y, theta, worst)
    traces[at.MISTAKE, column] = 1.0 if mistake(loss, num, scores, m, y, theta) else 0.0
    traces[at.ETA_USED, column] = eta

    # from here on the state changes
    num[at.T] += 1.0
    if kind == at.ALMA:
        if used:
            num[at.N2] = n2 * shrink * shrink
            num[at.COUNT] += 1.0
        num[at.THETA] = rule[at.ALMA_MARGIN] / math.sqrt(num[at.COUNT])
    elif not math.isnan(rule[at.NU]):
        move_theta(loss, theta, eta, weight, violation, rule, num, traced)
    if rule[at.OFFSET] != 0.0:
        move_offset(shrink, rule, num, m)
    if traced is not None:
        move_trace(kappa, kxx, eta, shrink, turn, rule[at.DECAY], num, m)
    num[at.SCALE] *= shrink
    far = not 1e-9 < abs(num[at.SCALE]) < 1e9
    if traced is not None:
        far = far or not 1e-9 < abs(num[at.TRACE_SCALE]) < 1e9
    if far:
        fold(num, slots, m, base, traced)
    slot = at.NOT_STORED
    if used:
        slot = insert(kappa, traced, K, r, kxx, rule, num, slots, keys, born, gram, m, base)
    if reach < num[at.T]:  # a window of time: what was born too long ago goes
        for z in range(m):
            num[a + z] = 0.0
            num[da + z] = 0.0
        while num[at.N] > 0.0 and born[whole(num[at.HEAD])] < num[at.T] + 1.0 - reach:
            drop_oldest(kappa, traced, K, r, kxx, rule, num, slots, born, gram, m, base)
    traces[at.THETA_AFTER, column] = num[at.THETA]
    traces[at.SIZE, column] = num[at.N]
    return slot
