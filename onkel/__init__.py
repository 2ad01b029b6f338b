"""onkel: online kernel learning for streams that drift.

Names are loaded when they are first used; importing onkel compiles nothing.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names for type checkers and editors, which do not run __getattr__
    from onkel.auto.classifier import AutoClassifier as AutoClassifier
    from onkel.auto.detector import AutoDetector as AutoDetector
    from onkel.auto.regressor import AutoRegressor as AutoRegressor
    from onkel.auto.scaler import Scaler as Scaler
    from onkel.core.carry import carry as carry
    from onkel.core.learner import Learner as Learner
    from onkel.core.learner import Trace as Trace
    from onkel.core.many import learn_many as learn_many
    from onkel.core.maths.budget import Budget as Budget
    from onkel.core.maths.kernels import RBF as RBF
    from onkel.core.maths.kernels import Laplacian as Laplacian
    from onkel.core.maths.kernels import Linear as Linear
    from onkel.core.maths.kernels import Matern as Matern
    from onkel.core.maths.kernels import Polynomial as Polynomial
    from onkel.core.maths.labelled import Softmax as Softmax
    from onkel.core.maths.labelled import Structured as Structured
    from onkel.core.maths.labels import Labels as Labels
    from onkel.core.maths.losses import EpsilonInsensitive as EpsilonInsensitive
    from onkel.core.maths.losses import Hinge as Hinge
    from onkel.core.maths.losses import Huber as Huber
    from onkel.core.maths.losses import Logistic as Logistic
    from onkel.core.maths.losses import Novelty as Novelty
    from onkel.core.maths.losses import Square as Square
    from onkel.core.maths.schedules import InvSqrt as InvSqrt
    from onkel.core.maths.schedules import SqrtDecay as SqrtDecay
    from onkel.core.maths.steps import Adaptive as Adaptive
    from onkel.core.maths.steps import Alma as Alma
    from onkel.core.maths.steps import Explicit as Explicit
    from onkel.core.maths.steps import Implicit as Implicit
    from onkel.core.maths.user_kernel import kernel as kernel
    from onkel.core.maths.user_loss import loss as loss
    from onkel.core.mix import mix as mix
    from onkel.core.recipes import alma as alma
    from onkel.core.recipes import ilk as ilk
    from onkel.core.recipes import norma as norma
    from onkel.core.recipes import pa as pa
    from onkel.core.recipes import perceptron as perceptron
    from onkel.core.recipes import silk as silk
    from onkel.core.recipes import svmd as svmd
    from onkel.core.state import State as State
    from onkel.estimators.classifier import KernelClassifier as KernelClassifier
    from onkel.estimators.features import Nystroem as Nystroem
    from onkel.estimators.features import RandomFeatures as RandomFeatures
    from onkel.estimators.novelty import NoveltyDetector as NoveltyDetector
    from onkel.estimators.regressor import KernelRegressor as KernelRegressor
    from onkel.persist import load as load
    from onkel.persist import save as save
    from onkel.reasons.certify import certify as certify
    from onkel.reasons.change import change as change
    from onkel.reasons.explain import explain as explain
    from onkel.reasons.importance import importance as importance
    from onkel.reasons.unlearn import forget as forget
    from onkel.reasons.unlearn import unlearn as unlearn
    from onkel.reasons.unlearn import verify as verify
    from onkel.server.client import AsyncClient as AsyncClient
    from onkel.server.client import Client as Client

__version__ = "0.1.0"

_HOME = {
    "core.maths.kernels": ("RBF", "Polynomial", "Linear", "Laplacian", "Matern"),
    "core.maths.user_kernel": ("kernel",),
    "core.maths.losses": ("Hinge", "Square", "Logistic", "EpsilonInsensitive", "Huber", "Novelty"),
    "core.maths.labelled": ("Softmax", "Structured"),
    "core.maths.user_loss": ("loss",),
    "core.maths.labels": ("Labels",),
    "core.maths.schedules": ("InvSqrt", "SqrtDecay"),
    "core.maths.steps": ("Explicit", "Implicit", "Adaptive", "Alma"),
    "core.maths.budget": ("Budget",),
    "core.learner": ("Learner", "Trace"),
    "core.state": ("State",),
    "core.many": ("learn_many",),
    "core.mix": ("mix",),
    "core.carry": ("carry",),
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


if not TYPE_CHECKING:  # else any name would pass

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module 'onkel' has no attribute {name!r}")
        with undisturbed():
            value = getattr(import_module(f"onkel.{_WHERE[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
