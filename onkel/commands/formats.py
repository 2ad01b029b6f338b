"""The formats of tables: CSV, NDJSON, JSON arrays, Parquet and feather, packed or not, as columns and rows.

Each reader takes what is read and the limits, and returns the names of the columns with an iterator over the rows.  Memory is
bounded by a row, or by a batch of Parquet, whatever the stream holds.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import os
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from onkel.commands.rows import BLOCK, BadRow, BadTable, Limits, Row
from onkel.terminal.arguments import is_number
from onkel.terminal.extras import how, need

ARROW = ("parquet", "feather")
FORMATS = ("csv", "ndjson", "json", *ARROW, "svmlight", "vw")
ENDINGS = {
    **dict.fromkeys((".csv", ".tsv", ".txt", ".data"), "csv"),
    **dict.fromkeys((".ndjson", ".jsonl", ".json"), "ndjson"),
    ".parquet": "parquet",
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "feather"),
    **dict.fromkeys((".svmlight", ".libsvm", ".svm"), "svmlight"),
    ".vw": "vw",
}
PACKED = (".gz", ".xz", ".bz2", ".zst")
CUT = 200  # characters that are kept of a text in JSON that is longer than any number or name could be
Columns = tuple[list[str], Iterator["Row | BadRow"]]


def format_of(path: str) -> str | None:
    """By the name; None for standard input."""
    stem, ending = os.path.splitext(path)
    if ending in PACKED:
        ending = os.path.splitext(stem)[1]
    if path == "-":
        return None
    if ending.lower() not in ENDINGS:
        raise BadTable(f"{path}: the name does not tell the format; give --format {'|'.join(FORMATS)}")
    return ENDINGS[ending.lower()]


def stem(path: str) -> str:
    """A name for what comes out of a stream.

    >>> stem("data/elec.2020.csv.xz"), stem("-")
    ('elec.2020', 'stdin')
    """
    name = "stdin" if path == "-" else os.path.basename(path)
    while os.path.splitext(name)[1].lower() in (*ENDINGS, *PACKED):
        name = os.path.splitext(name)[0]
    return name


def unpacked(path: str, raw: BinaryIO) -> Any:
    """What the file holds; packed ones are unpacked on the way, in bounded memory."""
    match os.path.splitext(path)[1]:
        case ".gz":
            return gzip.open(raw)
        case ".xz":
            return lzma.open(raw)
        case ".bz2":
            return bz2.open(raw)
        case ".zst":
            need("reading .zst", "zstandard")
            import zstandard

            return io.BufferedReader(zstandard.ZstdDecompressor(max_window_size=2**27).stream_reader(raw, read_across_frames=True))
    return raw


def lines(stream: BinaryIO, name: str, limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Lines of bytes with their numbers; a line without end is an error, not a full memory."""
    number = 0
    while True:
        line = pull(stream.readline, limits.line + 1, name, f"line {number}")
        if not line:
            return
        number += 1
        if len(line) > limits.line:
            raise BadTable(f"{name}: line {number} is longer than {limits.line} bytes; if it should be, give --max-line")
        yield number, line


def pull(read: Any, size: int, name: str, where: str) -> Any:
    """What the stream gives; whatever its unpacking says is told as one kind of error."""
    try:
        return read(size)
    except Exception as error:  # EOFError, OSError, LZMAError, ZstdError, zlib.error ...
        raise BadTable(f"{name}: cannot be read beyond {where} ({error})") from None


