"""What a loss says of itself, and the bases of losses of one score: see losses.py for what each function is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from onkel.core.machine.compiled import inner
from onkel.core.maths.value import Value

TARGETS = {"signs": "+1 and -1", "reals": "real numbers", "codes": "class codes", "none": "nothing"}


class Threshold:
    """The field that is a loss's theta: a ``margin``, which violations shrink under the nu-trick, or a ``tube``, which they widen.

    On a value it reads as the number; a loss without one says ``theta = Threshold(None)`` and reads NaN.
    """

    def __init__(self, field: str | None, tube: bool = False, lowest: float = 0.0):
        self.field, self.tube, self.lowest = field, tube, lowest

    def __get__(self, loss: Any, cls: Any = None) -> Any:
        if loss is None:
            return self
        return math.nan if self.field is None else getattr(loss, self.field)

    @property
    def margin(self) -> bool:
        return self.field is not None and not self.tube


class Loss(Value, abstract=True):
    """What every loss says, of one score or over labels."""

    asked: ClassVar = {
        "targets": f"what it learns from: {', '.join(map(repr, TARGETS))}",
        "theta": "its margin or tube: Threshold(field, tube, lowest), or Threshold(None)",
        "stores_all": "whether every example moves the scores, so that all of them are stored",
        "cuda": "its formulas in C, or None where the card is not to know it",
    }
    targets: ClassVar[str]
    theta: ClassVar[Any]
    stores_all: ClassVar[bool]
    cuda: ClassVar[Mapping[str, str] | None]
    labelled: ClassVar[bool] = False
    doubtful: ClassVar[bool] = False  # whether it might not be convex, so that the loop has a look

    @classmethod
    def complete(cls) -> None:
        super().complete()
        if cls.targets not in TARGETS:
            raise TypeError(f"{cls.__name__}: targets must be one of {', '.join(map(repr, TARGETS))}; got {cls.targets!r}")
        theta: Any = cls.theta
        if not isinstance(theta, Threshold) or (theta.field is not None and theta.field not in cls._fields):
            raise TypeError(f"{cls.__name__}: theta must be a Threshold of one of its fields {cls._fields}; got {theta!r}")


@inner
def smooth_tangent(slope, curvature, cap, k, dz, dcap):
    """Of a = -cap slope(z + k a), differentiated; slope and curvature at the new score."""
    return -(dcap * slope + cap * curvature * dz) / (1.0 + cap * curvature * k)


class OneScore(Loss, abstract=True):
    """Losses of one score."""

    formulas: ClassVar = {name: {} for name in ("value", "slope", "curvature", "violated", "mistake", "prox", "tangent")}
    asked: ClassVar = {
        **Loss.asked,
        **dict.fromkeys(formulas, "a function, as onkel/core/maths/losses.py lists it"),
    }


class Straight(OneScore, abstract=True):
    """Losses of straight pieces with one kink, whose prox is clipped between 0 and the cap."""

    def curvature(loss, f, y, theta):
        return 0.0

    def tangent(loss, z, y, theta, cap, k, a, dz, dcap):
        """Of a = clip(-(z - kink)/k, -cap, cap): at the cap it moves with the cap, between it holds the score at the kink."""
        if a == 0.0:
            return 0.0
        if abs(a) >= cap:
            return np.sign(a) * dcap
        return -dz / k


class Unlimited(OneScore, abstract=True):
    """Losses without margin or tube: there is nothing to violate."""

    theta = Threshold(None)

    def violated(loss, f, y, theta, tie):
        return False


class Tube(OneScore, abstract=True):
    """Regression with a tube of width theta around the targets; what lies outside counts."""

    targets = "reals"

    def violated(loss, f, y, theta, tie):
        return abs(y - f) > theta

    def mistake(loss, f, y, theta):
        return abs(y - f) > theta
