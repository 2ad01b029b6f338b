"""A line of the table: what was measured, what it is held against, and whether that was met."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .measure import Result

AT_LEAST, AT_MOST = "at least", "at most"


@dataclass(frozen=True)
class Row:
    """``value`` in ``unit`` against ``target``; times are seconds per example, qualities shares of right predictions.

    >>> row = Row("bulk", "naive", 75.0, "x", AT_LEAST, 60.0)
    >>> row.verdict, row.reached
    ('met', 1.25)
    >>> Row("start", "import numpy", 0.9, "s", AT_MOST, 0.6).verdict
    'missed'
    """

    path: str
    against: str
    value: float
    unit: str
    sense: str = AT_LEAST
    target: float | None = None
    ours: float | None = None
    theirs: float | None = None
    quality: float | None = None
    their_quality: float | None = None
    percent_of_sgemm: float | None = None

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        met = self.value >= self.target if self.sense == AT_LEAST else self.value <= self.target
        return "met" if met else "missed"

    @property
    def reached(self) -> float | None:
        """How many times the target: 1 just meets it, more is better."""
        if self.target is None or self.value <= 0:
            return None
        return self.value / self.target if self.sense == AT_LEAST else self.target / self.value


def faster(path: str, ours: Result, theirs: Result, target: float | None = None, percent: float | None = None) -> Row:
    """How many times the peer's rate ours is, by the medians."""
    return Row(
        path, theirs.name, theirs.median / ours.median, "x", AT_LEAST, target,
        ours.median, theirs.median, ours.quality, theirs.quality, percent,
    )  # fmt: skip


def share(path: str, ours: Result, percent: float, target: float | None, of: str = "SGEMM peak") -> Row:
    """Ours in percent of a limit or of another rate."""
    return Row(path, of, percent, "%", AT_LEAST, target, ours.median, quality=ours.quality)


def dearer(path: str, ours: Result, theirs: Result, target: float | None) -> Row:
    """How many times the other's cost ours is; small is good."""
    ratio = ours.median / theirs.median
    return Row(path, theirs.name, ratio, "x cost", AT_MOST, target, ours.median, theirs.median, ours.quality, theirs.quality)


def microseconds(path: str, ours: Result, target: float | None) -> Row:
    return Row(path, "", 1e6 * ours.median, "us", AT_MOST, target, ours.median, quality=ours.quality)
