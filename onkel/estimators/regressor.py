"""scikit-learn's regressor around a learner on a stream, with intervals around its predictions."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from onkel.estimators.attempt import Attempt
from onkel.estimators.base import Stream
from onkel.estimators.calibration import half_width
from onkel.estimators.examples import part, rows
from onkel.estimators.parameters import SHARED, RegressorParameters


class KernelRegressor(RegressorMixin, RegressorParameters, Stream):
    """Online kernel regression, with intervals that keep their coverage on a drifting stream.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-3, 3, (1000, 1))
    >>> model = KernelRegressor(budget=64).partial_fit(X, np.sin(X[:, 0]))
    >>> bool(np.abs(model.predict([[0.5]]) - np.sin(0.5)) < 0.1)
    True

    loss        "squared", "epsilon_insensitive", "huber", or a loss for real targets, onkel.loss(value, derivative) too
    coverage    how often ``predict_interval`` shall hold the target
    interval    "even": of one width everywhere; "local": the width follows x, by a second expansion of 64 points that learns errors
    """

    __doc__ += SHARED
    task = "reals"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start anew and learn the rows in their order."""
        return self._anew(lambda: self.partial_fit(X, y, sample_weight))

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go on learning."""
        with Attempt(self) as attempt:
            X, y = self._read(X, self._present(y), self.model_ is None)
            X, y, weight = self._weighted(X, np.asarray(y, dtype=np.float64), sample_weight)
            for work, piece in attempt.steps(rows(X)):
                attempt.told(work, work.learn(X[piece], y[piece], part(weight, piece)))
            attempt.done()
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """f(x) of each row."""
        return self._score(X)

    def predict_interval(self, X: Any) -> NDArray[np.float64]:
        """(n, 2): lower and upper ends that hold the target with the wanted ``coverage``, in the long run, whatever drifts.

        Online conformal calibration on the errors before each update; see :func:`onkel.calibration.widen`.
        """
        X = self._scored(X)
        model = self._fitted()
        center, width = model.score(X), half_width(model.cells, model.typical_errors(X)) * model.unit
        return np.column_stack([center - width, center + width])

    def learn_one(self, x: Any, y: float) -> None:
        """Learn one example: x a row of numbers (or an object for a kernel of your own); the fast way in, without scikit-learn."""
        y = float(y)
        if y - y != 0.0:
            raise ValueError(f"y must be a finite number; got {y!r}")
        self._learn_number(x, y)

    def predict_one(self, x: Any) -> float:
        """f(x) of one example; the fast way, without scikit-learn."""
        return self._number(x)
