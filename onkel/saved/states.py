"""States by the names of their parts, so that a file does not depend on where the loop keeps things."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onkel.core.drive import gram_layers
from onkel.core.gate import is_array, must, sound
from onkel.core.ids import Known
from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.points.dense import Array, Rows
from onkel.core.points.objects import Objects
from onkel.core.points.sparse import Sparse
from onkel.core.state import State

# What files call the numbers of a state, in the order of loop/layout.py.
_NAMES = ("t", "n", "used", "head", "scale", "theta", "eta", "eta_theta", "v_theta", "pi", "n2", "p", "r", "count", "stale")
_OFFSET = (at.B, at.ETA_B, at.V_B)


def parts(state: State) -> dict[str, Any]:
    """Everything that the next step depends on; room to work in is left out.  Empty places are kept: the bits depend on order."""
    m, base, slots = state.m, state.base, state.slots
    named = {
        "m": m,
        "base": base,
        "scalar": state.scalar,
        "numbers": {name: float(state.num[i]) for i, name in enumerate(_NAMES)},
        "offset": np.stack([state.num[at.NUMBERS + row * m : at.NUMBERS + (row + 1) * m] for row in _OFFSET]),
        "width": state.width,
    }
    if state.known is not None:
        named["ids"] = {"born": state.known.born.tolist(), "given": state.known.given}
    if not len(slots):
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


def state(m: Any, base: Any, scalar: Any, width: Any, numbers: Any, offset: Any, ids: Any = None, **rows: Any) -> State:
    must(type(m) is type(base) is type(width) is int and type(scalar) is bool and base in (m, 2 * m), "the number of outputs")
    must(is_array(offset, (3, m), np.float64), "the offset")
    made = State(m, base, scalar, np.zeros(at.length(m)))
    for i, name in enumerate(_NAMES):
        made.num[i] = numbers[name]
    for row, values in zip(_OFFSET, offset, strict=True):
        made.num[at.NUMBERS + row * m : at.NUMBERS + (row + 1) * m] = values
    made.width = width
    if ids is not None:
        must(type(ids) is dict and set(ids) == {"born", "given"} and all(type(part) is list for part in ids.values()), "its ids")
        must(len(ids["born"]) == len(ids["given"]) and all(type(b) is int and 0 < b < 2**53 for b in ids["born"]), "its ids")
        must(all(type(one) in (int, str) for one in ids["given"]), "its ids")
        made.known = Known(np.array(ids["born"], np.int64), ids["given"])
    if not rows:
        return made
    coef, trace, magnitude, own, points = (rows[name] for name in ("coef", "trace", "magnitude", "own", "points"))
    must(type(coef) is np.ndarray and coef.ndim == 2 and coef.dtype in (np.float32, np.float64), "the coefficients")
    room, dtype = coef.shape[1], coef.dtype
    must(is_array(coef, (m, room), dtype) and is_array(trace, (base - m, room), dtype), "the coefficients")
    must(is_array(magnitude, (room,), dtype) and is_array(own, (room,), dtype), "the coefficients")
    direct = isinstance(points, np.ndarray)
    must(is_array(points, (width, room), dtype) if direct else type(points) in (Rows, Sparse, Objects), "the points")
    made.slots = np.zeros((base + at.AUX + (width if direct else 0), room), dtype)
    made.slots[:m], made.slots[m:base] = coef, trace
    made.slots[base + at.MAG], made.slots[base + at.KXX] = magnitude, own
    if direct:
        made.slots[base + at.AUX :] = points
    else:
        made.store = points
    made.born, made.gram = rows["born"], rows["gram"]
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


def check(learner: Any, state: Any) -> None:
    """Refuse a state that this learner cannot go on with safely."""
    must(isinstance(learner, Learner) and isinstance(state, State), "a learner and its state")
    sound(state)
    fresh, m = learner.init(), state.m
    must((m, state.base, state.scalar) == (fresh.m, fresh.base, fresh.scalar), f"{m} outputs for {fresh.m}")
    theta = float(state.num[at.THETA])
    must(math.isnan(theta) == math.isnan(fresh.num[at.THETA]), "a margin")
    if not len(state.slots):
        must(state.t == 0, "examples without points")
        return
    n, used, head, room = state.size, int(state.num[at.USED]), int(state.num[at.HEAD]), state.slots.shape[1]
    over = n > learner.budget.limit()  # a mean of several states: reduced before it learns on
    if (size := learner.budget.size) is not None and not over:
        must(n <= size <= room < size + at.LANES, f"{n} points in {room} places for a budget of {size}")
    places = (head + np.arange(n)) % room if learner.budget.rule.in_turn else np.arange(n)
    must((state.born[places] >= 0).all() and (n == 0 or used > places.max()), "which places are taken")
    must(len(state.gram) == (0 if over else gram_layers(learner)), "its Gram matrix")
    kernel, store = learner.kernel, state.store
    must(kernel.direct if store is None else type(store).kind in kernel.takes, "its points, for that kernel")
