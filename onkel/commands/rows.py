"""Rows on their way from a table to a model: what a good one is, what is wrong with a bad one, and what none may exceed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

BLOCK = 1000  # rows
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))
HELD = 2**24  # characters of rows that wait
LONGEST_NAME = 1000  # characters of a class


class Limits(NamedTuple):
    """What a table may ask for at most; beyond it is an error, and no memory or hour is spent."""

    line: int = 2**20  # bytes of a line, of a row that goes on over several, of an object
    columns: int = 10_000
    classes: int = 300


class BadTable(ValueError):
    """The stream as a whole cannot be read; says why and what to do."""


class BadRow(ValueError):
    """One row cannot be read: where, and what is wrong with it."""

    def __init__(self, line: int, column: str | None, problem: str, unit: str = "line"):
        super().__init__(f"{unit} {line}{'' if column is None else f', column {column!r}'}: {problem}")
        self.line, self.column = line, column


class Row(NamedTuple):
    """Values by column, as the format gives them: text from CSV; numbers, text, dates, None from the others."""

    line: int
    values: list[Any]


class Block(NamedTuple):
    """Consecutive good rows; ``read`` counts all rows that it took, the bad ones included, but not the one that ended it."""

    X: np.ndarray
    y: list[Any]
    rows: list[int]  # which rows of the table these are, counted from 1
    own: list[list[Any]]  # what stands in the columns to keep
    weights: np.ndarray | None  # how much each row counts, where a column says it
    read: int
    bad: list[BadRow]
    end: BadRow | None = None


def first_of(rows: Iterator[Row | BadRow]) -> list[Row | BadRow]:
    """A block of rows to look at before they are read, or fewer where they are long."""
    ahead: list[Row | BadRow] = []
    held = 0
    for row in islice(rows, BLOCK):
        ahead.append(row)
        held += sum(len(value) for value in row.values if isinstance(value, str)) if isinstance(row, Row) else 0
        if held > HELD:
            break
    return ahead


def missing(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() in MISSING
    return value is None or (isinstance(value, float) and value != value)


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
