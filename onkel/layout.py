"""Where things stand in the arrays that the hot loop works on.

``slots`` has one column per stored point: m rows of coefficients, m rows of the trace's (adaptive steps only), then the rows
MAG (largest |coefficient|), KXX (k(x, x)), two rows to work in, and, where the loop computes kernel values itself, the points.
Decay is one scalar: a coefficient is ``num[SCALE] * slots[z, i]``, the trace's is ``num[P] * u + num[R] * slots[z, i]``.
Free slots have coefficient 0, so that sums run over whole vectors without asking.
``rule`` is what a learner never changes, ``num`` what changes and is not per point, followed by vectors of length m.
"""

from __future__ import annotations

from onkel.compiled import compiled

(
    STEP,
    LAM,
    C,
    NU,
    OFFSET,
    EXACT,
    TIE,
    MU,
    DECAY,
    ETA_MIN,
    ETA_MAX,
    REPAIR,
    DROP,
    BUDGET,
    ALMA_MARGIN,
    ALMA_STEP,
    RULES,
) = range(17)
EXPLICIT, IMPLICIT, ADAPTIVE, ADAPTIVE_IMPLICIT, ALMA = range(5)
OLDEST, SMALLEST, MERGE, PROJECT = range(4)

T, N, USED, HEAD, SCALE, THETA, ETA, ETA_THETA, V_THETA, PI, N2, P, R, COUNT, STALE, NUMBERS = range(16)
B, ETA_B, V_B, RAW, F, S, V, XI, A, DA, Z, DZ, FO, VO, FN, VN, VECTORS = range(17)
KEPT_VECTORS = 3  # B, ETA_B, V_B belong to the state, the others are room to work in

MAG, KXX, WORK, SPARE, AUX = range(5)  # rows of slots behind the coefficients

LOSS, MISTAKE, ETA_USED, THETA_AFTER, SIZE, TRACE = range(6)  # columns of a trace row behind the m scores

NOT_STORED, NOT_FINITE, NOT_CONVEX = -1, -2, -3
LANES = 16


@compiled
def vector(num, which, m):
    """One of the vectors behind the numbers."""
    start = NUMBERS + which * m
    return num[start : start + m]


@compiled
def padded(n, slots):
    """n slots in whole SIMD vectors."""
    return min(slots.shape[1], (n + LANES - 1) // LANES * LANES)


@compiled
def mix(kappa, raw, out):
    """out = kappa raw, from sums of coefficients to scores of related labels; an empty kappa stands for the identity."""
    for z in range(raw.size):
        out[z] = raw[z]
    if kappa.size > 0:
        for z in range(raw.size):
            out[z] = 0.0
            for w in range(raw.size):
                out[z] += kappa[z, w] * raw[w]
