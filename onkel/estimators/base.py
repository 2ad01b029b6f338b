"""What the scikit-learn estimators share: the way in, learning in whole blocks, snapshots and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, column_or_1d, validate_data

from onkel.core.gate import is_count, must
from onkel.core.maths.kernels import as_kernel
from onkel.core.maths.labels import Labels
from onkel.core.maths.user_kernel import Matrix
from onkel.core.points.objects import Objects
from onkel.core.points.read import is_sparse, read
from onkel.estimators.attempt import Attempt
from onkel.estimators.examples import part, rows
from onkel.estimators.expansion import Expansion
from onkel.estimators.model import Model
from onkel.estimators.parameters import Parameters
from onkel.estimators.plan import Plan
from onkel.estimators.restore import restored
from onkel.estimators.turns import turn, without_lock

SEEN = ("n_features_in_", "feature_names_in_")


class Stream(Expansion, BaseEstimator, Parameters):
    """What the three estimators share: the way in, learning in whole blocks, snapshots and files."""

    model_: Model | None = None
    task: str

    # --- the way in -------------------------------------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Which learner the parameters ask for, as they are now."""
        return Plan(self.task, self.parameters(), self.hierarchy()[0])

    def hierarchy(self) -> tuple[Labels | None, list[Any]]:
        """The related labels, if classes are, and the names of the classes."""
        return None, []

    def _anew(self, learn: Callable[[], Self]) -> Self:
        """Learn from nothing; if that fails, the model is the one from before."""
        with Attempt(self):
            self.model_ = None
            learn()
            if self.model_ is None:
                raise ValueError("sample_weight is zero for every example: there is nothing to learn")
        return self

    @staticmethod
    def _present(y: Any) -> Any:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        return y

    def _read(self, X: Any, y: Any = None, reset: bool = False) -> tuple[Any, Any]:
        """X (and y) checked by scikit-learn; objects are left to the user's own kernel."""
        objects = self._objects(X)
        if objects is not None:
            if reset or self.model_ is None:
                self.__dict__.pop("n_features_in_", None)
            return objects, None if y is None else column_or_1d(y, warn=True)
        options: dict[str, Any] = {"reset": reset, "accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        if self.missing == "ignore":
            options |= {"ensure_all_finite": "allow-nan", "accept_sparse": False}
        with np.errstate(over="ignore", invalid="ignore"):  # the sum by which it looks for infinities may overflow
            if y is None:
                return validate_data(self, X, **options), None
            return validate_data(self, X, y, y_numeric=self.task == "reals", **options)

    def _objects(self, X: Any) -> list[Any] | None:
        if isinstance(self.kernel, str) or not isinstance(as_kernel(self.kernel), Matrix):
            return None
        if hasattr(X, "columns") and not all(np.dtype(object) != t for t in np.atleast_1d(np.asarray(X).dtype)):
            X = list(X.itertuples(index=False, name=None)) if hasattr(X, "itertuples") else X.rows()  # a frame of mixed columns
        block = read(X, as_kernel(self.kernel))
        return block.items if isinstance(block, Objects) else None

    def _weighted(self, X: Any, y: Any, weight: Any) -> tuple[Any, Any, Any]:
        """The examples that count: one of weight 0 is one that was not there."""
        if weight is not None:
            weight = _check_sample_weight(
                weight, X if hasattr(X, "shape") else np.empty((len(X), 1)), dtype=np.float64, allow_all_zero_weights=True
            )
            if (weight < 0).any():
                raise ValueError(f"sample_weight must not be negative; got {weight.min():g}")
        weight = self._class_weighted(y, weight)
        if weight is None or weight.all():
            return X, y, weight
        there = np.flatnonzero(weight)
        return [X[i] for i in there] if isinstance(X, list) else X[there], part(y, there), weight[there]

    def _class_weighted(self, y: Any, weight: Any) -> Any:
        """The weights times those of the classes, where there are any."""
        return weight

    def learn_rows(self, X: Any, y: Any, classes: list[Any] | None = None) -> None:
        """Learn checked examples: y is Encoded labels, an array of reals, or None for novelty."""
        with Attempt(self) as attempt:
            weight = self._class_weighted(y, None)
            for work, piece in attempt.steps(rows(X), classes):
                attempt.told(work, work.learn(X[piece], part(y, piece), part(weight, piece)))
            attempt.done()

    def widen(self, width: int) -> None:
        """Room for more features, in which the points so far have nothing."""
        with turn(self):
            if self.model_ is not None and 0 < self.model_.width < width:
                self.model_.unbind()
                self.model_.grow(width)
                self.n_features_in_ = width

    def _alone(self, x: Any) -> Any:
        """One example as a block of one, checked."""
        if is_sparse(x):
            return self._read(csr_matrix(x.reshape(1, -1)), reset=self.model_ is None)[0]
        objects = self._objects([x])
        if objects is not None:
            return objects
        row = np.asarray(x)
        if row.dtype.kind in "cmM":
            raise ValueError(f"x must be one row of real numbers; got {row.dtype}")
        row = np.ascontiguousarray(row, np.float32 if row.dtype in (np.float16, np.float32) else np.float64)
        if row.ndim != 1 or (self.model_ is not None and self.model_.width not in (0, len(row))):
            wanted = "" if self.model_ is None else f", this model was trained with {self.model_.width}"
            raise ValueError(f"x must be one row of numbers; got shape {row.shape}{wanted}")
        if not (np.isfinite(row) | (np.isnan(row) & (self.missing == "ignore"))).all():
            raise ValueError(f"x holds NaN or infinity: {x!r:.80}; every value must be finite")
        return row.reshape(1, -1)

    def _row(self, x: Any) -> Any:
        """x as the loop wants it, checked, where the model takes single rows; else as it is."""
        with turn(self):
            if self.model_ is None or is_sparse(x) or (self.model_.take is None and not self.model_.bind()):
                return x
        return np.ascontiguousarray(self._alone(x)[0], self.model_.state.slots.dtype)

    def _learn_number(self, x: Any, y: float) -> None:
        """Learn one example whose target is a number, or for novelty anything."""
        try:
            if self.model_.take(x, y / self.model_.unit) >= 0:  # type: ignore[union-attr]
                return
        except (AttributeError, TypeError):  # no model yet, or the short way is closed
            pass
        with turn(self):
            x = self._row(x)
            if self.model_ is None or not self.model_.learn_row(x, y):
                self._learn_alone(x, np.array([y]) if self.task == "reals" else None)

    def _number(self, x: Any) -> float:
        """f(x) of one example."""
        try:
            if (f := self.model_.look(x)) == f:  # type: ignore[union-attr]
                return f * self.model_.unit  # type: ignore[no-any-return, union-attr]
        except (AttributeError, TypeError):
            pass
        row, model = self._row(x), self._fitted()
        if model.look is not None and (f := model.look(row)) == f:
            return f * model.unit  # type: ignore[no-any-return]
        return float(model.score(self._alone(x))[0])

    def _learn_alone(self, x: Any, y: Any, classes: list[Any] | None = None) -> None:
        X = self._alone(x)
        self.learn_rows(X, y, classes)
        if hasattr(X, "shape"):
            self.n_features_in_ = X.shape[1]

    def _scored(self, X: Any) -> Any:
        """X, checked, for a model that has learned something."""
        check_is_fitted(self)
        return self._read(X)[0]

    def _score(self, X: Any) -> NDArray[np.float64]:
        X = self._scored(X)
        return self._fitted().score(X)

    def __sklearn_is_fitted__(self) -> bool:
        return self.model_ is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.missing != "ignore"
        tags.input_tags.allow_nan = self.missing == "ignore"
        return tags

    # --- looking at it, and keeping it -------------------------------------------------------------------------------------------

    @property
    def learner_(self) -> Any:
        """The learner, as recipes make them; ``state_`` is its state."""
        return self._fitted().learner

    @property
    def state_(self) -> Any:
        return self._fitted().state

    def explain(self, x: Any, label: Any = None, background: Any = None) -> Any:
        """Why the model says what it says of x: stored examples whose terms add up to the score, exact Shapley values of the
        features, ``top(n)``, ``text()`` and ``plot()``; see docs/explain.md.

        Of two classes ``decision_function`` is explained, of more the score of ``label``, by default the predicted one.
        """
        if self.missing == "ignore":
            raise ValueError('missing="ignore" is a kernel that does not split into features; explain a model with missing="error"')
        from onkel.reasons.models import explain_model

        return explain_model(self, x, label, background)

    @property
    def gamma_(self) -> float:
        """The kernel's gamma, which gamma="scale" settles on the first 100 examples."""
        model = self._fitted()
        gamma = model.plan.gamma(model.gamma, model.width)
        if gamma is None:
            raise AttributeError("the kernel of this model was given as it is; gamma_ goes with kernels given by name")
        return gamma

    @property
    def nbytes(self) -> int:
        """Bytes that the model holds; constant once a budget is laid out and gamma is settled."""
        return 0 if self.model_ is None else self.model_.nbytes

    def _fitted(self) -> Model:
        if self.model_ is None:
            raise AttributeError(f"this {type(self).__name__} has not learned anything yet; call fit, partial_fit or learn_one")
        return self.model_

    def snapshot(self) -> Self:
        """A copy to score with from other threads while this one goes on learning; costs one copy of the arrays."""
        check_is_fitted(self)
        twin = type(self).__new__(type(self))
        with turn(self):
            twin.__dict__.update(without_lock(self.__dict__))
            twin.model_ = self._fitted().copy()
        return twin

    def __getstate__(self) -> dict[str, Any]:
        with turn(self):
            state = without_lock(super().__getstate__())
            if self.model_ is not None:
                state["model_"] = self.model_.copy()
        state.pop("trace_", None)  # as long as the last block, and no part of the model
        return state

    def _to_file(self) -> dict[str, Any]:
        if self.drift is not None:
            raise TypeError(
                "a drift detector is an object of another library and cannot be saved; "
                "save(model.snapshot().set_params(drift=None), path) keeps all but the detector, pickle keeps both"
            )
        header: dict[str, Any] = {"params": self.get_params(deep=False)}
        header["features"] = {name: getattr(self, name) for name in SEEN if hasattr(self, name)}
        with turn(self):
            model = None if self.model_ is None else self.model_.copy()
        header["model"] = None if model is None else model.parts()
        if model is not None:
            began, now = vars(model.plan.given), header["params"]
            if changed := {name: value for name, value in began.items() if name != "drift" and not _equal(value, now[name])}:
                header["model"]["given"] = changed
        return header

    @classmethod
    def _from_file(cls, header: dict[str, Any]) -> Self:
        made = cls(**header["params"])
        for name, value in header["features"].items():
            must(name in SEEN and (is_count(value) or (name == SEEN[1] and type(value) is np.ndarray)), f"its {name!r}")
            setattr(made, name, value)
        if header["model"] is not None:
            made.model_ = restored(made, header["model"])
        return made


def _equal(first: Any, second: Any) -> bool:
    """Whether two parameters are the same, as far as that can be told."""
    try:
        return first is second or bool(first == second)
    except ValueError:  # arrays
        return False
