"""The hot loop, and nothing else: predict, shrink, append, drop, for one example after the other.

Every algorithm of the papers is    f <- s f + a k(x, .),   then the budget   (docs/maths.md derives each).
``step`` does that for one example, given the row of kernel values between it and the stored points.  Only the loss, and the
kernel where the loop computes rows itself, is a compile-time type; all the rest are numbers in ``rule`` and ``num`` (layout.py
says where) and cheap branches.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from onkel.budget import drop_oldest, fold, insert
from onkel.compiled import compiled, dot
from onkel.kernels import fill, self_value
from onkel.layout import (
    ADAPTIVE,
    ADAPTIVE_IMPLICIT,
    ALMA,
    ALMA_MARGIN,
    ALMA_STEP,
    AUX,
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
    SPARE,
    STEP,
    THETA,
    THETA_AFTER,
    TIE,
    TRACE,
    USED,
    V_B,
    V_THETA,
    WORK,
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
    mix,
    padded,
    vector,
)
from onkel.losses import EpsilonInsensitive, Huber, Softmax, Structured

# --- losses of one score and of many look the same from here ----------------------------------------------------------------


def _one(cls: Any) -> bool:
    return cls is not Structured and cls is not Softmax


def value(loss, S, y, theta):
    """Cost of the scores S."""


@overload(value)
def _value(loss, S, y, theta):
    f = loss.instance_class.value
    if _one(loss.instance_class):
        return lambda loss, S, y, theta: f(loss, S[0], y, theta)
    return lambda loss, S, y, theta: f(loss, S, int(y), theta)


def mistake(loss, S, y, theta):
    """Whether S counts as a mistake: ties do."""


@overload(mistake)
def _mistake(loss, S, y, theta):
    f = loss.instance_class.mistake
    if _one(loss.instance_class):
        return lambda loss, S, y, theta: f(loss, S[0], y, theta)
    return lambda loss, S, y, theta: f(loss, S, int(y), theta)


def slope(loss, S, y, theta, tie, xi):
    """Derivative into xi; returns by how much the margin is violated."""


@overload(slope)
def _slope(loss, S, y, theta, tie, xi):
    f = loss.instance_class.slope
    if not _one(loss.instance_class):
        return lambda loss, S, y, theta, tie, xi: f(loss, S, int(y), theta, xi)
    violated = loss.instance_class.violated

    def one(loss, S, y, theta, tie, xi):
        xi[0] = f(loss, S[0], y, theta, tie)
        return 1.0 if violated(loss, S[0], y, theta, tie) else 0.0

    return one


def curve(loss, S, y, theta, v, chi):
    """chi = Hessian times v."""


@overload(curve)
def _curve(loss, S, y, theta, v, chi):
    if not _one(loss.instance_class):
        f = loss.instance_class.curve
        return lambda loss, S, y, theta, v, chi: f(loss, S, int(y), theta, v, chi)
    g = loss.instance_class.curvature

    def one(loss, S, y, theta, v, chi):
        chi[0] = g(loss, S[0], y, theta) * v[0]

    return one


def prox(loss, S, z, y, theta, cap, k, extra, exact, a):
    """Implicit coefficient into a: z are the decayed scores, S the scores before; k kappa + extra I is the curvature."""


@overload(prox)
def _prox(loss, S, z, y, theta, cap, k, extra, exact, a):
    f = loss.instance_class.prox
    if not _one(loss.instance_class):
        return lambda loss, S, z, y, theta, cap, k, extra, exact, a: f(loss, S, z, int(y), theta, cap, k, extra, exact, a)

    def one(loss, S, z, y, theta, cap, k, extra, exact, a):
        a[0] = f(loss, z[0], y, theta, cap, k + extra)

    return one


def tangent(loss, z, y, theta, cap, k, extra, exact, a, dz, dcap, da):
    """How the implicit coefficient moves when z moves by dz and the cap by dcap."""


@overload(tangent)
def _tangent(loss, z, y, theta, cap, k, extra, exact, a, dz, dcap, da):
    f = loss.instance_class.tangent
    if not _one(loss.instance_class):
        return lambda loss, z, y, theta, cap, k, extra, exact, a, dz, dcap, da: f(
            loss, z, int(y), theta, cap, k, extra, exact, a, dz, dcap, da
        )

    def one(loss, z, y, theta, cap, k, extra, exact, a, dz, dcap, da):
        da[0] = f(loss, z[0], y, theta, cap, k + extra, a[0], dz[0], dcap)

    return one


def convex(loss, S, y, theta):
    """A cheap look whether a user's loss can be convex here: its slope must not fall, nor its value undercut the tangent."""


