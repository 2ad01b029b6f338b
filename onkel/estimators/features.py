"""Features in place of a kernel, as transformers for scikit-learn: :class:`RandomFeatures`, :class:`Nystroem`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted

from onkel.core.maths import features
from onkel.core.maths.approximate import Waves
from onkel.core.maths.kernels import RBF, as_kernel


class _Features(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """What both share: nothing of a stream is learned but how many features its rows have."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """See how many features a row has."""
        X = check_array(X, accept_sparse="csr")
        self.n_features_in_ = X.shape[1]
        self._prepare()
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Any:
        """As ``fit``: the features do not depend on the data."""
        if hasattr(self, "n_features_in_"):
            self._check(X)
            return self
        return self.fit(X)

    def _check(self, X: Any) -> Any:
        check_is_fitted(self, "n_features_in_")
        X = check_array(X, accept_sparse="csr")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features")
        return X

    def _prepare(self) -> None:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self.get_params()) == repr(other.get_params())  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(repr(self.get_params()))


class RandomFeatures(_Features):
    """D features z(x) with z(x).z(x') near k(x, x'): random waves, orthogonal, by Hadamard matrices where rows are long.

    kernel   RBF, Laplacian, Matern, or a product of such
    D        how many, an even number; the error falls with 1/sqrt(D)
    seed     decides the waves: they are drawn again from it, never stored

    >>> import numpy as np, onkel
    >>> X = np.random.default_rng(0).normal(size=(5, 3))
    >>> Z = RandomFeatures(onkel.RBF(2.0), D=4096, seed=1).fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - onkel.RBF(2.0)(X)).max() < 0.05)
    True
    """

    def __init__(self, kernel: Any = RBF(1.0), D: int = 256, seed: int = 0):  # noqa: B008  a value
        self.kernel = kernel
        self.D = D
        self.seed = seed

    def as_kernel(self) -> Waves:
        """The kernel that the features make: so a learner takes them where it takes a kernel."""
        return Waves(self.kernel, self.D, self.seed)

    def _prepare(self) -> None:
        self.as_kernel()

    def transform(self, X: Any) -> Any:
        """(n, D), each row of length 1."""
        return self.as_kernel().features(self._check(X))


class Nystroem(_Features):
    """Features z(x) = k(x, points) K^(-1/2): z(x).z(x') is k(x, x') for the points themselves, and its projection on them else.

    >>> import numpy as np, onkel
    >>> X = np.random.default_rng(0).normal(size=(9, 2))
    >>> Z = Nystroem(onkel.RBF(1.0), X).fit_transform(X)
    >>> bool(np.allclose(Z @ Z.T, onkel.RBF(1.0)(X)))
    True
    """

    def __init__(self, kernel: Any = RBF(1.0), points: Any = None):  # noqa: B008  a value
        self.kernel = kernel
        self.points = points

    def _prepare(self) -> None:
        if self.points is None:
            raise ValueError("Nystroem: give points, rows of which the features are made, for example X[:100]")
        points = check_array(self.points, accept_sparse="csr")
        if points.shape[1] != self.n_features_in_:
            raise ValueError(f"Nystroem: points have {points.shape[1]} features, and the rows {self.n_features_in_}")
        self._points, self._kernel = points, as_kernel(self.kernel)
        self.projection_ = features.projection(self._kernel(points))

    def __call__(self, X: Any, Z: Any) -> Any:
        """The kernel that the features make: so a learner takes them where it takes a kernel."""
        made = clone(self).fit(X)
        return made.transform(X) @ made.transform(Z).T

    def transform(self, X: Any) -> Any:
        """(n, number of points), fewer where some of them span no more than the others."""
        X = self._check(X)
        if hasattr(X, "toarray") and not hasattr(self._points, "toarray"):
            X = X.toarray()
        return np.asarray(self._kernel(X, self._points)) @ self.projection_
