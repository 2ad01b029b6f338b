"""Exact Shapley values of a kernel expansion, feature by feature, in polynomial time.

The game: v(S) is the score when the features of S are as in x and the others as in the background, or left out (their factor 1,
their product 0).  With every other feature present with probability u, independently, the Shapley value of feature j is

    phi_j = integral over u from 0 to 1 of  E[ v(S + j) - v(S) ]          (Owen's multilinear extension)

For a term q(x.z) prod_j g_j the expectation is a product over features, of numbers, or, where q is not constant, of power series
in s cut off behind s^p: E[T^k prod g] is k! times the coefficient of s^k in prod_j E[g_j exp(s t_j)], T = sum t_j.  It is a
polynomial in u of degree d - 1, so Gauss-Legendre quadrature with d/2 nodes gives the integral exactly.  All factors between 0
and 1 add up without cancellation.  docs/maths.md, section 8.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onkel.core.machine.compiled import VECTOR, compiled
from onkel.reasons.factors import Term

Array = NDArray[np.float64]


def exact(terms: list[Term], coef: Array, points: Array, x: Array, background: Array | None = None) -> tuple[Array, float]:
    """(Shapley values, value of the game without any feature) of sum_i coef_i k(points_i, x).

    ``background`` are points, over which the game is averaged; None leaves absent features out.
    """
    values = np.zeros(len(x))
    base = 0.0
    places = np.zeros((1, len(x))) if background is None else background
    different = active(points, x, places, background is None)
    for term in terms:
        degree = len(term.q) - 1
        flat = term.square == 0.0 and term.absolute == 0.0
        count = max(1, (min(degree, different) if flat else different) + 1 >> 1)
        nodes, weights = np.polynomial.legendre.leggauss(count)
        q = np.array(term.q) * np.cumprod([1.0, *range(1, degree + 1)])
        base += _values(
            coef, points, x, places, background is None, q, term.square, term.absolute, 0.5 + 0.5 * nodes, 0.5 * weights, values
        )
    return values, base


@compiled
def _series(square, absolute, x, z, out):
    """g(x, z) exp(s x z) as a power series in s."""
    d = x - z
    value = np.exp(-square * d * d - absolute * abs(d))
    for k in range(len(out)):
        out[k] = value
        value *= x * z / (k + 1)


@compiled
def _times(a, b, out):
    """The product of two power series, cut off behind the last coefficient."""
    for k in range(len(out)):
        total = 0.0
        for i in range(k + 1):
            total += a[i] * b[k - i]
        out[k] = total


@compiled
def active(points, x, background, left_out):
    """The largest number of features that make a difference between x, or the background, and any one point."""
    most = 0
    for r in range(len(background)):
        for i in range(len(points)):
            count = 0
            for j in range(len(x)):
                z = points[i, j]
                if left_out:
                    count += x[j] != z or x[j] * z != 0.0
                else:
                    count += x[j] != background[r, j]
            most = max(most, count)
    return most


@compiled
def _values(coef, points, x, background, left_out, q, square, absolute, nodes, weights, out):
    """Adds the Shapley values of one term to out, returns what the term is worth without any feature."""
    n, d, p = len(points), len(x), len(q)
    inside, outside, mixed, before = np.zeros((d, p)), np.zeros((d, p)), np.empty((d, p)), np.empty((d + 1, p))
    head, series, behind, others, swing = np.empty(p), np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    gain, feature = np.empty(d), np.empty(d, np.int64)
    base = 0.0
    for r in range(len(background)):
        for i in range(n):
            share = coef[i] / len(background)
            head[:] = 0.0
            head[0] = 1.0
            a = 0  # features that make a difference stand in front; the others are a factor of all
            for j in range(d):
                _series(square, absolute, x[j], points[i, j], inside[a])
                if left_out:
                    outside[a] = 0.0
                    outside[a, 0] = 1.0
                else:
                    _series(square, absolute, background[r, j], points[i, j], outside[a])
                if (inside[a] == outside[a]).all():
                    _times(head, inside[a], series)
                    head[:] = series
                else:
                    feature[a] = j
                    gain[a] = 0.0
                    a += 1
            before[0] = head
            for j in range(a):
                _times(before[j], outside[j], before[j + 1])
            for k in range(p):
                base += share * q[k] * before[a, k]
            for node in range(len(nodes)):
                u, w = nodes[node], weights[node]
                if p == 1:
                    _node(u, w * q[0] * head[0], inside, outside, mixed, before, gain, a)
                    continue
                for j in range(a):
                    for k in range(p):
                        mixed[j, k] = outside[j, k] + u * (inside[j, k] - outside[j, k])
                    _times(before[j], mixed[j], before[j + 1])
                behind[:] = 0.0
                behind[0] = 1.0
                for j in range(a - 1, -1, -1):
                    _times(before[j], behind, others)
                    for k in range(p):
                        swing[k] = inside[j, k] - outside[j, k]
                    _times(others, swing, series)
                    for k in range(p):
                        gain[j] += w * q[k] * series[k]
                    _times(behind, mixed[j], series)
                    behind[:] = series
            for j in range(a):
                out[feature[j]] += share * gain[j]
    return base


@compiled
def _node(u, w, inside, outside, mixed, before, gain, a):
    """One node of the quadrature where the series are numbers."""
    product = 1.0
    for j in range(a):
        before[j, 0] = product
        mixed[j, 0] = outside[j, 0] + u * (inside[j, 0] - outside[j, 0])
        product *= mixed[j, 0]
    product = w
    for j in range(a - 1, -1, -1):
        gain[j] += before[j, 0] * product * (inside[j, 0] - outside[j, 0])
        product *= mixed[j, 0]


@compiled(fastmath=VECTOR)
def similarities(terms, columns, x):
    """k(point, x) for points that stand in columns; a term is a row: square, absolute, and the coefficients of q."""
    n = columns.shape[1]
    products, squares, sums, out = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    bent, flat = terms[:, 1].any(), terms[:, 3:].any()
    for j in range(len(x)):
        for i in range(n):
            squares[i] += (x[j] - columns[j, i]) * (x[j] - columns[j, i])
        if bent:
            for i in range(n):
                sums[i] += abs(x[j] - columns[j, i])
        if flat:
            for i in range(n):
                products[i] += x[j] * columns[j, i]
    for term in terms:
        for i in range(n):
            value = 0.0
            for k in range(len(term) - 1, 1, -1):
                value = value * products[i] + term[k]
            if term[0] > 0.0 or term[1] > 0.0:
                value *= np.exp(-term[0] * squares[i] - term[1] * sums[i])
            out[i] += value
    return out
