"""scikit-learn estimators around a learner on a stream: adapters only, the numbers are made in the core.

``partial_fit`` goes on with the stream, ``fit`` starts anew; both make one pass in the order of the rows.  However a stream is
cut into calls, the model is the same.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, OutlierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from onkel.core.loop import layout
from onkel.core.maths.labels import Labels
from onkel.estimators.calibration import SPREAD, half_width, probabilities, threshold
from onkel.estimators.model import Coded
from onkel.estimators.plan import hierarchy
from onkel.estimators.stream import Stream

_SHARED = """
    kernel      "rbf", "laplacian", "matern", "poly", "linear", a kernel of onkel, or a callable (X, Z) -> matrix, on any objects
    gamma       "scale": 1 / (features * variance) of the first 100 examples, settled for good when the 100th has come; "auto":
                1 / features; or a number: exp(-gamma |x - x'|^2), exp(-gamma |x - x'|_1), (gamma x.x' + coef0)^degree
    step        "implicit" (ILK), "explicit" (NORMA), "adaptive" (SVMD), or a step such as onkel.Adaptive(implicit=True)
    eta         step size, a number or a schedule; None is 1 for implicit steps and 0.1 for the others
    C, lam      weight of the loss, and how fast the model forgets: every step shrinks f by about eta lam
    budget      how many points are kept (None: all); drop: which goes, "merge", "smallest", "oldest" or "project"
    nu, offset  nu-trick and offset b;  mu, decay: the adaptive step's
    missing     "error", or "ignore": a kernel that leaves missing coordinates (NaN) out and rescales
    drift       a detector with River's update(value) and drift_detected; it hears mistakes, alerts or absolute errors
    on_drift    "forget" (f fades by 3 % a step for 100 steps), "shrink" (the older half of the points goes) or "restart"
"""


class KernelClassifier(ClassifierMixin, Stream):
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
    labels      a hierarchy of classes: a dict from each node to its parent, a list of parents, or onkel.Labels
    """

    __doc__ += _SHARED
    _task = "classes"

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        loss: Any = "hinge",
        step: Any = "implicit",
        eta: Any = None,
        C: float = 0.5,
        lam: float = 1e-5,
        budget: int | None = 512,
        drop: str = "merge",
        nu: float | None = None,
        offset: bool = False,
        mu: float = 0.1,
        decay: float = 0.95,
        labels: Any = None,
        missing: str = "error",
        drift: Any = None,
        on_drift: str = "forget",
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.step = step
        self.eta = eta
        self.C = C
        self.lam = lam
        self.budget = budget
        self.drop = drop
        self.nu = nu
        self.offset = offset
        self.mu = mu
        self.decay = decay
        self.labels = labels
        self.missing = missing
        self.drift = drift
        self.on_drift = on_drift

    def _hierarchy(self) -> tuple[Labels | None, list[Any]]:
        return hierarchy(self.labels)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start anew and learn the rows in their order."""
        with self._all_or_nothing():
            return self._take(X, y, None, sample_weight, reset=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning.  ``classes`` may announce classes in the first call; they need not be."""
        with self._all_or_nothing():
            return self._take(X, y, classes, sample_weight, reset=self._model is None)

    def _take(self, X: Any, y: Any, classes: Any, weight: Any, reset: bool) -> Self:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X, y = self._read(X, y, reset)
        check_classification_targets(y)
        names, index = np.unique(y, return_inverse=True)
        declared = self._hierarchy()[1] or ([] if classes is None else np.unique(classes).tolist())
        if classes is not None and not reset:
            unknown = [label for label in np.unique(classes).tolist() if label not in self._fitted().code]
            if unknown:
                raise ValueError(f"classes={unknown!r} were not announced in the first call of partial_fit; leave classes out now")
        if classes is not None and (strange := set(names.tolist()) - set(np.unique(classes).tolist())):
            raise ValueError(f"y holds {sorted(strange)!r}, which classes={np.unique(classes).tolist()!r} does not announce")
        return self._learn(X, Coded(names.tolist(), index), weight, reset, declared)

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
        model = self._model
        try:  # as few operations as can be: this is the whole cost beside the loop
            if model.take(x, model.code[y]) >= 0:  # type: ignore[union-attr]
                return
        except (AttributeError, KeyError, TypeError):  # no model yet, the short way is closed, y is new
            pass
        x, y = self._row(x), a_class(y)
        if model is None or y not in model.code or not model.learn_row(x, model.code[y]):
            self._learn_alone(x, Coded([y], np.zeros(1, np.int64)), self._hierarchy()[1])

    def predict_one(self, x: Any) -> Any:
        """The class of one example; the fast way, without scikit-learn."""
        model = self._model
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


class KernelRegressor(RegressorMixin, Stream):
    """Online kernel regression, with intervals that keep their coverage on a drifting stream.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).uniform(-3, 3, (1000, 1))
    >>> model = KernelRegressor(budget=64).partial_fit(X, np.sin(X[:, 0]))
    >>> bool(np.abs(model.predict([[0.5]]) - np.sin(0.5)) < 0.1)
    True

    loss        "squared", "epsilon_insensitive", "huber", or a loss for real targets, onkel.loss(value, derivative) too
    coverage    how often ``predict_interval`` shall hold the target
    """

    __doc__ += _SHARED
    _task = "reals"

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        loss: Any = "squared",
        step: Any = "implicit",
        eta: Any = None,
        C: float = 1.0,
        lam: float = 1e-4,
        budget: int | None = 512,
        drop: str = "merge",
        nu: float | None = None,
        offset: bool = True,
        mu: float = 0.1,
        decay: float = 0.95,
        coverage: float = 0.9,
        missing: str = "error",
        drift: Any = None,
        on_drift: str = "forget",
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.step = step
        self.eta = eta
        self.C = C
        self.lam = lam
        self.budget = budget
        self.drop = drop
        self.nu = nu
        self.offset = offset
        self.mu = mu
        self.decay = decay
        self.coverage = coverage
        self.missing = missing
        self.drift = drift
        self.on_drift = on_drift

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start anew and learn the rows in their order."""
        with self._all_or_nothing():
            return self._take(X, y, sample_weight, reset=True)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Go on learning."""
        with self._all_or_nothing():
            return self._take(X, y, sample_weight, reset=self._model is None)

    def _take(self, X: Any, y: Any, weight: Any, reset: bool) -> Self:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        X, y = self._read(X, y, reset)
        return self._learn(X, np.asarray(y, dtype=np.float64), weight, reset)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """f(x) of each row."""
        return self._score(X)

    def predict_interval(self, X: Any) -> NDArray[np.float64]:
        """(n, 2): lower and upper ends that hold the target with the wanted ``coverage``, in the long run, whatever drifts.

        Online conformal calibration on the errors before each update; see :func:`onkel.calibration.widen`.
        """
        center = self._score(X)
        width = half_width(self._fitted().cells)
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


class NoveltyDetector(OutlierMixin, Stream):
    """Online kernel novelty detection: a point is novel where the expansion of what was seen is low.

    >>> import numpy as np
    >>> model = NoveltyDetector(budget=64).partial_fit(np.random.default_rng(0).normal(size=(1000, 2)))
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])

    loss        "novelty", or onkel.Novelty(rho)
    nu          the share of examples that raise an alert, kept by online calibration with implicit steps and by the nu-trick
                with the others; None: alerts are scores below rho
    """

    __doc__ += _SHARED
    _task = "novelty"

    def __init__(
        self,
        kernel: Any = "rbf",
        *,
        gamma: Any = "scale",
        degree: int = 3,
        coef0: float = 1.0,
        loss: Any = "novelty",
        step: Any = "implicit",
        eta: Any = None,
        C: float = 1.0,
        lam: float = 1e-2,
        budget: int | None = 512,
        drop: str = "merge",
        nu: float | None = 0.05,
        offset: bool = False,
        mu: float = 0.1,
        decay: float = 0.95,
        missing: str = "error",
        drift: Any = None,
        on_drift: str = "forget",
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.step = step
        self.eta = eta
        self.C = C
        self.lam = lam
        self.budget = budget
        self.drop = drop
        self.nu = nu
        self.offset = offset
        self.mu = mu
        self.decay = decay
        self.missing = missing
        self.drift = drift
        self.on_drift = on_drift

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Start anew and learn the rows in their order; y is not looked at."""
        with self._all_or_nothing():
            return self._learn(self._read(X, None, True)[0], None, sample_weight, True)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Go on learning; y is not looked at."""
        reset = self._model is None
        with self._all_or_nothing():
            return self._learn(self._read(X, None, reset)[0], None, sample_weight, reset)

    @property
    def offset_(self) -> float:
        """Lower scores are novel: the margin rho, or with an implicit step and nu the tracked nu-quantile of the scores."""
        model = self._fitted()
        return threshold(model.cells) if model.plan.tracks else float(model.state.num[layout.THETA])

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
