"""The parameters of a background subtractor, checked once."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

RULES = ("fold", "fold1", "silk", "norma")
FOLDING = ("fold", "fold1")  # today's default and the one before it, which older files go on with


class Settings(NamedTuple):
    """Frozen parameters; what each means is told in `BackgroundSubtractor`."""

    rule: str
    budget: int
    sigma: float
    C: float
    lam: float
    threshold: float | None
    rho: float
    median: bool
    fold: float
    move: float
    slow: float
    light: bool
    unrest: float
    nu: float
    texture: bool
    shadows: bool
    votes: bool
    detectShadows: bool

    @property
    def folding(self) -> bool:
        """Whether colours are folded together, under either generation of the default rule."""
        return self.rule in FOLDING

    @property
    def sharpness(self) -> float:
        """k(x, x') = 2^(-sharpness |x - x'|^2) is the Gaussian of width sigma."""
        return math.log2(math.e) / (2.0 * self.sigma**2)

    def step(self, forgetting: float | None) -> tuple[float, float]:
        """(shrink, cap): f <- shrink f + a k, a <= cap. `forgetting` = 1 - shrink overrides lam for one frame."""
        if self.rule == "norma":
            return (1.0 - self.lam if forgetting is None else 1.0 - forgetting), self.C
        shrink = 1.0 / (1.0 + self.lam) if forgetting is None else 1.0 - forgetting
        return shrink, shrink * self.C


def real(name: str, value: Any, fine: Callable[[float], bool], what: str) -> None:
    """Refuse what is no number, or not a fine one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not fine(float(value)):
        raise ValueError(f"{name}={value!r}: {what}")


def whole(name: str, value: Any, most: float, what: str) -> int:
    """A whole number from 1 to ``most``."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not 1 <= value <= most:
        raise ValueError(f"{name}={value!r}: {what}, a whole number from 1{f' to {most}' if most < math.inf else ''}")
    return int(value)


def settle_settings(
    rule: str,
    budget: int | None,
    sigma: float,
    C: float | None,
    lam: float | None,
    threshold: float | None,
    rho: float,
    median: bool | None,
    fold: float | None,
    move: float,
    slow: float | None,
    light: bool,
    unrest: float,
    nu: float | None,
    texture: bool,
    shadows: bool,
    votes: bool,
    detectShadows: bool,
) -> Settings:
    """Fill in what depends on the rule and refuse what cannot work."""
    if rule not in RULES:
        raise ValueError(f"rule={rule!r}: choose one of {', '.join(map(repr, RULES))}")
    folding = rule in FOLDING
    budget = (8 if folding else 20) if budget is None else whole("budget", budget, 256, "the colours kept per pixel")
    C = 0.12 if C is None else C
    lam = (0.008 if folding else 0.001) if lam is None else lam
    for name, value in (("sigma", sigma), ("C", C), ("rho", rho), ("threshold", threshold)):
        if name != "threshold" or value is not None:
            real(name, value, lambda v: 0 < v < math.inf, "must be a positive finite number")
    real(
        "lam",
        lam,
        lambda v: 1e-5 <= v < 1,
        "the forgetting per frame must lie in [1e-5, 1); a background that never forgets cannot order its colours by age",
    )
    if fold is not None:
        real("fold", fold, lambda v: 0 < v <= 1, "how alike colours must be that become one, in (0, 1]; None keeps them apart")
    real("move", move, lambda v: 0 <= v <= 1, "how far a colour moves towards the new one must lie in [0, 1]")
    if slow is not None:
        real("slow", slow, lambda v: 0 <= v < math.inf, "what an object's pixel learns in a frame must be 0 or more; None is C")
    real("unrest", unrest, lambda v: 0 <= v < math.inf, "how much false alarms raise a pixel's bar must be 0 or more")
    if nu is not None:
        real(
            "nu", nu, lambda v: 0 < v < 1, "the share of lonely alarms to aim at must lie in (0, 1); None keeps the threshold fixed"
        )
    parts = {"texture": texture, "shadows": shadows, "votes": votes, "detectShadows": detectShadows}
    for name, value in {"median": median, "light": light, **parts}.items():
        if not isinstance(value, bool | np.bool_) and (name != "median" or value is not None):
            raise ValueError(f"{name}={value!r}: give True or False")
    if detectShadows and (rule != "fold" or not shadows):
        raise ValueError("detectShadows=True: only rule='fold' with shadows=True knows shadows")
    if not folding and budget * C < 2 * rho:
        raise ValueError(
            f"budget * C = {budget * C:g} is under 2 rho = {2 * rho:g}: f could hardly reach rho, every pixel would "
            f"update in every frame; raise C to {2 * rho / budget:g} or the budget to {math.ceil(2 * rho / C)}"
        )
    if not folding and threshold is None:
        threshold = 0.5 * rho
    return Settings(
        rule,
        budget,
        float(sigma),
        float(C),
        float(lam),
        None if threshold is None else float(threshold),
        float(rho),
        folding if median is None else bool(median),
        2.0 if fold is None else float(fold),  # nothing is that alike
        float(move),
        float(C if slow is None else slow),
        bool(light),
        float(unrest),
        0.0 if nu is None else float(nu),
        *(bool(value) for value in parts.values()),
    )
