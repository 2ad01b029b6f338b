"""Columns of any kind as numbers: frames, dictionaries and arrays as they are.

What a value is decides what becomes of it, not what its column was called or held before:

    numbers, booleans     as they are; none where they are missing (the model puts the mean there)
    text, categories      a column of 0 and 1 for each of the first 32 that turn up, the others share 16 columns by a hash
    dates, times          days since 1970, hour of the day, day of the week, day of the year
    missing               and, from the first time on, a column that says so

Columns are found by name; one that is not there counts as missing, one that appears gets columns of its own.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Hashable, Iterable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from hashlib import blake2b
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

CATEGORIES, BUCKETS, LONGEST = 32, 16, 48  # per column; characters
VALUE, GAP, DATE = "value", "missing", ("days", "hour", "weekday", "yearday")


class Begin(NamedTuple):
    """From a row of a block on there are so many columns (or classes), whose names take so many bytes."""

    row: int
    count: int
    bytes: int


class Columns:
    """Which column, and which of its values, is which number of a row."""

    def __init__(self, width: int = 0) -> None:
        self.width = width  # of arrays, whose first numbers are the row itself; 0 for columns with names
        self.names: dict[Hashable, int] = {}  # column: categories that have a number of their own
        self.slots: dict[tuple[Hashable, str], int] = {(j, VALUE): j for j in range(width)}
        self.blank = np.full(width, np.nan)
        self.nbytes = 8 * width

    def copy(self) -> Self:
        twin = type(self)(0)
        twin.width, twin.names, twin.slots = self.width, dict(self.names), dict(self.slots)
        twin.blank, twin.nbytes = self.blank, self.nbytes
        return twin

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def labels(self) -> list[str]:
        """What each number of a row is."""
        return [str(name) if what == VALUE else f"{name} {what}" for name, what in self.slots]

    # --- arrays -------------------------------------------------------------------------------------------------------------------

    def matrix(self, X: NDArray[np.float64], learning: bool) -> tuple[NDArray[np.float64], list[Begin]]:
        """Rows of an array, and from which row on rows have how many numbers."""
        gaps = np.isnan(X)
        begins = [Begin(0, len(self), self.nbytes)]
        if not gaps.any() and len(self) == X.shape[1]:
            return X, begins
        if learning:
            fresh = [j for j in np.flatnonzero(gaps.any(axis=0)) if (int(j), GAP) not in self.slots]
            for first, j in sorted((int(gaps[:, j].argmax()), int(j)) for j in fresh):
                self._add(j, GAP, 0.0)
                begins.append(Begin(first, len(self), self.nbytes))
        out = np.zeros((len(X), len(self)))
        out[:, : self.width] = X
        for (j, what), at in self.slots.items():
            if what == GAP:
                out[:, at] = gaps[:, int(j)]  # type: ignore[call-overload]
        return out, begins

    # --- dictionaries and frames --------------------------------------------------------------------------------------------------

    def rows(self, items: Iterable[Mapping[Any, Any]], learning: bool) -> tuple[NDArray[np.float64], list[Begin]]:
        """The same for rows given as dictionaries."""
        begins = [Begin(0, len(self), self.nbytes)]
        made = []
        for i, item in enumerate(items):
            if learning and self.meet(item) and begins[-1].count != len(self):
                begins.append(Begin(i, len(self), self.nbytes))
            made.append(self.row(item))
        out = np.zeros((len(made), len(self)))
        if self.blank.size:
            out[:] = np.where(np.isnan(self.blank), np.nan, 0.0)
        for i, row in enumerate(made):
            out[i, : len(row)] = row
        return out, begins

    def meet(self, item: Mapping[Any, Any]) -> bool:
        """Give numbers to what ``item`` holds for the first time; whether there was any."""
        before = len(self)
        for name in item:
            if name not in self.names:
                self.names[name] = 0
                self.nbytes += 32 + len(str(name))
        for name in sorted(item, key=str):  # the order within a row says nothing
            for what, _ in parts(name, item[name]):
                if (name, what) in self.slots:
                    continue
                if what.startswith("= "):
                    if self.names[name] < CATEGORIES:
                        self.names[name] += 1
                    else:
                        what = bucket(what)
                        if (name, what) in self.slots:
                            continue
                self._add(name, what, np.nan if what == VALUE or what in DATE else 0.0)
        return len(self) > before

    def row(self, item: Mapping[Any, Any]) -> NDArray[np.float64]:
        """``item`` as numbers; what was never met is left out."""
        out = self.blank.copy()
        there = 0
        for name, value in item.items():
            if name not in self.names:
                continue
            there += 1
            for what, number in parts(name, value):
                at = self.slots.get((name, what))
                if at is None and what.startswith("= "):
                    at = self.slots.get((name, bucket(what)))
                if at is not None:
                    out[at] = number
        if there < len(self.names):
            for name in self.names.keys() - item.keys():
                if (name, GAP) in self.slots:
                    out[self.slots[name, GAP]] = 1.0
        return out

    def _add(self, name: Hashable, what: str, blank: float) -> None:
        self.slots[name, what] = len(self.slots)
        self.blank = np.append(self.blank, blank)
        self.nbytes += 40 + len(what)

    # --- files --------------------------------------------------------------------------------------------------------------------

    def plain(self) -> dict[str, Any]:
        own = [[name, what] for name, what in self.slots][self.width :]
        return {"width": self.width, "names": [[name, count] for name, count in self.names.items()], "slots": own}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Self:
        made = cls(int(plain["width"]))
        made.names = {name: int(count) for name, count in plain["names"]}
        made.nbytes += sum(32 + len(str(name)) for name in made.names)
        for name, what in plain["slots"]:
            made._add(name, str(what), np.nan if what == VALUE or what in DATE else 0.0)
        return made


def parts(name: Hashable, value: Any) -> list[tuple[str, float]]:
    """What a value is made of, and the numbers of that."""
    kind = type(value)
    if kind is float or kind is int or kind is bool:
        number = float(value) if abs(value) < 1e308 else math.inf * value  # whole numbers may be too large for a float
    elif kind is str:
        short = value if len(value) <= LONGEST else blake2b(value.encode(errors="replace"), digest_size=8).hexdigest()
        return [("= " + short, 1.0)]
    elif value is None or type(value).__name__ in ("NAType", "NaTType"):
        return [(GAP, 1.0)]
    elif isinstance(value, np.datetime64 | date | time) or hasattr(value, "timestamp"):
        return _date(value)
    elif isinstance(value, str | np.str_ | bytes):
        return parts(name, str(value))
    elif isinstance(value, Real | np.number | np.bool_ | Decimal | Fraction) and not isinstance(value, np.complexfloating):
        number = float(value)
    elif hasattr(value, "total_seconds"):
        number = float(value.total_seconds())
    elif isinstance(value, np.timedelta64):
        number = float(value / np.timedelta64(1, "s"))
    else:
        raise ValueError(
            f"column {name!r} holds {value!r:.60}, a {type(value).__name__}; numbers, text, booleans, dates and missing values "
            "are understood: turn it into columns of such, or leave the column out"
        )
    if math.isinf(number):
        raise ValueError(f"column {name!r} holds {value!r:.40}; infinity is no measurement: make it None if it is missing")
    return [(GAP, 1.0)] if number != number else [(VALUE, number)]


def _date(value: Any) -> list[tuple[str, float]]:
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return [(GAP, 1.0)]
        value = value.astype("datetime64[us]").astype(object)
    if isinstance(value, time):
        return [("hour", value.hour + value.minute / 60 + value.second / 3600)]
    if isinstance(value, datetime):
        hour = value.hour + value.minute / 60 + value.second / 3600
        seconds = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        days = seconds / 86400
    else:
        hour, days = 0.0, float(value.toordinal() - 719163)
    return list(zip(DATE, (days, hour, float(value.weekday()), float(value.timetuple().tm_yday)), strict=True))


def bucket(what: str) -> str:
    return f"# {zlib.crc32(what.encode(errors='replace')) % BUCKETS}"


def frame_rows(X: Any) -> list[dict[Any, Any]]:
    """The rows of a pandas or polars frame as dictionaries."""
    if hasattr(X, "to_dicts"):
        return X.to_dicts()  # type: ignore[no-any-return]
    if hasattr(X, "to_pandas") and not hasattr(X, "iloc"):
        X = X.to_pandas()
    names = list(X.columns)
    if len(set(names)) < len(names):
        raise ValueError(f"two columns of the frame have the same name: {sorted(map(str, names))!r:.80}; rename one")
    columns = [X[name].astype(object).tolist() for name in names]
    return [dict(zip(names, values)) for values in zip(*columns)] if columns else [{} for _ in range(len(X))]
