"""Expansions as terms, and what is left of them when a budget's rule takes many points at once (loop/evict.py takes one)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.ids import remembered
from onkel.core.loop import layout as at
from onkel.core.points.dense import Array, Rows
from onkel.core.points.objects import Objects
from onkel.core.points.read import Store
from onkel.core.points.sparse import Sparse
from onkel.core.state import State

if TYPE_CHECKING:
    from onkel.core.learner import Learner


class Terms(NamedTuple):
    """Points, oldest first, a row of coefficients for each, those of f and then those of the trace, and when they came."""

    points: Store
    coef: NDArray[np.float64]
    born: NDArray[np.int64]


def terms_of(state: State) -> Terms:
    order = state.order
    f, v = (np.reshape(a, (len(order), -1)) for a in (state.coef.reshape(len(order), state.m), state.trace_coef))
    coef = np.concatenate([f, v], axis=1) if state.base > state.m else f
    points = Rows(state.points) if state.store is None else state.store.take(order)
    return Terms(points, np.ascontiguousarray(coef, np.float64), state.born[order])


def kernel_values(kernel: Any, points: Store) -> Array:
    """Those of the points with each other, in double precision whatever the points are."""
    if points.dtype != np.float64 and not isinstance(points, Objects):
        plain = points.plain().astype(np.float64)
        points = Rows(plain) if isinstance(points, Rows) else Sparse.of(plain, np.float64)
    n = len(points)
    K = kernel.between(points, points, n, np.empty((n, n)))
    return np.asarray((K + K.T) / 2.0)


def squared_norm(learner: Learner, K: Array, f: Array, g: Array | None = None) -> float:
    """|f|^2, or <f, g>, of coefficients over points with the kernel values K."""
    kappa = np.eye(1) if learner.scalar else learner.loss.labels.kernel
    return float(np.sum((K @ f) * ((f if g is None else g) @ kappa)))


def shrink(learner: Learner, state: State, size: int | None = None) -> float:
    """Reduce a state in place to ``size`` points, or to as many as the learner may hold, by the learner's own rule; returns the
    norm of what went.  Arrays are packed: they have to be laid out anew."""
    old = terms_of(state)
    if size is None and learner.budget.size is None:  # a window: the others are too old
        stay = np.flatnonzero(old.born >= state.t + 1 - int(learner.budget.window))  # type: ignore[arg-type]
        size = len(stay)
    size = learner.budget.size if size is None else size
    assert size is not None
    K = kernel_values(learner.kernel, old.points)
    kept, coef = _fewer(learner, K, old.coef, state.m, size)
    coef = coef.astype(old.points.dtype).astype(np.float64)
    gone = old.coef.copy()
    gone[kept] -= coef
    pack(learner, state, Terms(old.points.take(kept), coef, old.born[kept]), K[np.ix_(kept, kept)])
    if state.known is not None:
        state.known = remembered(state.known, state.t, [], state.born)
    return math.sqrt(max(0.0, squared_norm(learner, K, gone[:, : state.m])))


def pack(learner: Learner, state: State, terms: Terms, K: Array | None) -> None:
    """Put terms into the arrays of a state, without room for more; ``K`` are their kernel values, where they are wanted."""
    n, m, base, num = len(terms.born), state.m, state.base, state.num
    state.slots = np.zeros((base + at.AUX, n), terms.points.dtype)
    state.slots[:base] = terms.coef.T
    if n:
        state.slots[base + at.MAG] = np.abs(state.slots[:m]).max(axis=0)
        state.slots[base + at.KXX] = learner.kernel.diagonal(terms.points)
    state.store, state.born, state.width = terms.points, terms.born.astype(np.int64), terms.points.width
    state.gram = np.zeros((0, 0, 0)) if K is None else K[None]
    num[at.N] = num[at.USED] = n
    num[at.HEAD] = num[at.STALE] = num[at.TRACE_MIX] = 0.0
    num[at.SCALE] = num[at.TRACE_SCALE] = 1.0
    if learner.step.adaptive:  # such a step keeps |f|^2 and <f, v>
        f, v = terms.coef[:, :m], terms.coef[:, m:]
        K = kernel_values(learner.kernel, terms.points) if K is None else K
        num[at.N2], num[at.PI] = squared_norm(learner, K, f), squared_norm(learner, K, f, v)


def _fewer(learner: Learner, K: Array, given: Array, m: int, size: int) -> tuple[NDArray[np.int64], Array]:
    """Which terms stay, oldest first, and their coefficients: the smallest goes first, of equal ones the oldest, as in the loop."""
    n, kind = len(given), learner.budget.rule.kind
    if learner.budget.rule.in_turn:
        return np.arange(n - size, n), given[n - size :]
    if kind not in ("SMALLEST", "MERGE", "PROJECT"):
        raise ValueError(
            f"this state has {n} points, and drop={learner.budget.drop!r} cannot take {n - size} of them at once: it is written "
            "for one new point at a time. Carry the state to a learner with another rule, such as 'merge' (onkel.carry)"
        )
    coef, own = given.copy(), np.diagonal(K).copy()
    left = np.abs(coef[:, :m]).max(axis=1)  # magnitudes, infinite for those that went
    Q = np.linalg.inv(_firm(K)) if kind == "PROJECT" else K
    for _ in range(n - size):
        j = int(np.argmin(left))
        left[j] = math.inf
        alive = np.isfinite(left)
        if kind == "MERGE":
            merit = np.where(alive & (own > 0), K[j] ** 2 / np.where(own > 0, own, 1.0), -1.0)
            i = int(np.argmax(merit))
            if merit[i] >= 0:
                coef[i] += K[i, j] / own[i] * coef[j]
                left[i] = np.abs(coef[i, :m]).max()
        elif kind == "PROJECT":
            share = np.where(alive, -Q[:, j] / Q[j, j], 0.0)
            coef += share[:, None] * coef[j]
            left[alive] = np.abs(coef[alive, :m]).max(axis=1)
            Q = Q - np.outer(Q[:, j], Q[j] / Q[j, j])
    kept = np.flatnonzero(np.isfinite(left))
    if kind == "PROJECT":  # one after the other they are one projection: refined against the true kernel values
        own_K = K[np.ix_(kept, kept)]
        for _ in range(2):
            coef[kept] += np.linalg.solve(_firm(own_K), K[kept] @ given - own_K @ coef[kept])
    return kept, coef[kept]


def _firm(K: Array) -> Array:
    """K with a diagonal that keeps it invertible where points are equal, or have k(x, x) = 0."""
    own = np.diagonal(K)
    return np.asarray(K + np.diag(np.where(own > 0, 1e-8 * own, 1.0)))
