"""Tables as streams: an open file or standard input, and its rows as blocks of numbers.

Memory is bounded by the block, whatever the length of the stream or of a line.  A row that cannot be read is a :class:`BadRow`,
which names its line and column.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from datetime import time as clock
from typing import Any, BinaryIO

import numpy as np

from onkel.commands import formats, sparse_text
from onkel.commands.rows import BLOCK, LONGEST_NAME, BadRow, Block, Limits, Row, missing

LARGEST = 1e150  # squares of numbers beyond it overflow
WORDS = {"true": 1.0, "false": 0.0}
MIDNIGHT = datetime(1970, 1, 1)


class Table:
    """An open stream: ``columns``, and rows as an iterator of Row or BadRow; ``target`` and ``weight`` where the format has them.

    ``unit`` is what a row's number counts: lines of text, or rows of a file that has no lines.
    """

    def __init__(
        self,
        path: str,
        format: str | None = None,
        *,
        delimiter: str | None = None,
        header: bool = True,
        encoding: str = "utf-8",
        limits: Limits | None = None,
    ):
        self.path, self.name = path, "standard input" if path == "-" else path
        self.format = format or formats.format_of(path)
        self.limits = limits or Limits()
        self.size = os.path.getsize(path) if path != "-" and os.path.isfile(path) else 0
        self.target: str | None = None
        self.weight: str | None = None
        self._raw: BinaryIO | None = None
        self._sparse: sparse_text.Sparse | None = None
        try:
            self.columns, self._rows = self._open(header, delimiter, encoding)
        except BaseException:
            self.close()
            raise
        self.place = {name: at for at, name in enumerate(self.columns)}
        self.unit = "row" if self.format in ("json", *formats.ARROW) else "line"

    def _open(self, header: bool, delimiter: str | None, encoding: str) -> formats.Columns:
        if self.format in formats.ARROW:
            return formats.read_arrow(self.path, self.format, self.limits)
        if self.path == "-":
            stream: Any = formats.standard_input()
        else:
            self._raw = open(self.path, "rb")
            stream = formats.unpacked(self.path, self._raw)
        if self.format == "json":
            return formats.read_array(stream, self.name, self.limits)
        if self.format in (None, "ndjson"):  # the first character tells
            first = formats.pull(stream.peek, 64, self.name, "line 0").lstrip(b"\xef\xbb\xbf \t\r\n")[:4]
            if first.startswith(b"[") and (self.format is None or self.path.split(".")[-1].lower() != "ndjson"):
                self.format = "json"
                return formats.read_array(stream, self.name, self.limits)
            if self.format is None:
                if first in (b"PAR1", b"ARRO"):
                    formats.arrow("-", "parquet" if first == b"PAR1" else "feather")
                self.format = "ndjson" if first.startswith(b"{") else "csv"
        lines = formats.lines(stream, self.name, self.limits)
        if self.format == "ndjson":
            return formats.read_ndjson(lines, self.name, self.limits)
        if self.format == "svmlight":
            self.target, self._sparse = sparse_text.TARGET, sparse_text.Sparse(lines, self.name, self.limits)
            return self._sparse.columns, iter(self._sparse)
        if self.format == "vw":
            self.target, self.weight = sparse_text.TARGET, sparse_text.WEIGHT
            return sparse_text.read_vw(lines)
        self.format = "csv"
        return formats.read_csv(formats.CSV(lines, self.name, encoding, self.limits), header, delimiter)

    def widen(self, names: list[str]) -> None:
        """Columns that a model knows, and the first rows of svmlight text lack: they are 0 there."""
        if self._sparse is not None:
            self._sparse.widen(names)
            self.columns = self._sparse.columns
            self.place = {name: at for at, name in enumerate(self.columns)}

    def __iter__(self) -> Iterator[Row | BadRow]:
        return self._rows

    @property
    def share(self) -> float:
        """How much of the file has been read, 0 to 1; 0 where nobody knows."""
        return min(1.0, self._raw.tell() / self.size) if self._raw is not None and self.size else 0.0

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()


def seconds(value: Any) -> float | None:
    """A date or a time as a number: seconds since 1970 began, or since midnight; None for what is neither.

    >>> seconds("1970-01-02"), seconds("1970-01-01T00:01:00Z"), seconds("00:30"), seconds("up")
    (86400.0, 60.0, 1800.0, None)
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            value = clock.fromisoformat(text) if ":" in text[:3] else datetime.fromisoformat(text)
        except ValueError:
            return None
    if isinstance(value, datetime):
        return value.timestamp() if value.tzinfo else value.replace(tzinfo=UTC).timestamp()
    if isinstance(value, date):
        return float((datetime(value.year, value.month, value.day) - MIDNIGHT).total_seconds())
    if isinstance(value, clock):
        return 3600.0 * value.hour + 60.0 * value.minute + value.second + 1e-6 * value.microsecond
    return None


