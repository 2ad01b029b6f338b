"""A learner at work on a block of checked points: in portions that fit, by rows computed in the loop or by matrices."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.checks import failure
from onkel.core.loop import evict, scan
from onkel.core.loop import layout as at
from onkel.core.machine.blas import one_blas_thread
from onkel.core.machine.calls import Road, address
from onkel.core.maths.budget import NO_LIMIT
from onkel.core.points.dense import Array, Rows
from onkel.core.points.matrices import Workspace, calm_blas, rows_at_once
from onkel.core.points.read import Store
from onkel.core.room import lay_out
from onkel.core.shrink import shrink
from onkel.core.state import State

if TYPE_CHECKING:
    from onkel.core.learner import Learner

# Kernel values are computed in the loop up to this many stored numbers, four times as many where there are few features (then the
# exponentials are most of the work); beyond, by matrix products.  Measured crossovers.
DIRECT_SIZE, FEW_FEATURES = 32_000, 32
CHUNK = 8192  # rows between two looks at the outside world


class Trace(NamedTuple):
    """What happened, one entry per example, taken before its update (theta and size: after it)."""

    scores: Array
    loss: NDArray[np.float64]
    mistake: NDArray[np.bool_]
    eta: NDArray[np.float64]
    theta: NDArray[np.float64]
    size: NDArray[np.int64]


def advance(
    learner: Learner,
    state: State,
    block: Store,
    y: NDArray[np.float64],
    weight: Any = None,
    threads: int = 1,
    room: Workspace | None = None,
    before: int = 0,
) -> Trace:
    """Learn a block in place; ``before``: how many examples of the same call came in earlier blocks."""
    n = len(block)
    pace = learner.pace(state.t, n, weight)
    answers, traces = np.empty((n, state.m)), np.empty((at.TRACE, n))
    room = room or Workspace(block.dtype, threads)
    start = state.t - before
    done = 0
    limited = False
    with ExitStack() as held:
        while done < n:
            size = min(n - done, settle(learner, state, block))
            if state.store is not None and not limited:
                held.enter_context(calm_blas(block))
                limited = True
            part = slice(done, done + size)
            run = _direct if state.store is None else _rows
            code = run(learner, state, block, part, room, y[part], pace if len(pace) == 1 else pace[part], answers[part], traces)
            if code < 0:
                raise failure(code, state.t - start)
            done += size
    loss, mistake, eta, theta, length = traces
    scores = answers[:, 0] if learner.scalar else answers
    return Trace(scores, loss, mistake.astype(bool), eta, theta, length.astype(np.int64))


def settings_for(learner: Learner, state: State) -> NDArray[np.float64]:
    """The learner's numbers, with the addresses of what it needs of the code that most learners do without, for these dtypes."""
    key = "settings", state.slots.dtype, state.gram.dtype
    if key not in learner.roads:
        numbers = learner.settings.copy()
        loss, step, cls = learner.loss, learner.step, type(learner.loss)
        vector, matrix, gram = np.empty(1), np.empty((1, 1), state.slots.dtype), np.empty((1, 1, 1), state.gram.dtype)
        arrays, kappa = (numbers, vector, matrix, gram), learner.label_kernel
        term = kappa, 0, matrix, 0, 0.0, *arrays, 0, 0
        rule = learner.budget.rule
        if rule.make_room is not None:
            numbers[at.ROOM] = address("make room", rule.make_room, *term)
        elif rule.kind == "PROJECT":
            numbers[at.PROJECTION] = address("project", evict.project, *term)
        elif step.adaptive and numbers[at.REPAIR]:
            numbers[at.REPAIR] = address("repair", evict.repair, kappa, 0, 0, 0.0, 0.0, matrix, 0, 0.0, *arrays[1:], 0)
        given = loss, vector, 0, 0.0, 0.0, 0.0, 0.0, vector
        if numbers[at.EXACT] and cls.labelled and cls.exact_prox is not None:
            numbers[at.EXACT] = address("exact prox", cls.exact_prox, *given)
        if step.kind == "ADAPTIVE_IMPLICIT" and cls.labelled:
            numbers[at.TANGENT] = address("tangent", cls.tangent, *given, vector, 0.0, vector)
        learner.roads[key] = numbers
    return learner.roads[key]  # type: ignore[no-any-return]


def values_of(learner: Learner, kernel: Any, state: State, block: tuple[Any, ...], *told: Any) -> tuple[Any, ...]:
    """What ``scan`` unpacks."""
    traced = True if learner.step.adaptive else None
    arrays = settings_for(learner, state), state.num, state.slots, state.born, state.gram
    return learner.loss, learner.label_kernel, kernel, traced, *block, *arrays, *told


def loop_for(learner: Learner, kernel: Any, state: State, values: tuple[Any, ...]) -> Road:
    """The hot loop, compiled for these types when they first come, and called without looking at them afterwards."""
    key = kernel is learner.kernel, state.slots.dtype, state.gram.dtype
    if key not in learner.roads:
        learner.roads[key] = Road(scan.scan, values)
    return learner.roads[key]  # type: ignore[no-any-return]


def scores_for(learner: Learner, state: State, X: Array, out: Array) -> tuple[Road, tuple[Any, ...]]:
    """The same for scores, with what ``score`` unpacks."""
    work, raw = np.zeros((1, state.slots.shape[1]), state.slots.dtype), np.zeros(2 * state.m)
    values = learner.label_kernel, learner.kernel, state.base + at.AUX, X, state.num, state.slots, work, raw, out
    key = "scores", state.slots.dtype
    if key not in learner.roads:
        learner.roads[key] = Road(scan.score, values)
    return learner.roads[key], values


