"""scikit-learn's classifier around a learner on a stream: an adapter only, the numbers are made in the core.

``partial_fit`` goes on with the stream, ``fit`` starts anew; both make one pass in the order of the rows.  However a stream is
cut into calls, the model is the same.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from onkel.core.maths.labels import Labels
from onkel.estimators.attempt import Attempt
from onkel.estimators.base import Stream
from onkel.estimators.calibration import members, probabilities
from onkel.estimators.examples import Encoded, part, rows
from onkel.estimators.parameters import SHARED, ClassifierParameters
from onkel.estimators.plan import hierarchy
from onkel.estimators.turns import turn


class KernelClassifier(ClassifierMixin, ClassifierParameters, Stream):
    """Online kernel classification of any number of classes, which may turn up at any time.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> model = KernelClassifier(budget=64).partial_fit(X[:900], y[:900])
    >>> model.score(X[900:], y[900:]) > 0.9
    True
    >>> model.learn_one(np.array([0.0, 9.0]), "far away")       # a class nobody had announced
    >>> model.classes_
    array(['different', 'far away', 'same'], dtype='<U9')

    loss        "hinge", "logistic", or onkel.Hinge(rho), onkel.Logistic()
    coverage    how often ``predict_set`` shall hold the class
    labels      a hierarchy of classes: a dict from each node to its parent, a list of parents, or onkel.Labels
    class_weight  a dict from classes to positive numbers, by which the weights of their examples are multiplied; others have 1
    """

    __doc__ += SHARED
    task = "classes"

    def hierarchy(self) -> tuple[Labels | None, list[Any]]:
        return hierarchy(self.labels)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start anew and learn the rows in their order."""
        return self._anew(lambda: self.partial_fit(X, y, sample_weight=sample_weight))

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning.  ``classes`` may announce classes in the first call; they need not be."""
        with Attempt(self) as attempt:
            X, y = self._read(X, self._present(y), self.model_ is None)
            check_classification_targets(y)
            names, index = np.unique(y, return_inverse=True)
            declared = self._declared(names.tolist(), classes)
            X, y, weight = self._weighted(X, Encoded(names.tolist(), index), sample_weight)
            for work, piece in attempt.steps(rows(X), declared):
                attempt.told(work, work.learn(X[piece], part(y, piece), part(weight, piece)))
            attempt.done()
        return self

    def _class_weighted(self, y: Any, weight: Any) -> Any:
        table = (self.plan() if self.model_ is None else self.model_.plan).given.class_weight
        if not table:
            return weight
        own = np.array([table.get(name, 1.0) for name in y.names], np.float64)[y.index]
        if weight is None:
            return own
        with np.errstate(over="ignore"):
            weight = weight * own
        if not np.isfinite(weight).all():
            raise ValueError("sample_weight times class_weight must be finite; give smaller weights")
        return weight

    def _declared(self, names: list[Any], classes: Any) -> list[Any]:
        """The classes that a new model knows from the start."""
        if classes is None:
            return self.hierarchy()[1]
        announced = np.unique(classes).tolist()
        if self.model_ is not None:
            unknown = [label for label in announced if label not in self.model_.code]
            if unknown:
                raise ValueError(f"classes={unknown!r} were not announced in the first call of partial_fit; leave classes out now")
        if strange := set(names) - set(announced):
            raise ValueError(f"y holds {sorted(strange)!r}, which classes={announced!r} does not announce")
        return self.hierarchy()[1] or announced

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes seen or announced so far, sorted."""
        names = self._fitted().classes
        if len({isinstance(name, str) for name in names}) < 2:
            return np.array(names)
        mixed = np.empty(len(names), object)
        mixed[:] = names
        return mixed

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores, (n, m) in the order of ``classes_``; for two classes f_1 - f_0, (n,)."""
        scores = self._score(X)
        if scores.shape[1] > 2:
            return scores
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest score, the first of them on ties."""
        scores = self._score(X)
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """softmax(a f), with a learned on the stream from scores before each update; its largest entry is what predict says."""
        return self.predict_proba_rows(self._scored(X))

    def predict_proba_rows(self, X: Any) -> NDArray[np.float64]:
        """The same for rows that are known to be sound, without scikit-learn's checks."""
        model = self._fitted()
        return probabilities(model.cells, model.score(X))

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """log of predict_proba."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_set(self, X: Any) -> list[set[Any]]:
        """For each row the set of classes that may be the right one: it holds it in a share ``coverage`` of the stream.

        A class belongs to it from a probability on that follows the stream, see :func:`onkel.estimators.calibration.sharpen`.  More
        than one class, or none: the honest "I do not know".
        """
        X = self._scored(X)
        model = self._fitted()
        return [
            {name for name, inside in zip(model.classes, row) if inside}
            for row in members(model.cells, probabilities(model.cells, model.score(X)))
        ]

    def predict_set_one(self, x: Any) -> set[Any]:
        """The set of classes that may be the right one, for one example."""
        X, model = self._alone(x), self._fitted()
        inside = members(model.cells, probabilities(model.cells, model.score(X)))[0]
        return {name for name, held in zip(model.classes, inside) if held}

    def hierarchical_score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Hierarchical F1: 2 sum kappa(y, z) / sum (kappa(y, y) + kappa(z, z)) over true y and predicted z.

        kappa counts the ancestors that two classes have in common, so a near miss earns its share; without ``labels`` this is
        the accuracy.
        """
        scores = self._score(X)
        model = self._fitted()
        kappa = np.eye(len(model.classes)) if model.plan.labels is None else model.plan.labels.kernel
        truth, found = np.array([int(model.code[label]) for label in np.asarray(y).tolist()]), scores.argmax(axis=1)
        weight = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
        own = np.diag(kappa)
        return float(2.0 * (weight * kappa[truth, found]).sum() / (weight * (own[truth] + own[found])).sum())

    def learn_one(self, x: Any, y: Any) -> None:
        """Learn one example: x a row of numbers (or an object for a kernel of your own); the fast way in, without scikit-learn."""
        model = self.model_
        try:  # as few operations as can be: this is the whole cost beside the loop
            if model.take(x, model.code[y]) >= 0:  # type: ignore[union-attr]
                return
        except (AttributeError, KeyError, TypeError):  # no model yet, the short way is closed, y is new
            pass
        with turn(self):
            x, y, model = self._row(x), a_class(y), self.model_
            if model is None or y not in model.code or not model.learn_row(x, model.code[y]):
                self._learn_alone(x, Encoded([y], np.zeros(1, np.int64)), self.hierarchy()[1])

    def predict_one(self, x: Any) -> Any:
        """The class of one example; the fast way, without scikit-learn."""
        model = self.model_
        try:
            if (code := model.look(x)) >= 0:  # type: ignore[union-attr]
                return model.classes[code]  # type: ignore[union-attr]
        except (AttributeError, TypeError):
            pass
        row, model = self._row(x), self._fitted()
        if model.look is not None and (code := model.look(row)) >= 0:
            return model.classes[code]
        return model.classes[int(model.score(self._alone(x))[0].argmax())]


def a_class(y: Any) -> Any:
    """y, if it can be the name of a class: what never equals itself would be a new class each time."""
    try:
        known = hash(y) is not None and bool(y == y)
    except (TypeError, ValueError):
        known = False
    if not known or (isinstance(y, float | np.floating) and not float(y).is_integer()):
        hint = "KernelRegressor learns numbers" if known else "leave out examples without one"
        raise ValueError(f"y is {y!r:.80}: the class of an example is a name or a whole number; {hint}")
    return y