def as_number(value: Any, decimal: str = ".") -> float | None:
    """The number that a cell holds: also true and false, dates and times; None if it holds something else.

    >>> as_number(" 1.5 "), as_number("True"), as_number("1,5", ","), as_number("up")
    (1.5, 1.0, 1.5, None)
    """
    if isinstance(value, str) and decimal != ".":
        value = value.replace(decimal, ".")
    try:
        return float(value)
    except (TypeError, ValueError):
        pass
    if isinstance(value, str) and value.strip().lower() in WORDS:
        return WORDS[value.strip().lower()]
    return seconds(value)


class Reader:
    """Blocks of numbers out of a table: which columns are features, which one is the target, what a bad row does.

    target   a column, or None; reals says whether it holds numbers or names of classes
    gaps     whether a missing feature is NaN or a bad row
    known    the classes so far; a row with one more than the limits allow is a bad row
    own      columns that blocks bring along as they are
    weight   the column that says how much a row counts
    """

    def __init__(
        self,
        table: Table,
        features: list[str],
        target: str | None,
        reals: bool = False,
        gaps: bool = False,
        decimal: str = ".",
        known: Any = (),
        own: Iterable[str] = (),
        weight: str | None = None,
    ):
        self.table, self.features, self.target, self.reals, self.gaps = table, features, target, reals, gaps
        self.decimal, self.known = decimal, set(known)
        self.own, self.weight = list(own), weight
        self._weight = None if weight is None else table.place[weight]
        self._own = [table.place[name] for name in self.own]
        self._where = [table.place[name] for name in features]
        self._target = None if target is None else table.place[target]

    def numbers(self, row: Row) -> list[float]:
        """The features of one row, checked."""
        values = row.values
        try:
            numbers = [float(values[at]) for at in self._where]
            if all(-LARGEST <= number <= LARGEST for number in numbers):
                return numbers
        except (TypeError, ValueError, OverflowError):
            pass
        return [self._number(row, at, self.gaps) for at in self._where]  # slowly, to say what is wrong

    def goal(self, row: Row) -> Any:
        """The target of one row: a float, the name of a class, or None."""
        if self._target is None:
            return None
        if self.reals:
            return self._number(row, self._target, False)
        return self._name(row, self._target)

    def importance(self, row: Row) -> float:
        """How much one row counts, above 0."""
        if self._weight is None:
            return 1.0
        number = self._number(row, self._weight, False)
        if number <= 0.0:
            raise self._bad(row, self._weight, f"a weight must be above 0; got {number:g}")
        return number

    def _name(self, row: Row, at: int) -> str:
        value = row.values[at]
        if missing(value):
            raise self._bad(row, at, "the target is missing")
        name = value.strip() if isinstance(value, str) else json.dumps(value, default=str)
        if name not in self.known:
            if len(name) > LONGEST_NAME:
                raise self._bad(row, at, f"the name of a class, of over {LONGEST_NAME} characters: {name[:40]!r} ...")
            if len(self.known) >= self.table.limits.classes:
                most = self.table.limits.classes
                raise self._bad(row, at, f"{name[:40]!r} would be class {most + 1}, and at most {most} are taken. A column that "
                                "names its rows is no target: give another one, --task reals, or --max-classes")  # fmt: skip
            self.known.add(name)
        return name

    def _number(self, row: Row, at: int, gaps: bool) -> float:
        value = row.values[at]
        if missing(value):
            if gaps:
                return np.nan
            raise self._bad(row, at, "the value is missing")
        try:
            number = as_number(value, self.decimal)
        except OverflowError:
            number = np.inf
        if number is None:
            raise self._bad(row, at, f"{str(value)[:40]!r} is not a number")
        if not abs(number) <= LARGEST:
            raise self._bad(row, at, f"{str(value)[:40]} is not a finite number below {LARGEST:g}")
        return number

    def _bad(self, row: Row, at: int, problem: str) -> BadRow:
        return BadRow(row.line, self.table.columns[at], problem, self.table.unit)

    def read(
        self, rows: Iterator[Row | BadRow], skip: int = 0, *, stop: bool = False, patience: float | None = None
    ) -> Iterator[Block]:
        """Blocks of the rows, of which ``skip`` have been passed over; where the file has columns, a column at a time."""
        if self.table.format in formats.ARROW:
            return self.columns(skip, stop)
        return self.blocks(rows, skip, stop=stop, patience=patience)

    def blocks(
        self, rows: Iterator[Row | BadRow], skip: int = 0, *, size: int = BLOCK, stop: bool = False, patience: float | None = None
    ) -> Iterator[Block]:
        """Blocks of ``size`` good rows, the last one shorter.

        With ``stop`` the first bad row ends the blocks.  After ``patience`` seconds a block goes out as it is.
        """
        X: list[list[float]] = []
        y: list[Any] = []
        places: list[int] = []
        own: list[list[Any]] = []
        weights: list[float] = []
        bad: list[BadRow] = []
        before, read, begun = skip, 0, time.monotonic()
        size = min(size, max(1, 2**20 // max(1, len(self.features))))  # wide rows go in smaller blocks

        def block(end: BadRow | None = None) -> Block:
            return Block(
                np.array(X, np.float64).reshape(len(X), len(self.features)), y, places, own, self._weights(weights), read, bad, end
            )

        for row in rows:
            try:
                if isinstance(row, BadRow):
                    raise row
                goal, weight = self.goal(row), self.importance(row)
                X.append(self.numbers(row))
                y.append(goal)
                weights.append(weight)
                places.append(before + read + 1)
                if self._own:
                    own.append([row.values[at] for at in self._own])
            except BadRow as error:
                if stop:
                    yield block(error)
                    return
                bad.append(error)
            read += 1
            if len(X) == size or len(bad) == size or (patience is not None and time.monotonic() - begun > patience):
                yield block()
                before += read
                X, y, places, own, weights, bad, read, begun = [], [], [], [], [], [], 0, time.monotonic()
        if read:
            yield block()

    def _weights(self, weights: list[float]) -> np.ndarray | None:
        return None if self._weight is None else np.array(weights, np.float64)

    def columns(self, skip: int, stop: bool = False) -> Iterator[Block]:
        """The same blocks out of Parquet or feather, a column at a time; what is not plain numbers there goes row by row."""
        number = 0
        needed = list(dict.fromkeys([*self.features, *filter(None, (self.target, self.weight)), *self.own]))
        for batch in formats.batches(formats.arrow(self.table.path, str(self.table.format)), self.table.path, needed):
            first, number = number, number + len(batch)
            if number <= skip:
                continue
            if first < skip:
                first, batch = skip, batch.slice(skip - first)
            plain = self._at_once(batch, first)
            for block in [plain] if plain is not None else self.blocks(self._rows_of(batch, first), first, stop=stop):
                yield block
                if block.end is not None:
                    return

    def _at_once(self, batch: Any, first: int) -> Block | None:
        """A batch as a block, if all of it is plain."""
        X, places = np.empty((len(batch), len(self.features))), range(first + 1, first + len(batch) + 1)
        for column, name in enumerate(self.features):
            values = plain_column(batch.column(name))
            if values is None:
                return None
            X[:, column] = values
        if not ((np.abs(X) <= LARGEST) | (self.gaps & np.isnan(X))).all():
            return None
        y: list[Any] = [None] * len(batch)
        if self._target is not None and self.reals:
            values = plain_column(batch.column(self.target))
            if values is None or not (np.abs(values) <= LARGEST).all():
                return None
            y = values.tolist()
        elif self._target is not None:
            names = batch.column(self.target).to_pylist()
            blank = [None] * len(self.table.columns)
            try:
                y = [self._name(Row(place, [*blank[: self._target], name]), self._target) for place, name in zip(places, names)]
            except BadRow:
                return None
        weights = None if self.weight is None else plain_column(batch.column(self.weight))
        if self.weight is not None and (weights is None or not ((weights > 0) & (weights <= LARGEST)).all()):
            return None
        own = [list(values) for values in zip(*(batch.column(name).to_pylist() for name in self.own))]
        return Block(X, y, list(places), own, weights, len(batch), [])

    def _rows_of(self, batch: Any, first: int) -> Iterator[Row]:
        columns = {self.table.place[name]: batch.column(name).to_pylist() for name in batch.schema.names}
        for i in range(len(batch)):
            values: list[Any] = [None] * len(self.table.columns)
            for at, column in columns.items():
                values[at] = column[i]
            yield Row(first + i + 1, values)


def plain_column(column: Any) -> np.ndarray | None:
    """Integers, numbers and booleans of an Arrow column, None as NaN; None for what has to be looked at cell by cell."""
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        return None
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype.kind == "O":  # True, False and None
        values = np.array([np.nan if value is None else value for value in values], np.float64)
    return values.astype(np.float64)


def texts(columns: list[str], rows: list[Row | BadRow], decimal: str = ".") -> list[str]:
    """The columns in which these rows hold no number, but something else."""
    good = [row.values for row in rows if isinstance(row, Row)]
    return [name for at, name in enumerate(columns) if _is_text((values[at] for values in good), decimal)]


def _is_text(values: Iterator[Any], decimal: str) -> bool:
    """Whether there is something in the column, and no number in it."""
    some = False
    for value in values:
        if not missing(value):
            some = True
            try:
                if as_number(value, decimal) is not None:
                    return False
            except OverflowError:
                return False
    return some
