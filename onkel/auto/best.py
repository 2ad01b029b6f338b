"""The best single member of a portfolio as an ordinary learner: the same points and coefficients, in coordinates of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.learner import Learner
from onkel.core.maths.kernels import RBF, Laplacian, Linear
from onkel.core.maths.labelled import Structured
from onkel.core.maths.labels import Labels
from onkel.core.maths.losses import EpsilonInsensitive, Hinge
from onkel.core.portfolio.kernels import measure
from onkel.core.portfolio.views import see
from onkel.core.recipes import silk
from onkel.core.state import State
from onkel.saved import states


class Best(NamedTuple):
    """``learner.score(state, view(X))`` is what the member says about rows X, frozen as it was when it was asked for."""

    name: str
    learner: Learner
    state: State
    view: Callable[[Any], NDArray[np.float64]]


class View:
    """Rows as a member sees them."""

    def __init__(self, numbers: Callable[[Any], NDArray[np.float64]], views: Any, scale: NDArray[np.float64], codes: bool) -> None:
        self._numbers, self._views, self._scale, self._codes = numbers, views, scale, codes

    def __call__(self, X: Any) -> NDArray[np.float64]:
        rows = self._numbers(X)
        d = rows.shape[1]
        out = np.empty((len(rows), len(self._scale)))
        z, q, u = (np.zeros(d, np.float32) for _ in range(3))
        for x, to in zip(rows, out):
            see(self._views, x, z, q, u)
            to[:d] = q if self._codes else z
            to[d:] = 1.0
        return out * self._scale


def best(engine: Any, numbers: Callable[[Any], NDArray[np.float64]]) -> Best:
    """The member with the fewest mistakes so far among those that a learner can be."""
    s, experts = engine.state, engine.experts
    M, d, Q = len(s.members.cap), engine.d, s.points.coef.shape[1]
    chosen = min(range(M), key=lambda m: (s.members.lags[m] + s.members.aim[m], s.record.wrong[m]))
    line = -1
    if hasattr(s, "linear"):
        plain = [i for i in range(len(s.linear.cap)) if s.linear.sees[i] == 0]
        line = min(plain, key=lambda i: s.record.wrong[M + i], default=-1)
        if line >= 0 and s.record.wrong[M + line] >= s.record.wrong[chosen]:
            line = -1
    real = hasattr(s, "target")
    if line >= 0:
        begin, length = int(s.linear.start[line]), int(s.linear.length[line])
        coef = s.linear.weight[begin : begin + Q * length].reshape(Q, length).astype(float)
        view = View(numbers, s.views, np.ones(length), False)
        return _made(experts[M + line], Linear(), np.eye(length), coef, engine.classes, False, view)
    metric = np.zeros((M, s.points.code.shape[0]), np.float32)
    measure(s.members, s.views, s.points, metric, metric.shape[1] - d)
    metric = metric[chosen, :d].astype(float) * math.log(2.0)
    laplace = bool(s.members.laplace[chosen])
    scale = metric if laplace else np.sqrt(2.0 * metric)
    n = int(s.views.count[1])
    points = s.points.code[:d, :n].T * scale
    coef = (s.points.coef[chosen, :, :n].astype(np.uint32) << np.uint32(16)).view(np.float32) * s.points.fade[chosen]
    kernel = Laplacian(1.0) if laplace else RBF(1.0)
    view = View(numbers, s.views, scale, True)
    if not real:
        return _made(experts[chosen], kernel, points, coef.astype(float), engine.classes, False, view)
    center, unit = s.target.moments[3:5]
    return _made(experts[chosen], kernel, points, coef.astype(float) * unit, 1, True, view, float(center))


def _made(name: str, kernel: Any, points: Any, coef: Any, classes: int, real: bool, view: View, center: float = 0.0) -> Best:
    """A learner whose state holds these points and coefficients."""
    loss = EpsilonInsensitive() if real else Hinge() if len(coef) == 1 else Structured(Labels.flat(classes))
    if len(coef) == 1 and not real:
        coef = 2.0 * coef  # f is the difference of two outputs
    learner = replace(silk(kernel, loss, budget=max(len(points), 1)), offset=real)
    first = np.zeros((1, points.shape[1]))
    template = states.parts(learner.learn(learner.init(), first, np.ones(1) if len(coef) == 1 else np.zeros(1, np.int64))[0])
    n, room = len(points), template["coef"].shape[1]
    for key in ("coef", "magnitude", "own", "points"):
        template[key] = np.zeros_like(template[key])
    template["coef"][:, :n] = coef
    template["magnitude"][:n] = np.abs(coef).max(axis=0)
    template["own"][:n] = (points**2).sum(axis=1) if isinstance(kernel, Linear) else 1.0
    template["points"][:, :n] = points.T
    template["born"] = np.concatenate([np.arange(n), np.full(room - n, -1)])
    template["numbers"] |= {"n": float(n), "used": float(n), "t": float(n), "head": 0.0, "scale": 1.0}
    template["offset"] = template["offset"] * 0.0
    template["offset"][0] = center
    return Best(name, learner, states.state(**template), view)
