"""One model behind a name: its estimator, what a row must look like, how good it has been, and the digest of its past."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import struct
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import onkel
from onkel.persist import dumps, loads

from .errors import Refused

ESTIMATORS = {
    ("classes", "kernel"): "KernelClassifier",
    ("reals", "kernel"): "KernelRegressor",
    ("novelty", "kernel"): "NoveltyDetector",
    ("classes", "auto"): "AutoClassifier",
    ("reals", "auto"): "AutoRegressor",
    ("novelty", "auto"): "AutoDetector",
}
TASKS = ("classes", "reals", "novelty")
FADE = 0.98  # the recent error looks back over some fifty examples
LABELS = {str: "a string", bool: "true or false", int: "a whole number", float: "a number"}
MOST_POINTS = 100_000  # in a budget that arrives over HTTP


@dataclass
class Served:
    """The writer works on a ``copy`` and publishes it after its commit; whoever reads has a whole one at any time."""

    id: int
    name: str
    stream: int
    begins: int  # the stream's step before this model's first example
    shadow_of: int | None
    about: dict[str, Any]  # task, kind, params, features, width, label, ask: fixed once known
    step: int  # of the stream
    chain: bytes
    stats: dict[str, Any]
    model: Any = field(repr=False, default=None)

    @property
    def task(self) -> str:
        return str(self.about["task"])

    @property
    def steps(self) -> int:
        """How many examples this model has learned here."""
        return self.step - self.begins

    @property
    def fitted(self) -> bool:
        return bool(self.model.__sklearn_is_fitted__())

    def copy(self) -> Served:
        model = self.model.snapshot() if self.fitted else copy.deepcopy(self.model)
        return replace(self, about=dict(self.about), stats=dict(self.stats), model=model)

    def copy_of_entry(self) -> Served:
        """The same without its estimator."""
        return replace(self, about=dict(self.about), stats=dict(self.stats), model=None)

    # --- what a row is

    def row(self, given: Any) -> np.ndarray:
        """One row of a request as numbers; refused with the feature's name where it does not fit."""
        names = self.about.get("features")
        if isinstance(given, dict):
            if names is None and self.about.get("width") is None:
                names = sorted(given)
            elif names is None:
                raise Refused(422, "row", f"this model was taught rows as lists of {self.about['width']} numbers; send lists")
            if len(given) != len(names) or any(name not in given for name in names):
                unknown, missing = sorted(set(given) - set(names)), sorted(set(names) - set(given))
                what = f"unknown feature {unknown[0]!r}" if unknown else f"feature {missing[0]!r} is missing"
                raise Refused(422, "features", f"{what}; this model's features are {_listed(names)}")
            values = [given[name] for name in names]
        elif isinstance(given, list):
            width = self.about.get("width")
            if width is not None and len(given) != width:
                raise Refused(422, "width", f"a row has {len(given)} values; this model's rows have {width}")
            values = given
        else:
            raise Refused(422, "row", "a row is a list of numbers, or an object with a number for each feature")
        if not values:
            raise Refused(422, "row", "a row needs at least one value")
        try:
            row = np.array([_number(value) for value in values], np.float64)
        except _NoNumber as error:
            at = next(i for i, value in enumerate(values) if value is error.args[0])
            name = names[at] if names is not None else f"value {at}"
            raise Refused(422, "value", f"{name}: {json.dumps(error.args[0])[:60]} is not a finite number") from None
        return row

    def fix_shape(self, given: Any, row: np.ndarray) -> None:
        """The first row that is learned says how many values, and which, every other has."""
        if self.about.get("width") is None:
            self.about["width"] = len(row)
            if isinstance(given, dict):
                self.about["features"] = sorted(given)

    def label(self, given: Any) -> Any:
        """A label of a request; refused where it is of another kind than the model's."""
        task = self.task
        if task == "novelty":
            if given is not None:
                raise Refused(422, "label", "a novelty model learns without labels; leave them out or send null")
            return None
        if task == "reals":
            try:
                return _number(given)
            except _NoNumber:
                raise Refused(
                    422, "label", f"{json.dumps(given)[:60]} is not a finite number, which this model's labels are"
                ) from None
        kind = type(given)
        if kind is float and given.is_integer() and abs(given) < 2**53:
            given, kind = int(given), int
        if kind not in (str, bool, int) or (kind is str and len(given) > 1000) or (kind is int and abs(given) >= 2**53):
            raise Refused(
                422, "label", f"{json.dumps(given)[:60]} cannot name a class: send a string, a whole number, true or false"
            )
        wanted = self.about.get("label")
        if wanted is not None and wanted != LABELS[kind]:
            raise Refused(422, "label", f"{json.dumps(given)[:60]} is {LABELS[kind]}; this model's labels are each {wanted}")
        allowed = self.about.get("classes")
        if allowed is not None and given not in allowed:
            raise Refused(422, "label", f"{json.dumps(given)[:60]} is none of this model's classes: {_listed(allowed)}")
        return given

    def fix_label(self, label: Any) -> None:
        if self.task == "classes":
            self.about.setdefault("label", LABELS[type(label)])

    # --- predicting and learning

    def predict(self, row: np.ndarray) -> dict[str, Any]:
        """What the model says of a row now."""
        model, task = self.model, self.task
        if not self.fitted:
            empty = {"probabilities": {}} if task == "classes" else {"score": None, "interval": None}
            return {"prediction": None, **(empty if task != "novelty" else {"score": None, "alert": False})}
        if task == "classes":
            chances = model.predict_proba_rows(row.reshape(1, -1))[0].tolist()
            names = [_plain(name) for name in model.classes_]
            best = max(range(len(names)), key=chances.__getitem__)
            return {"prediction": names[best], "probabilities": {_key(name): p for name, p in zip(names, chances)}}
        if task == "reals":
            low, high = model.predict_interval(row.reshape(1, -1))[0].tolist()
            value = float(model.predict_one(row))
            return {"prediction": value, "score": value, "interval": [low, high]}
        score = float(model.score_one(row))
        alert = score < float(model.offset_)
        return {"prediction": -1 if alert else 1, "score": score, "alert": alert}

    def learn(self, row: np.ndarray, label: Any, weight: float) -> None:
        """Learn one example in place, and bind it into the digest."""
        try:
            if weight != 1.0:
                y = [] if self.task == "novelty" else [[label]]
                self.model.partial_fit(row.reshape(1, -1), *y, sample_weight=np.array([weight]))
            elif self.task == "novelty":
                self.model.learn_one(row)
            else:
                self.model.learn_one(row, label)
        except (ValueError, FloatingPointError) as error:
            raise Refused(422, "learning", str(error)) from None
        self.step += 1
        self.chain = linked(self.chain, row, label, weight)

    def judge(self, prediction: dict[str, Any], label: Any) -> list[Any]:
        """What a prediction was worth: its loss, and whether its interval held the target; None where that has no meaning."""
        guess = prediction["prediction"]
        if self.task == "novelty":
            return [float(prediction["alert"]), None]
        if self.task == "classes":
            return [float(guess != label or type(guess) is not type(label)), None]
        if guess is None:
            return [None, None]
        low, high = prediction["interval"]
        return [abs(label - guess), low <= label <= high]

    def count(self, judged: list[Any], label: Any) -> None:
        """Add it to the error so far, beside that of repeating the last label."""
        stats, (loss, inside), idle = self.stats, judged, None
        if inside is not None:
            stats["inside"] = stats.get("inside", 0) + bool(inside)
        if "last" in stats:
            idle = float(stats["last"] != label) if self.task == "classes" else abs(label - stats["last"])
        for name, value in (("model", loss), ("idle", idle)):
            if value is not None:
                stats[f"{name}_count"] = stats.get(f"{name}_count", 0) + 1
                stats[f"{name}_sum"] = stats.get(f"{name}_sum", 0.0) + value
                stats[f"{name}_recent"] = FADE * stats.get(f"{name}_recent", value) + (1.0 - FADE) * value
        if self.task != "novelty":
            stats["last"] = label

    def compare(self, mine: list[Any], theirs: list[Any]) -> None:
        """A shadow's account: how often it was better and worse than the model that answers, and by how much."""
        if self.task == "novelty" or mine[0] is None or theirs[0] is None:
            return
        stats, difference = self.stats, mine[0] - theirs[0]
        stats["better"] = stats.get("better", 0) + (difference < 0)
        stats["worse"] = stats.get("worse", 0) + (difference > 0)
        stats["pairs"] = stats.get("pairs", 0) + 1
        stats["difference"] = stats.get("difference", 0.0) + difference

    def file(self) -> bytes:
        return dumps(self.model)

    # --- told of it

    def error(self, which: str = "model") -> float | None:
        """Mean loss so far: share of mistakes, mean absolute error, share of alerts.  "idle": of repeating the last label."""
        count = self.stats.get(f"{which}_count", 0)
        return float(self.stats[f"{which}_sum"]) / count if count else None

    def told(self) -> dict[str, Any]:
        """What GET says of a model."""
        about, stats = self.about, self.stats
        schema = {name: about[name] for name in ("features", "width", "label", "classes") if about.get(name) is not None}
        return {
            "name": self.name,
            "task": self.task,
            "model": about["kind"],
            "params": about["params"],
            "step": self.steps,
            "bytes": int(self.model.nbytes) if self.model is not None else about.get("nbytes", 0),
            "error": self.error(),
            "no_change": self.error("idle"),
            "recent": stats.get("model_recent"),
            "hash": self.chain.hex(),
            "schema": schema,
            "coverage": about.get("coverage"),
            "inside": self._inside(),
            "points": self.points(),
            "predictions": {name: stats.get(name, 0) for name in COUNTED},
        }

    def beside(self) -> dict[str, Any] | None:
        """A shadow beside the model that answers: a sign test on the examples where one of the two was better."""
        if self.shadow_of is None:
            return None
        better, worse, pairs = (self.stats.get(name, 0) for name in ("better", "worse", "pairs"))
        mean = self.stats.get("difference", 0.0) / pairs if pairs else None
        return {"pairs": pairs, "better": better, "worse": worse, "difference": mean, "p_value": sign_test(better, worse)}

    def _inside(self) -> float | None:
        """How often the interval held the target."""
        count = self.stats.get("model_count", 0)
        return float(self.stats["inside"]) / count if count and "inside" in self.stats else None

    def points(self) -> int | None:
        state = getattr(self.model, "state_", None) if self.model is not None and self.fitted else None
        return None if state is None else int(state.size)

    def point(self) -> dict[str, Any]:
        """What the page draws: one point of every curve."""
        told = {
            "step": self.steps,
            "error": self.error(),
            "recent": self.stats.get("model_recent"),
            "no_change": self.error("idle"),
        }
        return {**told, "no_change_recent": self.stats.get("idle_recent"), "points": self.points(), "bytes": int(self.model.nbytes)}


