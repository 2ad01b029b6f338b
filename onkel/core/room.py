"""Room for the next examples: the arrays of a state laid out anew."""

from __future__ import annotations

import numpy as np

from onkel.core.loop import layout as at
from onkel.core.machine.lanes import aligned
from onkel.core.points.dense import Rows
from onkel.core.points.read import Store
from onkel.core.state import State


def lay_out(state: State, block: Store, room: int, direct: bool, layers: int) -> None:
    """Arrays with ``room`` slots for points like those of the block, what is stored moved to the front, oldest first.

    Where the loop computes kernel values itself (``direct``) points stand in the slots, else in a store; ``layers`` is how
    many matrices over the points are kept.
    """
    order = state.order
    n, front = len(order), state.base + at.AUX
    slots = aligned((front + (block.width if direct else 0), room), block.dtype)
    born = np.full(room, -1, np.int64)
    # a row is longer than it needs to be, so that a column does not fall on one cache set
    shape = (layers, room, room + at.LANES) if layers else (0, 0, 0)
    gram = np.zeros(shape, np.float64 if layers == 2 else block.dtype)
    store = None if direct else block.empty(room)
    if n:
        slots[:front, :n] = state.slots[:front, order]
        born[:n] = state.born[order]
        if layers and len(state.gram):
            gram[:, :n, :n] = state.gram[:, order][:, :, order]
        if store is None:
            slots[front:, :n] = state.points.T
        else:
            kept = Rows(state.points) if state.store is None else state.store.take(order)
            store.put(np.arange(n), kept, np.arange(n))  # type: ignore[arg-type]
    state.slots, state.born, state.gram, state.store = slots, born, gram, store
    state.num[at.HEAD], state.num[at.USED] = 0, n
