"""States that change shape: one more class, more features, fewer points.  Each returns a new state, the old one stays as it was."""

from __future__ import annotations

import numpy as np

from onkel.core.keep import keep_slots
from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.points.dense import Rows
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
    grown.known = state.known
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
    return keep_slots(state, learner, state.order[max(0, state.size - keep) :])