@overload(convex)
def _convex(loss, S, y, theta):
    cls = loss.instance_class
    if cls.__name__ != "UserLoss":
        return lambda loss, S, y, theta: True
    cost, steep = cls.value, cls.slope

    def look(loss, S, y, theta):
        f, h = S[0], 0.01 * max(1.0, abs(S[0]))
        here, there = steep(loss, f, y, theta, False), steep(loss, f + h, y, theta, False)
        low, high = cost(loss, f, y, theta), cost(loss, f + h, y, theta)
        room = 1e-6 * (abs(here) + abs(there)) + 1e-9
        slack = room * h + 1e-9 * abs(low)
        return here <= there + room and low + here * h <= high + slack and high <= low + there * h + slack

    return look


def label_kernel(loss):
    """kappa, empty where labels have nothing in common."""


@overload(label_kernel)
def _label_kernel(loss):
    if _one(loss.instance_class):
        return lambda loss: np.empty((0, 0))
    return lambda loss: np.empty((0, 0)) if loss.labels.plain else loss.labels.kernel.copy()


def tube(loss):
    """Whether theta is a tube's width, which grows with violations, or a margin, which shrinks with them."""


@overload(tube)
def _tube(loss):
    is_tube = loss.instance_class in (EpsilonInsensitive, Huber)
    return lambda loss: is_tube


def lowest_theta(loss):
    """Huber divides by its sigma; margins and tubes may close."""


@overload(lowest_theta)
def _lowest_theta(loss):
    low = 1e-12 if loss.instance_class is Huber else 0.0
    return lambda loss: low


# --- one example ----------------------------------------------------------------------------------------------------------------


@compiled
def adapt(eta, gain, low, high):
    """eta max(1/2, 1 - gain), inside its limits.  [V] (33)"""
    return min(max(eta * max(0.5, 1.0 - gain), low), high)


