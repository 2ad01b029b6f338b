"""River models: dictionaries in, features and classes that come and go, the same learner underneath.

A feature that an example lacks counts as 0, as in River's own models; with ``missing="ignore"`` the kernel leaves it out.
``learn_many`` on a frame is ``learn_one`` on its rows.  Parameters are those of the scikit-learn estimators.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.gate import must
from onkel.estimators import classifier, novelty, regressor
from onkel.estimators.examples import Encoded
from onkel.estimators.parameters import ClassifierParameters, NoveltyParameters, RegressorParameters
from onkel.estimators.turns import turn
from onkel.terminal.extras import need

need("onkel.river", "river")

from river import base  # noqa: E402
from river.utils import dataframe  # noqa: E402

from onkel.auto.twins import AutoClassifier as AutoClassifier  # noqa: E402
from onkel.auto.twins import AutoDetector as AutoDetector  # noqa: E402
from onkel.auto.twins import AutoRegressor as AutoRegressor  # noqa: E402


class _RiverModel(base.Estimator):
    """From dictionaries and frames to rows; the estimator inside does the rest."""

    _made: Any = None
    _names: dict[Any, int]
    _inside: type

    @property
    def _estimator(self) -> Any:
        if self._made is None:
            self._made = self._inside(**vars(self.parameters()))  # type: ignore[attr-defined]
            self._names = {}
        return self._made

    @property
    def nbytes(self) -> int:
        """Bytes that the model holds."""
        return 0 if self._made is None else int(self._made.nbytes)

    @property
    def _absent(self) -> float:
        return np.nan if self._estimator.missing == "ignore" else 0.0

    def _row(self, x: dict[Any, Any], learning: bool) -> NDArray[np.float64]:
        """x as a row, one column for each feature ever learned from; a new one gets a new column when learning."""
        estimator, names = self._estimator, self._names
        try:
            if names and list(x) == list(names):  # the usual case: the features of before, in their order
                return np.fromiter(x.values(), np.float64, len(x))
        except (TypeError, ValueError):
            self._complain(x)  # None, which may pass where values may be missing, takes the way below
        if learning and not names.keys() >= x.keys():
            self._complain(x)
            self._widen(x)
        row = np.full(max(len(names), 1), self._absent)
        for name, value in x.items():
            if name in names:
                try:
                    row[names[name]] = value
                except (TypeError, ValueError):
                    self._complain(x)
                    raise
        if estimator.missing == "error" and not np.isfinite(row).all():
            self._complain(x)
        return row

    def _learn(self, x: dict[Any, Any], *y: Any) -> None:
        row = self._row(x, learning=True)
        try:
            self._made.learn_one(row, *y)
        except (ValueError, FloatingPointError):
            self._complain(x)  # by the feature's name, if it is one's fault
            raise

    def _ask(self, question: Callable[[Any], Any], x: dict[Any, Any]) -> Any:
        try:
            return question(self._row(x, learning=False))
        except ValueError:
            self._complain(x)
            raise

    def _complain(self, x: dict[Any, Any]) -> None:
        """Raise an error with the name of the first feature that is no finite number, if there is one."""
        gaps = self._estimator.missing == "ignore"
        for name, value in x.items():
            if value is None and gaps:
                continue
            number = isinstance(value, int | float | np.number | np.bool_)
            if not number or not (np.isfinite(value) or (gaps and np.isnan(value))):
                raise ValueError(
                    f"feature {name!r} is {value!r}; every feature must be a finite number: "
                    "encode text first, e.g. with river.preprocessing.OneHotEncoder"
                )

    def _widen(self, features: Any) -> None:
        with turn(self._estimator):
            for name in features:
                self._names.setdefault(name, len(self._names))
            self._estimator.widen(len(self._names))

    def _rows(self, X: Any, learning: bool) -> NDArray[np.float64]:
        """A frame as rows; columns are found by name."""
        frame = dataframe.into_frame(X)
        _ = self._estimator
        if learning:
            self._widen(frame.columns)
        values = dataframe.to_numpy(frame)
        rows = np.full((len(values), max(len(self._names), 1)), self._absent)
        for column, name in enumerate(frame.columns):
            if name in self._names:
                rows[:, self._names[name]] = values[:, column]
        if self._estimator.missing == "error" and not np.isfinite(rows).all():
            raise ValueError('X holds NaN or infinity; every value must be finite, or take missing="ignore"')
        return rows

    def _learn_rows(self, X: Any, y: Any) -> None:
        rows = self._rows(X, learning=True)
        if len(rows):
            self._estimator.learn_rows(rows, y, self._estimator.hierarchy()[1])

    def _to_file(self) -> dict[str, Any]:
        if self.drift is not None:
            raise TypeError("a drift detector is an object of another library and cannot be saved; pickle keeps both")
        return {**self._estimator._to_file(), "names": list(self._names)}

    @classmethod
    def _from_file(cls, parts: dict[str, Any]) -> Any:
        door = cls(**parts["params"])
        door._made = cls._inside._from_file(parts)  # type: ignore[attr-defined]
        door._names = {name: i for i, name in enumerate(parts["names"])}
        must(len(door._names) == len(parts["names"]), "the names of its features")
        must(parts["model"] is None or parts["model"]["width"] == max(len(door._names), 1), "the names of its features")
        return door


class KernelClassifier(ClassifierParameters, _RiverModel, base.MiniBatchClassifier):
    """Online kernel classification for River.  Parameters: see :class:`onkel.KernelClassifier`.

    >>> from river import datasets, evaluate, metrics
    >>> model = KernelClassifier(budget=128)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy()).get() > 0.87
    True
    """

    _inside = classifier.KernelClassifier

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn one example."""
        self._learn(x, y)

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """The class of the highest score; None before the first example."""
        if self._estimator.model_ is None:
            return None
        return self._ask(self._made.predict_one, x)

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Calibrated probabilities by class."""
        model = self._estimator.model_
        if model is None:
            return {}
        self._complain(x)
        return dict(zip(model.classes, self._made.predict_proba_rows(self._row(x, False).reshape(1, -1))[0].tolist()))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame in their order."""
        self._learn_rows(X, Encoded.of(dataframe.into_series(y).to_list()))

    def predict_many(self, X: Any) -> Any:
        """predict_one of each row, as a series."""
        frame = dataframe.into_frame(X)
        if self._estimator.model_ is None:
            return dataframe.to_native_series([None] * len(frame), name="y", like=frame)
        model = self._made.model_
        best = model.score(self._rows(X, False)).argmax(axis=1)
        return dataframe.to_native_series([model.classes[i] for i in best], name="y", like=frame)

    def predict_proba_many(self, X: Any) -> Any:
        """predict_proba_one of each row, as a frame."""
        frame = dataframe.into_frame(X)
        model = self._estimator.model_
        if model is None:
            return dataframe.to_native_frame({}, like=frame)
        p = self._made.predict_proba_rows(self._rows(X, False))
        return dataframe.to_native_frame({name: p[:, i] for i, name in enumerate(model.classes)}, like=frame)


