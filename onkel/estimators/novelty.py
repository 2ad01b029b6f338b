"""scikit-learn's novelty detector around a learner on a stream, with alerts for a stated share of it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin

from onkel.core.loop import layout
from onkel.estimators.attempt import Attempt
from onkel.estimators.base import Stream
from onkel.estimators.calibration import SPREAD, threshold
from onkel.estimators.examples import part, rows
from onkel.estimators.parameters import SHARED, NoveltyParameters


class NoveltyDetector(OutlierMixin, NoveltyParameters, Stream):
    """Online kernel novelty detection: a point is novel where the expansion of what was seen is low.

    >>> import numpy as np
    >>> model = NoveltyDetector(budget=64).partial_fit(np.random.default_rng(0).normal(size=(1000, 2)))
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])

    loss        "novelty", or onkel.Novelty(rho)
    nu          the share of examples that raise an alert, kept by online calibration with implicit steps and by the nu-trick
                with the others; None: alerts are scores below rho
    """

    __doc__ += SHARED
    task = "novelty"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Start anew and learn the rows in their order; y is not looked at."""
        return self._anew(lambda: self.partial_fit(X, y, sample_weight))

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning; y is not looked at."""
        with Attempt(self) as attempt:
            X, _ = self._read(X, None, self.model_ is None)
            X, _, weight = self._weighted(X, None, sample_weight)
            for work, piece in attempt.steps(rows(X)):
                attempt.told(work, work.learn(X[piece], None, part(weight, piece)))
            attempt.done()
        return self

    @property
    def offset_(self) -> float:
        """Lower scores are novel: the margin rho, or with an implicit step and nu the tracked nu-quantile of the scores."""
        model = self._fitted()
        return threshold(model.cells) if model.plan.tracks else float(model.state.num[layout.THETA])

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """The offset b, less the threshold, as ``decision_function`` has it."""
        return super().intercept_ - self.offset_

    @property
    def alert_level(self) -> tuple[float, float]:
        """The threshold, and how far scores typically lie from their mean (rho itself where that is not tracked)."""
        model = self._fitted()
        spread = float(model.cells[SPREAD]) if model.plan.tracks else self.offset_
        return self.offset_, max(spread, 1e-300)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """f(x) of each row; the lower, the more novel."""
        return self._score(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """score_samples - offset_: negative where the example is novel."""
        return self._score(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """-1 for novel examples, 1 for the others."""
        return np.where(self.decision_function(X) < 0.0, -1, 1)

    def learn_one(self, x: Any) -> None:
        """Learn one example: x a row of numbers (or an object for a kernel of your own); the fast way in, without scikit-learn."""
        self._learn_number(x, 1.0)

    def score_one(self, x: Any) -> float:
        """f(x) of one example; the lower, the more novel."""
        return self._number(x)

    def predict_one(self, x: Any) -> int:
        """-1 if the example is novel, else 1."""
        return -1 if self.score_one(x) < self.offset_ else 1