@compiled(inline="always")
def step(loss, kappa, row, kxx, y, eta, weight, keep, rule, num, slots, born, gram, trace, m, base):
    """Learn one example: returns the slot of the new point, NOT_STORED, or an error code with nothing changed."""
    kind = int(rule[STEP])
    adaptive = base > m
    n = padded(int(num[USED]), slots)
    theta, scale, decay, lam = num[THETA], num[SCALE], rule[DECAY], rule[LAM]
    c = rule[C] * weight
    b, raw, f, scores = vector(num, B, m), vector(num, RAW, m), vector(num, F, m), vector(num, S, m)
    xi, a, da, v = vector(num, XI, m), vector(num, A, m), vector(num, DA, m), vector(num, V, m)

    # predict
    for z in range(m):
        raw[z] = scale * dot(row, slots[z], n)
    mix(kappa, raw, f)
    finite = math.isfinite(kxx)
    for z in range(m):
        scores[z] = f[z] + b[z]
        finite = finite and math.isfinite(scores[z])
    if not finite:
        return NOT_FINITE
    if not convex(loss, scores, y, theta):
        return NOT_CONVEX
    if adaptive:
        for z in range(m):
            raw[z] = num[P] * dot(row, slots[m + z], n) + num[R] * (raw[z] / scale)
        mix(kappa, raw, v)

    # the step: f <- shrink f + a k(x, .)
    violation = 0.0
    shrink, turn = 1.0, 0.0  # turn: d shrink / d log eta
    if kind == ALMA:
        length = math.sqrt(kxx)
        theta = rule[ALMA_MARGIN] / math.sqrt(num[COUNT])
        a[0] = 0.0
        xi[0] = 0.0
        scores[0] = f[0] / length if kxx > 0.0 else f[0]
        eta = move = rule[ALMA_STEP] / math.sqrt(num[COUNT])
        if kxx > 0.0 and y * scores[0] <= theta:
            n2 = num[N2] + 2.0 * move * y * scores[0] + move * move
            shrink = 1.0 / max(1.0, math.sqrt(n2))
            a[0] = shrink * move * y / length
    else:
        if kind != IMPLICIT:
            violation = slope(loss, scores, y, theta, rule[TIE] != 0.0, xi)
            for z in range(m):
                xi[z] *= c
        if adaptive:
            gain = lam * num[PI]
            for z in range(m):
                gain += xi[z] * v[z]
            eta = adapt(num[ETA], rule[MU] * gain, rule[ETA_MIN], rule[ETA_MAX])
        if kind == EXPLICIT or kind == ADAPTIVE:
            shrink = 1.0 - eta * lam
            turn = -eta * lam
            for z in range(m):
                a[z] = -eta * xi[z]
            if adaptive:
                curve(loss, scores, y, theta, v, da)
                for z in range(m):
                    da[z] = -eta * (xi[z] + decay * c * da[z])
        else:
            shrink = 1.0 / (1.0 + eta * lam)
            turn = -shrink * (1.0 - shrink)
            cap = shrink * eta * c
            extra = 1.0 / shrink if rule[OFFSET] != 0.0 else 0.0
            decayed, dz = vector(num, Z, m), vector(num, DZ, m)
            for z in range(m):
                decayed[z] = shrink * f[z] + b[z]
            prox(loss, scores, decayed, y, theta, cap, float(kxx), extra, rule[EXACT] != 0.0, a)
            if adaptive:
                for z in range(m):
                    dz[z] = shrink * decay * v[z] + turn * f[z]
                tangent(loss, decayed, y, theta, cap, float(kxx), extra, rule[EXACT] != 0.0, a, dz, cap * shrink, da)
    used = False
    for z in range(m):
        finite = finite and math.isfinite(a[z])
        used = used or a[z] != 0.0
        if adaptive:
            finite = finite and math.isfinite(da[z])
            used = used or da[z] != 0.0
    if not finite or not math.isfinite(eta):
        return NOT_FINITE

    for z in range(m):
        trace[z] = f[z] + b[z]
    trace[m + LOSS] = value(loss, scores, y, theta)
    trace[m + MISTAKE] = 1.0 if mistake(loss, scores, y, theta) else 0.0
    trace[m + ETA_USED] = eta

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
            num[THETA] = theta * math.exp(min(max(num[ETA_THETA] * q, -700.0), 700.0))
        else:
            num[THETA] = max(theta + eta * weight * pull, lowest_theta(loss))
    if rule[OFFSET] != 0.0:
        if kind == ADAPTIVE:
            eta_b, v_b = vector(num, ETA_B, m), vector(num, V_B, m)
            for z in range(m):
                eta_b[z] = adapt(eta_b[z], rule[MU] * xi[z] * v_b[z], 0.0, np.inf)
                v_b[z] = decay * v_b[z] - eta_b[z] * xi[z]
                b[z] -= eta_b[z] * xi[z]
        else:
            for z in range(m):
                b[z] += a[z] if kind == EXPLICIT else a[z] / shrink
    if adaptive:
        num[ETA] = eta
        fv = shrink * decay * num[PI] + turn * num[N2]
        mix(kappa, da, raw)
        for z in range(m):
            fv += da[z] * f[z]
            v[z] = shrink * decay * v[z] + turn * f[z] + kxx * raw[z]
        mix(kappa, a, raw)
        pi, n2 = shrink * fv, shrink * shrink * num[N2]
        for z in range(m):
            pi += a[z] * v[z]
            n2 += 2.0 * shrink * a[z] * f[z] + kxx * a[z] * raw[z]
        num[PI], num[N2] = pi, n2
        num[R] = shrink * decay * num[R] + turn * scale
        num[P] *= shrink * decay
    num[SCALE] = scale * shrink
    if not 1e-9 < abs(num[SCALE]) < 1e9 or (adaptive and not 1e-9 < abs(num[P]) < 1e9):
        fold(num, slots, m, base)
    slot = NOT_STORED
    if used:
        slot = insert(kappa, row, kxx, rule, num, slots, born, gram, m, base)
    if keep < num[T]:  # a window of time: what was born too long ago goes
        for z in range(m):
            a[z] = 0.0
            da[z] = 0.0
        while num[N] > 0.0 and born[int(num[HEAD])] < num[T] + 1.0 - keep:
            drop_oldest(kappa, row, kxx, rule, num, slots, born, gram, m, base)
    trace[m + THETA_AFTER] = num[THETA]
    trace[m + SIZE] = num[N]
    return slot


