"""A run followed a second time: every coefficient from the loss's definition, |f_t| step by step, and what the budget dropped.

    |f'|^2 = s^2 |f|^2 + 2 s a f(x) + a^2 k(x, x)            for  f' = s f + a k(x, .),
    |f - a_o k(x_o, .)|^2 = |f|^2 - 2 a_o f(x_o) + a_o^2 k(x_o, x_o)      for a term that is dropped.

Without drops that takes a few operations an example.  With them the kernel values among the points of the budget are needed,
block by block, as the loop needs them.  Where the points do not come out as in the state, nothing is said about norms.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.learner import Learner
from onkel.core.maths.steps import Explicit, Implicit
from onkel.core.state import State
from onkel.reasons.convex import Convex, convex
from onkel.reasons.ledger import followed

Array = NDArray[np.float64]
BLOCK = 512


class Audit(NamedTuple):
    """``coefs`` a_t and ``decays`` s_t of every step; ``norms`` |f_t| before each step (None: cannot be told), and |f| at the
    end; ``dropped`` bounds the norm of what the budget left out, after the last step; ``drops``: what went at each step."""

    loss: Convex
    coefs: Array
    decays: Array
    own: Array
    norms: Array | None
    last: float
    dropped: float
    drops: Array | None = None


def audit(learner: Learner, state: State, scores: Array, eta: Array, X: Any, y: Array, own: Array) -> Audit | None:
    """Follow a run from f = 0 whose trace had these scores and steps; ``own`` are k(x_t, x_t).  None: not a run of one score and
    a fixed step rule."""
    step, loss = learner.step, convex(learner.loss, isinstance(learner.step, Explicit))
    if loss is None or not isinstance(step, Explicit | Implicit) or learner.nu is not None or learner.offset:
        return None
    if isinstance(step, Explicit):
        decays = 1.0 - eta * step.lam
        coefs = -eta * step.C * loss.slope(scores, y)
    else:
        decays = 1.0 / (1.0 + eta * step.lam)
        cap = decays * eta * step.C
        with np.errstate(divide="ignore", invalid="ignore"):
            coefs = np.where(own > 0, loss.prox(decays * scores, y, cap, own), 0.0)
    budget = learner.budget
    if budget.size is None and budget.window is None:
        norms, last = grown(coefs, decays, scores, own)
        return Audit(loss, coefs, decays, own, norms, last, 0.0)
    if budget.drop not in ("oldest", "smallest"):
        return Audit(loss, coefs, decays, own, None, math.nan, math.nan)
    norms, last, dropped, drops = budgeted(learner, state, coefs, decays, scores, own, X)
    return Audit(loss, coefs, decays, own, norms, last, dropped, drops)


def in_compiled_code(kernel: Any) -> bool:
    return bool(kernel.direct)


def grown(coefs: Array, decays: Array, scores: Array, own: Array) -> tuple[Array, float]:
    """|f_t| where nothing is ever dropped."""
    square, squares = 0.0, []
    for a, s, f, k in zip(coefs.tolist(), decays.tolist(), scores.tolist(), own.tolist()):
        squares.append(square)
        square = max(s * s * square + 2.0 * s * a * f + a * a * k, 0.0)
    return np.sqrt(np.array(squares)), math.sqrt(square)


def budgeted(
    learner: Learner, state: State, coefs: Array, decays: Array, scores: Array, own: Array, X: Any
) -> tuple[Array | None, float, float, Array | None]:
    """(|f_t|, |f| at the end, bound on what was left out, lengths of what went at each step) where terms are dropped."""
    m, smallest = len(coefs), learner.budget.drop == "smallest"
    room = m if learner.budget.size is None else int(learner.budget.size)
    reach = learner.budget.looks_back(0, m)  # what f may still hold after each step
    if isinstance(X, np.ndarray) and X.dtype == np.float64 and in_compiled_code(learner.kernel):
        found, end, drops, dropped, born = followed(learner.kernel, X, coefs, decays, scores, own, reach, room, smallest)
        if not np.array_equal(born, state.born[state.order]):
            return None, math.nan, math.nan, None
        return np.sqrt(found), math.sqrt(end), dropped, drops
    slots: list[int] = []  # the examples that f holds, oldest first
    weight = np.zeros(0)  # their coefficients without decay, in the same order
    scale, square, dropped = 1.0, 0.0, 0.0
    squares: list[float] = []
    lengths: list[float] = []
    for start in range(0, m, BLOCK):
        stop = min(m, start + BLOCK)
        members = [*slots, *range(start, stop)]
        place = {example: i for i, example in enumerate(members)}
        points = [X[i] for i in members] if isinstance(X, list) else X[np.array(members)]
        K = np.asarray(learner.kernel(points, points), np.float64)
        rows = np.array([place[i] for i in slots], np.int64)
        for t in range(start, stop):
            squares.append(square)
            a, s, k = float(coefs[t]), float(decays[t]), float(own[t])
            square = max(s * s * square + 2.0 * s * a * float(scores[t]) + a * a * k, 0.0)
            dropped *= s
            scale *= s
            if scale < 1e-9:
                weight, scale = weight * scale, 1.0
            lengths.append(0.0)
            if a != 0.0:
                slots.append(t)
                rows, weight = np.append(rows, place[t]), np.append(weight, a / scale)
            while slots and (len(slots) > room or slots[0] + 1 < t + 2 - reach[t]):
                out = int(np.argmin(np.abs(weight))) if smallest else 0
                gone, i = scale * float(weight[out]), rows[out]
                f = scale * float(K[i, rows] @ weight)
                square = max(square - 2.0 * gone * f + gone * gone * float(K[i, i]), 0.0)
                lengths[-1] += abs(gone) * math.sqrt(max(float(K[i, i]), 0.0))
                del slots[out]
                rows, weight = np.delete(rows, out), np.delete(weight, out)
            dropped += lengths[-1]
    if not np.array_equal(np.array(slots) + 1, state.born[state.order]):
        return None, math.nan, math.nan, None
    return np.sqrt(np.array(squares)), math.sqrt(square), dropped, np.array(lengths)


def average(audited: Audit) -> Array:
    """Coefficients of the average hypothesis (f_1 + ... + f_m)/m where nothing is dropped, one for each example."""
    m = len(audited.coefs)
    weights, g = np.zeros(m), 0.0  # how often, decayed, the term of each example stands in f_1 ... f_m
    decays = audited.decays.tolist()
    for i in range(m - 2, -1, -1):
        g = 1.0 + decays[i + 1] * g
        weights[i] = g
    return audited.coefs * weights / m
