"""Which learner is wanted, in the plain parameters of the doors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onkel.core.learner import Learner
from onkel.core.maths.budget import Budget
from onkel.core.maths.kernels import Kernel, as_kernel
from onkel.core.maths.labelled import Labelled, over_labels
from onkel.core.maths.labels import Labels
from onkel.core.maths.losses import OneScore, Square
from onkel.core.maths.steps import Adaptive, Explicit, Implicit, Step
from onkel.core.maths.value import named, names
from onkel.core.points.missing import Observed
from onkel.core.points.read import is_sparse
from onkel.estimators.calibration import Calibration, lower, sharpen, widen
from onkel.estimators.parameters import Parameters

TARGETS = {"reals": "reals", "novelty": "none"}  # what a loss must learn from, for each task without classes
SIMILARITIES = ("rbf", "laplacian", "matern")  # kernels with k(x, x) = 1
KERNELS = (*SIMILARITIES, "poly", "linear")
ERRORS_C, ERRORS_LAM, ERRORS_BUDGET = 0.1, 1e-4, 64  # of the learner of typical errors, which have noise of their own size
ACTIONS = ("forget", "shrink", "restart")


@dataclass(frozen=True)
class Plan:
    """Which learner: ``given`` are an estimator's parameters as they stood when it began, ``task`` is "classes", "reals" or
    "novelty"."""

    task: str
    given: Parameters
    labels: Labels | None = None

    def __post_init__(self) -> None:
        given = self.given
        if isinstance(given.kernel, str) and named(Kernel, given.kernel) is None:
            known = ", ".join(names(Kernel))
            raise ValueError(f"kernel must be one of {known}, a kernel of onkel or a callable; got {given.kernel!r}")
        if isinstance(given.gamma, str) and given.gamma not in ("scale", "auto"):
            raise ValueError(f'gamma must be "scale", "auto" or a positive number; got {given.gamma!r}')
        if given.missing not in ("error", "ignore"):
            raise ValueError(f'missing must be "error" or "ignore"; got {given.missing!r}')
        if given.missing == "ignore" and not isinstance(given.kernel, str):
            raise ValueError('missing="ignore" needs a kernel given by name; one of your own must look after them itself')
        if not 0.0 < self.coverage < 1.0:
            raise ValueError(f"coverage must lie between 0 and 1; got {self.coverage!r}")
        if given.nu is not None and not 0.0 < given.nu <= 1.0:
            raise ValueError(f"nu must lie above 0 and be at most 1, or None; got {given.nu!r}")
        if getattr(given, "interval", "even") not in ("even", "local"):
            raise ValueError(f'interval must be "even" or "local"; got {given.interval!r}')  # type: ignore[attr-defined]
        check_class_weight(getattr(given, "class_weight", None))
        if given.on_drift not in ACTIONS:
            raise ValueError(f"on_drift must be one of {', '.join(map(repr, ACTIONS))}; got {given.on_drift!r}")
        if given.drift is not None and not (hasattr(given.drift, "update") and hasattr(given.drift, "drift_detected")):
            raise TypeError(f"drift must have update(value) and drift_detected, as River's detectors have; got {given.drift!r}")

    @property
    def coverage(self) -> float:
        """How often an interval shall hold the target, or a set the label."""
        return float(getattr(self.given, "coverage", 0.9))

    @property
    def measures_gamma(self) -> bool:
        """Whether gamma has to be settled from the stream."""
        return isinstance(self.given.kernel, str) and named(Kernel, self.given.kernel).asks_gamma and _is(self.given.gamma, "scale")

    @property
    def measures_targets(self) -> bool:
        """Whether targets are divided by their spread: an adaptive step on squared errors grows by their square."""
        adaptive = _is(self.given.step, "adaptive") or isinstance(self.given.step, Adaptive)
        return self.task == "reals" and adaptive and (_is(self.given.loss, "squared") or isinstance(self.given.loss, Square))

    @property
    def waits(self) -> bool:
        """Whether anything has to be settled from the stream."""
        return self.measures_gamma or self.measures_targets

    @property
    def tracks(self) -> bool:
        """Whether alerts are kept at the share nu by calibration: the implicit step has no nu-trick."""
        return self.task == "novelty" and self.given.nu is not None and _is(self.given.step, "implicit")

    @property
    def masks(self) -> bool:
        """Whether rows may have gaps."""
        return self.given.missing == "ignore"

    @property
    def calibration(self) -> Any:
        """What the model learns about its scores, if anything."""
        if self.task == "classes":
            return Calibration(sharpen, 1.0 - self.coverage)
        if self.task == "reals":
            return Calibration(widen, 1.0 - self.coverage)
        return Calibration(lower, float(self.given.nu)) if self.tracks else None  # type: ignore[arg-type]

    def learner(self, gamma: float | None, width: int, m: int) -> Learner:
        """The learner for points of ``width`` features and m classes."""
        given = self.given
        budget = Budget(given.budget, "oldest" if given.budget is None else given.drop)
        nu = None if self.tracks else given.nu
        return Learner(self._kernel(gamma, width), self.loss_over(m), self._step(), budget, nu, given.offset)

    def learners(self, gamma: float | None, width: int, m: int) -> list[Learner]:
        """All learners of a model: behind the one that predicts the one that learns errors, for intervals that follow x."""
        made = [self.learner(gamma, width, m)]
        if getattr(self.given, "interval", "even") == "local":
            step, budget = Implicit(1.0, ERRORS_LAM, ERRORS_C), Budget(ERRORS_BUDGET, "merge")
            made.append(Learner(self._kernel(gamma, width), Square(), step, budget, offset=True))
        return made

    def gamma(self, measured: float | None, width: int) -> float | None:
        """The kernel's gamma; None where the kernel was given whole."""
        given = self.given
        if not isinstance(given.kernel, str):
            return None
        gamma = given.gamma
        if isinstance(gamma, str):
            gamma = 1.0 / max(width, 1) if measured is None else measured
        if named(Kernel, given.kernel).asks_gamma and not (np.isreal(gamma) and 0.0 < gamma < math.inf):
            raise ValueError(f'gamma must be "scale", "auto" or a positive finite number; got {gamma!r}')
        return gamma  # type: ignore[no-any-return]

    def _kernel(self, measured: float | None, width: int) -> Any:
        given, gamma = self.given, self.gamma(measured, width)
        if gamma is None:
            return as_kernel(given.kernel)
        kernel = named(Kernel, given.kernel).of_gamma(gamma, given.degree, given.coef0)
        return as_kernel(Observed(kernel)) if self.masks else kernel

    def loss_over(self, m: int) -> Any:
        """The loss over m classes, or the one that was given for numbers."""
        loss = self.given.loss
        if self.task == "classes":
            labels = Labels.flat(max(m, 1)) if self.labels is None else self.labels
            made = over_labels(loss, labels)
            if made is None:
                known = ", ".join(f'"{name}"' for name in names(Labelled))
                raise ValueError(f"loss must be {known}, onkel.Hinge(rho), onkel.Logistic(), or a loss over labels; got {loss!r}")
            return made
        allowed = {name: cls for name in names(OneScore) if (cls := named(OneScore, name)).targets == TARGETS[self.task]}
        if isinstance(loss, str) and loss in allowed:
            return allowed[loss]()
        if isinstance(loss, OneScore) and type(loss).targets == TARGETS[self.task]:
            return loss
        kind = "onkel.Novelty(rho)" if self.task == "novelty" else "a loss of onkel for real targets"
        raise ValueError(f"loss must be one of {', '.join(map(repr, allowed))} or {kind}; got {loss!r}")

    def _step(self) -> Any:
        given = self.given
        if isinstance(given.step, Step):
            return given.step
        if given.step == "implicit":
            return Implicit(1.0 if given.eta is None else given.eta, given.lam, given.C)
        eta = 0.1 if given.eta is None else given.eta
        if given.step == "explicit":
            return Explicit(eta, given.lam, given.C)
        if given.step == "adaptive":
            # a step on squared errors overshoots beyond 1 / (C k(x, x)): targets that grow later could drive eta there
            capped = self.measures_targets and given.kernel in SIMILARITIES and eta * given.C <= 1.0
            return Adaptive(eta, given.lam, given.C, given.mu, given.decay, eta_max=1.0 / given.C if capped else None)
        raise ValueError(f'step must be "implicit", "explicit" or "adaptive"; got {given.step!r}')


