"""Classes without tuning."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from onkel.auto.base import Auto
from onkel.auto.columns import Begin
from onkel.core.portfolio.engine import Classes
from onkel.estimators.classifier import a_class

_ONE = np.ones(1)


class AutoClassifier(ClassifierMixin, Auto):
    """Classes of a stream, with nothing to tune: raw columns in, the best of many learners out, in a fixed number of bytes.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 2)) * [1, 1e6]      # columns of any scale
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> model = AutoClassifier().partial_fit(X[:900], y[:900])
    >>> model.score(X[900:], y[900:]) > 0.9
    True
    >>> model.nbytes <= 100_000
    True

    budget      bytes that the model may hold, all of it: more where accuracy matters and columns are many, "1MB"
    members     "small" where time matters more than the last half percent
    past        False where labels are not yet known when the next row has to be predicted
    """

    def __init__(self, budget: Any = "100kB", *, members: str = "full", past: bool = True):
        self.budget = budget
        self.members = members
        self.past = past

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start anew and learn the rows in their order."""
        self._take(X, y, None, sample_weight, reset=True)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning.  New classes and, in frames, new columns may turn up at any time."""
        self._take(X, y, classes, sample_weight, reset=self._engine is None)
        return self

    def learn_predict(self, X: Any, y: Any, sample_weight: Any = None) -> NDArray[Any]:
        """Go on learning; what was predicted for each row just before it was learned (None before there was a class)."""
        fresh = self._engine is None
        blocks = self._take(X, y, None, sample_weight, reset=fresh)
        codes = np.concatenate([block.argmax(axis=1) for block in blocks])
        names = np.empty(len(self._names), object)
        names[:] = list(self._names)
        said = names[codes]
        if fresh:
            said[0] = None
        return said

    def _take(self, X: Any, y: Any, classes: Any, weight: Any, reset: bool) -> Any:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        self._check_parameters()
        with self._unchanged():
            rows, y = self._rows(X, y, reset)
            y = np.asarray(y)
            if y.ndim != 1:
                raise ValueError(f"y must be one class a row; got shape {y.shape}")
            check_classification_targets(y)
            if classes is not None and (strange := set(y.tolist()) - set(np.asarray(classes).tolist())):
                raise ValueError(f"y holds {sorted(strange)!r}, which classes={list(classes)!r} does not announce")
            blocks = self._learn(rows, y, self._weights(weight, len(rows)), reset)
        if classes is not None and reset:
            self._announced = list(np.asarray(classes).tolist())
        elif reset:
            self._announced = []
        return blocks

    _announced: list[Any] = []  # noqa: RUF012

    def _fresh(self) -> Classes:
        return Classes(self.members == "small", bool(self.past))

    def _no_names(self) -> dict[Any, int]:
        return {}

    def _coded(self, targets: Any, names: dict[Any, int]) -> tuple[NDArray[np.int64], list[Begin]]:
        """Codes in the order of appearance, and from which rows on there are how many classes."""
        found, first, index = np.unique(targets, return_index=True, return_inverse=True)
        found, news = found.tolist(), [Begin(0, max(len(names), 1), _bytes(names))]
        for at in np.argsort(first, kind="stable").tolist():
            if found[at] not in names:
                names[found[at]] = len(names)
                news.append(Begin(int(first[at]), len(names), news[-1].bytes + _bytes([found[at]])))
        return np.array([names[name] for name in found], np.int64)[index], news

    def _names_bytes(self) -> int:
        return _bytes(self._names)

    _error_name = "share of mistakes"

    def _plain_names(self) -> dict[str, Any]:
        return {"seen": list(self._names), "announced": self._announced}

    def _take_names(self, names: dict[str, Any]) -> None:
        self._names = {name: i for i, name in enumerate(names["seen"])}
        self._announced = names["announced"]
        if len(self._names) != self._engine.classes:
            raise ValueError(f"{len(self._names)} names for {self._engine.classes} classes")

    # --- what it says -------------------------------------------------------------------------------------------------------------

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes seen or announced so far, sorted."""
        self._fitted()
        names = list(dict.fromkeys([*self._names, *self._announced]))
        try:
            names.sort()
        except TypeError:
            names.sort(key=str)
        if len({isinstance(name, str) for name in names}) < 2:
            return np.array(names)
        mixed = np.empty(len(names), object)
        mixed[:] = names
        return mixed

    def _ordered(self, said: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probabilities in the order of classes_; a class that was only announced has none."""
        names = self.classes_.tolist()
        out = np.zeros((len(said), len(names)))
        for i, name in enumerate(names):
            if name in self._names:
                out[:, i] = said[:, self._names[name]]
        return out / out.sum(axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """What the mixture of all members says, in the order of ``classes_``."""
        return self._ordered(self._asked(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """log of predict_proba."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row, each taken as the next after what was learned."""
        p = self.predict_proba(X)
        return self.classes_[p.argmax(axis=1)]

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn one example: x a row of numbers, or a dictionary from names to values of any kind."""
        engine = self._engine
        if engine is not None and type(x) is np.ndarray and self._columns.width == len(self._columns) == engine.d:  # type: ignore[union-attr,arg-type]
            try:
                code = self._names[y]
            except (KeyError, TypeError):
                code = -1
            if code >= 0 and x.shape == (engine.d,) and x.dtype == np.float64 and math.isfinite(x.sum()):
                engine.learn(np.ascontiguousarray(x).reshape(1, -1), np.array([code]), _ONE)
                return
        row, y = self._single(x), a_class(y)
        target = np.empty(1, object)
        target[0] = y
        if self._engine is None:
            self._check_parameters()
        self._learn(row, target, np.ones(1), self._engine is None)
        if "n_features_in_" not in self.__dict__:
            self.n_features_in_ = len(row[0])

    def predict_one(self, x: Any) -> Any:
        """The most probable class of one example."""
        self._fitted()
        p = self._said(self._single(x))[0]
        return max(zip(p.tolist(), self._names), key=lambda pair: pair[0])[1]

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Class: probability, of one example."""
        self._fitted()
        p = self._said(self._single(x))[0]
        return dict(zip(self._names, (p / p.sum()).tolist()))


def _bytes(names: Any) -> int:
    """What names of classes take."""
    return sum(16 + len(str(name)) for name in names)
