"""What an experiment is: parts to compute, numbers to combine, claims to check, a figure to draw.

An experiment is computed in parts, each a call of a plain function with plain arguments, so that parts can run side by
side, be kept on disk, and be skipped when they are already there. What a part returns is a dict of numbers, strings and
arrays; `combine` turns the parts into one dict, from which everything else is read:

    parts(setting) -> [Part]        combine(parts) -> numbers
    claims(numbers) -> [Claim]      table(numbers) -> rows      draw(numbers, theme) -> figure
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

Numbers = dict[str, Any]
Size = Literal["full", "quick", "tiny"]
Verdict = Literal["reproduced", "in part", "not reproduced"]
T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """How large, from which seed, with which data. Only size and seed change the numbers.

    quick uses synthetic streams and scikit-learn's digits in place of the data sets; tiny is quick for the tests.
    """

    size: Size = "full"
    seed: int = 0
    directory: Path | None = None
    peers: bool = False

    @property
    def full(self) -> bool:
        return self.size == "full"

    def pick(self, full: T, quick: T, tiny: T) -> T:
        return {"full": full, "quick": quick, "tiny": tiny}[self.size]


@dataclass(frozen=True)
class Part:
    """One call `compute(setting, **arguments)`; `cost` is a guess of its seconds, for the order and the time left."""

    name: str
    compute: Callable[..., Numbers]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, its own number, ours, and named checks of it.

    >>> Claim("ILK errs less", "145 against 155", "150 against 149", {"papers' parameters": True, "tuned": False}).verdict
    'in part'
    """

    says: str
    paper: str
    ours: str
    checks: Mapping[str, bool]

    @property
    def verdict(self) -> Verdict:
        return judge(self.checks.values())


def judge(checks: Any) -> Verdict:
    """All checks passed: reproduced; some: in part; none: not reproduced."""
    outcomes = [bool(check) for check in checks]
    if all(outcomes):
        return "reproduced"
    return "in part" if any(outcomes) else "not reproduced"


def overall(claims: Sequence[Claim]) -> Verdict:
    """A figure is reproduced if each of its claims is, not reproduced if none is even in part."""
    verdicts = {claim.verdict for claim in claims}
    return verdicts.pop() if len(verdicts) == 1 else "in part"


@dataclass(frozen=True)
class Experiment:
    name: str
    paper: str
    title: str
    shows: str
    parts: Callable[[Setting], list[Part]]
    claims: Callable[[Numbers], list[Claim]]
    draw: Callable[[Numbers, str], Any]
    combine: Callable[[dict[str, Numbers]], Numbers] = lambda parts: dict(parts)
    table: Callable[[Numbers], list[dict[str, Any]]] = lambda numbers: []
    needs: tuple[str, ...] = ()
    notes: str = ""
    packages: tuple[str, ...] = ()  # that reading the data needs, beyond matplotlib, which draws all figures


# --- the comparisons that checks are made of ----------------------------------------------------------------


def fewer(ours: Any, theirs: Any) -> bool:
    """Paired over trials: is the first smaller, by at least two standard errors of the mean difference?

    >>> fewer([10, 11, 9, 10], [12, 13, 12, 12]), fewer([10, 11, 9, 10], [10, 10, 10, 10])
    (True, False)
    """
    difference = np.asarray(theirs, float) - np.asarray(ours, float)
    if difference.ndim == 0 or len(difference) == 1:
        return bool(difference.mean() > 0)
    return bool(difference.mean() > 2 * difference.std(ddof=1) / np.sqrt(len(difference)))


def spread(values: Any, scale: float = 1.0, digits: int = 1) -> str:
    """Mean and standard deviation, as text.

    >>> spread([0.10, 0.12], scale=100)
    '11.0 ± 1.4'
    """
    values = scale * np.atleast_1d(np.asarray(values, float))
    mean = f"{values.mean():.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {values.std(ddof=1):.{digits}f}"
