"""Tables as streams: CSV, NDJSON and Parquet, from files or standard input, a block of rows at a time.

Memory is bounded by the block, whatever the length of the stream or of a line.  A row that cannot be read is a :class:`BadRow`,
which names its line and column.  Files that end in .gz, .xz or .bz2 are unpacked on the way.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import hashlib
import json
import lzma
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

BLOCK = 1000  # rows
LINE_LIMIT = 2**24  # bytes
LARGEST = 1e150  # squares of numbers beyond it overflow
FORMATS = ("csv", "ndjson", "parquet")
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))
_PACKED = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".data"), "csv"),
    **dict.fromkeys((".ndjson", ".jsonl", ".json"), "ndjson"),
    ".parquet": "parquet",
}
_NOT_PIPED = "Parquet cannot be read from standard input, since its index stands at the end; give the name of the file"


class BadTable(ValueError):
    """The stream as a whole cannot be read; says why and what to do."""


class BadRow(ValueError):
    """One row cannot be read: where, and what is wrong with it."""

    def __init__(self, line: int, column: str | None, problem: str, unit: str = "line"):
        super().__init__(f"{unit} {line}{'' if column is None else f', column {column!r}'}: {problem}")
        self.line, self.column = line, column


class Row(NamedTuple):
    """Values by column, as the format gives them: text from CSV; numbers, text, None from the others."""

    line: int
    values: list[Any]


class Block(NamedTuple):
    """Consecutive good rows; ``read`` counts all rows that it took, the bad ones included, but not the one that ended it."""

    X: np.ndarray
    y: list[Any]
    read: int
    bad: list[BadRow]
    end: BadRow | None = None


class Table:
    """An open stream: ``columns``, and rows as an iterator of Row or BadRow.

    ``unit`` is what a row's number counts: lines of text, or rows of a Parquet file.
    """

    def __init__(
        self,
        path: str,
        format: str | None = None,
        *,
        delimiter: str | None = None,
        header: bool = True,
        encoding: str = "utf-8",
    ):
        self.path, self.name = path, "standard input" if path == "-" else path
        self.format = format or _format(path)
        self.delimiter, self.header, self.encoding = delimiter, header, encoding
        self.unit = "row" if self.format == "parquet" else "line"
        self.size = os.path.getsize(path) if path != "-" and os.path.isfile(path) else 0
        self._raw: BinaryIO | None = None
        try:
            self._open()
            if twice := sorted({name for name in self.columns if self.columns.count(name) > 1}):
                raise BadTable(f"{self.name}: two columns are called {twice[0]!r}; every column needs a name of its own")
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        if self.format == "parquet":
            self.columns, self._rows = _parquet(self.path)
            return
        if self.path == "-":
            stream: Any = sys.stdin.buffer
        else:
            self._raw = open(self.path, "rb")
            unpack = _PACKED.get(os.path.splitext(self.path)[1])
            stream = self._raw if unpack is None else unpack(self._raw)
        lines = _lines(stream, self.name)
        if self.format is None:  # standard input of unknown kind: its first character tells
            number, first = next(lines)
            self.format = "ndjson" if first.lstrip(b"\xef\xbb\xbf \t").startswith(b"{") else "csv"
            if first.startswith(b"PAR1"):
                raise BadTable(_NOT_PIPED)
            lines = _before((number, first), lines)
        read = _ndjson if self.format == "ndjson" else _csv
        self.columns, self._rows = read(lines, self)

    def __iter__(self) -> Iterator[Row | BadRow]:
        return self._rows

    @property
    def share(self) -> float:
        """How much of the file has been read, 0 to 1; 0 where nobody knows."""
        return min(1.0, self._raw.tell() / self.size) if self._raw is not None and self.size else 0.0

    def close(self) -> None:
        if self._raw is not None:
            self._raw.close()


def stem(path: str) -> str:
    """A name for what comes out of a stream.

    >>> stem("data/elec.2020.csv.xz"), stem("-")
    ('elec.2020', 'stdin')
    """
    name = "stdin" if path == "-" else os.path.basename(path)
    while os.path.splitext(name)[1].lower() in (*ENDINGS, *_PACKED):
        name = os.path.splitext(name)[0]
    return name


def _format(path: str) -> str | None:
    stem, ending = os.path.splitext(path)
    if ending in _PACKED:
        ending = os.path.splitext(stem)[1]
    if path == "-":
        return None
    if ending.lower() not in ENDINGS:
        raise BadTable(f"{path}: the name does not tell the format; give --format {'|'.join(FORMATS)}")
    return ENDINGS[ending.lower()]


def _before(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Lines of bytes with their numbers; a line without end is an error, not a full memory."""
    number = 0
    while True:
        try:
            line = stream.readline(LINE_LIMIT)
        except (EOFError, lzma.LZMAError, OSError, ValueError) as error:
            raise BadTable(f"{name}: cannot be read beyond line {number} ({error})") from None
        if not line:
            return
        number += 1
        if len(line) >= LINE_LIMIT:
            raise BadTable(f"{name}: line {number} is longer than {LINE_LIMIT // 2**20} MiB; this is no table of lines")
        yield number, line


