"""Comparators for the theorems: the best fixed g in hindsight, to a stated duality gap, and paths of several for drifting targets.

The batch minimiser of  (1/m) sum C l(g(x_i), y_i) + lam/2 |g|^2  is g = sum b_i k(x_i, .), and with the other coefficients held
the best b_i solves  b_i = -cap l'(z_i + k(x_i, x_i) b_i),  cap = C/(lam m), z_i the score without b_i's own term: the implicit
step of the loss.  Round after round of these steps ascends the dual; u_i = -b_i/cap is a slope of l at the score zeta_i at which
the step was taken, so l*(u_i) = u_i zeta_i - l(zeta_i) needs no formula and the gap between primal and dual is a number.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel import theory
from onkel.reasons.convex import Convex

Array = NDArray[np.float64]

WHOLE = 1500  # examples up to which the minimiser is over all of them; beyond, over every so many-th


class Comparator(NamedTuple):
    """A fixed g: its scores on the stream, its norm, its regularised risk there, and by how much that may exceed the least."""

    scores: Array
    norm: float
    risk: float
    gap: float
    over: int
    lam: float

    def __str__(self) -> str:
        gap = (
            f"at most {self.gap:.2g} above the least"
            if self.over == len(self.scores)
            else f"the minimiser over {self.over} examples"
        )
        return f"|g| = {self.norm:.4g}, risk {self.risk:.4g}, {gap}"


def zero(loss: Convex, y: Array, C: float, lam: float) -> Comparator:
    """g = 0."""
    return Comparator(np.zeros(len(y)), 0.0, float(np.mean(C * loss.value(np.zeros(len(y)), y))), math.inf, 0, lam)


def batch(
    kernel: Any, loss: Convex, X: Any, y: Array, *, lam: float, C: float = 1.0, tolerance: float = 1e-4, rounds: int = 200
) -> Comparator:
    """The minimiser of the regularised risk over the stream, up to a duality gap of ``tolerance`` times the risk of g = 0.

    Streams of more than WHOLE examples are thinned out for fitting; the risk is always that over all examples, so what comes
    back is a comparator to which every theorem applies.
    """
    m = X.shape[0] if hasattr(X, "shape") else len(X)
    chosen = np.arange(m) if m <= WHOLE else np.linspace(0, m - 1, WHOLE).astype(int)
    part = [X[i] for i in chosen] if isinstance(X, list) else X[chosen]
    K = np.asarray(kernel(part, part), np.float64)
    b, gap = ascend(K, loss, y[chosen], lam, C, tolerance, rounds)
    if m <= WHOLE:
        scores = K @ b
    else:
        used = np.flatnonzero(b)
        kept = [part[i] for i in used] if isinstance(part, list) else part[used]
        scores = np.concatenate([np.asarray(kernel(X[i : i + 2048], kept), np.float64) @ b[used] for i in range(0, m, 2048)])
    norm = math.sqrt(max(float(b @ (K @ b)), 0.0))
    risk = float(np.mean(C * loss.value(scores, y))) + lam / 2 * norm**2
    return Comparator(scores, norm, risk, gap if m <= WHOLE else math.inf, len(chosen), lam)


def ascend(K: Array, loss: Convex, y: Array, lam: float, C: float, tolerance: float, rounds: int) -> tuple[Array, float]:
    """(coefficients, duality gap) of the minimiser on a kernel matrix."""
    m = len(y)
    cap = C / (lam * m)
    b, z, zeta = np.zeros(m), np.zeros(m), np.zeros(m)
    own = np.diag(K).tolist()
    worst = float(np.mean(C * loss.value(z, y)))
    rng, gap = np.random.default_rng(0), math.inf
    for turn in range(rounds):
        for i in rng.permutation(m):
            k = own[i]
            if k <= 0.0:
                continue
            rest = z[i] - k * b[i]
            new = float(loss.prox(rest, y[i], cap, k))
            zeta[i] = rest + k * new
            if new != b[i]:
                z += (new - b[i]) * K[i]
                b[i] = new
        if turn % 5 == 4 or turn == rounds - 1:
            z = K @ b  # without the rounding that has come together
            square = float(b @ z)
            primal = float(np.mean(C * loss.value(z, y))) + lam / 2 * square
            conjugate = -b / cap * zeta - loss.value(zeta, y)
            gap = primal + float(np.mean(C * conjugate)) + lam / 2 * square
            if gap <= tolerance * max(worst, 1e-300):
                break
    return b, max(gap, 0.0)


class Path(NamedTuple):
    """A moving comparator: how long its way is, what it loses at margin mu, and the bound of [K] Theorem 3 that follows."""

    pieces: int
    moves: str
    mu: float
    B: float
    D1: float
    D2: float
    K: float
    bound: float


def best_margin(margins: Array, B: float, D1: float, D2: float, X: float) -> tuple[float, float, float]:
    """(mu, K, bound): the margin mu at which [K] Theorem 3 promises least for a comparator with these margins y_t g_t(x_t)."""
    found = (math.nan, math.nan, math.inf)
    high = float(np.max(margins, initial=0.0))
    for mu in high * np.linspace(0.02, 1.2, 60) if high > 0 else []:
        K = float(np.maximum(0.0, mu - margins).sum())
        bound = theory.mistake_bound(K, theory.movement(X, B, D1, D2, len(margins)), float(mu))
        if bound < found[2]:
            found = float(mu), K, bound
    return found


def paths(
    kernel: Any,
    loss: Convex,
    X: Array,
    y: Array,
    *,
    pieces: tuple[int, ...] = (1, 2, 5, 10, 20, 50),
    lams: Any = (1e-1, 1e-2, 1e-3),
) -> list[Path]:
    """The best piecewise comparators found: one g for each of so many equal pieces, by jumps or on straight ways between them.

    ``jumps`` hold g still and jump between pieces: D2 is a sum of squares of whole jumps.  ``steady`` goes from the middle of a
    piece to the middle of the next at constant speed: the same D1, and a D2 that all but vanishes.  Of each kind and number of
    pieces the regularisation, out of ``lams``, with the lowest bound.
    """
    m, found = len(y), []
    K = np.asarray(kernel(X, X), np.float64)
    size = float(np.sqrt(np.diag(K).max()))
    for count in pieces:
        edges = np.linspace(0, m, count + 1).astype(int)
        best: dict[str, Path] = {}
        for lam in lams:
            coef = np.zeros((count, m))
            for p, (start, stop) in enumerate(pairwise(edges)):
                here = slice(start, stop)
                coef[p, here], _ = ascend(K[here, here], loss, y[here], lam, 1.0, 1e-2, 60)
            scores = coef @ K
            gram = scores @ coef.T
            jumps = np.sqrt(np.maximum([gram[p, p] - 2 * gram[p, p + 1] + gram[p + 1, p + 1] for p in range(count - 1)], 0.0))
            B = float(np.sqrt(np.diag(gram).max()))
            middles = (edges[:-1] + edges[1:] - 1) / 2
            where = np.clip(np.interp(np.arange(m), middles, np.arange(count)), 0, count - 1)
            low = np.minimum(where.astype(int), max(count - 2, 0))
            share = where - low
            piece = np.searchsorted(edges, np.arange(m), side="right") - 1
            held = scores[piece, np.arange(m)]
            going = (1 - share) * scores[low, np.arange(m)] + share * scores[np.minimum(low + 1, count - 1), np.arange(m)]
            steps = np.diff(where)
            ways = np.maximum(jumps[low[:-1]], jumps[low[1:]]) if count > 1 else 0.0  # of a step across a corner the longer
            squares = float((steps**2 * ways**2).sum())
            for moves, z, D2 in (("jumps", held, float((jumps**2).sum())), ("steady", going, squares)):
                if B == 0.0 or (count == 1 and moves == "steady"):
                    continue
                mu, loss_, bound = best_margin(y * z, B, float(jumps.sum()), D2, size)
                if moves not in best or bound < best[moves].bound:
                    best[moves] = Path(count, moves, mu, B, float(jumps.sum()), D2, loss_, bound)
        found += best.values()
    return found
