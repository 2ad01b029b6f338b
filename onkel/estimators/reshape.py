"""States that change shape: one more class, more features, fewer points.  Each returns a new state, the old one stays as it was."""

from __future__ import annotations

import numpy as np

from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.points.dense import Rows
from onkel.core.points.matrices import matrix
from onkel.core.state import State


def grow_labels(state: State, learner: Learner, position: int) -> State:
    """The state with one more class, whose code is ``position`` (later codes move up) and whose score is 0 everywhere.

    ``learner`` is the one for m + 1 classes.

    >>> import numpy as np, onkel
    >>> two, three = (onkel.silk(onkel.RBF(), onkel.Structured(onkel.Labels.flat(m)), budget=8) for m in (2, 3))
    >>> state, _ = two.learn(two.init(), np.array([[0.0], [1.0]]), [0, 1])
    >>> three.score(grow_labels(state, three, 1), [[0.0]]).shape
    (1, 3)
    """
    m = state.m
    grown = learner.init()
    moved = np.delete(np.arange(m + 1), position)  # where the old classes go
    grown.num[: at.NUMBERS] = state.num[: at.NUMBERS]
    for which in range(at.KEPT_VECTORS):
        old, new = at.NUMBERS + which * m, at.NUMBERS + which * (m + 1)
        grown.num[new + moved] = state.num[old : old + m]
    blocks = state.base // m  # coefficients, and for adaptive steps the trace's
    if state.slots.size:
        rest = state.slots[state.base :]
        grown.slots = np.zeros((grown.base + len(rest), state.slots.shape[1]), state.slots.dtype)
        grown.slots[grown.base :] = rest
        for block in range(blocks):
            grown.slots[block * (m + 1) + moved] = state.slots[block * m : (block + 1) * m]
    grown.born, grown.gram, grown.width = state.born.copy(), state.gram.copy(), state.width
    grown.store = None if state.store is None else state.store.copy()
    return grown


def grow_features(state: State, width: int) -> State:
    """The state with features up to ``width``; the stored points have 0 there.

    Products and distances between points that share zeros stay what they were, so the model stays what it was.
    """
    grown = state.copy()
    more = width - state.width
    if state.store is None:
        grown.slots = np.concatenate((grown.slots, np.zeros((more, state.slots.shape[1]), state.slots.dtype)))
    elif isinstance(state.store, Rows):
        grown.store = Rows(np.ascontiguousarray(np.pad(state.store.data, ((0, 0), (0, more)))))
    else:
        raise ValueError("only a model of dense rows can take in new features")
    grown.width = width
    return grown


def keep_newest(state: State, learner: Learner, keep: int) -> State:
    """The state with its ``keep`` newest points; the older ones are dropped as they are."""
    kept = state.copy()
    order = state.order[max(0, state.size - keep) :]
    n, room = len(order), state.slots.shape[1]
    kept.slots = np.zeros_like(state.slots)
    kept.slots[:, :n] = state.slots[:, order]
    kept.born = np.full(room, -1, np.int64)
    kept.born[:n] = state.born[order]
    kept.gram = np.zeros_like(state.gram)
    if kept.gram.size:
        kept.gram[:, :n, :n] = state.gram[:, order][:, :, order]
    if state.store is not None:
        kept.store = state.store.empty(room)
        kept.store.put(np.arange(n), state.store, order)  # type: ignore[arg-type]
    num = kept.num
    num[at.HEAD], num[at.USED], num[at.N], num[at.STALE] = 0.0, n, n, 0.0
    if kept.base > kept.m:  # an adaptive step keeps |f|^2 and <f, v>: sums over the points that are left
        K = matrix(learner.kernel, kept.points, kept.points) if n else np.zeros((0, 0))
        f, v = (np.reshape(a, (n, kept.m)) for a in (kept.coef, kept.trace_coef))
        kappa = np.eye(1) if kept.scalar else learner.loss.labels.kernel
        num[at.N2], num[at.PI] = np.sum((K @ f) * (f @ kappa)), np.sum((K @ v) * (f @ kappa))
    return kept
