"""A model from what a file holds of it; what compiled code will trust is compared first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from onkel.core.gate import is_array, is_count, is_finite, must
from onkel.core.maths.labels import Labels
from onkel.core.state import State
from onkel.estimators import calibration
from onkel.estimators.drift import RECOVERY, Watch
from onkel.estimators.examples import rows
from onkel.estimators.model import Member, Model
from onkel.estimators.plan import Plan
from onkel.estimators.warmup import SETTLE, WarmUp
from onkel.saved.states import check

MANY = 4096  # classes; more need points that prove them, since costs between all of them are made


def restored(estimator: Any, parts: dict[str, Any]) -> Model:
    """The model of an estimator whose parameters are in place."""
    classes, declared, state, width = (parts[name] for name in ("classes", "declared", "state", "width"))
    must(type(state) is State and type(classes) is list and type(declared) is list, "its classes")
    must(len(set(classes)) == len(classes) and set(declared) <= set(classes), "its classes")
    if estimator.task == "classes":  # before costs between all of them are made
        must(state.m == max(len(classes), 1), f"{len(classes)} classes, and scores of {state.m}")
        must(len(classes) <= MANY or len(state.slots), "classes without points")
        must(estimator.labels is None or len(classes) == _leaves(estimator.labels), "its classes are not those of labels")
    else:
        must(not classes, "classes where there are none")
    plan: Plan = estimator.plan()
    if "given" in parts:  # parameters as they stood when the model began, where they have been changed since
        plan = replace(plan, given=replace(plan.given, **parts["given"]))
    must(is_count(width) and is_count(parts["hurry"], RECOVERY), "its counts")
    if len(state.slots):
        wide = 2 * width if plan.masks else width
        must(state.width == wide or (state.width == -1 and width == 0), "the number of features")
    model = Model(plan, declared)
    calibration.check(parts["cells"])
    for name in ("classes", "gamma", "width", "cells"):
        setattr(model, name, parts[name])
    model.first = None if parts["first"] is None else _first(parts["first"], plan, width, classes)
    model.code = {name: float(i) for i, name in enumerate(classes)}
    model.unit = parts.get("unit", 1.0)  # files of the first versions have none
    must(type(model.unit) is float and 0.0 < model.unit < math.inf, "the unit of its targets")
    if parts["hurry"]:
        model.watch = Watch(None)
        model.watch.left = parts["hurry"]
    states, learners = [state, *parts.get("others", [])], plan.learners(model.gamma, width, len(classes))
    must(len(states) == len(learners) and all(type(state) is State for state in states), "how many learners it has")
    for learner, state in zip(learners, states):
        check(learner, state)
    model.members = tuple(map(Member, learners, states))
    return model


def _leaves(labels: Any) -> int:
    """How many classes a hierarchy has, before it is built."""
    if isinstance(labels, Labels):
        return labels.m
    if isinstance(labels, Mapping):
        return len(labels.keys() - {parent for parent in labels.values() if parent is not None})
    return len(labels) - len(set(labels) - {-1})


def _first(plain: Any, plan: Plan, width: int, classes: list[Any]) -> WarmUp:
    """The examples that wait for gamma."""
    X, y, weight = plain["X"], plain["y"], plain["weight"]
    if isinstance(X, dict):
        _check_csr(**X, width=width)
    elif X is not None:
        must(type(X) is np.ndarray and X.ndim == 2 and X.dtype in (np.float32, np.float64), "its first examples")
        must(is_array(X, (len(X), width), X.dtype), "its first examples")
        must((np.isfinite(X) | (np.isnan(X) & plan.masks)).all(), "its first examples")
    first = WarmUp.of(plain)
    n = 0 if first.X is None else rows(first.X)
    must(n < SETTLE and type(y) is list and len(y) == (0 if plan.task == "novelty" else n), "its first examples")
    must(plan.task != "classes" or set(y) <= set(classes), "the classes of its first examples")
    must(plan.task != "reals" or np.isfinite(np.array(y, np.float64)).all(), "the targets of its first examples")
    must(weight is None or (is_finite(weight, (n,), np.float64) and (weight >= 0).all()), "the weights of its first examples")
    return first


def _check_csr(data: Any, indices: Any, indptr: Any, shape: Any, width: int) -> None:
    must(type(shape) is list and len(shape) == 2 and shape[1] == width and is_count(shape[0], SETTLE), "its first examples")
    must(all(type(a) is np.ndarray and a.ndim == 1 for a in (data, indices, indptr)), "its first examples")
    must(data.dtype in (np.float32, np.float64) and is_finite(data, (len(data),), data.dtype), "its first examples")
    must(all(a.dtype in (np.int32, np.int64) for a in (indices, indptr)), "its first examples")
    must(len(indptr) == shape[0] + 1 and indptr[0] == 0 and indptr[-1] == len(data) == len(indices), "its first examples")
    must((np.diff(indptr) >= 0).all() and (indices >= 0).all() and (indices < width).all(), "its first examples")