def _direct(learner: Learner, state: State, block: Any, part: slice, room: Workspace, y: Any, pace: Any, *told: Any) -> int:
    """Rows computed in the loop."""
    given = block.data[part], state.slots[:0], state.slots[0, :0], y, pace
    values = values_of(learner, learner.kernel, state, given, *told, part.start, state.born[:0])
    return loop_for(learner, learner.kernel, state, values)(values)


def _rows(learner: Learner, state: State, block: Store, part: slice, room: Workspace, y: Any, pace: Any, *told: Any) -> int:
    """Rows from matrices, then the points that were stored into their slots."""
    assert state.store is not None
    rows = block.take(part) if part != slice(0, len(block)) else block
    used, size = int(state.num[at.USED]), len(rows)
    columns = min(state.slots.shape[1], _round_up(used + size))
    K = room.evaluate("K", learner.kernel, rows, state.store, used, columns, (part.start, state.born[:used]))
    inner = room.evaluate("inner", learner.kernel, rows, rows, size, size, (part.start, state.born[:0]))
    source = np.full(state.slots.shape[1], -1, np.int64)
    given = K, inner, learner.kernel.diagonal(rows), y, pace
    values = values_of(learner, _GIVEN, state, given, *told, part.start, source)
    code = loop_for(learner, _GIVEN, state, values)(values)
    filled = np.flatnonzero(source >= 0)
    if len(filled):
        state.store.put(filled, rows, source[filled])  # type: ignore[arg-type]
    return code


def score_block(learner: Learner, state: State, block: Store, threads: int = 1) -> Array:
    m, n = state.m, len(block)
    out = np.zeros((n, m), np.float64)
    b = state.num[at.NUMBERS : at.NUMBERS + m]
    used, scale = int(state.num[at.USED]), float(state.num[at.SCALE])
    if used == 0:
        out += b
    elif state.store is None:
        road, values = scores_for(learner, state, block.data, out)  # type: ignore[union-attr]
        road(values)
    else:
        size = max(64, 1 << 22 >> int(used).bit_length())
        coef = scale * state.slots[:m, :used].astype(np.float64)
        if not learner.scalar and not learner.loss.labels.plain:
            coef = learner.loss.labels.kernel @ coef
        coef = np.ascontiguousarray(coef.astype(state.slots.dtype).T)
        room = Workspace(state.slots.dtype, threads)
        with one_blas_thread():
            for first in range(0, n, size):
                part = block.take(slice(first, first + size)) if n > size else block
                K = room.evaluate("K", learner.kernel, part, state.store, used, used, (first, state.born[:0]))
                out[first : first + size] = K @ coef + b
    return out[:, 0] if learner.scalar else out


def gram_layers(learner: Learner) -> int:
    """How many matrices over the stored points the budget keeps: none, their kernel values, or those and their inverse."""
    if learner.budget.rule.matrices:
        return learner.budget.rule.matrices
    return int(learner.step.repairs and learner.budget != NO_LIMIT)


def _expected(learner: Learner, state: State) -> float:
    """How many points to make ready for: a whole budget, so that its memory never changes; without one, twice what is there."""
    size = learner.budget.size
    return size if size is not None else min(learner.budget.limit(), max(2 * state.size, 256))


def in_loop(learner: Learner, state: State, block: Store) -> bool:
    """Whether the loop computes kernel values itself."""
    width = max(block.width, 1)
    limit = 4 * DIRECT_SIZE if width <= FEW_FEATURES else DIRECT_SIZE
    return bool(learner.kernel.direct) and isinstance(block, Rows) and _expected(learner, state) * width <= limit


def settle(learner: Learner, state: State, block: Store) -> int:
    """Make room for the next examples; returns how many may come in one go.  What is more than the budget goes first (mix.py)."""
    limit = learner.budget.limit()
    if state.size > limit:
        shrink(learner, state)
        laid_out(learner, state)
    if not state.width:
        state.width = block.width
    used, expected, small = state.size, _expected(learner, state), in_loop(learner, state, block)
    if small:
        size = CHUNK if learner.budget.size is not None else 256
    else:
        size = rows_at_once(block, expected)
    need = _round_up(int(min(limit, used + size)))
    room = state.slots.shape[1]
    if state.slots.shape[0] == 0 or room < need or (state.store is None) != small:
        if learner.budget.size is None:
            need = max(need, min(2 * room, _round_up(int(min(limit, 2**62)))))
        lay_out(state, block, need if learner.budget.size is None else _round_up(learner.budget.size), small, gram_layers(learner))
    return size


def laid_out(learner: Learner, state: State) -> None:
    """Lay out a packed state (shrink.py) for its learner; one with more points than the budget keeps no matrices over them."""
    assert state.store is not None
    n, size = state.size, learner.budget.size
    room = _round_up(n if size is None or n > size else size)
    layers = 0 if n > learner.budget.limit() else gram_layers(learner)
    lay_out(state, state.store, max(room, at.LANES), in_loop(learner, state, state.store), layers)


_GIVEN = scan.Given()


def _round_up(n: int) -> int:
    return (n + at.LANES - 1) // at.LANES * at.LANES
