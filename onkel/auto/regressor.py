"""Numbers without tuning."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from onkel.auto.base import Auto
from onkel.core.portfolio.engine import Reals


class AutoRegressor(RegressorMixin, Auto):
    """Numbers of a stream, with nothing to tune: raw columns in, the best of many learners out, in a fixed number of bytes.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-3, 3, (1000, 2)) * [1, 1e6]
    >>> y = np.sin(X[:, 0]) + 1e-6 * X[:, 1]
    >>> model = AutoRegressor().partial_fit(X[:900], y[:900])
    >>> model.score(X[900:], y[900:]) > 0.9
    True

    budget      bytes that the model may hold, all of it: more where accuracy matters and columns are many, "1MB"
    members     "small" where time matters more than the last few percent
    past        False where targets are not yet known when the next row has to be predicted
    coverage    how often ``predict_interval`` shall hold the target
    """

    _numeric = True

    def __init__(self, budget: Any = "100kB", *, members: str = "full", past: bool = True, coverage: float = 0.9):
        self.budget = budget
        self.members = members
        self.past = past
        self.coverage = coverage

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start anew and learn the rows in their order."""
        self._take(X, y, sample_weight, reset=True)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go on learning.  In frames new columns may turn up at any time."""
        self._take(X, y, sample_weight, reset=self._engine is None)
        return self

    def learn_predict(self, X: Any, y: Any, sample_weight: Any = None) -> NDArray[np.float64]:
        """Go on learning; what was predicted for each row just before it was learned (0 for the very first)."""
        return np.concatenate(self._take(X, y, sample_weight, reset=self._engine is None))[:, 0]

    def _take(self, X: Any, y: Any, weight: Any, reset: bool) -> Any:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        self._check_parameters()
        with self._unchanged():
            rows, y = self._rows(X, y, reset)
            return self._learn(rows, _reals(y), self._weights(weight, len(rows)), reset)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0.0 < self.coverage < 1.0:
            raise ValueError(f"coverage is {self.coverage!r}; it is a share between 0 and 1, such as 0.9")

    def _fresh(self) -> Reals:
        engine = Reals(self.members == "small", bool(self.past))
        engine.coverage = float(self.coverage)
        return engine

    _error_name = "mean absolute error"

    def predict(self, X: Any) -> NDArray[np.float64]:
        """The number of each row, each taken as the next after what was learned."""
        return np.asarray(self._asked(X)[:, 0])

    def predict_interval(self, X: Any) -> NDArray[np.float64]:
        """Below and above: between them the target was in the share ``coverage`` of the recent past."""
        said = self._asked(X)
        return np.column_stack([said[:, 0] - said[:, 1], said[:, 0] + said[:, 1]])

    def learn_one(self, x: Any, y: float) -> None:
        """Learn one example: x a row of numbers, or a dictionary from names to values of any kind."""
        row, target = self._single(x), _reals([y])
        if self._engine is None:
            self._check_parameters()
        self._learn(row, target, np.ones(1), self._engine is None)
        if "n_features_in_" not in self.__dict__:
            self.n_features_in_ = len(row[0])

    def predict_one(self, x: Any) -> float:
        """The number of one example."""
        self._fitted()
        return float(self._said(self._single(x))[0, 0])

    def predict_interval_one(self, x: Any) -> tuple[float, float]:
        """Below and above, of one example."""
        self._fitted()
        middle, radius = self._said(self._single(x))[0].tolist()
        return middle - radius, middle + radius


def _reals(y: Any) -> NDArray[np.float64]:
    """Targets, finite."""
    try:
        y = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"y holds {str(y)[:60]}, not numbers; AutoClassifier learns names") from None
    if y.ndim != 1:
        raise ValueError(f"y must be one number a row; got shape {y.shape}")
    if not np.isfinite(y).all():
        raise ValueError("y holds NaN or infinity; leave out examples without a target")
    return y
