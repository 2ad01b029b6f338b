"""onkel: online kernel learning for streams that drift.

Names are loaded when they are first used; importing onkel compiles nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "core.maths.kernels": ("RBF", "Polynomial", "Linear", "Laplacian", "Matern"),
    "core.maths.user_kernel": ("kernel",),
    "core.maths.losses": ("Hinge", "Square", "Logistic", "EpsilonInsensitive", "Huber", "Novelty"),
    "core.maths.labelled": ("Softmax", "Structured"),
    "core.maths.user_loss": ("loss",),
    "core.maths.labels": ("Labels",),
    "core.maths.steps": ("InvSqrt", "SqrtDecay", "Explicit", "Implicit", "Adaptive", "Alma"),
    "core.maths.budget": ("Budget",),
    "core.learner": ("Learner", "Trace"),
    "core.state": ("State",),
    "core.many": ("learn_many",),
    "core.recipes": ("norma", "ilk", "silk", "svmd", "perceptron", "pa", "alma"),
    "auto.classifier": ("AutoClassifier",),
    "auto.detector": ("AutoDetector",),
    "auto.regressor": ("AutoRegressor",),
    "auto.scaler": ("Scaler",),
    "estimators.classifier": ("KernelClassifier",),
    "estimators.regressor": ("KernelRegressor",),
    "estimators.novelty": ("NoveltyDetector",),
    "estimators.features": ("Nystroem", "RandomFeatures"),
    "persist": ("save", "load"),
    "reasons.explain": ("explain",),
    "reasons.importance": ("importance",),
    "reasons.change": ("change",),
    "reasons.certify": ("certify",),
    "reasons.unlearn": ("forget", "unlearn", "verify"),
    "server.client": ("Client", "AsyncClient"),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_WHERE)


@contextmanager
def undisturbed() -> Iterator[None]:
    """The garbage collector waits: modules and machine code are made of thousands of objects, all of which stay."""
    waits = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if waits:
            gc.enable()


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'onkel' has no attribute {name!r}")
    with undisturbed():
        value = getattr(import_module(f"onkel.{_WHERE[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