# --- CSV -------------------------------------------------------------------------------------------------------------------------


def _csv(lines: Iterator[tuple[int, bytes]], table: Table) -> tuple[list[str], Iterator[Row | BadRow]]:
    spoiled: list[BadRow] = []

    def text() -> Iterator[str]:
        for number, line in lines:
            try:
                yield line.decode("utf-8-sig" if number == 1 and table.encoding == "utf-8" else table.encoding)
            except UnicodeDecodeError as error:
                spoiled.append(BadRow(number, None, f"not {table.encoding} text ({error.reason}); give --encoding latin-1, say"))
                yield "\n"

    decoded = text()
    blank = 0
    for first in decoded:
        if first.strip():
            break
        blank += 1
    else:
        raise BadTable(f"{table.name} is empty: there is no row to learn from")
    delimiter = table.delimiter or max(",;\t|", key=first.count)
    reader = csv.reader(_before(first, decoded), delimiter=delimiter, strict=True)
    try:
        names = next(reader)
    except csv.Error as error:
        raise BadTable(f"{table.name}: the first line is no list of column names ({error})") from None
    if not table.header:
        columns, ready = [str(i) for i in range(len(names))], [names]
    else:
        columns, ready = [name.strip() for name in names], []
        if all(_is_number(name) for name in names):
            raise BadTable(
                f"{table.name}: the first line holds numbers only ({', '.join(names[:3])}, ...) and no names of columns; "
                "give --no-header, and the columns are called 0, 1, 2, ..."
            )

    def rows() -> Iterator[Row | BadRow]:
        yield from (Row(blank + 1, row) for row in ready)
        while True:
            start = blank + reader.line_num + 1  # a quoted field may go on over several lines
            try:
                row = next(reader)
            except StopIteration:
                yield from spoiled
                return
            except csv.Error as error:
                yield BadRow(start, None, str(error))
                continue
            while spoiled:
                yield spoiled.pop(0)
            if len(row) == len(columns):
                yield Row(start, row)
            elif row:  # an empty line is nothing
                yield BadRow(start, None, f"{len(row)} fields, but there are {len(columns)} columns")

    return columns, rows()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# --- NDJSON ----------------------------------------------------------------------------------------------------------------------


def _ndjson(lines: Iterator[tuple[int, bytes]], table: Table) -> tuple[list[str], Iterator[Row | BadRow]]:
    def objects() -> Iterator[tuple[int, dict[str, Any]] | BadRow]:
        for number, line in lines:
            if not line.strip():
                continue
            try:
                found = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
            except (ValueError, RecursionError) as error:
                yield BadRow(number, None, f"not JSON ({error})")
                continue
            yield (number, found) if isinstance(found, dict) else BadRow(number, None, "not a JSON object {...}")

    parsed = objects()
    ahead: list[Any] = []
    for item in parsed:  # the first good object names the columns
        ahead.append(item)
        if not isinstance(item, BadRow) or len(ahead) == BLOCK:
            break
    if not ahead:
        raise BadTable(f"{table.name} is empty: there is no row to learn from")
    if isinstance(ahead[-1], BadRow):
        raise BadTable(f"{table.name}: no line is a JSON object; {ahead[0]}")
    columns = list(ahead[-1][1])

    def rows() -> Iterator[Row | BadRow]:
        for source in (ahead, parsed):
            for item in source:
                yield item if isinstance(item, BadRow) else Row(item[0], [item[1].get(name) for name in columns])

    return columns, rows()


# --- Parquet ---------------------------------------------------------------------------------------------------------------------


