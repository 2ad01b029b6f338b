"""Budgets: how many points an expansion may hold, and which goes when one too many comes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.maths.rules import Rule
from onkel.core.maths.value import Value, field, is_whole, named, names

__all__ = ["NO_LIMIT", "Budget", "Rule"]


def _size(owner: str, name: str, size: Any) -> int | None:
    if size is not None and not is_whole(size):
        raise ValueError(f"budget must be a whole number of points, at least 1, or None; got {size!r}")
    return None if size is None else int(size)


def _drop(owner: str, name: str, drop: Any) -> Any:
    if isinstance(drop, Rule):
        return drop.name
    if not isinstance(drop, str) or named(Rule, drop) is None:
        raise ValueError(f"drop must be one of {', '.join(map(repr, names(Rule)))}; got {drop!r}")
    return drop


def _window(owner: str, name: str, window: Any) -> Any:
    if window is not None and not callable(window) and not is_whole(window):
        raise ValueError(f"window must be a whole number of steps, at least 1, or a function of t; got {window!r}")
    return window


class Budget(Value):
    """At most ``size`` terms (None: no limit), or only those of the last ``window`` time steps.

    drop    "oldest"    the last ``size`` non-zero terms stay ([V] 5.5)
            "smallest"  the smallest coefficient goes, the new one competing, oldest first on ties (SILK)
            "merge"     that same term is projected on the one remaining point that leaves the least behind
            "project"   that same term is projected on the span of all remaining points (for budgets up to about 512)
    window  a number of steps ([K] Fig. 1: steps without an update count), or a function t -> how many steps f_t looks back
            ([K] Theorem 6; :func:`onkel.theory.growing` makes it)
    """

    size: int | None = field(None, _size)
    drop: str = field("oldest", _drop)
    window: int | Callable[[int], int] | None = field(None, _window)

    def checked(self) -> Budget:
        if self.size is None and self.drop != "oldest":
            raise ValueError(f"drop={self.drop!r} needs a budget: give budget=128, say")
        if self.size is not None and self.window is not None:
            raise ValueError(f"give either budget or window, not both; got budget={self.size!r}, window={self.window!r}")
        return self

    @property
    def rule(self) -> type[Rule]:
        """The class that ``drop`` names."""
        return named(Rule, self.drop)  # type: ignore[return-value]

    def limit(self) -> float:
        """The most slots that can ever be in use at once."""
        if self.size is not None:
            return self.size
        if self.window is None or callable(self.window):
            return math.inf
        return self.window + 1  # the newest comes in before the oldest goes

    def looks_back(self, start: int, n: int) -> NDArray[np.float64]:
        """For the examples start+1 .. start+n: over how many steps f reaches back after each."""
        if self.window is None:
            return np.full(n, np.inf)
        if not callable(self.window):
            return np.full(n, float(self.window))
        times = range(start + 1, start + n + 1)
        reach = [self.window(t + 1) for t in times]
        for t, w in zip(times, reach, strict=True):
            if not isinstance(w, int | float | np.number) or not w >= 1:
                raise ValueError(f"window: the function gave {w!r} at t = {t + 1}; it must give a number of steps, at least 1")
        return np.array(reach, dtype=np.float64)


NO_LIMIT = Budget()
