"""Answers row by row into a file or onto standard output: CSV, NDJSON or Parquet, by the ending of its name."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onkel.commands.answers import NAMES, Answers
from onkel.saved import atomic
from onkel.terminal.escape import for_cell
from onkel.terminal.extras import need

ENDINGS = (".csv", ".ndjson", ".jsonl", ".parquet")


class Writer:
    """Takes blocks of answers, in the order: row, what was said, how surely, then the row's own columns."""

    def __init__(self, stream: Any, ending: str, task: str, keep: list[str]):
        self.stream, self.ending, self.task = stream, ending, task
        self.columns = ["row", *NAMES[task], *keep]
        self.parquet: Any = None
        if ending == ".csv":
            self._csv([self.columns])

    def write(self, rows: list[int], answers: Answers, own: list[list[Any]]) -> None:
        columns: list[list[Any]] = [rows, *(answers.column(name) for name in NAMES[self.task])]
        columns += [list(values) for values in zip(*own)] if own else [[] for _ in self.columns[len(columns) :]]
        if self.ending == ".parquet":
            self._parquet(columns)
        elif self.ending == ".csv":
            self._csv(zip(*columns))
        else:
            lines = (json.dumps(dict(zip(self.columns, row)), default=str) + "\n" for row in zip(*columns))
            self.stream.write("".join(lines).encode())

    def _csv(self, rows: Any) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([for_cell(value) for value in row] for row in rows)
        self.stream.write(text.getvalue().encode("utf-8", "replace"))

    def _parquet(self, columns: list[list[Any]]) -> None:
        import pyarrow as pa
        import pyarrow.parquet

        said = pa.string() if self.task == "classes" else pa.float64() if self.task == "reals" else pa.int8()
        kinds = [pa.int64(), said, *[pa.float64()] * (len(NAMES[self.task]) - 1)]
        texts = [[None if value is None else str(value) for value in column] for column in columns[len(kinds) :]]
        kinds += [pa.string()] * len(texts)
        table = pa.table(
            [pa.array(column, kind) for column, kind in zip([*columns[: len(columns) - len(texts)], *texts], kinds)],
            names=self.columns,
        )
        self.parquet = self.parquet or pyarrow.parquet.ParquetWriter(self.stream, table.schema)
        self.parquet.write_table(table)

    def close(self) -> None:
        if self.parquet is not None:
            self.parquet.close()


def ending_of(path: Path) -> str:
    """The kind of file; standard output is CSV.  Told before any work: what is not known, or not installed."""
    if str(path) == "-":
        return ".csv"
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"--predictions {path}: give a name that ends in {', '.join(ENDINGS)}, or - for CSV on standard output")
    if ending == ".parquet":
        need("--predictions in Parquet", "pyarrow")
    return ending


@contextmanager
def writing(path: Path | None, task: str, keep: list[str]) -> Iterator[Writer | None]:
    """A writer whose file is there, whole, when the block has ended well; None for no path."""
    if path is None:
        yield None
    elif str(path) == "-":
        sys.stdout.flush()
        writer = Writer(sys.stdout.buffer, ".csv", task, keep)
        yield writer
        sys.stdout.buffer.flush()
    else:
        with atomic.replacing(path, flush=False) as stream:
            writer = Writer(stream, ending_of(path), task, keep)
            yield writer
            writer.close()