class KernelRegressor(RegressorParameters, _RiverModel, base.MiniBatchRegressor):
    """Online kernel regression for River.  Parameters: see :class:`onkel.KernelRegressor`.

    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> model = preprocessing.StandardScaler() | KernelRegressor(budget=128)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE()).get() < 1.0
    True
    """

    _inside = regressor.KernelRegressor

    def learn_one(self, x: dict[Any, Any], y: float) -> None:
        """Learn one example."""
        self._learn(x, y)

    def predict_one(self, x: dict[Any, Any]) -> float:
        """f(x); 0 before the first example."""
        return 0.0 if self._estimator.model_ is None else float(self._ask(self._made.predict_one, x))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame in their order."""
        self._learn_rows(X, np.asarray(dataframe.into_series(y).to_numpy(), dtype=np.float64))

    def predict_many(self, X: Any) -> Any:
        """predict_one of each row, as a series."""
        frame = dataframe.into_frame(X)
        known = self._estimator.model_ is not None
        values = self._made.model_.score(self._rows(X, False)) if known else np.zeros(len(frame))
        return dataframe.to_native_series(values, name="y", like=frame)


class NoveltyDetector(NoveltyParameters, _RiverModel, base.AnomalyDetector):
    """Online kernel novelty detection for River: high scores are anomalies.  Parameters: see :class:`onkel.NoveltyDetector`.

    >>> import random
    >>> model, normal = NoveltyDetector(budget=64), random.Random(0)
    >>> for _ in range(500):
    ...     model.learn_one({"a": normal.gauss(0, 1), "b": normal.gauss(0, 1)})
    >>> model.score_one({"a": 9.0, "b": 9.0}) > 0.5 > model.score_one({"a": 0.0, "b": 0.0})
    True
    """

    _inside = novelty.NoveltyDetector

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Learn one example."""
        self._learn(x)

    def score_one(self, x: dict[Any, Any]) -> float:
        """Between 0 and 1, the higher, the more anomalous, above 1/2 an alert; 0 before the first example.

        sigmoid((threshold - f(x)) / spread), with the threshold and the typical deviation of scores of this moment.
        """
        if self._estimator.model_ is None:
            return 0.0
        threshold, spread = self._made.alert_level
        away = (threshold - self._ask(self._made.score_one, x)) / spread
        return 0.5 * (1.0 + math.tanh(0.5 * away))

    def learn_many(self, X: Any) -> None:
        """Learn the rows of a frame in their order."""
        self._learn_rows(X, None)
