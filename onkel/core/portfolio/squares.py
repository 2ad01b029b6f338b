"""Recursive least squares that forgets; with a diagonal instead of a matrix where columns are many."""

from __future__ import annotations

from onkel.core.machine.compiled import VECTOR, compiled

SURE = 1e4  # the mean of the diagonal beyond which nothing is forgotten: directions that never show themselves would blow up


@compiled
def reach(lines, l, u, d, lags, out):
    """The inputs of line l: columns, earlier targets if it sees them, 1."""
    for j in range(d):
        out[j] = u[j]
    k = d
    if lines.lags[l]:
        for j in range(lags):
            out[k] = u[d + j]
            k += 1
    out[k] = 1.0
    return k + 1


@compiled
def look_line(lines, l, u, d, lags):
    """What line l says."""
    w = lines.weight[lines.start[l] : lines.start[l + 1]]
    total, k = w[len(w) - 1], d + (lags if lines.lags[l] else 0)
    for j in range(k):
        total += w[j] * u[j]
    return total


@compiled(fastmath=VECTOR)
def settle_line(lines, l, u, d, lags, miss, weight, gain):
    """One step with the error ``miss``."""
    n = lines.start[l + 1] - lines.start[l]
    w = lines.weight[lines.start[l] : lines.start[l + 1]]
    x = u[:n].copy()
    x[n - 1] = 1.0
    if lines.whole[l]:
        P = lines.matrix[lines.doubt[l] : lines.doubt[l] + n * n].reshape((n, n))
        total, trace = 0.0, 0.0
        for i in range(n):
            s = 0.0
            for j in range(n):
                s += P[i, j] * x[j]
            gain[i] = s
            total += s * x[i]
            trace += P[i, i]
        keep = lines.keep[l] if trace < SURE * n else 1.0
        size = weight / (keep + weight * total)
        for i in range(n):
            w[i] += size * gain[i] * miss
            for j in range(n):
                P[i, j] = (P[i, j] - size * gain[i] * gain[j]) / keep
        return
    v = lines.matrix[lines.doubt[l] : lines.doubt[l] + n]
    total = 0.0
    for i in range(n):
        total += v[i] * x[i] * x[i]
    size = weight * miss / (1.0 + total)
    for i in range(n):
        w[i] += size * v[i] * x[i]
        v[i] /= 1.0 + weight * v[i] * x[i] * x[i] / n
