"""Schedules: step sizes as functions of the example's number t = 1, 2, ..."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.maths.value import Value, checked_number, number

Schedule = float | Callable[[int], float]


class InvSqrt(Value):
    """eta / sqrt(t).  [K] Theorem 4

    >>> float(InvSqrt(0.5)(4))
    0.25
    """

    eta: float = number(above=0)

    def __call__(self, t: Any) -> Any:
        return self.eta / np.sqrt(t)


class SqrtDecay(Value):
    """eta sqrt(tau / (tau + t)).  [V] (59), printed there without eta"""

    eta: float = number(above=0)
    tau: float = number(above=0)

    def __call__(self, t: Any) -> Any:
        return self.eta * np.sqrt(self.tau / (self.tau + t))


def schedule(owner: str, name: str, eta: Any) -> Schedule:
    """eta as a positive number, or any function of t as it is."""
    return eta if callable(eta) else checked_number(owner, name, eta, above=0)


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


def small_enough(eta: Any, lam: float) -> None:
    """An explicit step forgets by 1 - eta lam, which must not be negative; 1 itself is where [V]'s nu-experiments start."""
    worst = float(np.max(eta)) * lam
    if worst > 1.0:
        raise ValueError(
            f"eta * lam must be at most 1 for explicit steps, or old coefficients change sign; got {worst:.6g}. "
            "Take a smaller eta or lam, or the implicit step, which takes any."
        )
