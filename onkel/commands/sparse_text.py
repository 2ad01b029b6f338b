"""svmlight and Vowpal Wabbit text: rows that name what is not 0, as columns.

svmlight's features are columns called by their numbers, as many as the first rows have.  Vowpal Wabbit's are hashed into
WIDTH columns, each name with a sign of its own, so that two names in one column do not add up on average.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator
from itertools import islice

from onkel.commands.rows import BLOCK, BadRow, BadTable, Limits, Row

TARGET, WEIGHT = "target", "importance"
WIDTH = 256
TAG = re.compile(r"'\S*$")
Lines = Iterator[tuple[int, bytes]]


class Sparse:
    """Columns that may be added before the first row is asked for: a model may know features that the first rows lack."""

    def __init__(self, lines: Lines, name: str, limits: Limits):
        self.lines, self.name, self.limits = lines, name, limits
        self.ahead = list(islice(self._parsed(), BLOCK))
        good = [item[2] for item in self.ahead if not isinstance(item, BadRow)]
        if not good:
            raise BadTable(
                f"{name}: no line is svmlight text, such as `1 3:0.5 7:1`; {self.ahead[0] if self.ahead else 'it is empty'}"
            )
        numbers = {number for features in good for number in features}
        self.last = max(numbers, default=0)
        self.first = 0 if 0 in numbers else 1
        self.columns = [TARGET, *map(str, range(self.first, self.last + 1))]

    def _parsed(self) -> Iterator[tuple[int, str, dict[int, float]] | BadRow]:
        for number, line in self.lines:
            words = line.decode("utf-8", "replace").partition("#")[0].split()
            if not words:
                continue
            try:
                pairs = (word.split(":") for word in words[1:] if not word.startswith("qid:"))
                features = {int(feature): float(value) for feature, value in pairs}
                if any(not 0 <= feature < self.limits.columns for feature in features):
                    raise ValueError(f"a feature's number is not from 0 to {self.limits.columns - 1} (--max-columns)")
            except ValueError as error:
                yield BadRow(number, None, f"not svmlight text ({error})")
                continue
            yield number, words[0], features

    def widen(self, names: list[str]) -> None:
        """Take in columns that are numbers beyond the last one."""
        more = [int(name) for name in names if name.isdecimal() and len(name) < 10 and name not in set(self.columns)]
        if more and max(more) < self.limits.columns:
            self.columns += map(str, range(self.last + 1, max(more) + 1))
            self.last = max(self.last, *more)

    def __iter__(self) -> Iterator[Row | BadRow]:
        for item in (found for part in (self.ahead, self._parsed()) for found in part):
            if isinstance(item, BadRow):
                yield item
            elif item[2] and max(item[2]) > self.last:
                yield BadRow(item[0], None, f"feature {max(item[2])} is new; the first {BLOCK} rows go to {self.last}")
            else:
                values = [0.0] * (len(self.columns) - 1)
                for number, value in item[2].items():
                    values[number - self.first] = value
                yield Row(item[0], [item[1], *values])


def read_vw(lines: Lines) -> tuple[list[str], Iterator[Row | BadRow]]:
    """`label [importance] [base] ['tag]|namespace[:scale] feature[:value] ... |...`; importance is 1 where none is given."""

    def rows() -> Iterator[Row | BadRow]:
        for number, line in lines:
            head, *spaces = line.decode("utf-8", "replace").strip().split("|")
            if not head and not spaces:
                continue
            try:
                words = TAG.sub("", head).split()
                if not spaces or not words:
                    raise ValueError("there is no label, or no | before the features")
                yield Row(number, [words[0], float(words[1]) if len(words) > 1 else 1.0, *hashed(spaces)])
            except ValueError as error:
                yield BadRow(number, None, f"not Vowpal Wabbit text ({error})")

    return [TARGET, WEIGHT, *(f"hash {k}" for k in range(WIDTH))], rows()


def hashed(spaces: list[str]) -> list[float]:
    """The features of all namespaces, added up where their names meet.

    >>> sum(value != 0 for value in hashed(["a x y:2", "b:0.5 x"]))
    3
    """
    values = [0.0] * WIDTH
    for space in spaces:
        name, _, features = space.partition(" ") if not space.startswith(" ") else ("", "", space)
        name, _, scale = name.partition(":")
        factor = float(scale) if scale else 1.0
        for word in features.split():
            feature, _, value = word.rpartition(":") if ":" in word else (word, "", "1")
            code = zlib.crc32(f"{name}^{feature}".encode())
            values[code % WIDTH] += factor * float(value) * (1.0 if code & 2**31 else -1.0)
    if not all(map(math.isfinite, values)):
        raise ValueError("a value is not finite")
    return values
