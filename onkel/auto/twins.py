"""River's models around the self-tuning estimators: dictionaries of any values in, columns that come and go."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from river import base
from river.utils import dataframe

from onkel.auto import classifier, detector, regressor


class _Twin(base.Estimator):
    """Holds the estimator, which takes dictionaries and frames itself."""

    _inside: type
    _made: Any = None

    @property
    def _estimator(self) -> Any:
        if self._made is None:
            self._made = self._inside(**self._get_params())
        return self._made

    @property
    def _fresh(self) -> bool:
        return self._made is None or self._made._engine is None

    @property
    def nbytes(self) -> int:
        """Bytes that the model holds."""
        return 0 if self._made is None else int(self._made.nbytes)

    def summary(self) -> str:
        """What it has learned, in words."""
        return str(self._estimator.summary())

    def _to_file(self) -> dict[str, Any]:
        return self._estimator._to_file()  # type: ignore[no-any-return]

    @classmethod
    def _from_file(cls, parts: dict[str, Any]) -> Any:
        twin = cls(**parts["params"])
        twin._made = cls._inside._from_file(parts)  # type: ignore[attr-defined]
        return twin


class AutoClassifier(_Twin, base.MiniBatchClassifier):
    """Classes without tuning, for River.  Parameters: see :class:`onkel.AutoClassifier`.

    >>> from river import datasets, evaluate, metrics
    >>> model = AutoClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy()).get() > 0.9
    True
    """

    _inside = classifier.AutoClassifier
    __init__ = classifier.AutoClassifier.__init__

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn one example; numbers, text, booleans, dates and None are fine."""
        self._estimator.learn_one(x, y)

    def predict_one(self, x: dict[Any, Any]) -> Any:
        """The most probable class; None before the first example."""
        return None if self._fresh else self._made.predict_one(x)

    def predict_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Class: probability."""
        return {} if self._fresh else self._made.predict_proba_one(x)

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame in their order."""
        if len(y):
            self._estimator.partial_fit(X, dataframe.into_series(y).to_numpy())

    def predict_many(self, X: Any) -> Any:
        """predict_one of each row, as a series."""
        frame = dataframe.into_frame(X)
        values = np.full(len(frame), None) if self._fresh else self._made.predict(X)
        return dataframe.to_native_series(values, name="y", like=frame)

    def predict_proba_many(self, X: Any) -> Any:
        """predict_proba_one of each row, as a frame."""
        frame = dataframe.into_frame(X)
        if self._fresh:
            return dataframe.to_native_frame({}, like=frame)
        p = self._made.predict_proba(X)
        return dataframe.to_native_frame({name: p[:, i] for i, name in enumerate(self._made.classes_.tolist())}, like=frame)


class AutoRegressor(_Twin, base.MiniBatchRegressor):
    """Numbers without tuning, for River.  Parameters: see :class:`onkel.AutoRegressor`.

    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), AutoRegressor(), metrics.MAE()).get() < 0.3
    True
    """

    _inside = regressor.AutoRegressor
    __init__ = regressor.AutoRegressor.__init__

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        """Learn one example; numbers, text, booleans, dates and None are fine."""
        self._estimator.learn_one(x, y)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """The number; 0 before the first example."""
        return 0.0 if self._fresh else float(self._made.predict_one(x))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame in their order."""
        if len(y):
            self._estimator.partial_fit(X, dataframe.into_series(y).to_numpy())

    def predict_many(self, X: Any) -> Any:
        """predict_one of each row, as a series."""
        frame = dataframe.into_frame(X)
        values = np.zeros(len(frame)) if self._fresh else self._made.predict(X)
        return dataframe.to_native_series(values, name="y", like=frame)


class AutoDetector(_Twin, base.AnomalyDetector):
    """Novelty without tuning, for River: high scores are anomalies.  Parameters: see :class:`onkel.AutoDetector`.

    >>> import random
    >>> model, normal = AutoDetector(), random.Random(0)
    >>> for _ in range(500):
    ...     model.learn_one({"a": normal.gauss(0, 1), "b": normal.gauss(0, 1)})
    >>> model.score_one({"a": 9.0, "b": 9.0}) > 0.5 > model.score_one({"a": 0.0, "b": 0.0})
    True
    """

    _inside = detector.AutoDetector
    __init__ = detector.AutoDetector.__init__

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Learn one example; numbers, text, booleans, dates and None are fine."""
        self._estimator.learn_one(x)

    def score_one(self, x: dict[Any, Any]) -> float:
        """Between 0 and 1, the higher, the more anomalous, above 1/2 an alert; 0 before the first example."""
        if self._fresh:
            return 0.0
        away = (self._made.offset_ - self._made.score_one(x)) / max(self._made.spread_, 1e-12)
        return 0.5 * (1.0 + math.tanh(0.5 * away))

    def learn_many(self, X: Any) -> None:
        """Learn the rows of a frame in their order."""
        if len(X):
            self._estimator.partial_fit(X)