def _is(value: Any, name: str) -> bool:
    """Whether a parameter is that word; values of ours need not know how to compare themselves with one."""
    return isinstance(value, str) and value == name


def check_class_weight(weights: Any) -> None:
    """Refuse what is no dict from classes to positive numbers."""
    if _is(weights, "balanced"):
        raise ValueError(
            'class_weight="balanced" asks for counts of all classes, which a stream does not tell beforehand; '
            "give a dict from each class to its weight"
        )
    if weights is not None and not isinstance(weights, Mapping):
        raise ValueError(f"class_weight must be a dict from each class to its weight, or None; got {weights!r:.80}")
    for name, weight in (weights or {}).items():
        number = isinstance(weight, int | float | np.integer | np.floating) and not isinstance(weight, bool)
        if not (number and 0.0 < weight < math.inf):
            raise ValueError(f"class_weight of {name!r:.40} must be a positive finite number; got {weight!r:.40}")


def spread_gamma(X: Any) -> float:
    """1 / (features * variance of all entries), as scikit-learn's gamma="scale"; entries that are missing do not count.

    >>> spread_gamma(np.array([[0.0, 2.0], [2.0, 0.0]]))
    0.5
    """
    if is_sparse(X):
        mean = X.mean()
        variance = float(X.multiply(X).mean() - mean * mean)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            seen = X[~np.isnan(X)].astype(np.float64)
            variance = float(seen.var()) if seen.size else 0.0
    gamma = 1.0 / (X.shape[1] * variance) if variance > 0.0 else 1.0
    return min(max(gamma, 1e-30), 1e30) if math.isfinite(gamma) else 1.0


def spread_of(y: Any) -> float:
    """The standard deviation of targets, 1 where there is none yet."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.std(y))
    return spread if 0.0 < spread < math.inf else 1.0


def hierarchy(labels: Any) -> tuple[Labels | None, list[Any]]:
    """What the doors take as ``labels``: None, Labels, a list of parents, or a dict from each node to its parent.

    With a dict the classes are the names that are nobody's parent; else they are the numbers 0 .. m-1.

    >>> hierarchy({"cat": "mammal", "dog": "mammal", "trout": "fish"})[1]
    ['cat', 'dog', 'trout']
    """
    if labels is None:
        return None, []
    if isinstance(labels, Labels):
        return labels, list(range(labels.m))
    if not isinstance(labels, Mapping):
        tree = Labels.tree(labels)
        return tree, list(range(tree.m))
    above = {node: parent for node, parent in labels.items() if parent is not None}
    inner = list(dict.fromkeys(above.values()))
    names = [node for node in labels if node not in set(inner)]
    try:
        names.sort()
    except TypeError:  # names of several kinds keep the order of the dict
        pass
    number = {node: i for i, node in enumerate([*inner, *names])}
    return Labels.tree([number[above[node]] if node in above else -1 for node in number]), names