def _parquet(path: str) -> tuple[list[str], Iterator[Row | BadRow]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise BadTable("reading Parquet needs pyarrow: pip install pyarrow") from None
    if path == "-":
        raise BadTable(_NOT_PIPED)
    try:
        file = pyarrow.parquet.ParquetFile(path)
    except pyarrow.ArrowException as error:
        raise BadTable(f"{path}: not a Parquet file ({error})") from None

    def rows() -> Iterator[Row | BadRow]:
        number = 0
        try:
            for batch in file.iter_batches(batch_size=BLOCK):
                for values in zip(*(column.to_pylist() for column in batch.columns)):
                    number += 1
                    yield Row(number, list(values))
        except pyarrow.ArrowException as error:
            raise BadTable(f"{path}: cannot be read beyond row {number} ({error})") from None

    return list(file.schema_arrow.names), rows()


# --- from rows to numbers --------------------------------------------------------------------------------------------------------


class Reader:
    """Blocks of numbers out of a table: which columns are features, which one is the target, what a bad row does.

    target   a column, or None; reals says whether it holds numbers or names of classes
    gaps     whether a missing feature is NaN or a bad row
    """

    def __init__(self, table: Table, features: list[str], target: str | None, reals: bool = False, gaps: bool = False):
        self.table, self.features, self.target, self.reals, self.gaps = table, features, target, reals, gaps
        self._where = [table.columns.index(name) for name in features]
        self._target = None if target is None else table.columns.index(target)

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
        value = row.values[self._target]
        if self.reals:
            return self._number(row, self._target, False)
        if missing(value):
            raise self._bad(row, self._target, "the target is missing")
        return value.strip() if isinstance(value, str) else json.dumps(value, default=str)

    def _number(self, row: Row, at: int, gaps: bool) -> float:
        value = row.values[at]
        if missing(value):
            if gaps:
                return np.nan
            raise self._bad(row, at, "the value is missing")
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise self._bad(row, at, f"{str(value)[:40]!r} is not a number") from None
        if not abs(number) <= LARGEST:
            raise self._bad(row, at, f"{str(value)[:40]} is not a finite number below {LARGEST:g}")
        return number

    def _bad(self, row: Row, at: int, problem: str) -> BadRow:
        return BadRow(row.line, self.table.columns[at], problem, self.table.unit)

    def blocks(
        self, rows: Iterator[Row | BadRow], *, size: int = BLOCK, stop: bool = False, patience: float | None = None
    ) -> Iterator[Block]:
        """Blocks of ``size`` good rows, the last one shorter.

        With ``stop`` the first bad row ends the blocks.  After ``patience`` seconds a block goes out as it is.
        """
        X: list[list[float]] = []
        y: list[Any] = []
        bad: list[BadRow] = []
        read, begun = 0, time.monotonic()

        def block(end: BadRow | None = None) -> Block:
            return Block(np.array(X, np.float64).reshape(len(X), len(self.features)), y, read, bad, end)

        for row in rows:
            try:
                if isinstance(row, BadRow):
                    raise row
                goal = self.goal(row)
                X.append(self.numbers(row))
                y.append(goal)
            except BadRow as error:
                if stop:
                    yield block(error)
                    return
                bad.append(error)
            read += 1
            if len(X) == size or len(bad) == size or (patience is not None and time.monotonic() - begun > patience):
                yield block()
                X, y, bad, read, begun = [], [], [], 0, time.monotonic()
        if read:
            yield block()


def missing(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return value is None or (isinstance(value, float) and value != value)


def texts(columns: list[str], rows: list[Row | BadRow]) -> list[str]:
    """The columns in which these rows hold no number, but something else."""
    found = []
    for at, name in enumerate(columns):
        values = [row.values[at] for row in rows if isinstance(row, Row) and not missing(row.values[at])]
        if values and not any(isinstance(value, bool | int | float) or _is_number(str(value)) for value in values):
            found.append(name)
    return found


class Marked:
    """Rows on their way, with a digest of the first ones, so that a stream is recognised when it is read again."""

    FIRST = 100

    def __init__(self, rows: Iterator[Row | BadRow]):
        self._rows, self._hash = rows, hashlib.sha256()
        self._digests = [self._hash.hexdigest()]

    def __iter__(self) -> Iterator[Row | BadRow]:
        return self

    def __next__(self) -> Row | BadRow:
        row = next(self._rows)
        if len(self._digests) <= self.FIRST:
            self._hash.update(repr(row.values if isinstance(row, Row) else str(row)).encode("utf-8", "surrogatepass"))
            self._digests.append(self._hash.hexdigest())
        return row

    def mark(self, read: int) -> str:
        """The digest of the first rows, if so many have been read."""
        return self._digests[min(read, len(self._digests) - 1)]
