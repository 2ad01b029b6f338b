"""States by the names of their parts, so that a file does not depend on where the loop keeps things."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onkel.core.drive import gram_layers
from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.maths.budget import DROPS
from onkel.core.maths.kernels import is_direct
from onkel.core.points.dense import Array, Rows
from onkel.core.points.objects import Objects
from onkel.core.points.read import Store
from onkel.core.points.sparse import Sparse
from onkel.core.state import State

_NUMBERS = ("T", "N", "USED", "HEAD", "SCALE", "THETA", "ETA", "ETA_THETA", "V_THETA", "PI", "N2", "P", "R", "COUNT", "STALE")
_OFFSET = (at.B, at.ETA_B, at.V_B)


def parts(state: State) -> dict[str, Any]:
    """Everything that the next step depends on; room to work in is left out.  Empty places are kept: the bits depend on order."""
    m, base, slots = state.m, state.base, state.slots
    named = {
        "m": m,
        "base": base,
        "scalar": state.scalar,
        "numbers": {name.lower(): float(state.num[getattr(at, name)]) for name in _NUMBERS},
        "offset": np.stack([state.num[at.NUMBERS + row * m : at.NUMBERS + (row + 1) * m] for row in _OFFSET]),
        "width": state.width,
    }
    if state.width == 0:
        return named
    return {
        **named,
        "coef": slots[:m],
        "trace": slots[m:base],
        "magnitude": slots[base + at.MAG],
        "own": slots[base + at.KXX],
        "born": state.born,
        "gram": state.gram,
        "points": slots[base + at.AUX :] if state.store is None else state.store,
    }


def state(m: Any, base: Any, scalar: Any, width: Any, numbers: Any, offset: Any, **rows: Any) -> State:
    _must(type(m) is type(base) is type(width) is int and type(scalar) is bool and base in (m, 2 * m), "the number of outputs")
    _must(_is(offset, (3, m), np.float64), "the offset")
    made = State(m, base, scalar, np.zeros(at.length(m)))
    for name in _NUMBERS:
        made.num[getattr(at, name)] = numbers[name.lower()]
    for row, values in zip(_OFFSET, offset, strict=True):
        made.num[at.NUMBERS + row * m : at.NUMBERS + (row + 1) * m] = values
    if width == 0 and not rows:
        return made
    coef, trace, magnitude, own, points = (rows[name] for name in ("coef", "trace", "magnitude", "own", "points"))
    room, dtype = coef.shape[-1], coef.dtype
    _must(_is(coef, (m, room), dtype) and _is(trace, (base - m, room), dtype), "the coefficients")
    _must(_is(magnitude, (room,), dtype) and _is(own, (room,), dtype), "the coefficients")
    direct = isinstance(points, np.ndarray)
    _must(_is(points, (width, room), dtype) if direct else isinstance(points, Rows | Sparse | Objects), "the points")
    made.slots = np.zeros((base + at.AUX + (width if direct else 0), room), dtype)
    made.slots[:m], made.slots[m:base] = coef, trace
    made.slots[base + at.MAG], made.slots[base + at.KXX] = magnitude, own
    if direct:
        made.slots[base + at.AUX :] = points
    else:
        made.store = points
    made.born, made.gram, made.width = rows["born"], rows["gram"], width
    return made


def rows(data: Any) -> Rows:
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.dtype not in (np.float32, np.float64):
        raise ValueError("points must be rows of float32 or float64 numbers")
    return Rows(data)


def sparse(begin: Array, length: Array, indices: Array, data: Array, width: int, top: int, norms: Array, sums: Array) -> Sparse:
    store = Sparse.__new__(Sparse)  # norms are kept, not measured again: to the bit the same
    store.begin, store.length, store.indices, store.data, store.width, store.top = begin, length, indices, data, width, top
    store.norms, store.sums = norms, sums
    return store


def check(learner: Learner, state: State) -> None:
    """Refuse a state that the compiled loop, which asks nothing, could not work on safely."""
    _must(isinstance(learner, Learner) and isinstance(state, State), "a learner and its state")
    fresh, m = learner.init(), state.m
    _must((m, state.base, state.scalar) == (fresh.m, fresh.base, fresh.scalar), f"{m} outputs for {fresh.m}")
    _must(_is(state.num, fresh.num.shape, np.float64), "the numbers")
    kept = np.delete(state.num[: at.NUMBERS + at.KEPT_VECTORS * m], at.THETA)
    _must(np.isfinite(kept).all() and not np.isinf(state.num[at.THETA]), "numbers that are not finite")
    _must(math.isnan(state.num[at.THETA]) == math.isnan(fresh.num[at.THETA]), "a margin")
    t, n, used, head = (_whole(state.num[i]) for i in (at.T, at.N, at.USED, at.HEAD))
    if state.width == 0:
        _must(n == used == head == t == 0, "points")
        return
    base, room, dtype = state.base, state.slots.shape[1], state.slots.dtype
    _must(dtype in (np.float32, np.float64), "the type of numbers")
    _must(room >= at.LANES and room % at.LANES == 0 and n <= used <= room and head < room, "the places of the points")
    if (size := learner.budget.size) is not None:
        _must(n <= size <= room < size + at.LANES, f"{n} points in {room} places for a budget of {size}")
    slots = state.slots
    _must(np.isfinite(slots[: base + 2]).all() and np.isfinite(slots[base + at.AUX :]).all(), "coefficients or points")
    _must(_is(state.born, (room,), np.int64) and (state.born <= t).all() and (state.born >= -1).all(), "the birth dates")
    places = (head + np.arange(n)) % room if learner.budget.drop == DROPS[at.OLDEST] else np.arange(n)
    live = np.zeros(room, bool)
    live[places] = True
    _must((live == (state.born >= 0)).all() and (n == 0 or used > places.max()), "which places are taken")
    _must(not slots[: base + 1, ~live].any(), "coefficients of empty places")
    layers = gram_layers(learner)
    shape = (layers, room, room + at.LANES) if layers else (0, 0, 0)
    _must(_is(state.gram, shape, np.float64 if layers == 2 else dtype) and np.isfinite(state.gram).all(), "the Gram matrix")
    _check_store(state.store, room, state.width, dtype, direct=is_direct(learner.kernel))


def _check_store(store: Store | None, room: int, width: int, dtype: Any, direct: bool) -> None:
    if store is None:
        _must(width >= 1 and direct, "the points")
    elif isinstance(store, Objects):
        _must(width == -1 and type(store.items) is list and len(store.items) == room, "the objects")
    elif isinstance(store, Rows):
        _must(_is(store.data, (room, width), dtype) and np.isfinite(store.data).all(), "the points")
    else:
        heap = len(store.indices)
        _must(type(store.top) is int and 0 <= store.top <= heap and store.width == width >= 1, "the points")
        _must(_is(store.indices, (heap,), np.int32) and _is(store.data, (heap,), dtype), "the points")
        _must(_is(store.begin, (room,), np.int64) and _is(store.length, (room,), np.int64), "the points")
        _must(_is(store.norms, (room,), dtype) and _is(store.sums, (room,), dtype), "the points")
        for places in (store.begin, store.length):
            _must((places >= 0).all() and (places <= heap).all(), "the points")
        _must(((store.begin + store.length)[store.length > 0] <= store.top).all(), "the points")
        _must((store.indices >= 0).all() and (store.indices < width).all() and np.isfinite(store.data).all(), "the points")


def _is(array: Any, shape: tuple[int, ...], dtype: Any) -> bool:
    return isinstance(array, np.ndarray) and array.shape == shape and array.dtype == dtype


def _whole(number: float) -> int:
    _must(number >= 0 and number == math.floor(number) and number < 2**53, "counts")
    return int(number)


def _must(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(f"state and learner do not fit together: {what}")
