"""Steps: how far to move, and by which rule."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.maths.losses import Hinge
from onkel.core.maths.schedules import Schedule, etas, schedule, small_enough
from onkel.core.maths.value import Value, checked_number, field, flag, number


class Step(Value, abstract=True):
    """What a learner asks of its step."""

    asked: ClassVar = {
        "implicit": "whether it takes the loss's prox",
        "adaptive": "whether its size adapts itself, by a trace that stands beside the coefficients",
        "kind": "the name that loop/layout.py has for the rule",
    }
    implicit: ClassVar[Any]
    adaptive: ClassVar[bool]
    repairs: ClassVar[Any] = False  # whether <f, v> and |f|^2 are kept exact when a point goes, which takes kernel values
    kind: ClassVar[Any]

    @property
    def fixed(self) -> float | None:
        """The step size where it is one number for all examples; 1 where the loop finds it by itself."""
        return 1.0

    def etas(self, start: int, n: int) -> Any:
        """The step sizes of the examples start+1 .. start+n."""
        return self.fixed

    def settings(self) -> dict[str, float]:
        """What the loop reads of the step, by the names of loop/layout.py."""
        return {}

    def first_theta(self, theta: float, nu: float | None) -> float:
        """The margin or tube to start from, where the loss has ``theta``."""
        return theta

    def check(self, loss: Any, nu: float | None, offset: bool) -> None:
        """Refuse the losses and settings that the step does not go with."""
        if self.implicit:
            if nu is not None:
                raise ValueError("nu goes with explicit and adaptive steps; the implicit step has no nu-trick")
            if type(loss).theta.margin and loss.theta == 0.0:
                raise ValueError("rho must be above 0 for an implicit step: with rho = 0 it never starts from f = 0")


class Explicit(Step):
    """f <- (1 - eta lam) f - eta C loss'(f(x)) k(x, .): NORMA."""

    eta: Schedule = field(0.1, schedule)
    lam: float = number(0.01, low=0)
    C: float = number(1.0, above=0)

    implicit = adaptive = False
    kind = "EXPLICIT"

    @property
    def fixed(self) -> float | None:
        return None if callable(self.eta) else self.eta

    def etas(self, start: int, n: int) -> NDArray[np.float64]:
        steps = etas(self.eta, start, n)
        if callable(self.eta):
            small_enough(steps, self.lam)
        return steps

    def settings(self) -> dict[str, float]:
        return {"LAM": self.lam, "C": self.C, "TIE": 1.0}

    def checked(self) -> Explicit:
        if not callable(self.eta):
            small_enough(self.eta, self.lam)
        return self


class Implicit(Step):
    """f <- the minimiser of 1/2 |g - f|^2 + eta (lam/2 |g|^2 + C loss(g(x))): ILK.  ``exact`` matters for Structured alone."""

    eta: Schedule = field(1.0, schedule)
    lam: float = number(0.01, low=0)
    C: float = number(1.0, above=0)
    exact: bool = flag(False)

    implicit, adaptive = True, False
    kind = "IMPLICIT"

    @property
    def fixed(self) -> float | None:
        return None if callable(self.eta) else self.eta

    def etas(self, start: int, n: int) -> NDArray[np.float64]:
        return etas(self.eta, start, n)

    def settings(self) -> dict[str, float]:
        return {"LAM": self.lam, "C": self.C, "EXACT": self.exact}


def _start(owner: str, name: str, eta: Any) -> float:
    if callable(eta):
        raise ValueError(f"{owner}: {name} must be the number to start from; the step adapts itself, a schedule has no place")
    return checked_number(owner, name, eta, above=0)


class Adaptive(Step):
    """A step whose size adapts itself by meta-descent: eta <- eta max(1/2, 1 - mu <g, v>): SVMD.

    v traces how f depends on log eta, with memory ``decay`` ([V]'s lambda).  ``epsilon`` is where the margin starts with the
    nu-trick.  ``implicit`` makes the implicit update of ILK with that eta (docs/maths.md derives its trace).  ``repair`` keeps
    <f, v> and |f|^2 exact when the budget drops a point.
    """

    eta: float = field(0.1, _start)
    lam: float = number(0.01, low=0)
    C: float = number(1.0, above=0)
    mu: float = number(0.1, low=0)
    decay: float = number(0.95, low=0, high=1.0)
    epsilon: float = number(1.0, above=0)
    eta_min: float | None = number(None, low=0, none=True)
    eta_max: float | None = number(None, above=0, none=True)
    implicit: bool = flag(False)  # type: ignore[misc]
    exact: bool = flag(False)
    repair: bool = flag(True)

    adaptive = True
    kind = property(lambda self: "ADAPTIVE_IMPLICIT" if self.implicit else "ADAPTIVE")

    def settings(self) -> dict[str, float]:
        limits = {"ETA_MIN": self.eta_min or 0.0, "ETA_MAX": math.inf if self.eta_max is None else self.eta_max}
        own = {"MU": self.mu, "DECAY": self.decay, "EXACT": self.exact, "REPAIR": self.repair}
        return {"LAM": self.lam, "C": self.C, **own, **limits}

    repairs = property(lambda self: self.repair)

    def first_theta(self, theta: float, nu: float | None) -> float:
        return theta if nu is None else self.epsilon

    def checked(self) -> Adaptive:
        if self.eta_min is not None and self.eta_max is not None and self.eta_min > self.eta_max:
            raise ValueError(f"Adaptive: eta_min must not exceed eta_max; got {self.eta_min!r} and {self.eta_max!r}")
        if not self.implicit:
            small_enough(self.eta, self.lam)
        return self

    def check(self, loss: Any, nu: float | None, offset: bool) -> None:
        super().check(loss, nu, offset)
        if self.implicit and offset:
            raise ValueError("the adaptive implicit step has no offset; take offset=False")


class Alma(Step):
    """Gentile's approximate large margin step ([G], p = 2): on y <w, x/|x|> <= (1 - alpha) B / sqrt(k), the k-th update is
    w += C / sqrt(k) y x/|x|, then w /= max(1, |w|).  alpha = 1 is ALMA_0."""

    alpha: float = number(0.9, above=0, high=1.0)
    B: float | None = number(None, above=0, none=True)  # sqrt(8) / alpha where not given
    C: float | None = number(None, above=0, none=True)  # sqrt(2)

    implicit = adaptive = False
    kind = "ALMA"

    @property
    def margin(self) -> float:
        return (1.0 - self.alpha) * float(self.B or 0.0)

    def settings(self) -> dict[str, float]:
        return {"ALMA_MARGIN": self.margin, "ALMA_STEP": float(self.C or 0.0)}

    def first_theta(self, theta: float, nu: float | None) -> float:
        return self.margin

    def checked(self) -> Alma:
        if self.B is not None and self.C is not None:
            return self
        return Alma(
            self.alpha,
            math.sqrt(8.0) / self.alpha if self.B is None else self.B,
            math.sqrt(2.0) if self.C is None else self.C,
        )

    def check(self, loss: Any, nu: float | None, offset: bool) -> None:
        if type(loss) is not Hinge or offset or nu is not None:
            raise ValueError("Alma goes with Hinge(), without offset and nu")
