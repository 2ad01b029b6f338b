"""Columns of any scale brought to one, on a stream: what the self-tuning estimators do to their rows, as a transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

SEEN = ("n_features_in_", "feature_names_in_")
HEAVY, REACH = 9.0, 10.0
MOMENTS = ("seen", "mean", "spread", "fourth", "plain")


class Scaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Running mean 0 and deviation 1 of every column; asinh where tails are heavy, columns of 0 and 1 kept, missing becomes 0.

    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)) * [1, 1e6] + [0, 5e6]
    >>> np.round(Scaler().fit_transform(X).std(axis=0), 1).tolist()
    [1.0, 1.0]
    """

    _moments: dict[str, NDArray[np.float64]] | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Start anew and look at the rows."""
        return self._look(X, reset=True)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on looking."""
        return self._look(X, reset=self._moments is None)

    def _look(self, X: Any, reset: bool) -> Self:
        with np.errstate(over="ignore", invalid="ignore"):
            X = validate_data(self, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
        old = None if reset else self._moments
        m = {name: np.zeros(X.shape[1]) if old is None else old[name].copy() for name in MOMENTS}
        if old is None:
            m["plain"][:] = 1.0
        for x in X:  # row by row: fourth powers are taken of what each row was at its time, however the stream is cut
            there = ~np.isnan(x)
            n = m["seen"] = m["seen"] + there
            off = np.where(there, x - m["mean"], 0.0)
            m["mean"] = m["mean"] + off / np.maximum(n, 1.0)
            m["spread"] = m["spread"] + off * np.where(there, x - m["mean"], 0.0)
            sd = np.sqrt(m["spread"] / np.maximum(n, 1.0))
            z = np.where(there & (sd > 0), (x - m["mean"]) / np.where(sd > 0, sd, 1.0), 0.0)
            m["fourth"] = m["fourth"] + z**4
            m["plain"] = np.where(there & (x != 0.0) & (x != 1.0), 0.0, m["plain"])
        self._moments = m
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """The rows as they look by what was seen so far."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        m = self._fitted()
        n = np.maximum(m["seen"], 1.0)
        sd = np.sqrt(m["spread"] / n)
        z = (X - m["mean"]) / np.where(sd > 0, sd, 1.0)
        z = np.where(m["fourth"] / n > HEAVY, np.arcsinh(z), z)
        z = np.where(m["plain"] > 0, X, np.clip(z, -REACH, REACH))
        return np.where(np.isnan(X), 0.0, z)

    def _fitted(self) -> dict[str, NDArray[np.float64]]:
        assert self._moments is not None
        return self._moments

    def __sklearn_is_fitted__(self) -> bool:
        return self._moments is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _to_file(self) -> dict[str, Any]:
        return {"features": {name: getattr(self, name) for name in SEEN if hasattr(self, name)}, "moments": self._moments}

    @classmethod
    def _from_file(cls, parts: dict[str, Any]) -> Self:
        made = cls()
        for name, value in parts["features"].items():
            if name not in SEEN:
                raise ValueError(f"a scaler has no {name!r}")
            setattr(made, name, value)
        if parts["moments"] is not None:
            if set(parts["moments"]) != set(MOMENTS) or len({a.shape for a in parts["moments"].values()}) != 1:
                raise ValueError("the scaler's moments do not fit together")
            made._moments = {name: np.array(parts["moments"][name]) for name in MOMENTS}
        return made
