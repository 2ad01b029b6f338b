"""The gate before compiled code, which asks nothing: what it will trust is compared here first, wherever it came from.

``sound`` stands before every state that did not come from the loop (files, pickles); :func:`onkel.saved.states.check` then compares
the state with its learner.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onkel.core.loop import layout as at
from onkel.core.points.dense import Rows
from onkel.core.points.objects import Objects
from onkel.core.points.sparse import Sparse

FOLDED = 1e-9, 1e9  # between these the loop keeps the factors of decay


def must(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"this model is damaged: {what}")


def is_array(array: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether compiled code may take it for an array of that shape and type."""
    plain = type(array) is np.ndarray and array.shape == shape and array.dtype == dtype and array.dtype.isnative
    return plain and bool(array.flags.carray)


def is_finite(array: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    return is_array(array, shape, dtype) and bool(np.isfinite(array).all())


def is_count(number: Any, most: float = 2**53) -> bool:
    """Whether a number, an int or a float that is whole, counts something."""
    return type(number) in (int, float) and 0 <= number <= most and number == math.floor(number)


def sound(state: Any) -> None:
    """Refuse a state that is not one in itself: shapes, types, counts, places, finite numbers."""
    m, base, num, width = state.m, state.base, state.num, state.width
    must(type(m) is type(base) is type(width) is int and type(state.scalar) is bool, "the number of outputs")
    must(m >= 1 and base in (m, 2 * m) and (m == 1 or not state.scalar), "the number of outputs")
    must(is_array(num, (at.length(m),), np.float64), "its numbers")
    kept = np.delete(num[: at.NUMBERS + at.KEPT_VECTORS * m], at.THETA)
    must(np.isfinite(kept).all() and not np.isinf(num[at.THETA]), "its numbers are not finite")
    must(all(FOLDED[0] <= abs(num[i]) <= FOLDED[1] for i in ((at.SCALE, at.TRACE_SCALE) if base > m else (at.SCALE,))), "its decay")
    must(all(is_count(float(num[i])) for i in (at.T, at.N, at.USED, at.HEAD)), "its counts")
    t, n, used, head = (int(num[i]) for i in (at.T, at.N, at.USED, at.HEAD))
    must(width >= -1 and type(state.slots) is np.ndarray and state.slots.ndim == 2, "its points")
    slots, room, dtype = state.slots, state.slots.shape[1], state.slots.dtype
    if not len(slots):  # before the first example, or before the first after a new start
        must(n == used == head == room == len(state.born) == len(state.gram) == 0 and state.store is None, "its points")
        return
    must(width != 0, "points without features")
    rows = base + at.AUX + (width if state.store is None else 0)
    must(dtype in (np.float32, np.float64) and is_array(slots, (rows, room), dtype), "the type of its numbers")
    must(room >= at.LANES and room % at.LANES == 0 and n <= used <= room and head < room, "the places of the points")
    must(np.isfinite(slots[: base + 2]).all() and np.isfinite(slots[base + at.AUX :]).all(), "its coefficients or points")
    with np.errstate(over="ignore"):
        must(np.isfinite(num[at.SCALE] * slots[:m].astype(np.float64)).all(), "its coefficients")
    must(is_array(state.born, (room,), np.int64), "the birth dates")
    must((state.born <= t).all() and (state.born >= -1).all(), "the birth dates")
    live = state.born >= 0
    must(live.sum() == n and not live[used:].any() and not slots[: base + 1, ~live].any(), "which places are taken")
    must(type(state.gram) is np.ndarray and state.gram.ndim == 3, "its Gram matrix")
    layers = len(state.gram)
    shape = (layers, room, room + at.LANES) if layers else (0, 0, 0)
    must(layers <= 2 and is_finite(state.gram, shape, np.float64 if layers == 2 else dtype), "its Gram matrix")
    if state.store is None:
        must(width >= 1, "its points")
    else:
        _sound_store(state.store, room, width, dtype)


def _sound_store(store: Any, room: int, width: int, dtype: Any) -> None:
    if type(store) is Objects:
        must(width == -1 and type(store.items) is list and len(store.items) == room and dtype == np.float64, "its objects")
    elif type(store) is Rows:
        must(width >= 1 and is_finite(store.data, (room, width), dtype), "its points")
    else:
        must(type(store) is Sparse and type(store.top) is int and type(store.width) is int, "its points")
        must(type(store.indices) is np.ndarray and store.width == width >= 1, "its points")
        heap = len(store.indices)
        must(0 <= store.top <= heap and is_array(store.indices, (heap,), np.int32), "its points")
        must(is_finite(store.data, (heap,), dtype) and is_array(store.begin, (room,), np.int64), "its points")
        must(is_array(store.length, (room,), np.int64), "its points")
        must(is_finite(store.norms, (room,), dtype) and is_finite(store.sums, (room,), dtype), "its points")
        for places in (store.begin, store.length):
            must((places >= 0).all() and (places <= heap).all(), "its points")
        must(((store.begin + store.length)[store.length > 0] <= store.top).all(), "its points")
        must(store.length.sum() <= store.top, "points that share their memory")  # a copy gives each its own
        must((store.indices >= 0).all() and (store.indices < width).all(), "its points")
