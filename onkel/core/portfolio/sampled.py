"""The detector's loop behind the same face as the portfolios."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.portfolio import novelty
from onkel.core.portfolio.engine import Engine
from onkel.core.portfolio.parts import Views

MOST = 1000  # rows of the sample


class Plan(NamedTuple):
    """How many rows fit."""

    places: int
    least: int


class Sampled(Engine):
    """Rows in, scores and thresholds out."""

    def __init__(self, nu: float) -> None:
        super().__init__(False, False)
        self.nu = nu

    def share_out(self, budget: int, d: int, classes: int) -> Plan:
        base = 64 * d + 1000
        return Plan(int(min(MOST, (budget - base) // d)), base + 8 * d)

    def fresh(self, of: Any, d: int, classes: int) -> Any:
        return novelty.novelty(d, of.places)

    def more(self, of: Any, d: int, classes: int) -> Any:
        old, new = self.state, novelty.novelty(d, of.places)
        for name in Views._fields[:-2]:
            getattr(new.views, name)[: self.d] = getattr(old.views, name)
        n = min(int(old.views.count[1]), of.places)
        new.views.median[:], new.views.count[:] = old.views.median, (old.views.count[0], n, old.views.count[2])
        new.sample.code[: self.d, :n] = old.sample.code[:, :n]
        for name in ("mean", "spread", "level"):
            getattr(new.sample, name)[:] = getattr(old.sample, name)
        return new

    @property
    def experts(self) -> list[str]:
        return ["ranks in the tails", "sum of squares", *(f"density {w} {v}" for v in ("scaled", "raw") for w in (0.2, 0.4))]

    def learn(self, X: NDArray[np.float64], y: Any, weight: Any) -> NDArray[np.float64]:
        """Rows in their order; the score of each before it was learned."""
        said = np.empty((len(X), 2))
        novelty.learn(self.state, X, self.nu, said)
        return said

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        said = np.empty((len(X), 2))
        novelty.score(self.state, X, said)
        return said
