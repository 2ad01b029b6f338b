"""Which learner is wanted, in the plain parameters of the doors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onkel.core.learner import Learner
from onkel.core.maths.budget import Budget
from onkel.core.maths.kernels import RBF, Laplacian, Linear, Matern, Polynomial, as_kernel
from onkel.core.maths.labelled import Softmax, Structured
from onkel.core.maths.labels import Labels
from onkel.core.maths.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Novelty, Square
from onkel.core.maths.steps import Adaptive, Alma, Explicit, Implicit
from onkel.core.points.read import is_sparse
from onkel.estimators.missing import Observed

KERNELS = ("rbf", "laplacian", "matern", "poly", "linear")
ACTIONS = ("forget", "shrink", "restart")


@dataclass(frozen=True)
class Plan:
    """Which learner, in the parameters of the doors; ``task`` is "classes", "reals" or "novelty"."""

    task: str
    kernel: Any
    gamma: Any
    degree: int
    coef0: float
    loss: Any
    step: Any
    eta: Any
    C: float
    lam: float
    budget: int | None
    drop: str
    nu: float | None
    offset: bool
    mu: float
    decay: float
    missing: str = "error"
    labels: Labels | None = None
    coverage: float = 0.9
    drift: Any = None
    on_drift: str = "forget"

    def __post_init__(self) -> None:
        if isinstance(self.kernel, str) and self.kernel not in KERNELS:
            raise ValueError(f"kernel must be one of {', '.join(KERNELS)}, a kernel of onkel or a callable; got {self.kernel!r}")
        if isinstance(self.gamma, str) and self.gamma not in ("scale", "auto"):
            raise ValueError(f'gamma must be "scale", "auto" or a positive number; got {self.gamma!r}')
        if self.missing not in ("error", "ignore"):
            raise ValueError(f'missing must be "error" or "ignore"; got {self.missing!r}')
        if self.missing == "ignore" and not isinstance(self.kernel, str):
            raise ValueError('missing="ignore" needs a kernel given by name; one of your own must look after them itself')
        if not 0.0 < self.coverage < 1.0:
            raise ValueError(f"coverage must lie between 0 and 1; got {self.coverage!r}")
        if self.nu is not None and not 0.0 < self.nu <= 1.0:
            raise ValueError(f"nu must lie above 0 and be at most 1, or None; got {self.nu!r}")
        if self.on_drift not in ACTIONS:
            raise ValueError(f"on_drift must be one of {', '.join(map(repr, ACTIONS))}; got {self.on_drift!r}")
        if self.drift is not None and not (hasattr(self.drift, "update") and hasattr(self.drift, "drift_detected")):
            raise TypeError(f"drift must have update(value) and drift_detected, as River's detectors have; got {self.drift!r}")

    @property
    def waits(self) -> bool:
        """Whether gamma has to be settled from the stream."""
        return isinstance(self.kernel, str) and self.kernel != "linear" and isinstance(self.gamma, str) and self.gamma == "scale"

    @property
    def tracks(self) -> bool:
        """Whether alerts are kept at the share nu by calibration: the implicit step has no nu-trick."""
        return self.task == "novelty" and self.nu is not None and self.step == "implicit"

    def learner(self, gamma: float | None, width: int, m: int) -> Learner:
        """The learner for points of ``width`` features and m classes."""
        nu = None if self.tracks else self.nu
        budget = Budget(self.budget, "oldest" if self.budget is None else self.drop)
        return Learner(self._kernel(gamma, width), self.loss_over(m), self._step(), budget, nu, self.offset)

    def _kernel(self, gamma: float | None, width: int) -> Any:
        if not isinstance(self.kernel, str):
            return as_kernel(self.kernel)
        if gamma is None:
            gamma = 1.0 / max(width, 1) if isinstance(self.gamma, str) else self.gamma
        if self.kernel in ("rbf", "matern", "laplacian", "poly") and not (np.isreal(gamma) and 0.0 < gamma < math.inf):
            raise ValueError(f'gamma must be "scale", "auto" or a positive finite number; got {gamma!r}')
        if self.kernel == "linear":
            kernel: Any = Linear()
        elif self.kernel == "poly":
            kernel = Polynomial(self.degree, gamma, self.coef0)
        elif self.kernel == "laplacian":
            kernel = Laplacian(1.0 / gamma)
        else:
            sigma = math.sqrt(0.5 / gamma)  # exp(-gamma d^2) = exp(-d^2 / (2 sigma^2))
            kernel = RBF(sigma) if self.kernel == "rbf" else Matern(sigma)
        return as_kernel(Observed(kernel)) if self.missing == "ignore" else kernel

    def loss_over(self, m: int) -> Any:
        loss = self.loss
        if self.task == "classes":
            labels = Labels.flat(max(m, 1)) if self.labels is None else self.labels
            if loss == "hinge" or isinstance(loss, Hinge):
                return Structured(labels, 1.0 if isinstance(loss, str) else loss.rho)
            if loss == "logistic" or isinstance(loss, Logistic):
                return Softmax(labels)
            raise ValueError(f'loss must be "hinge", "logistic", onkel.Hinge(rho) or onkel.Logistic(); got {loss!r}')
        if self.task == "novelty":
            if loss == "novelty" or isinstance(loss, Novelty):
                return Novelty() if isinstance(loss, str) else loss
            raise ValueError(f'loss must be "novelty" or onkel.Novelty(rho); got {loss!r}')
        named = {"squared": Square(), "epsilon_insensitive": EpsilonInsensitive(), "huber": Huber()}
        if isinstance(loss, str) and loss in named:
            return named[loss]
        if getattr(type(loss), "targets", None) != "reals":
            raise ValueError(f"loss must be one of {', '.join(map(repr, named))} or a loss of onkel for real targets; got {loss!r}")
        return loss

    def _step(self) -> Any:
        if isinstance(self.step, Explicit | Implicit | Adaptive | Alma):
            return self.step
        if self.step == "implicit":
            return Implicit(1.0 if self.eta is None else self.eta, self.lam, self.C)
        eta = 0.1 if self.eta is None else self.eta
        if self.step == "explicit":
            return Explicit(eta, self.lam, self.C)
        if self.step == "adaptive":
            return Adaptive(eta, self.lam, self.C, self.mu, self.decay)
        raise ValueError(f'step must be "implicit", "explicit" or "adaptive"; got {self.step!r}')


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
