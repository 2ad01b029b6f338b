"""One example at a time, into the arrays of one state: the way in for estimators, River models and everything that serves rows.

What is opened here is bound to the arrays as they are: a state that is laid out anew, or copied, needs new ways in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import float64
from numpy.typing import NDArray

from onkel.core.drive import loop_for, scores_for, values_of
from onkel.core.learner import Learner
from onkel.core.loop import layout as at
from onkel.core.loop import one_row
from onkel.core.machine.calls import ROW, Road, address, rows_like
from onkel.core.state import State

UNFIT = one_row.UNFIT


def is_open(learner: Learner, state: State) -> bool:
    """Whether examples may come one by one without a look at anything but the row: arrays laid out for good, kernel values computed
    in the loop, a step size that is one number."""
    settled = state.store is None and state.width > 0 and len(state.slots) > 0
    size = learner.budget.size
    return settled and size is not None and state.size <= size and learner.fixed_eta is not None


def learning(
    learner: Learner, state: State, calibration: Any = None, cells: NDArray[np.float64] | None = None
) -> Callable[[Any, float], int]:
    """learn(x, y) -> code: 0 or more, UNFIT for what is no row of the model's dtype and width, or the loop's error code.

    ``calibration.follow(cells, scores, y, weight, calibration.share)``, compiled, hears the scores of each example as they were
    before it was learned.
    """
    X = np.zeros((1, state.width), state.slots.dtype)
    target, scores, traces = np.ones(1), np.zeros((1, state.m)), np.zeros((at.TRACE, 1))
    pace = np.array([[learner.fixed_eta, 1.0, math.inf]])  # step size, weight, how far f reaches back
    block = X, state.slots[:0], state.slots[0, :0], target, pace
    values = values_of(learner, learner.kernel, state, block, scores, traces, 0, state.born[:0])
    pack = loop_for(learner, learner.kernel, state, values).pack(values)
    weight, cells = pace[0, 1:2], np.zeros(0) if cells is None else cells
    after, share = (0, 0.0) if calibration is None else (_calibrates(calibration.follow), float(calibration.share))
    like = rows_like(state.width, X.dtype)
    fixed = (pack.code, pack.values, X[0], like, target, after, share, cells, scores, weight)
    return _road(one_row.learn_row, fixed, ROW, float64).entry(fixed, pack)


def scoring(learner: Learner, state: State, best: bool = False) -> Callable[[Any], Any]:
    """score(x): the first score, NaN for what is no row; with ``best`` the code of the highest score, resp. UNFIT."""
    X, out = np.zeros((1, state.width), state.slots.dtype), np.zeros((1, state.m))
    road, values = scores_for(learner, state, X, out)
    pack = road.pack(values)
    fixed = (pack.code, pack.values, X[0], rows_like(state.width, X.dtype), out)
    return _road(one_row.best_row if best else one_row.score_row, fixed, ROW).entry(fixed, pack)


_roads: dict[Any, Road] = {}  # for every learner: only the dtype of the rows makes a difference


def _road(dispatcher: Any, fixed: tuple[Any, ...], *tail: Any) -> Road:
    key = dispatcher, fixed[2].dtype
    if key not in _roads:
        _roads[key] = Road(dispatcher, fixed, *tail)
    return _roads[key]


@cache
def _calibrates(follow: Any) -> int:
    """Where this code stands."""
    return address("calibration", follow, np.zeros(1), np.zeros((1, 1)), np.zeros(1), np.zeros(1), 0.0)
