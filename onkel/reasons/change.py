"""How far a model has moved: the distance between two of its states in the kernel's own space, split over the points.

With the coefficients a and b of two moments, c = a - b over all points that either has, and the label kernel kappa,

    |f - g|^2 = sum_ij k(x_i, x_j) c_i' kappa c_j = sum_i c_i' kappa (f - g)(x_i),

so each point has its share of the square, and the shares add up to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.learner import Learner
from onkel.core.state import State

Array = NDArray[np.float64]


@dataclass(eq=False)
class Change:
    """``distance`` = |f - g|; ``shares`` of its square, one for each point, in the order of their examples.

    A share is below 0 where moving the point took the model back towards where it was.  ``arrived`` came after the first state,
    ``left`` are gone from the second; ``born`` are the examples' numbers.
    """

    distance: float
    norms: tuple[float, float]
    shares: Array
    born: NDArray[np.int64]
    arrived: NDArray[np.bool_]
    left: NDArray[np.bool_]
    points: Any

    @property
    def relative(self) -> float:
        """The distance as a share of the larger norm: 0 for no change, at most 2."""
        return self.distance / max(*self.norms, 1e-300)

    def top(self, n: int = 5) -> list[tuple[int, float]]:
        """(example, share) of the n points that moved the model most."""
        order = np.argsort(-np.abs(self.shares), kind="stable")[:n]
        return [(int(self.born[i]), float(self.shares[i])) for i in order]

    def text(self, n: int = 3) -> str:
        """The change in words."""
        old, new = self.norms
        lines = [
            f"The model moved by {self.distance:.4g}, {100 * self.relative:.0f} % of its norm ({old:.4g}, now {new:.4g}): "
            f"{int(self.arrived.sum())} points came, {int(self.left.sum())} left."
        ]
        square = max(self.distance**2, 1e-300)
        what = {int(b): "came" if a else "left" if gone else "changed" for b, a, gone in zip(self.born, self.arrived, self.left)}
        lines += [f"  {100 * share / square:.0f} % by example {example}, which {what[example]}" for example, share in self.top(n)]
        return "\n".join(lines)

    __str__ = text


def change(learner: Learner, before: State, after: State) -> Change:
    """How far, and by which points, the model moved from one state of a stream to a later one.

    >>> import numpy as np, onkel
    >>> learner = onkel.silk(onkel.RBF(1.0), onkel.Hinge(), budget=20)
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2)); y = np.sign(X[:, 0])
    >>> one, _ = learner.learn(learner.init(), X[:200], y[:200])
    >>> same, _ = learner.learn(one, X[200:], y[200:])
    >>> other, _ = learner.learn(one, X[200:], -y[200:])     # the labels turned round
    >>> change(learner, one, same).distance < change(learner, one, other).distance
    True
    """
    if before.m != after.m or (before.width and after.width and before.width != after.width):
        raise ValueError("before and after must be states of one learner; these differ in their labels or features")
    if before.t > after.t:
        raise ValueError(f"before must be the earlier state; it has learned {before.t} examples, after only {after.t}")
    old, new = before.born[before.order], after.born[after.order]
    born = np.union1d(old, new)
    coef = np.zeros((2, len(born), after.m))
    coef[0, np.searchsorted(born, old)] = before.coef.reshape(-1, before.m)
    coef[1, np.searchsorted(born, new)] = after.coef.reshape(-1, after.m)
    points = _joined(before, after, np.isin(old, new, invert=True), np.argsort(np.r_[old[np.isin(old, new, invert=True)], new]))
    arrived, left = np.isin(born, old, invert=True), np.isin(born, new, invert=True)
    if not len(born):
        return Change(0.0, (0.0, 0.0), np.zeros(0), born, arrived, left, points)
    K = np.asarray(learner.kernel(points, points), np.float64)
    kappa = np.eye(1) if learner.outputs == 1 else learner.loss.labels.kernel
    shares = _parts(K, coef[1] - coef[0], kappa)
    norms = tuple(float(np.sqrt(max(_parts(K, c, kappa).sum(), 0.0))) for c in coef)
    return Change(float(np.sqrt(max(shares.sum(), 0.0))), norms, shares, born, arrived, left, points)


def _parts(K: Array, c: Array, kappa: Array) -> Array:
    return np.asarray(((K @ c) * (c @ kappa)).sum(axis=1))


def _joined(before: State, after: State, gone: NDArray[np.bool_], order: NDArray[np.int64]) -> Any:
    """The points that are gone and those that are there, in the order of their examples."""
    if not before.size or not gone.any():
        return after.points if after.size else []
    if isinstance(before.points, list):
        both = [point for point, out in zip(before.points, gone) if out] + (after.points if after.size else [])
        return [both[i] for i in order]
    parts = [before.points[np.flatnonzero(gone)], *([after.points] if after.size else [])]
    if hasattr(parts[0], "tocsr"):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")[order]
    return np.concatenate(parts)[order]


def movement(learner: Learner, X: Any, y: Any = None, *, every: int = 100, back: int = 1) -> tuple[NDArray[np.int64], Array]:
    """(times, |f_t - f_(t - back every)| as a share of the norm), each ``every`` examples of a stream: a drift signal.

    It rises where what the model learns contradicts what it knew, and needs no mistakes to be counted.
    """
    state, kept, times, moved = learner.init(), [], [], []
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    for start in range(0, n, every):
        piece = slice(start, min(n, start + every))
        state, _ = learner.learn(state, X[piece], None if y is None else y[piece])
        kept = [*kept[-back:], state]
        if len(kept) > back:
            times.append(state.t)
            moved.append(change(learner, kept[0], state).relative)
    return np.array(times, np.int64), np.array(moved)
