"""What a model says of rows, and how sure it is; and the rows of a frame, whatever library made it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
NAMES = {  # the columns of a table of answers, by task
    "classes": ("prediction", "probability", "score"),
    "reals": ("prediction", "lower", "upper", "score"),
    "novelty": ("alert", "score"),
}


class Answers(NamedTuple):
    """One answer per row: a class with its probability and score; a number with the ends of its interval; an alert, 0 or 1.

    A score is the one by which was decided: the highest of the classes', f(x), and for novelty small where a row is novel.
    """

    prediction: list[Any]  # None where nothing could be said yet
    probability: Floats
    lower: Floats
    upper: Floats
    score: Floats

    @classmethod
    def joined(cls, parts: list[Answers]) -> Answers:
        return cls(
            [p for part in parts for p in part.prediction], *(np.concatenate([part[k] for part in parts]) for k in range(1, 5))
        )

    def column(self, name: str) -> list[Any]:
        """As plain values, None for what is not known."""
        values = getattr(self, "prediction" if name == "alert" else name)
        return values if isinstance(values, list) else [float(value) if np.isfinite(value) else None for value in values]

    def inside(self, y: Floats) -> Floats:
        """1 where a target lies in its interval, 0 where it does not, not a number where there is no interval."""
        return np.where(np.isfinite(self.upper - self.lower), (self.lower <= y) & (y <= self.upper), np.nan)


def answers(task: str, model: Any, Z: Floats) -> Answers:
    """What the estimator says of rows as it sees them."""
    unknown = np.full(len(Z), np.nan)
    if not model.__sklearn_is_fitted__():
        return Answers([0 if task == "novelty" else None] * len(Z), unknown, unknown, unknown, unknown)
    if task == "classes":
        shares = model.predict_proba(Z)
        scores = model.decision_function(Z)
        best = shares.argmax(axis=1)
        top = scores.max(axis=1) if scores.ndim == 2 else np.abs(scores)
        return Answers(model.classes_[best].tolist(), shares[np.arange(len(Z)), best], unknown, unknown, top)
    if task == "reals":
        values = model.predict(Z)
        ends = model.predict_interval(Z)
        return Answers(values.tolist(), unknown, ends[:, 0], ends[:, 1], values)
    return Answers((model.predict(Z) < 0).astype(int).tolist(), unknown, unknown, unknown, model.score_samples(Z))


def alerts(model: Any, Z: Floats, weights: Floats | None = None) -> Answers:
    """Whether each row is novel to a model that then learns it: the fast way."""
    found, scores = [], np.full(len(Z), np.nan)
    for i, z in enumerate(Z):
        if model.__sklearn_is_fitted__():
            scores[i] = model.score_one(z)
        found.append(int(scores[i] < model.offset_) if scores[i] == scores[i] else 0)
        if weights is None:
            model.learn_one(z)
        else:
            model.partial_fit(Z[i : i + 1], sample_weight=weights[i : i + 1])
    unknown = np.full(len(Z), np.nan)
    return Answers(found, unknown, unknown, unknown, scores)


def frame_values(X: Any, features: list[str]) -> Floats:
    """Rows as numbers: an array, or the columns ``features`` of a frame of pandas, polars (lazy too) or pyarrow."""
    if hasattr(X, "collect") and hasattr(X, "select"):  # a lazy frame of polars
        X = X.select(features).collect()
    columns = X.column_names if hasattr(X, "column_names") else X.columns if hasattr(X, "columns") else None
    if columns is None:
        return np.asarray(X, np.float64)
    if absent := [name for name in features if name not in set(columns)]:
        raise ValueError(
            f"the frame has no column {', '.join(map(repr, absent[:5]))}; the model was trained with {', '.join(features)}"
        )
    return np.column_stack([_numbers(X[name]) for name in features]) if features else np.empty((len(X), 0))


def _numbers(column: Any) -> Floats:
    """A column as numbers, what is missing as NaN, dates and times as `onkel run` takes them."""
    from onkel.commands.tables import as_number

    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    if values.dtype.kind == "M":
        times = values.astype("datetime64[us]").astype(np.int64)
        return np.where(np.isnat(values), np.nan, times / 1e6)
    found = [np.nan if value is None or value != value else as_number(value) for value in values.tolist()]
    if None in found:
        raise ValueError(f"the column {getattr(column, 'name', '')!r} holds {values[found.index(None)]!r}, which is not a number")
    return np.array(found, np.float64)