# --- the loop ---------------------------------------------------------------------------------------------------------------------


class Given(NamedTuple):
    """Stands where a kernel would, when kernel values come in a matrix."""


def take_row(kernel, X, t, own, slots, base, n):
    """Kernel values between example t and the slots, and with itself."""


@overload(take_row)
def _take_row(kernel, X, t, own, slots, base, n):
    if kernel.instance_class is Given:
        return lambda kernel, X, t, own, slots, base, n: (X[t], own[t])

    def computed(kernel, X, t, own, slots, base, n):
        row, spare = slots[base + WORK], slots[base + SPARE]
        fill(kernel, slots[base + AUX :], X[t], n, row, spare)
        return row, self_value(kernel, X[t], spare)

    return computed


def keep_point(kernel, X, t, slot, inner, slots, base, source):
    """Example t has taken a slot."""


@overload(keep_point)
def _keep_point(kernel, X, t, slot, inner, slots, base, source):
    if kernel.instance_class is not Given:

        def copied(kernel, X, t, slot, inner, slots, base, source):
            for j in range(X.shape[1]):
                slots[base + AUX + j, slot] = X[t, j]

        return copied

    def noted(kernel, X, t, slot, inner, slots, base, source):
        # Later rows of the block must see the slot's new owner: its kernel values overwrite the rest of that column.
        source[slot] = t
        for later in range(t + 1, len(X)):
            X[later, slot] = inner[later, t]

    return noted


@compiled
def scan(loss, kernel, X, inner, own, y, pace, rule, num, slots, born, gram, traces, source):
    """Learn a block one by one; pace holds step size, weight and reach back of each example.  Returns an error code, or 0.

    Either X holds the examples and ``kernel`` fills their rows, or ``kernel`` is Given() and X holds the kernel values between
    the block and the slots, ``inner`` those within the block and ``own`` their diagonal; ``source[slot]`` then tells which
    example lives there.  Later rows see the buffer as it is, in slot order, so any way of cutting the stream into blocks gives
    the same model.
    """
    m = traces.shape[1] - TRACE
    base = 2 * m if rule[STEP] == ADAPTIVE or rule[STEP] == ADAPTIVE_IMPLICIT else m
    kappa = label_kernel(loss)
    for t in range(len(X)):
        row, kxx = take_row(kernel, X, t, own, slots, base, padded(int(num[USED]), slots))
        slot = step(
            loss,
            kappa,
            row,
            kxx,
            y[t],
            pace[t, 0],
            pace[t, 1],
            pace[t, 2],
            rule,
            num,
            slots,
            born,
            gram,
            traces[t],
            m,
            base,
        )
        if slot < NOT_STORED:
            return slot
        if slot >= 0:
            keep_point(kernel, X, t, slot, inner, slots, base, source)
    return 0


@compiled
def score_direct(loss, kernel, X, m, base, scale, used, b, slots, work, out):
    """f(x) + b for the rows of X, kernel values computed here; ``work`` has two rows of its own, so that readers may share."""
    row, spare, points = work[0], work[1], slots[base + AUX :]
    raw, mixed, kappa = np.empty(m), np.empty(m), label_kernel(loss)
    n = padded(used, slots)
    for t in range(len(X)):
        fill(kernel, points, X[t], n, row, spare)
        for z in range(m):
            raw[z] = scale * dot(row, slots[z], n)
        mix(kappa, raw, mixed)
        for z in range(m):
            out[t, z] = mixed[z] + b[z]


# For what a user wrote in his own session there is nothing to find in a cache on disk.
scan_once = compiled(scan.py_func, cache=False)
