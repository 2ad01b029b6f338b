"""The parameters of the estimators, once for scikit-learn's and River's: what each means, and what it is if nothing is said."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

SHARED = """
    kernel      "rbf", "laplacian", "matern", "poly", "linear", a kernel of onkel, or a callable (X, Z) -> matrix, on any objects
    gamma       "scale": 1 / (features * variance) of the first 100 examples, settled for good when the 100th has come; "auto":
                1 / features; or a number: exp(-gamma |x - x'|^2), exp(-gamma |x - x'|_1), (gamma x.x' + coef0)^degree
    step        "implicit" (ILK), "explicit" (NORMA), "adaptive" (SVMD), or a step such as onkel.Adaptive(implicit=True)
    eta         step size, a number or a schedule; None is 1 for implicit steps and 0.1 for the others
    C, lam      weight of the loss, and how fast the model forgets: every step shrinks f by about eta lam
    budget      how many points are kept (None: all); drop: which goes, "merge", "smallest", "oldest" or "project"
    nu, offset  nu-trick and offset b;  mu, decay: the adaptive step's
    missing     "error", or "ignore": a kernel that leaves missing coordinates (NaN) out and rescales
    drift       a detector with River's update(value) and drift_detected; it hears mistakes, alerts or absolute errors
    on_drift    "forget" (f fades by 3 % a step for 100 steps), "shrink" (the older half of the points goes) or "restart"
"""


@dataclass(eq=False, repr=False)
class Parameters:
    """What all three take.  The generated ``__init__`` only puts its arguments in place, as scikit-learn and River expect."""

    kernel: Any = "rbf"
    _: KW_ONLY
    gamma: Any = "scale"
    degree: int = 3
    coef0: float = 1.0
    loss: Any = None
    step: Any = "implicit"
    eta: Any = None
    C: float = 1.0
    lam: float = 0.0
    budget: int | None = 512
    drop: str = "merge"
    nu: float | None = None
    offset: bool = False
    mu: float = 0.1
    decay: float = 0.95
    missing: str = "error"
    drift: Any = None
    on_drift: str = "forget"

    def parameters(self) -> Parameters:
        """The parameters alone, as they are now: what becomes of those of an estimator does not reach its model."""
        kind = next(cls for cls in type(self).__mro__ if cls.__module__ == __name__)
        given = {field.name: getattr(self, field.name) for field in fields(kind)}
        return kind(**{name: dict(value) if type(value) is dict else value for name, value in given.items()})


@dataclass(eq=False, repr=False)
class ClassifierParameters(Parameters):
    """A classifier's."""

    loss: Any = "hinge"
    C: float = 0.5
    lam: float = 1e-5
    labels: Any = None
    coverage: float = 0.9
    class_weight: dict[Any, float] | None = None


@dataclass(eq=False, repr=False)
class RegressorParameters(Parameters):
    """A regressor's."""

    loss: Any = "squared"
    lam: float = 1e-4
    offset: bool = True
    coverage: float = 0.9
    interval: str = "even"


@dataclass(eq=False, repr=False)
class NoveltyParameters(Parameters):
    """A novelty detector's."""

    loss: Any = "novelty"
    lam: float = 1e-2
    nu: float | None = 0.05
