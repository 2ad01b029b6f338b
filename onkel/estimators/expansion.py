"""The expansion of a fitted estimator under scikit-learn's names, in the shapes of SVC, SVR and OneClassSVM: tools attach."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.points.missing import without_mask


class Expansion:
    """``decision_function`` (a regressor's ``predict``) is ``k(X, support_vectors_) @ dual_coef_.T + intercept_``.

    >>> import onkel
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> X = np.random.default_rng(0).normal(size=(60, 3))
    >>> model = onkel.KernelRegressor(budget=10).partial_fit(X, X[:, 0])
    >>> f = rbf_kernel(X, model.support_vectors_, gamma=model.gamma_) @ model.dual_coef_.T + model.intercept_
    >>> bool(np.allclose(f[:, 0], model.predict(X)))
    True

    All are read off the model as it is now, which changes with each example; where other threads learn, ask a ``snapshot()``.
    """

    _fitted: Any

    @property
    def support_vectors_(self) -> Any:
        """The stored points, oldest first: an array, a CSR matrix or a list of objects; NaN where a value was missing."""
        model = self._fitted()
        points = model.state.points
        return without_mask(points) if model.plan.masks and hasattr(points, "shape") else points

    @property
    def dual_coef_(self) -> NDArray[np.float64]:
        """Coefficients of the stored points: (1, k), or (m, k) for m > 2 classes."""
        model = self._fitted()
        coef = model.state.coef.reshape(model.state.size, model.state.m).T
        kappa = model.learner.label_kernel
        return self._as_decided((kappa @ coef if kappa.size else coef) * model.unit)

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """What stands beside the kernel values: (1,), or (m,) for m > 2 classes."""
        model = self._fitted()
        return self._as_decided(np.atleast_1d(model.state.offset) * model.unit)

    @property
    def n_iter_(self) -> int:
        """How many passes were made: one, in the order of the rows."""
        self._fitted()
        return 1

    @property
    def t_(self) -> int:
        """How many examples have been learned, from the start or from where a drift detector made the model begin anew."""
        return int(self._fitted().state.t)

    def _as_decided(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """From a row for each score to those of decision_function: of two classes the second is told apart from the first."""
        return rows[1:] - rows[:1] if len(rows) == 2 else rows
