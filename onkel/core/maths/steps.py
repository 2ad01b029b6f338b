"""Steps: how far to move, and by which rule.  A schedule is a function of the example's number t = 1, 2, ..."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.machine.compiled import Value

Schedule = float | Callable[[int], float]


def number(owner: str, name: str, value: Any, low: float = 0.0, open_low: bool = False, high: float = math.inf) -> float:
    """value as a float inside its range, or an error that says what was given and what is allowed."""
    try:
        x = float(value)
    except (TypeError, ValueError):
        x = math.nan
    if not (math.isfinite(x) and (x > low if open_low else x >= low) and x <= high):
        limits = f"{'above' if open_low else 'at least'} {low:g}" + (f" and at most {high:g}" if high < math.inf else "")
        raise ValueError(f"{owner}: {name} must be a finite number {limits}; got {value!r}")
    return x


class _InvSqrt(NamedTuple):
    eta: float


class InvSqrt(Value, _InvSqrt):
    """eta / sqrt(t).  [K] Theorem 4

    >>> float(InvSqrt(0.5)(4))
    0.25
    """

    __slots__ = ()

    def __new__(cls, eta: float) -> InvSqrt:
        return super().__new__(cls, number("InvSqrt", "eta", eta, open_low=True))

    def __call__(self, t: Any) -> Any:
        return self.eta / np.sqrt(t)


class _SqrtDecay(NamedTuple):
    eta: float
    tau: float


class SqrtDecay(Value, _SqrtDecay):
    """eta sqrt(tau / (tau + t)).  [V] (59), printed there without eta"""

    __slots__ = ()

    def __new__(cls, eta: float, tau: float) -> SqrtDecay:
        return super().__new__(cls, number("SqrtDecay", "eta", eta, open_low=True), number("SqrtDecay", "tau", tau, open_low=True))

    def __call__(self, t: Any) -> Any:
        return self.eta * np.sqrt(self.tau / (self.tau + t))


def schedule(owner: str, eta: Any) -> Schedule:
    """eta as a positive number, or any function of t as it is."""
    return eta if callable(eta) else number(owner, "eta", eta, open_low=True)


def etas(eta: Schedule, start: int, n: int) -> NDArray[np.float64]:
    """The step sizes of the examples start+1 .. start+n."""
    if not callable(eta):
        return np.full(n, eta)
    times = np.arange(start + 1, start + n + 1)
    if isinstance(eta, InvSqrt | SqrtDecay):
        return np.asarray(eta(times.astype(float)), dtype=float)
    try:
        values = np.array([float(eta(int(t))) for t in times])
    except (TypeError, ValueError) as error:
        raise ValueError(f"eta: the schedule must be a function of t that returns a number; it failed with: {error}") from error
    if not (np.isfinite(values).all() and (values > 0).all()):
        bad = int(np.flatnonzero(~(np.isfinite(values) & (values > 0)))[0])
        raise ValueError(f"eta: the schedule gave {values[bad]!r} at t = {times[bad]}; steps must be positive and finite")
    return values


class _Explicit(NamedTuple):
    eta: Schedule = 0.1
    lam: float = 0.01
    C: float = 1.0


class Explicit(Value, _Explicit):
    """f <- (1 - eta lam) f - eta C loss'(f(x)) k(x, .): NORMA."""

    __slots__ = ()

    def check(self) -> Explicit:
        checked = Explicit(
            schedule("Explicit", self.eta),
            number("Explicit", "lam", self.lam),
            number("Explicit", "C", self.C, open_low=True),
        )
        if not callable(checked.eta):
            small_enough(checked.eta, checked.lam)
        return checked


class _Implicit(NamedTuple):
    eta: Schedule = 1.0
    lam: float = 0.01
    C: float = 1.0
    exact: bool = False


class Implicit(Value, _Implicit):
    """f <- the minimiser of 1/2 |g - f|^2 + eta (lam/2 |g|^2 + C loss(g(x))): ILK.  ``exact`` matters for Structured alone."""

    __slots__ = ()

    def check(self) -> Implicit:
        return Implicit(
            schedule("Implicit", self.eta),
            number("Implicit", "lam", self.lam),
            number("Implicit", "C", self.C, open_low=True),
            bool(self.exact),
        )


class _Adaptive(NamedTuple):
    eta: float = 0.1
    lam: float = 0.01
    C: float = 1.0
    mu: float = 0.1
    decay: float = 0.95
    epsilon: float = 1.0
    eta_min: float | None = None
    eta_max: float | None = None
    implicit: bool = False
    exact: bool = False
    repair: bool = True


class Adaptive(Value, _Adaptive):
    """A step whose size adapts itself by meta-descent: eta <- eta max(1/2, 1 - mu <g, v>): SVMD.

    v traces how f depends on log eta, with memory ``decay`` ([V]'s lambda).  ``epsilon`` is where the margin starts with the
    nu-trick.  ``implicit`` makes the implicit update of ILK with that eta (docs/maths.md derives its trace).  ``repair`` keeps
    <f, v> and |f|^2 exact when the budget drops a point.
    """

    __slots__ = ()

    def check(self) -> Adaptive:
        if callable(self.eta):
            raise ValueError("Adaptive: eta must be the number to start from; the step adapts itself, a schedule has no place")
        me = "Adaptive"
        low = None if self.eta_min is None else number(me, "eta_min", self.eta_min)
        high = None if self.eta_max is None else number(me, "eta_max", self.eta_max, open_low=True)
        if low is not None and high is not None and low > high:
            raise ValueError(f"Adaptive: eta_min must not exceed eta_max; got {low!r} and {high!r}")
        checked = self._replace(
            eta=number(me, "eta", self.eta, open_low=True),
            lam=number(me, "lam", self.lam),
            C=number(me, "C", self.C, open_low=True),
            mu=number(me, "mu", self.mu),
            decay=number(me, "decay", self.decay, high=1.0),
            epsilon=number(me, "epsilon", self.epsilon, open_low=True),
            eta_min=low,
            eta_max=high,
        )
        if not self.implicit:
            small_enough(checked.eta, checked.lam)
        return checked


class _Alma(NamedTuple):
    alpha: float = 0.9
    B: float | None = None
    C: float | None = None


class Alma(Value, _Alma):
    """Gentile's approximate large margin step ([G], p = 2): on y <w, x/|x|> <= (1 - alpha) B / sqrt(k), the k-th update is
    w += C / sqrt(k) y x/|x|, then w /= max(1, |w|).  alpha = 1 is ALMA_0."""

    __slots__ = ()

    def check(self) -> Alma:
        alpha = number("Alma", "alpha", self.alpha, open_low=True, high=1.0)
        margin = math.sqrt(8.0) / alpha if self.B is None else number("Alma", "B", self.B, open_low=True)
        move = math.sqrt(2.0) if self.C is None else number("Alma", "C", self.C, open_low=True)
        return Alma(alpha, margin, move)


Step = Explicit | Implicit | Adaptive | Alma


def small_enough(eta: Any, lam: float) -> None:
    """An explicit step forgets by 1 - eta lam, which must not be negative; 1 itself is where [V]'s nu-experiments start."""
    worst = float(np.max(eta)) * lam
    if worst > 1.0:
        raise ValueError(
            f"eta * lam must be at most 1 for explicit steps, or old coefficients change sign; got {worst:.6g}. "
            "Take a smaller eta or lam, or the implicit step, which takes any."
        )