COUNTED = ("labelled", "late", "unknown", "expired")


class _NoNumber(Exception):
    pass


def _number(value: Any) -> float:
    if type(value) in (int, float) and abs(value) < 1e300:  # NaN is not below it
        return float(value)
    if isinstance(value, bool):
        return float(value)
    raise _NoNumber(value)


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name


def _key(name: Any) -> str:
    return name if isinstance(name, str) else json.dumps(name)


def _listed(names: list[Any], most: int = 20) -> str:
    return ", ".join(map(str, names[:most])) + (f", ... ({len(names)} in all)" if len(names) > most else "")


def sign_test(better: int, worse: int) -> float | None:
    """Two-sided: how probable so uneven a share is where both are equally good."""
    from scipy.stats import binomtest

    return float(binomtest(better, better + worse).pvalue) if better + worse else None


def first_link(file: bytes) -> bytes:
    """The digest of a model that has learned nothing here yet."""
    return hashlib.sha256(file).digest()


def linked(chain: bytes, row: np.ndarray, label: Any, weight: float) -> bytes:
    """The digest of a model and all that it has learned, one example further."""
    return hashlib.sha256(chain + row.tobytes() + json.dumps(label).encode() + struct.pack("<d", weight)).digest()


def created(body: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """What a model is (``about``) and its estimator, from the body of a PUT; refused with a reason."""
    task, kind, params = body["task"], body.get("model", "kernel"), dict(body.get("params", {}))
    cls = getattr(onkel, ESTIMATORS[task, kind], None)
    if cls is None:
        raise Refused(422, "model", f"this version of onkel has no {ESTIMATORS[task, kind]}")
    known = cls().get_params(deep=False)
    for name, value in params.items():
        if name not in known or name == "drift":
            allowed = _listed(sorted(set(known) - {"drift"}))
            raise Refused(422, "params", f"{cls.__name__} has no parameter {name!r} here; it has {allowed}")
        if value is not None and type(value) not in (bool, int, float, str):
            raise Refused(422, "params", f"{name}: send a number, a string, true, false or null")
        if type(value) in (int, float) and not math.isfinite(value):
            raise Refused(422, "params", f"{name} must be finite")
    if isinstance(params.get("budget"), int) and not 0 < params["budget"] <= MOST_POINTS:
        raise Refused(422, "params", f"budget must be from 1 to {MOST_POINTS} points")
    if kind == "kernel" and "budget" in params and params["budget"] is None:
        raise Refused(422, "params", "a server needs a bounded model; give a budget")
    if params.get("degree", 1) not in range(1, 21):
        raise Refused(422, "params", "degree must be from 1 to 20")
    model = cls(**params)
    try:
        probe(cls, params, task)
    except (ValueError, TypeError, FloatingPointError) as error:
        raise Refused(422, "params", str(error)) from None
    about = {"task": task, "kind": kind, "params": params, "ask": body.get("ask", 0.1)}
    if task == "reals":
        about["coverage"] = known["coverage"] if params.get("coverage") is None else params["coverage"]
    schema = body.get("schema") or {}
    if (features := schema.get("features")) is not None:
        about |= {"features": features, "width": len(features)}
    if (classes := schema.get("classes")) is not None and task == "classes":
        kinds = {type(name) for name in classes}
        if len(kinds) != 1 or not kinds <= {str, int, bool} or len(set(classes)) != len(classes):
            raise Refused(422, "schema", "classes must be different strings, or different whole numbers, one kind for all")
        about |= {"classes": classes, "label": LABELS[kinds.pop()]}
    return about, model


def probe(cls: Any, params: dict[str, Any], task: str) -> None:
    """Whether the parameters make sense, and the code that they need is compiled: a hundred rows learned and forgotten."""
    model, rng = cls(**params), np.random.default_rng(0)
    X, y = rng.normal(size=(110, 2)), np.arange(110) % 2
    model.partial_fit(X[:104], *([] if task == "novelty" else [y[:104]]))
    made = Served(0, "probe", 0, 0, None, {"task": task}, 0, b"", {}, model)
    for i in range(104, 110):
        made.predict(X[i])
        made.learn(X[i], None if task == "novelty" else int(y[i]), 1.0)


def uploaded(file: bytes) -> tuple[dict[str, Any], Any]:
    """The same from a .onkel file, which runs no code when it is read."""
    try:
        model = loads(file)
    except ValueError as error:
        raise Refused(422, "file", str(error)) from None
    for (task, kind), name in ESTIMATORS.items():
        if type(model) is getattr(onkel, name, None):
            params = {k: v for k, v in model.get_params(deep=False).items() if v is None or type(v) in (bool, int, float, str)}
            about = {"task": task, "kind": kind, "params": params, "ask": 0.1}
            if task == "reals":
                about["coverage"] = model.coverage
            if model.__sklearn_is_fitted__():
                about["width"] = int(model.n_features_in_)
                if hasattr(model, "feature_names_in_"):
                    about["features"] = [str(name) for name in model.feature_names_in_]
                if task == "classes":
                    about["label"] = LABELS.get(type(_plain(model.classes_[0])))
            return about, model
    raise Refused(422, "file", f"it holds a {type(model).__name__}; the server takes {_listed(sorted(ESTIMATORS.values()))}")
