"""An explanation of one score: the examples that speak for and against it, and what each feature contributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.reasons import shapley
from onkel.reasons.factors import factors

Array = NDArray[np.float64]


class Reason(NamedTuple):
    """One stored example and what it adds to the score."""

    term: float
    similarity: float
    coef: float
    example: int
    id: Any
    label: Any
    point: Any


class Sides(NamedTuple):
    """The strongest reasons for the score (they raise it) and against it."""

    speaks_for: list[Reason]
    speaks_against: list[Reason]


@dataclass(eq=False)
class Explanation:
    """``terms`` (one for each stored point, oldest first) and ``offset`` add up to ``score``.

    born        which example of the stream each point was, counted from 1;  ids: the ids that were given to learn, else None
    similarity  k(point, x), of which ``terms`` are ``coef`` times
    labels      the label of each point as its coefficient tells it; None where it tells none (real targets, novelty)
    shapley     what each feature contributes; ``base + shapley.sum()`` is the score
    """

    x: Any
    score: float
    offset: float
    coef: Array
    similarity: Array
    born: NDArray[np.int64]
    stored: Callable[[], Any]
    kernel: Any
    about: str = "score"
    naming: Callable[[], list[Any] | None] = lambda: None
    ids: list[Any] | None = None
    names: list[str] | None = None
    notes: list[str] = field(default_factory=list)
    background: Array | None = None

    @cached_property
    def terms(self) -> Array:
        return self.coef * self.similarity

    @cached_property
    def points(self) -> Any:
        """The stored points, oldest first: an array, a CSR matrix or a list of objects."""
        return self.stored()

    @cached_property
    def labels(self) -> list[Any] | None:
        return self.naming()

    def __len__(self) -> int:
        return len(self.coef)

    # --- features -------------------------------------------------------------------------------------------------------------

    @cached_property
    def _shapley(self) -> tuple[Array, float]:
        points, x = self.numbers()
        return shapley.exact(factors(self.kernel), self.coef, points, x, self.background)

    @property
    def shapley(self) -> Array:
        """Exact Shapley values, one for each feature; without a ``background`` an absent feature is left out of the kernel:
        its factor is 1, its product 0."""
        return self._shapley[0]

    @property
    def base(self) -> float:
        """The score without any feature of x, offset included."""
        return self._shapley[1] + self.offset

    def sampled(self, background: Any, permutations: int = 1000, seed: int = 0) -> tuple[Array, Array]:
        """(Shapley values, their standard errors) for any kernel on rows of numbers, from random orders of the features.

        An absent feature is as in ``background``, one row; each order is also taken backwards.
        """
        points, x = self.numbers()
        rest = np.asarray(background, np.float64)
        if rest.shape != x.shape:
            raise ValueError(f"background must be one row of {len(x)} numbers; got shape {rest.shape}")
        if permutations < 4:
            raise ValueError(f"permutations must be at least 4, to tell an error; got {permutations}")
        rng, d = np.random.default_rng(seed), len(x)
        found = np.zeros((permutations // 2, d))
        for row in found:
            order = rng.permutation(d)
            for way in (order, order[::-1]):
                present = np.zeros((d + 1, d), bool)
                for step, j in enumerate(way):
                    present[step + 1 :, j] = True
                steps = np.asarray(self.kernel(np.where(present, x, rest), points), np.float64) @ self.coef
                row[way] += 0.5 * np.diff(steps)
        return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))

    def numbers(self) -> tuple[Array, Array]:
        """Points and x as rows of numbers."""
        if isinstance(self.points, list):
            raise TypeError("these points are objects and have no features; terms, top and text explain the score by examples")
        points, x = self.points, self.x
        if hasattr(points, "toarray"):
            points, x = points.toarray(), x.toarray()[0]
        return np.ascontiguousarray(points, np.float64), np.ascontiguousarray(x, np.float64)

    # --- examples -------------------------------------------------------------------------------------------------------------

    def top(self, n: int = 5) -> Sides:
        """The n strongest examples for the score and the n strongest against it."""
        order = np.argsort(self.terms, kind="stable")
        positive, negative = int((self.terms > 0).sum()), int((self.terms < 0).sum())
        return Sides(
            [self._reason(int(i)) for i in order[::-1][: min(n, positive)]],
            [self._reason(int(i)) for i in order[: min(n, negative)]],
        )

    def _reason(self, i: int) -> Reason:
        return Reason(
            float(self.terms[i]),
            float(self.similarity[i]),
            float(self.coef[i]),
            int(self.born[i]),
            None if self.ids is None else self.ids[i],
            None if self.labels is None else self.labels[i],
            self.points[i],
        )

    def text(self, n: int = 3) -> str:
        """The explanation in words: n examples on either side, and as many features."""
        terms = self.terms
        up, down = float(terms[terms > 0].sum()), float(terms[terms < 0].sum())
        counted = f"{len(terms)} stored example{'' if len(terms) == 1 else 's'}"
        offset = f", offset {self.offset:+.3g}" if self.offset else ""
        lines = [f"{self.about} {self.score:+.4g}: {counted}, {up:+.3g} for and {down:+.3g} against it{offset}."]
        for word, reasons in zip(("for", "against"), self.top(n)):
            for reason in reasons:
                label = "" if reason.label is None else f", {reason.label}"
                ident = "" if reason.id is None else f" (id {reason.id})"
                shown = f": {reason.point!r:.60}" if isinstance(self.points, list) else ""
                who = f"example {reason.example}{ident}{label}"
                lines.append(f"  {reason.term:+.3g} {word}: {who}, similarity {reason.similarity:.3g}{shown}")
        try:
            values = self.shapley
        except TypeError:
            values = np.zeros(0)
        if np.any(values):
            strongest = [j for j in np.argsort(-np.abs(values), kind="stable")[: 2 * n] if values[j]]
            left_out = "features left out" if self.background is None else "the background"
            named = ", ".join(f"{self.name(int(j))} {values[j]:+.3g}" for j in strongest)
            more = " and more" if len(values) > len(strongest) else ""
            lines.append(f"Features, from {self.base:+.3g} with {left_out}: {named}{more}.")
        return "\n".join([*lines, *self.notes])

    def name(self, j: int) -> str:
        return f"x[{j}]" if self.names is None else self.names[j]

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"Explanation(score={self.score:.6g}, {len(self)} terms, offset={self.offset:.6g})"

    # --- pictures -------------------------------------------------------------------------------------------------------------

    def plot(self, n: int = 5, *, shape: tuple[int, ...] | None = None, theme: str = "light") -> Any:
        """A figure: the strongest examples and features as bars; with ``shape`` (say 28, 28) x and the examples as pictures."""
        from onkel.reasons.drawing import as_bars, as_pictures

        return as_bars(self, n, theme) if shape is None else as_pictures(self, n, shape, theme)
