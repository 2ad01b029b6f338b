"""One model from several of one learner: their weighted mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.checks import check_state
from onkel.core.drive import laid_out
from onkel.core.ids import Known
from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.maths.value import is_whole
from onkel.core.points.objects import Objects
from onkel.core.points.read import Store
from onkel.core.points.sparse import Sparse
from onkel.core.shrink import Terms, kernel_values, pack, shrink, squared_norm, terms_of
from onkel.core.state import State


def mix(learner: Learner, states: Sequence[State], weights: Any = None, budget: int | None = None) -> tuple[State, float]:
    """The weighted mean of several states of one learner, as a state, and the RKHS norm of what had to go for ``budget``.

    Without ``budget`` the mean is exact and nothing goes: ``lost`` is 0.0, and the state may hold more points than the learner
    does.  ``score`` takes it as it is; ``learn`` first reduces it by the learner's own rule.  With ``budget`` it is reduced to so
    many points by that rule at once.  Points that are equal to the bit, and have the same id, become one.

    The offset, the margin or tube (theta) and the size of an adaptive step are weighted means too; the trace of an adaptive step
    starts anew.  ``t`` is the sum: points are as old as if the examples had come in turns, the last ones last.  A single
    state stays as it is.

    >>> import numpy as np, onkel
    >>> X = np.random.default_rng(0).normal(size=(200, 2)); y = np.sign(X[:, 0] * X[:, 1])
    >>> learner = onkel.silk(onkel.RBF(1.0), onkel.Hinge(), budget=20)
    >>> a, b = (learner.learn(learner.init(), X[half], y[half])[0] for half in (slice(0, 100), slice(100, 200)))
    >>> onkel.mix(learner, [a, b])
    (State(t=200, size=40), 0.0)
    >>> state, lost = onkel.mix(learner, [a, b], weights=[1, 3], budget=30)
    >>> state.size, lost > 0
    (30, True)
    """
    states = _checked(learner, states)
    shares = _shares(weights, len(states))
    if budget is not None and not is_whole(budget):
        raise ValueError(f"budget must be a whole number of points, at least 1, or None; got {budget!r}")
    mixed = states[0].copy() if len(states) == 1 else _mean(learner, states, shares)
    lost = 0.0
    if budget is not None and mixed.size > budget:
        lost = shrink(learner, mixed, int(budget))
        laid_out(learner, mixed)
    return mixed, lost


def _mean(learner: Learner, states: list[State], shares: NDArray[np.float64]) -> State:
    mixed, m = learner.init(), states[0].m
    kept = slice(at.NUMBERS, at.NUMBERS + 2 * m)  # b and its step sizes
    for cells in (at.THETA, at.ETA, at.ETA_THETA, kept):
        values = np.array([state.num[cells] for state in states])
        mixed.num[cells] = values[0] if (values == values[0]).all() else shares @ values  # what all have is not rounded
    mixed.num[at.T] = sum(state.t for state in states)
    mixed.num[at.COUNT] = 1.0 + sum(state.num[at.COUNT] - 1.0 for state in states)
    rows = [(i, state) for i, state in enumerate(states) if len(state.slots)]
    if not rows:
        return mixed
    born = dict(zip((i for i, _ in rows), _in_turns(states, [i for i, _ in rows]), strict=True))
    named = any(state.ids is not None for _, state in rows)
    places: dict[Any, int] = {}
    store = terms_of(rows[0][1]).points.empty(sum(state.size for _, state in rows))
    coef, came = np.zeros((len(store), mixed.base)), np.full(len(store), -1, np.int64)
    names: list[Any] = []
    for i, state in rows:
        own = terms_of(state)
        ids = state.ids or [None] * len(own.born)
        if shares[i] == 0.0:
            continue
        fresh: list[int] = []
        first = len(places)
        for k, key in enumerate(_keys(own.points)):
            place = places.setdefault((key, type(ids[k]), ids[k]), len(places))
            if place == len(names):
                names.append(ids[k])
                fresh.append(k)
            coef[place, :m] += shares[i] * own.coef[k, :m]
            came[place] = max(came[place], born[i][k])
        store.put(np.arange(first, first + len(fresh)), own.points, np.array(fresh, np.int64))  # type: ignore[arg-type]
    order = np.argsort(came[: len(names)])
    terms = Terms(store.take(order), coef[order], came[order])
    pack(learner, mixed, terms, None)
    if learner.step.kind == "ALMA":
        mixed.num[at.N2] = squared_norm(learner, kernel_values(learner.kernel, terms.points), terms.coef)
    laid_out(learner, mixed)
    if named:
        has = [k for k in order.tolist() if names[k] is not None]
        mixed.known = Known(came[has], [names[k] for k in has])
    return mixed


def _in_turns(states: list[State], which: list[int]) -> list[NDArray[np.int64]]:
    """When the points came, had the states' examples come in turns and the last ones of all last; no two at once."""
    clocks = np.array([state.t for state in states])
    found = []
    for i in which:
        age = states[i].t - states[i].born[states[i].order]
        later = np.minimum(age[:, None], clocks).sum(axis=1) + (clocks[:i] > age[:, None]).sum(axis=1)
        found.append(np.maximum(clocks.sum() - later, 0))
    return found


def _keys(points: Store) -> list[Any]:
    """What tells points apart: their bits; of objects strings and bytes, or which object it is."""
    if isinstance(points, Objects):
        return [one if isinstance(one, str | bytes) else (type(one), id(one)) for one in points.items]
    if isinstance(points, Sparse):
        ranges = [slice(b, b + k) for b, k in zip(points.begin.tolist(), points.length.tolist(), strict=True)]
        return [(points.indices[part].tobytes(), points.data[part].tobytes()) for part in ranges]
    return [row.tobytes() for row in points.data]


def _checked(learner: Any, states: Any) -> list[State]:
    if not isinstance(learner, Learner):
        raise TypeError(f"mix: give the learner that made the states, as onkel.silk and its like make it; got {learner!r:.80}")
    if isinstance(states, State) or not isinstance(states, Sequence) or not len(states):
        raise ValueError(f"mix: states must be a list of at least one state; got {states!r:.80}")
    for i, state in enumerate(states):
        if not isinstance(state, State):
            raise TypeError(f"mix: states[{i}] must be a State, as learner.learn returns it; got {state!r:.80}")
        try:
            check_state(state, learner.made_for)
        except ValueError as error:
            raise ValueError(f"mix: states[{i}]: {error}") from None
    kinds = {i: _kind(state) for i, state in enumerate(states) if len(state.slots)}
    for i, kind in kinds.items():
        first = next(iter(kinds))
        if kind != kinds[first]:
            raise ValueError(
                f"mix: states[{i}] holds {kind}, but states[{first}] {kinds[first]}; only states that have learned from the same "
                "kind of points can be mixed"
            )
    return list(states)


def _kind(state: State) -> str:
    kind = "dense" if state.store is None else state.store.kind
    return "objects" if kind == "objects" else f"{kind} rows of {state.width} {state.slots.dtype} numbers"


def _shares(weights: Any, n: int) -> NDArray[np.float64]:
    """Weights as shares of 1."""
    if weights is None:
        return np.full(n, 1.0 / n)
    try:
        given = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        given = np.full(n, np.nan)
    if given.shape != (n,) or not np.isfinite(given).all() or (given < 0).any() or not given.any():
        raise ValueError(
            f"weights must be {n} finite numbers, one for each state, none of them negative and not all zero; got {weights!r:.80}"
        )
    given = given / given.max()
    return np.asarray(given / given.sum())
