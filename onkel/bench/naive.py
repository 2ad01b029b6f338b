"""What one would write in an evening: SILK in vectorised NumPy and SciPy, an example at a time, in float64.

Honest contenders: points in one array, squared norms cached, one matrix-vector product per example, nothing computed twice.
They give the scores that onkel gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class Silk:
    """RBF kernel, hinge loss, smallest coefficient out: f <- s f + a k(x, .), a = y clip(1 - s y f(x), 0, s eta)."""

    def __init__(self, points: Array, coef: Array, sigma: float, eta: float, lam: float):
        self.points, self.coef = np.array(points, float), np.array(coef, float)
        self.norms = (self.points**2).sum(1)
        self.gamma, self.eta, self.shrink = 0.5 / sigma**2, eta, 1.0 / (1.0 + eta * lam)

    def row(self, x: Array, norm: float) -> Array:
        """k(x, .) over the points."""
        distances = self.norms + norm - 2.0 * (self.points @ x)
        return np.exp(-self.gamma * np.maximum(distances, 0.0))

    def learn(self, X: Array, y: Array) -> Array:
        """Scores before each update."""
        scores = np.empty(len(X))
        for t, (x, label) in enumerate(zip(X, y)):
            norm = x @ x
            scores[t] = f = self.coef @ self.row(x, norm)
            self.coef *= self.shrink
            a = min(max(1.0 - label * self.shrink * f, 0.0), self.shrink * self.eta)
            if a > 0.0:
                weakest = np.abs(self.coef).argmin()
                if abs(self.coef[weakest]) <= a:
                    self.points[weakest], self.norms[weakest], self.coef[weakest] = x, norm, label * a
        return scores


class SilkClasses(Silk):
    """The same for several classes: the right one and its strongest rival move, each by half the violation."""

    def learn(self, X: Array, y: Array) -> Array:
        scores = np.empty((len(X), self.coef.shape[1]))
        for t, (x, label) in enumerate(zip(X, y.astype(int))):
            norm = x @ x
            scores[t] = f = self.row(x, norm) @ self.coef
            self.coef *= self.shrink
            others = f.copy()
            others[label] = -np.inf
            rival = others.argmax()
            a = min(max((1.0 + self.shrink * (f[rival] - f[label])) / 2.0, 0.0), self.shrink * self.eta)
            if a > 0.0:
                strength = np.abs(self.coef).max(1)
                weakest = strength.argmin()
                if strength[weakest] <= a:
                    self.points[weakest], self.norms[weakest] = x, norm
                    self.coef[weakest] = 0.0
                    self.coef[weakest, label], self.coef[weakest, rival] = a, -a
        return scores


class SparseSilk:
    """Linear kernel on CSR rows that all have the same number of non-zeros, so that a row is replaced where it stands.

    The product is the one that one writes first, sparse matrix times sparse row, or, with ``spread``, times a dense vector into
    which the row is spread: SciPy multiplies that several times faster.
    """

    def __init__(self, points: Any, coef: Array, eta: float, lam: float, spread: bool = False):
        self.points, self.coef = points.copy(), np.array(coef, float)
        self.dense = np.zeros(points.shape[1], points.dtype) if spread else None
        self.eta, self.shrink = eta, 1.0 / (1.0 + eta * lam)

    def learn(self, X: Any, y: Array) -> Array:
        scores = np.empty(X.shape[0])
        width = X.indptr[1]
        for t, label in enumerate(y):
            place = slice(X.indptr[t], X.indptr[t + 1])
            columns, values = X.indices[place], X.data[place]
            if self.dense is None:
                row = (self.points @ X[t].T).toarray()[:, 0]
            else:
                self.dense[columns] = values
                row = self.points @ self.dense
                self.dense[columns] = 0.0
            scores[t] = f = self.coef @ row
            self.coef *= self.shrink
            a = min(max((1.0 - label * self.shrink * f) / (values @ values), 0.0), self.shrink * self.eta)
            if a > 0.0:
                weakest = np.abs(self.coef).argmin()
                if abs(self.coef[weakest]) <= a:
                    slot = slice(weakest * width, (weakest + 1) * width)
                    self.points.indices[slot], self.points.data[slot] = columns, values
                    self.coef[weakest] = label * a
        return scores
