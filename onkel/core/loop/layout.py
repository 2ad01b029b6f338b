"""Where things stand in the arrays that the hot loop works on.

``slots`` has one column per stored point: m rows of coefficients, m rows of the trace's (adaptive steps only), then the rows
MAG (largest |coefficient|), KXX (k(x, x)), three rows to work in, and, where the loop computes kernel values itself, the points.
Decay is one scalar: a coefficient is ``num[SCALE] * slots[z, i]``, the trace's is
``num[TRACE_SCALE] * u + num[TRACE_MIX] * slots[z, i]``.
Free slots have coefficient 0, so that sums run over whole vectors without asking.
``rule`` is what a learner never changes, ``num`` what changes and is not per point, followed by vectors of length m.
"""

from __future__ import annotations

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
    ROOM,
    PROJECTION,
    TANGENT,
    RULES,
) = range(20)
EXPLICIT, IMPLICIT, ADAPTIVE, ADAPTIVE_IMPLICIT, ALMA = range(5)
OLDEST, SMALLEST, MERGE, PROJECT, OTHER = range(5)

T, N, USED, HEAD, SCALE, THETA, ETA, ETA_THETA, V_THETA, PI, N2, TRACE_SCALE, TRACE_MIX, COUNT, STALE, NUMBERS = range(16)
B, ETA_B, V_B, RAW, F, S, V, XI, A, DA, Z, DZ, FO, VO, FN, VN, VECTORS = range(17)
KEPT_VECTORS = 3  # B, ETA_B, V_B belong to the state, the others are room to work in

MAG, KXX, WORK, SPARE, CELLS, AUX = range(6)  # rows of slots behind the coefficients

LOSS, MISTAKE, ETA_USED, THETA_AFTER, SIZE, TRACE = range(6)  # rows of what is told of a block, beside its scores

NOT_STORED, NOT_FINITE, NOT_CONVEX = -1, -2, -3
LANES = 16


def length(m: int) -> int:
    """Of ``num``: the numbers, then the vectors."""
    return NUMBERS + VECTORS * m
