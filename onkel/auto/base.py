"""What the self-tuning estimators share: the way in, bytes, snapshots, files, and what they found out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from onkel.auto.best import Best, best
from onkel.auto.columns import Begin, Columns, frame_rows
from onkel.core.portfolio.engine import TooSmall

UNITS = {"": 1, "b": 1, "kb": 1000, "mb": 1000**2, "gb": 1000**3, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
BLOCK = 8192  # rows between two moments at which Ctrl-C finds a whole model
SEEN = ("n_features_in_", "feature_names_in_")
STEP = 512  # bytes in which the space for names grows


def in_bytes(budget: Any) -> int:
    """The bytes of "100kB", "1 MB", "64KiB" or a whole number.

    >>> in_bytes("100kB"), in_bytes("1 MiB"), in_bytes(50_000)
    (100000, 1048576, 50000)
    """
    if isinstance(budget, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", budget)
        if found and found[2].lower() in UNITS:
            return int(float(found[1]) * UNITS[found[2].lower()])
    elif isinstance(budget, int | np.integer) and not isinstance(budget, bool) and budget > 0:
        return int(budget)
    raise ValueError(f"budget is {budget!r}; give bytes as a number or as text with a unit: 100_000, '100kB', '1MB', '64KiB'")


class Auto(BaseEstimator):
    """The way in for rows of any kind; subclasses know what the target is."""

    _engine: Any = None
    _columns: Columns | None = None

    # --- the way in ---------------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        in_bytes(self.budget)
        for name in ("past",):
            if hasattr(self, name) and not isinstance(getattr(self, name), bool | np.bool_):
                raise ValueError(f"{name} is {getattr(self, name)!r}; it is True or False")
        if getattr(self, "members", "full") not in ("full", "small"):
            raise ValueError(f'members is {self.members!r}; it is "full" (most accurate) or "small" (half the time)')

    def _rows(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        """X as an array of floats or a list of dictionaries, y as it is given, lengths compared."""
        if isinstance(X, Mapping) and not hasattr(X, "toarray"):
            raise ValueError("X is one dictionary; learn_one and predict_one take single rows, here give a frame or a list of them")
        items: Any = None
        if hasattr(X, "columns") and (hasattr(X, "iloc") or hasattr(X, "to_dicts")):
            items = frame_rows(X)
            if y is not None and len(np.shape(y)) and len(items) != len(y):
                raise ValueError(f"X has {len(items)} rows, y has {len(y)}")
            if not len(X.columns):
                raise ValueError("the frame has 0 feature(s): no usable column; it takes at least one")
        elif isinstance(X, list) and X and isinstance(X[0], Mapping):
            items = X
        if items is not None:
            if not items:
                raise ValueError("Found array with 0 sample(s): X has no rows")
            known = None if reset else self._columns
            if known is not None and known.width:
                if len(items[0]) != known.width:
                    raise ValueError(
                        f"X has {len(items[0])} named columns; this model was trained with {known.width} columns without names"
                    )
                return np.array([[float(v) if v is not None else np.nan for v in row.values()] for row in items]), y
            if reset or known is None:
                names = list(X.columns) if hasattr(X, "columns") else list(items[0])
                self.n_features_in_ = len(names)
                self.__dict__.pop("feature_names_in_", None)
                if all(isinstance(name, str) for name in names):
                    self.feature_names_in_ = np.array(names, dtype=object)
            return items, y
        known = None if reset else self._columns
        if known is not None and not known.width:  # columns with names: an array gives them in the order of the first frame
            X = np.asarray(X, dtype=np.float64)
            if X.ndim != 2 or X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has shape {X.shape}, but {type(self).__name__} is expecting {self.n_features_in_} features as input, "
                    "those of its first frame"
                )
            names = list(known.names)[: self.n_features_in_]
            return [dict(zip(names, row)) for row in X.tolist()], y
        options: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan", "order": "C"}
        with np.errstate(over="ignore", invalid="ignore"):
            if y is None:
                X = validate_data(self, X, reset=reset, **options)
            else:
                X, y = validate_data(self, X, y, reset=reset, y_numeric=self._numeric, **options)
        return X, y

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """An error inside leaves the estimator as it was."""
        before = dict(self.__dict__)
        try:
            yield
        except Exception:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    _numeric = False

    def _weights(self, weight: Any, n: int) -> NDArray[np.float64]:
        if weight is None:
            return np.ones(n)
        weight = _check_sample_weight(weight, np.empty((n, 1)), dtype=np.float64)
        if (weight < 0).any():
            raise ValueError(f"sample_weight must not be negative; got {weight.min():g}")
        return weight

    def _learn(self, rows: Any, targets: Any, weight: NDArray[np.float64], reset: bool) -> Any:
        """Learn checked rows; what was said about each before it was learned. Nothing changes where it fails."""
        if not weight.all():  # an example of weight 0 is an example that was not there
            there = np.flatnonzero(weight)
            rows = [rows[i] for i in there] if isinstance(rows, list) else rows[there]
            targets, weight = (None if targets is None else targets[there]), weight[there]
            if not len(there):
                if reset or self._engine is None:
                    raise ValueError("sample_weight is zero for every example: there is nothing to learn")
                return None
        one = len(weight) == 1 and not reset and self._engine is not None
        said = []
        engine, columns, names = self._engine, self._columns, self._names
        if reset or engine is None:
            engine, names = self._fresh(), self._no_names()
            columns = Columns(0 if isinstance(rows, list) else rows.shape[1])
        for start in range(0, len(weight), BLOCK):
            piece = slice(start, start + BLOCK)
            columns, names = columns.copy(), self._copied(names)
            X, begins = (columns.rows if isinstance(rows, list) else columns.matrix)(rows[piece], True)
            met = None if targets is None else targets[piece]
            codes, news = self._coded(met, names)
            engine = engine if one else engine.copy()
            said += self._advance(engine, columns, X, begins, codes, news, weight[piece])
            self._engine, self._columns, self._names = engine, columns, names
        return said

    def _advance(self, engine: Any, columns: Columns, X: Any, begins: Any, codes: Any, news: Any, weight: Any) -> Any:
        """Learn a block, laying the bytes out anew where a row brings a column or a class."""
        budget, wide, many = in_bytes(self.budget), begins[0], news[0]
        for wide_, many_ in ((begins[0], news[0]), (begins[-1], news[-1])):
            spare = _spare(wide_, many_)
            try:
                engine.check(budget - spare, max(wide_.count, 1), many_.count)
            except TooSmall as error:
                raise ValueError(f"budget={self.budget!r} is too small: {error}, beside {spare} for names; give more") from None
        later, newer = {begin.row: begin for begin in begins}, {begin.row: begin for begin in news}
        cuts = sorted({*later, *newer, 0})
        said = []
        for a, b in zip(cuts, [*cuts[1:], len(X)]):
            wide, many = later.get(a, wide), newer.get(a, many)
            cap = wide.count
            early = None
            if engine.state is not None and (cap, many.count) != (engine.d, engine.classes):
                early = engine.predict(_cut(X[a : a + 1], engine.d))
            engine.fit_to(budget - _spare(wide, many), cap, many.count)
            out = engine.learn(_cut(X[a:b], cap), None if codes is None else codes[a:b], weight[a:b])
            said += [out] if early is None else [early, out[1:]]
        return said

    def _said(self, X: Any) -> Any:
        """What is said about rows that have been checked."""
        X = (self._columns.rows if isinstance(X, list) else self._columns.matrix)(X, False)[0]  # type: ignore[union-attr]
        return self._engine.predict(_cut(X, self._engine.d))

    def _asked(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._said(self._rows(X, None, False)[0])

    def _single(self, x: Any) -> Any:
        """One row as a block of one, checked."""
        if isinstance(x, Mapping):
            if self._columns is not None and self._columns.width:
                raise ValueError(f"x is a dictionary; this model was trained with rows of {self._columns.width} numbers")
            return [x]
        row = np.asarray(x)
        if row.dtype.kind not in "fiub":
            raise ValueError(f"x must be one row of real numbers, or a dictionary; got {row.dtype}")
        row = np.ascontiguousarray(row, np.float64)
        wanted = self.n_features_in_ if self._columns is not None else len(row) if row.ndim == 1 else 0
        if row.ndim != 1 or len(row) != wanted or not len(row):
            raise ValueError(f"x must be one row of numbers; got shape {row.shape}" + (f", wanted {wanted}" if wanted else ""))
        if np.isinf(row).any():
            raise ValueError(f"x holds infinity: {x!r:.80}; make it NaN if it is missing")
        if self._columns is not None and not self._columns.width:
            return [dict(zip(self._columns.names, row.tolist()))]
        return row.reshape(1, -1)

    # --- looking at it, and keeping it --------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return self._engine is not None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.no_validation = True  # columns are found by name, may come and go: no errors about that
        return tags

    @property
    def nbytes(self) -> int:
        """Bytes that the model holds: points, weights, statistics and names; never more than the budget."""
        if self._engine is None:
            return 0
        return int(self._engine.nbytes + self._columns.nbytes + self._names_bytes())  # type: ignore[union-attr]

    def _fitted(self) -> Any:
        if self._engine is None:
            raise AttributeError(f"this {type(self).__name__} has not learned anything yet; call fit, partial_fit or learn_one")
        return self._engine

    def snapshot(self) -> Self:
        """A copy to ask from other threads while this one goes on learning; costs one copy of the arrays."""
        check_is_fitted(self)
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._engine, twin._columns = self._engine.copy(), self._columns.copy()  # type: ignore[union-attr]
        twin._names = self._copied(self._names)
        return twin

    def _to_file(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"params": self.get_params(deep=False), "model": None}
        parts["features"] = {name: getattr(self, name) for name in SEEN if hasattr(self, name)}
        if self._engine is not None:
            parts["model"] = {"engine": self._engine.plain(), "columns": self._columns.plain(), "names": self._plain_names()}  # type: ignore[union-attr]
        return parts

    @classmethod
    def _from_file(cls, parts: dict[str, Any]) -> Self:
        made = cls(**parts["params"])
        made._check_parameters()
        for name, value in parts["features"].items():
            if name not in SEEN:
                raise ValueError(f"an estimator has no {name!r}")
            setattr(made, name, value)
        if parts["model"] is not None:
            made._engine = made._fresh()
            made._engine.refill(parts["model"]["engine"])
            made._columns = Columns.of(parts["model"]["columns"])
            made._take_names(parts["model"]["names"])
            if len(made._columns) != made._engine.d:
                raise ValueError(f"{len(made._columns)} columns, and a portfolio of {made._engine.d}")
        return made

    def _plain_names(self) -> Any:
        return None

    def _take_names(self, names: Any) -> None:
        pass

    # --- what was found out -------------------------------------------------------------------------------------------------------

    @property
    def weights_(self) -> dict[str, NDArray[Any]]:
        """Who was believed: "row", and for each member its share of the mixture at those rows; the last entry is now."""
        self._fitted()
        rows, shares = self._engine.shares()
        return {"row": rows, **dict(zip(self._engine.experts, shares.T, strict=True))}

    @property
    def errors_(self) -> dict[str, NDArray[Any]]:
        """The mean error so far at the rows of ``weights_``: of each member, of the stack, of all together, of no-change."""
        self._fitted()
        rows, errors = self._engine.errors()
        return {"row": rows, **dict(zip([*self._engine.experts, "stack", "all together", "no change"], errors.T, strict=True))}

    @property
    def widths_(self) -> NDArray[np.float64]:
        """How much each column matters to the members with learned widths, as they are believed now; 1 is the mean."""
        self._fitted()
        found = self._engine.widths()[: len(self._columns)]  # type: ignore[arg-type]
        return np.asarray(found / found.mean())

    @property
    def columns_(self) -> list[str]:
        """What each entry of ``widths_`` is: columns by name, categories and parts of dates apart."""
        self._fitted()
        return self._columns.labels  # type: ignore[union-attr]

    def best(self) -> Best:
        """The best single member as an ordinary learner with its state, frozen as it is now: name, learner, state, view.

        ``learner.score(state, view(X))`` is what it says: scores of classes in the order in which they turned up, or numbers.
        """
        frozen = self.snapshot()
        columns, engine = frozen._columns, frozen._engine

        def numbers(X: Any) -> NDArray[np.float64]:
            rows = frozen._rows(X, None, False)[0]
            return _cut((columns.rows if isinstance(rows, list) else columns.matrix)(rows, False)[0], engine.d)  # type: ignore[union-attr]

        return best(engine, numbers)

    def summary(self) -> str:
        """What it has learned, in words."""
        if self._engine is None:
            return f"{type(self).__name__} has not learned anything yet."
        weights, errors = self.weights_, self.errors_
        rows = int(weights.pop("row")[-1])
        errors.pop("row")
        trusted = sorted(weights, key=lambda name: -weights[name][-1])[:3]
        order = np.argsort(-self.widths_)[:3]
        labels = self.columns_
        members = {name: errors[name][-1] for name in self._engine.experts}
        first = min(members, key=lambda name: members[name])
        return "\n".join([
            f"{type(self).__name__}: {rows} rows, {len(labels)} columns, {self._engine.points} points, {self.nbytes} of "
            f"{in_bytes(self.budget)} bytes",
            f"{self._error_name} so far {errors['all together'][-1]:.4g}; no change {errors['no change'][-1]:.4g}; best single "
            f"member {members[first]:.4g} ({first})",
            "most believed: " + ", ".join(f"{name} {weights[name][-1]:.0%}" for name in trusted),
            "columns that matter most: " + ", ".join(f"{labels[j]} ({self.widths_[j]:.1f})" for j in order),
        ])  # fmt: skip

    _error_name = "error"

    def plot(self, axes: Any = None) -> Any:
        """Three pictures: error beside no change and members, who was believed, and how much columns matter; the axes."""
        check_is_fitted(self)
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.subplots(1, 3, figsize=(15, 4), layout="constrained")[1]
        errors, weights = self.errors_, self.weights_
        rows = errors.pop("row")
        weights.pop("row")
        bold = {"all together": ("C0", 2.5), "no change": ("C3", 1.5)}
        for name, path in errors.items():
            colour, width = bold.get(name, ("0.75", 0.8))
            axes[0].plot(rows, path, color=colour, linewidth=width, label=name if name in bold else None)
        axes[0].set(title=f"{self._error_name} so far", xlabel="rows")
        axes[0].legend()
        main = sorted(weights, key=lambda name: -weights[name].mean())[:8]
        axes[1].stackplot(rows, [weights[name] for name in main], labels=main)
        axes[1].set(title="who is believed", xlabel="rows", ylim=(0, 1))
        axes[1].legend(fontsize="small")
        order = np.argsort(-self.widths_)[:20][::-1]
        axes[2].barh([self.columns_[j] for j in order], self.widths_[order])
        axes[2].set(title="columns that matter", xlabel="learned width, mean 1")
        return axes

    # --- what a subclass says -----------------------------------------------------------------------------------------------------

    _names: Any = None

    def _fresh(self) -> Any:
        raise NotImplementedError

    def _no_names(self) -> Any:
        return None

    def _copied(self, names: Any) -> Any:
        return None if names is None else dict(names)

    def _coded(self, targets: Any, names: Any) -> tuple[Any, list[Begin]]:
        return targets, [Begin(0, 1, 0)]

    def _names_bytes(self) -> int:
        return 0


def _spare(wide: Begin, many: Begin) -> int:
    """Bytes kept for names."""
    return -(-(wide.bytes + many.bytes) // STEP) * STEP


def _cut(X: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """X with so many columns; what is not there is 0."""
    if X.shape[1] == width:
        return X
    out = np.zeros((len(X), width))
    out[:, : X.shape[1]] = X[:, :width]
    return out
