"""A state with some of its points only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from onkel.core.loop import layout as at
from onkel.core.points.matrices import matrix
from onkel.core.state import State

if TYPE_CHECKING:
    from onkel.core.learner import Learner


def keep_slots(state: State, learner: Learner, order: NDArray[np.int64]) -> State:
    """The state with the points of these slots, oldest first; the others are dropped as they are."""
    kept = state.copy()
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
