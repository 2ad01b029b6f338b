"""The parameters of a background subtractor, checked once."""

from __future__ import annotations

import math
from typing import NamedTuple

RULES = ("fold", "silk", "norma")


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
) -> Settings:
    """Fill in what depends on the rule and refuse what cannot work."""
    if rule not in RULES:
        raise ValueError(f"rule={rule!r}: choose one of {', '.join(map(repr, RULES))}")
    folding = rule == "fold"
    budget = (8 if folding else 20) if budget is None else budget
    C = 0.12 if C is None else C
    lam = (0.008 if folding else 0.001) if lam is None else lam
    if not (isinstance(budget, int) and 1 <= budget <= 256):
        raise ValueError(f"budget={budget!r}: the colours kept per pixel, a whole number from 1 to 256")
    for name, value in (("sigma", sigma), ("C", C), ("rho", rho)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}={value!r}: must be a positive finite number")
    if not 1e-5 <= lam < 1:
        raise ValueError(
            f"lam={lam!r}: the forgetting per frame must lie in [1e-5, 1); a background that never forgets "
            "cannot order its colours by age"
        )
    if not folding and budget * C < 2 * rho:
        raise ValueError(
            f"budget * C = {budget * C:g} is under 2 rho = {2 * rho:g}: f could hardly reach rho, every pixel would "
            f"update in every frame; raise C to {2 * rho / budget:g} or the budget to {math.ceil(2 * rho / C)}"
        )
    if threshold is not None and not 0 < threshold:
        raise ValueError(f"threshold={threshold!r}: a pixel is foreground when f < threshold; give a positive number or None")
    if nu is not None and not 0 < nu < 1:
        raise ValueError(f"nu={nu!r}: the share of lonely alarms to aim at must lie in (0, 1); None keeps the threshold fixed")
    if not folding and threshold is None:
        threshold = 0.5 * rho
    return Settings(
        rule,
        budget,
        float(sigma),
        float(C),
        float(lam),
        threshold,
        float(rho),
        folding if median is None else bool(median),
        2.0 if fold is None else float(fold),
        float(move),
        float(C if slow is None else slow),
        bool(light),
        float(unrest),
        0.0 if nu is None else float(nu),
    )
