"""Novelty without tuning."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from onkel.auto.base import Auto, in_bytes
from onkel.core.portfolio.sampled import Sampled


class AutoDetector(OutlierMixin, Auto):
    """What is unlike anything before, on a stream, with nothing to tune: raw columns in, a score out, in a fixed number of bytes.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)) * [1, 1e6]
    >>> model = AutoDetector().partial_fit(X)
    >>> model.predict([[0.0, 0.0], [9.0, 0.0]]).tolist()
    [1, -1]

    budget      bytes that the model may hold, all of it
    nu          the share of rows that shall raise an alert; the threshold follows the stream
    """

    def __init__(self, budget: Any = "100kB", *, nu: float = 0.05):
        self.budget = budget
        self.nu = nu

    def fit(self, X: Any, y: Any = None) -> Self:
        """Start anew and learn the rows in their order."""
        self._take(X, reset=True)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning."""
        self._take(X, reset=self._engine is None)
        return self

    def learn_score(self, X: Any) -> NDArray[np.float64]:
        """Go on learning; the score of each row just before it was learned."""
        return np.concatenate(self._take(X, reset=self._engine is None))[:, 0]

    def _take(self, X: Any, reset: bool) -> Any:
        self._check_parameters()
        with self._unchanged():
            rows = self._rows(X, None, reset)[0]
            return self._learn(rows, None, np.ones(len(rows)), reset)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not 0.0 < self.nu < 1.0:
            raise ValueError(f"nu is {self.nu!r}; it is the share of alerts, between 0 and 1, such as 0.05")

    def _fresh(self) -> Sampled:
        return Sampled(float(self.nu))

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The lower, the more novel; around 0 for rows like those before."""
        return np.asarray(self._asked(X)[:, 0])

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """score_samples minus ``offset_``: below 0 is an alert."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for an alert, 1 for the others."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def learn_one(self, x: Any) -> None:
        """Learn one example: x a row of numbers, or a dictionary from names to values of any kind."""
        row = self._single(x)
        if self._engine is None:
            self._check_parameters()
        self._learn(row, None, np.ones(1), self._engine is None)
        if "n_features_in_" not in self.__dict__:
            self.n_features_in_ = len(row[0])

    def score_one(self, x: Any) -> float:
        """The score of one example: the lower, the more novel."""
        self._fitted()
        return float(self._said(self._single(x))[0, 0])

    def predict_one(self, x: Any) -> int:
        """-1 for an alert, else 1."""
        return -1 if self.score_one(x) < self.offset_ else 1

    @property
    def offset_(self) -> float:
        """The score below which an alert begins, at this moment."""
        return float(self._fitted().state.sample.level[1])

    @property
    def spread_(self) -> float:
        """The deviation of scores so far."""
        level = self._fitted().state.sample.level
        return float(np.sqrt(level[3] / max(level[0], 1.0)))

    @property
    def weights_(self) -> dict[str, NDArray[Any]]:
        """What the score is made of: six measures, the mean of them all."""
        engine = self._fitted()
        now = np.array([int(engine.state.views.count[0])])
        return {"row": now, **{name: np.array([1.0 / len(engine.experts)]) for name in engine.experts}}

    def summary(self) -> str:
        """What it has learned, in words."""
        if self._engine is None:
            return "AutoDetector has not learned anything yet."
        rows = int(self._engine.state.views.count[0])
        return (
            f"AutoDetector: {rows} rows, {len(self._columns)} columns, a sample of {self._engine.points} rows, {self.nbytes} of "  # type: ignore[arg-type]
            f"{in_bytes(self.budget)} bytes\nalerts below a score of {self.offset_:.3g} (deviation of scores {self.spread_:.3g}), "
            f"about {self.nu:.0%} of the rows"
        )