def before(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def counted(columns: list[str], name: str, limits: Limits) -> list[str]:
    """The names, if there are not too many and each is there once."""
    if len(columns) > limits.columns:
        raise BadTable(
            f"{name}: {len(columns)} columns, and at most {limits.columns} are taken; if so many are meant, give --max-columns"
        )
    seen: set[str] = set()
    for column in columns:
        if column in seen:
            raise BadTable(f"{name}: two columns are called {column!r}; every column needs a name of its own")
        seen.add(column)
    return columns


# --- CSV -------------------------------------------------------------------------------------------------------------------------


class CSV:
    """Lines on their way into Python's csv, which knows no limit to a row that goes on over several lines."""

    def __init__(self, source: Iterator[tuple[int, bytes]], name: str, encoding: str, limits: Limits):
        self.source, self.name, self.encoding, self.limits = source, name, encoding, limits
        self.spoiled: list[BadRow] = []
        self.fed = 0  # bytes since the last row

    def __iter__(self) -> Iterator[str]:
        for number, line in self.source:
            self.fed += len(line)
            if self.fed > self.limits.line and self.fed > len(line):
                raise BadTable(f"{self.name}: a row that ends in line {number} or later is longer than {self.limits.line} bytes; "
                               "is a quotation mark missing? If it should be so long, give --max-line")  # fmt: skip
            try:
                yield line.decode("utf-8-sig" if number == 1 and self.encoding == "utf-8" else self.encoding)
            except UnicodeDecodeError as error:
                problem = f"not {self.encoding} text ({error.reason}); give --encoding latin-1, say"
                self.spoiled.append(BadRow(number, None, problem))
                yield "\n"


def read_csv(text: CSV, header: bool, delimiter: str | None) -> Columns:
    decoded = iter(text)
    blank = 0
    for first in decoded:
        if first.strip():
            break
        blank += 1
        text.fed = 0
    else:
        raise BadTable(f"{text.name} is empty: there is no row to learn from")
    delimiter = delimiter or max(",;\t|", key=first.count)
    reader = csv.reader(before(first, decoded), delimiter=delimiter, strict=True)
    try:
        names = next(reader)
    except csv.Error as error:
        raise BadTable(f"{text.name}: the first line is no list of column names ({error})") from None
    if not header:
        columns, ready = [str(i) for i in range(len(names))], [names]
    else:
        columns, ready = [name.strip() for name in names], []
        if all(is_number(name) for name in names):
            raise BadTable(
                f"{text.name}: the first line holds numbers only ({', '.join(names[:3])}, ...) and no names of columns; "
                "give --no-header, and the columns are called 0, 1, 2, ..."
            )

    def rows() -> Iterator[Row | BadRow]:
        yield from (Row(blank + 1, row) for row in ready)
        while True:
            start = blank + reader.line_num + 1  # a quoted field may go on over several lines
            text.fed = 0
            try:
                row = next(reader)
            except StopIteration:
                yield from text.spoiled
                return
            except csv.Error as error:
                yield BadRow(start, None, str(error))
                continue
            while text.spoiled:
                yield text.spoiled.pop(0)
            if len(row) == len(columns):
                yield Row(start, row)
            elif row:  # an empty line is nothing
                yield BadRow(start, None, f"{len(row)} fields, but there are {len(columns)} columns")

    return counted(columns, text.name, text.limits), rows()


# --- JSON ------------------------------------------------------------------------------------------------------------------------


def read_ndjson(source: Iterator[tuple[int, bytes]], name: str, limits: Limits) -> Columns:
    def objects() -> Iterator[tuple[int, dict[str, Any]] | BadRow]:
        for number, line in source:
            if not line.strip():
                continue
            try:
                found = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
            except (ValueError, RecursionError) as error:
                yield BadRow(number, None, f"not JSON ({error})")
                continue
            yield (number, found) if isinstance(found, dict) else BadRow(number, None, "not a JSON object {...}")

    return named_by_the_first(objects(), name, limits, "no line is a JSON object")


def read_array(stream: BinaryIO, name: str, limits: Limits) -> Columns:
    """One array of objects, an object at a time."""
    decoder, utf8 = json.JSONDecoder(), codecs.getincrementaldecoder("utf-8")("replace")

    def objects() -> Iterator[tuple[int, dict[str, Any]] | BadRow]:
        text, number, ended = "", 0, False
        while True:
            text = text.lstrip(" \t\r\n\ufeff,[") if number == 0 else text.lstrip(" \t\r\n,")
            if text.startswith("]"):
                return
            try:
                found, end = decoder.raw_decode(text)
                if end == len(text) and not ended:
                    raise ValueError("a number might go on")
            except (ValueError, RecursionError) as error:
                if ended:
                    if text:
                        yield BadRow(number + 1, None, f"not JSON ({error})", "row")
                    return
                if len(text) > limits.line:
                    raise BadTable(
                        f"{name}: row {number + 1} is no JSON, or longer than {limits.line} bytes (--max-line)"
                    ) from None
                piece = pull(stream.read, max(2**16, len(text)), name, f"row {number}")
                text, ended = text + utf8.decode(piece, not piece), not piece
                continue
            number += 1
            text = text[end:]
            yield (number, found) if isinstance(found, dict) else BadRow(number, None, "not a JSON object {...}", "row")

    return named_by_the_first(objects(), name, limits, "the array holds no JSON object")


def named_by_the_first(parsed: Iterator[tuple[int, dict[str, Any]] | BadRow], name: str, limits: Limits, nothing: str) -> Columns:
    """The first good object names the columns."""
    ahead: list[BadRow] = []
    for item in parsed:
        if not isinstance(item, BadRow):
            break
        ahead.append(item)
        if len(ahead) == BLOCK:
            break
    else:
        item = None
    if not ahead and item is None:
        raise BadTable(f"{name} is empty: there is no row to learn from")
    if item is None or isinstance(item, BadRow):
        raise BadTable(f"{name}: {nothing}; {ahead[0]}")
    columns = counted(list(item[1]), name, limits)

    def rows() -> Iterator[Row | BadRow]:
        yield from ahead
        for found in before(item, parsed):
            yield found if isinstance(found, BadRow) else Row(found[0], [scalar(found[1].get(column)) for column in columns])

    return columns, rows()


def scalar(value: Any) -> Any:
    """What is no number and no name is kept as the beginning of its text: a block of such rows takes little memory."""
    if isinstance(value, str):
        return value if len(value) <= 10 * CUT else value[: 10 * CUT]
    if value is None or isinstance(value, float | bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**1100 else f"{'-' if value < 0 else ''}a number of over 300 digits"
    try:
        return str(value)[:CUT]
    except RecursionError:
        return "[...]"


# --- Parquet and feather ---------------------------------------------------------------------------------------------------------


def arrow(path: str, format: str) -> Any:
    """The open file: ``schema_arrow`` or ``schema``, and batches."""
    if path == "-":
        raise BadTable(f"{format} cannot be read from standard input, since its index stands at the end; give the name of the file")
    try:
        import pyarrow
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise BadTable(f"reading {format} needs pyarrow, which is not installed: {how('pyarrow')}") from None
    try:
        if format == "parquet":
            return pyarrow.parquet.ParquetFile(path)
        return pyarrow.ipc.open_file(pyarrow.memory_map(path))
    except pyarrow.ArrowException as error:
        raise BadTable(f"{path}: not a {format.capitalize()} file ({error})") from None


def read_arrow(path: str, format: str, limits: Limits) -> Columns:
    file = arrow(path, format)

    def rows() -> Iterator[Row | BadRow]:
        number = 0
        for batch in batches(file, path):
            for values in zip(*(column.to_pylist() for column in batch.columns)):
                number += 1
                yield Row(number, list(values))

    schema = file.schema_arrow if format == "parquet" else file.schema
    return counted(list(schema.names), path, limits), rows()


def batches(file: Any, path: str, columns: list[str] | None = None) -> Iterator[Any]:
    """Batches of at most BLOCK rows."""
    import pyarrow

    number = 0
    try:
        if hasattr(file, "iter_batches"):
            for batch in file.iter_batches(batch_size=BLOCK, columns=columns):
                number += len(batch)
                yield batch
            return
        for i in range(file.num_record_batches):
            whole = file.get_batch(i) if columns is None else file.get_batch(i).select(columns)
            for start in range(0, len(whole), BLOCK):
                number += BLOCK
                yield whole.slice(start, BLOCK)
    except (pyarrow.ArrowException, OSError) as error:
        raise BadTable(f"{path}: cannot be read beyond row {number} ({error})") from None


def standard_input() -> Any:
    """Bytes, of which the first can be looked at before they are read."""
    stream = sys.stdin.buffer
    return stream if hasattr(stream, "peek") else io.BufferedReader(stream)
