"""Predict, then learn: an estimator on the rows of a table, with its scaling, its score card, and how far it has come.

What :command:`onkel run` keeps in a file is a :class:`Run`; ``onkel.load`` gives it back, to predict with or to go on.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, config_context

from onkel import Hinge, KernelClassifier, KernelRegressor, NoveltyDetector
from onkel.commands.answers import Answers, alerts, answers, frame_values
from onkel.core.gate import is_count, is_finite, must

# The papers' algorithms in the parameters of the estimators: what they usually take, and what makes them what they are.
MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "silk": ({}, {"step": "implicit"}),
    "ilk": ({"drop": "oldest", "budget": None}, {"step": "implicit"}),
    "norma": ({"drop": "oldest"}, {"step": "explicit"}),
    "svmd": ({"drop": "oldest"}, {"step": "adaptive"}),
    "pa": ({"drop": "oldest"}, {"step": "implicit", "lam": 0.0}),
    # the margin lies above 0, so that the tie at f = 0 is a mistake
    "perceptron": ({"drop": "oldest", "eta": 1.0}, {"step": "explicit", "lam": 0.0, "loss": Hinge(rho=1e-9)}),
}
ESTIMATORS = {"classes": KernelClassifier, "reals": KernelRegressor, "novelty": NoveltyDetector}
STEPS = {"implicit": "silk", "explicit": "norma", "adaptive": "svmd"}  # as the estimators call them
MORE = 5  # columns of details
WINDOWS = 256  # at most so many points in a curve
FEW = 20  # whole numbers of at most so many kinds are classes

Floats = NDArray[np.float64]


class Scale:
    """Running mean and spread of each column, gaps left out: a row is scaled by all rows up to itself.

    Sums are taken in the order of the rows around the first value, so that any way of cutting the stream gives the same bits.

    >>> Scale(1).scaled(np.array([[1.0], [3.0], [8.0]])).round(3).T
    array([[0.   , 1.   , 1.359]])
    """

    def __init__(self, width: int):
        self.count, self.first, self.sums, self.squares = np.zeros((4, width))

    def scaled(self, X: Floats, learn: bool = True) -> Floats:
        if not learn:
            return self._apply(X, self.count, self.sums, self.squares)
        seen = ~np.isnan(X)
        for column in np.flatnonzero((self.count == 0) & seen.any(axis=0)):
            self.first[column] = X[np.argmax(seen[:, column]), column]
        moved = np.where(seen, X - self.first, 0.0)
        sums = np.cumsum(np.concatenate((self.sums[None], moved)), axis=0)[1:]
        squares = np.cumsum(np.concatenate((self.squares[None], moved * moved)), axis=0)[1:]
        count = self.count + np.cumsum(seen, axis=0)
        Z = self._apply(X, count, sums, squares)
        if len(X):
            self.count, self.sums, self.squares = count[-1], sums[-1], squares[-1]
        return Z

    def _apply(self, X: Floats, count: Floats, sums: Floats, squares: Floats) -> Floats:
        mean = sums / np.maximum(count, 1.0)
        variance = squares / np.maximum(count, 1.0) - mean * mean
        flat = variance <= 1e-12 * mean * mean  # a constant column, up to rounding
        return np.where(flat & ~np.isnan(X), 0.0, (X - self.first - mean) / np.sqrt(np.where(flat, 1.0, variance)))


class Tally:
    """The score card: errors of the model and of the simplest rivals, in total and over windows of the stream.

    errors  the model's, that of "the same as last time", and for reals the squared one, else 0
    more    points kept, step size, alarms of a drift detector; rows with a stated certainty, and what was stated: the probability
            of the class predicted, or whether the target lay inside its interval
    """

    def __init__(self) -> None:
        self.rows, self.width = 0, 100
        self.total = np.zeros(3)
        self.curve = np.zeros((WINDOWS, 4))  # rows, and the three errors
        self.more = np.zeros((WINDOWS, MORE))

    def add(self, errors: Floats, more: Floats | None = None) -> None:
        self.total = np.cumsum(np.concatenate((self.total[None], errors)), axis=0)[-1]
        while (self.rows + len(errors) - 1) // self.width >= WINDOWS:
            for name in ("curve", "more"):
                values = getattr(self, name)
                pairs = values.reshape(WINDOWS // 2, 2, -1).sum(axis=1)
                setattr(self, name, np.concatenate((pairs, np.zeros_like(pairs))))
            self.width *= 2
        window = (self.rows + np.arange(len(errors))) // self.width
        for column, values in enumerate((np.ones(len(errors)), *errors.T)):
            self.curve[:, column] += np.bincount(window, values, minlength=WINDOWS)
        for column, values in enumerate(() if more is None else more.T):
            self.more[:, column] += np.bincount(window, values, minlength=WINDOWS)
        self.rows += len(errors)

    def means(self) -> Floats:
        return self.total / max(self.rows, 1)

    def windows(self) -> tuple[Floats, Floats]:
        """Last row of each window, and the mean of each column of errors in it."""
        used = self.curve[:, 0] > 0
        counts = self.curve[used, :1]
        return np.cumsum(counts[:, 0]), self.curve[used, 1:] / counts

    def details(self) -> dict[str, Floats]:
        """For each window: points kept, step size, alarms of drift, and what the model claimed; not a number where unknown."""
        used = self.curve[:, 0] > 0
        count, more = self.curve[used, 0], self.more[used]
        with np.errstate(invalid="ignore", divide="ignore"):
            known = np.where(more[:, 0] > 0, count, np.nan)  # windows of a file that was written before these were kept are empty
            return {
                "points": more[:, 0] / known,
                "step_size": more[:, 1] / known,
                "drift_alarms": more[:, 2],
                "claimed": more[:, 4] / np.where(more[:, 3] > 0, more[:, 3], np.nan),
            }


class Learned(NamedTuple):
    """What rows were met with before they were learned."""

    errors: Floats  # 0 or 1 for classes and alerts, |y - f| for reals
    answers: Answers | None  # for novelty always


class Run:
    """A model on its way through a table.

    ``predict`` takes rows with the columns ``features``; ``model`` is the estimator, which sees them scaled.
    """

    def __init__(self, model: Any, task: str, features: list[str], target: str | None, scale: bool = True, decimal: str = "."):
        self.model, self.task, self.features, self.target = model, task, list(features), target
        self.decimal = decimal  # how the table writes the point of a number
        self.weight: str | None = None  # the column that says how much a row counts
        self.scale = Scale(len(features)) if scale else None
        self.tally = Tally()
        self.last: Any = None  # target of the row before
        self.frequent: dict[str, int] = {}
        self.majority_errors = 0
        self.mean_error = self.mean = 0.0
        self.source: dict[str, Any] = {}  # which stream, and how many of its rows have been read
        self.bad = 0

    def learn(self, X: Floats, y: list[Any], tell: bool = False, weights: Floats | None = None) -> Learned:
        """Predict the rows, then learn them; ``weights`` above 0 say how much each of them counts.

        ``tell`` asks for how sure each answer was, too; that takes longer.
        """
        Z = X if self.scale is None else self.scale.scaled(X)
        answered = self._row_by_row(Z, y, weights) if tell or self.task == "novelty" else None
        more = np.zeros((len(Z), MORE))
        if answered is not None and self.task == "novelty":  # what the trace calls a mistake is a loss above 0
            trace = self.model.partial_fit(Z, sample_weight=weights).trace_
            errors = np.stack((answered.prediction, np.zeros(len(Z)), np.zeros(len(Z))), axis=1)
        elif self.task == "classes":
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The number of unique classes")  # scikit-learn's guess, by one block
                trace = self.model.partial_fit(Z, np.array(y, dtype=object), sample_weight=weights).trace_
            errors = np.stack((trace.mistake, self._same_as_last(y), np.zeros(len(Z))), axis=1)
            self._count(y)
        else:
            targets = np.array(y)
            trace = self.model.partial_fit(Z, targets, sample_weight=weights).trace_
            gap = targets - trace.scores
            before = np.concatenate(([targets[0] if self.last is None else self.last], targets[:-1]))
            errors = np.stack((np.abs(gap), np.abs(targets - before), gap * gap), axis=1)
            for i, target in enumerate(y, self.tally.rows + 1):
                self.mean_error += abs(target - self.mean) if i > 1 else 0.0
                self.mean += (target - self.mean) / i
        more[:, 0], more[:, 1], more[:, 2] = trace.size, trace.eta, trace.drift
        if answered is not None and self.task != "novelty":
            claimed = answered.probability if self.task == "classes" else answered.inside(np.array(y))
            more[:, 3], more[:, 4] = np.isfinite(claimed), np.nan_to_num(claimed)
        if y:
            self.last = y[-1]
        self.tally.add(errors.astype(np.float64), more)
        return Learned(errors[:, 0], answered)

    def _row_by_row(self, Z: Floats, y: list[Any], weights: Floats | None) -> Answers:
        """What a twin of the model answers to each row before it learns it."""
        twin = self.model.snapshot() if self.tally.rows else clone(self.model)
        if self.task == "novelty":
            return alerts(twin, Z, weights)
        answered = []
        with config_context(assume_finite=True):
            for i in range(len(Z)):
                answered.append(answers(self.task, twin, Z[i : i + 1]))
                if weights is None:
                    twin.learn_one(Z[i], y[i])
                else:
                    twin.partial_fit(Z[i : i + 1], y[i : i + 1], sample_weight=weights[i : i + 1])
        return Answers.joined(answered)

    def answers(self, X: Any) -> Answers:
        """What the model says of rows of the raw columns, or of a data frame that has them.  Never changes the run."""
        X = frame_values(X, self.features)
        return answers(self.task, self.model, X if self.scale is None else self.scale.scaled(X, learn=False))

    def predict(self, X: Any) -> Any:
        """Predictions for rows of the raw columns, or for a data frame that has them.  Never changes the run."""
        X = frame_values(X, self.features)
        return self.model.predict(X if self.scale is None else self.scale.scaled(X, learn=False))

    def _same_as_last(self, y: list[str]) -> list[bool]:
        return [now != before for now, before in zip(y, [self.last, *y[:-1]])]

    def _count(self, y: list[str]) -> None:
        """Errors of always guessing the class that came most often so far."""
        top = max(self.frequent, key=self.frequent.__getitem__, default=None)
        for label in y:
            self.majority_errors += label != top
            self.frequent[label] = self.frequent.get(label, 0) + 1
            if top is None or self.frequent[label] > self.frequent[top]:
                top = label

    def report(self) -> dict[str, Any]:
        """What has been measured, as plain values."""
        error, repeated, squared = (float(mean) for mean in self.tally.means())
        rows, curve = self.tally.windows()
        n = max(self.tally.rows, 1)
        figures: dict[str, Any] = {"rows": self.tally.rows, "bad_rows": self.bad}
        if self.task == "classes":
            figures |= {"error": error, "error_of_last_label": repeated, "error_of_most_frequent_label": self.majority_errors / n}
            figures["classes"] = dict(sorted(self.frequent.items()))
        elif self.task == "reals":
            figures |= {"mean_absolute_error": error, "root_mean_squared_error": squared**0.5}
            figures |= {"mean_absolute_error_of_last_value": repeated, "mean_absolute_error_of_running_mean": self.mean_error / n}
        else:
            figures["alerts"] = error
        state = self.model.state_ if self.tally.rows else None
        figures |= {"points": 0 if state is None else state.size, "bytes": self.model.nbytes}
        figures["curve"] = {"rows": rows.astype(int).tolist(), "error": curve[:, 0].tolist(), "error_of_last": curve[:, 1].tolist()}
        for name, values in self.tally.details().items():
            figures["curve"][name] = [float(value) if np.isfinite(value) else None for value in values]
        return figures

    _PLAIN = ("task", "features", "target", "last", "frequent", "majority_errors", "mean_error", "mean", "source", "bad")

    def _to_file(self) -> dict[str, Any]:
        header = {name: getattr(self, name) for name in (*self._PLAIN, "decimal", "weight")}
        header["model"] = {"header": self.model._to_file(), "arrays": {}}  # two dicts since format 1
        header["scale"] = None if self.scale is None else np.stack(list(vars(self.scale).values()))
        header["tally"] = vars(self.tally)
        return header

    @classmethod
    def _from_file(cls, header: dict[str, Any]) -> Run:
        model = ESTIMATORS[header["task"]]._from_file(header["model"]["header"])
        features, frequent, scale, tally = (header[name] for name in ("features", "frequent", "scale", "tally"))
        must(type(features) is list and all(type(name) is str for name in features), "its columns")
        must(model.model_ is None or model.model_.width in (0, len(features)), "its columns")
        must(type(header["target"]) in (str, type(None)) and type(header["source"]) is dict, "its source")
        must(type(frequent) is dict and all(type(name) is str and is_count(n) for name, n in frequent.items()), "its score card")
        must(all(is_count(header[name]) for name in ("majority_errors", "bad")), "its score card")
        must(
            all(isinstance(header[name], int | float) and math.isfinite(header[name]) for name in ("mean_error", "mean")),
            "its means",
        )
        run = cls(model, header["task"], features, header["target"], scale is not None)
        for name in cls._PLAIN:
            setattr(run, name, header[name])
        run.decimal, run.weight = header.get("decimal", "."), header.get("weight")
        must(type(run.weight) in (str, type(None)), "its source")
        must(type(run.decimal) is str and len(run.decimal) == 1, "the point of its numbers")
        if run.scale is not None:
            must(is_finite(scale, (4, len(features)), np.float64) and (abs(scale) < 1e150).all(), "the scale of its columns")
            run.scale.count, run.scale.first, run.scale.sums, run.scale.squares = scale
        tally = {"more": np.zeros((WINDOWS, MORE)), **tally}  # older files lack it
        must(set(tally) == set(vars(run.tally)) and is_count(tally["rows"]) and is_count(tally["width"]), "its score card")
        must(tally["width"] >= 1 and is_finite(tally["total"], (3,), np.float64), "its score card")
        must(is_finite(tally["curve"], (WINDOWS, 4), np.float64) and (tally["curve"][:, 0] >= 0).all(), "its score card")
        must(is_finite(tally["more"], (WINDOWS, MORE), np.float64), "its score card")
        vars(run.tally).update(tally)
        return run


def start(task: str, features: list[str], target: str | None, model: str | None = None, decimal: str = ".", **options: Any) -> Run:
    """A run with one of the papers' algorithms, by its name or its kind of step.

    ``options`` are parameters of the estimator, and ``scale``; what is None takes that algorithm's usual value.
    """
    model = model or ("norma" if task == "novelty" else "silk")
    model = STEPS.get(model, model)
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join((*MODELS, *STEPS))}; got {model!r}")
    if model in ("perceptron", "pa") and task == "novelty":
        raise ValueError(f"{model} needs a target; for novelty take one of silk, ilk, norma, svmd")
    if model == "perceptron" and task == "reals":
        raise ValueError("the perceptron separates classes; for reals take one of silk, ilk, norma, svmd, pa")
    scale = options.pop("scale", True)
    given = {name: value for name, value in options.items() if value is not None}
    usual, fixed = MODELS[model]
    if clash := [name for name in fixed if name in given]:
        raise ValueError(f"{model} is {model} by its own {' and '.join(fixed)}; leave {clash[0]} out, or take another model")
    if model == "pa" and task == "reals":
        usual = {**usual, "loss": "epsilon_insensitive"}
    return Run(ESTIMATORS[task](**{**usual, **fixed, **given}), task, features, target, scale, decimal)


def guess_task(target: str | None, values: list[Any]) -> str:
    """Classes, reals or novelty, from the first values of the target.

    >>> guess_task(None, []), guess_task("y", ["up", "down"]), guess_task("y", ["0", "1", "1"]), guess_task("y", ["0.5", "1.25"])
    ('novelty', 'classes', 'classes', 'reals')
    """
    if target is None:
        return "novelty"
    try:
        numbers = {float(value) for value in values}
    except OverflowError:  # an integer of over 300 digits: a row for which an error says so
        return "reals"
    except (TypeError, ValueError):
        return "classes"
    return "classes" if len(numbers) <= FEW and all(number.is_integer() for number in numbers) else "reals"
