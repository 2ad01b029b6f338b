"""The options that `onkel run` and `onkel predict` have in common: how a table is read, and where answers go."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from onkel.commands.formats import FORMATS
from onkel.commands.rows import BadTable, Limits
from onkel.commands.tables import Table
from onkel.terminal.arguments import encoding, names, one_character, size, whole


class Usage(ValueError):
    """The command was given what does not fit together."""


def add_table(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--format", choices=FORMATS, help="default: by the name, or by the first character")
    group.add_argument("--delimiter", metavar="C", type=one_character, help="of CSV (default: the most frequent of , ; | and tab)")
    group.add_argument("--no-header", action="store_true", help="the CSV has no line of names; its columns are called 0, 1, 2, ...")
    group.add_argument("--encoding", metavar="NAME", type=encoding, default="utf-8", help="encoding of CSV (default utf-8)")
    group.add_argument("--on-error", choices=("stop", "skip"), default="stop", help="stop at a bad row (the default), or skip it")
    group.add_argument(
        "--max-line", metavar="SIZE", type=size, default=Limits().line, help="the longest line or row that is taken (default 1M)"
    )
    group.add_argument(
        "--max-columns",
        metavar="N",
        type=whole,
        default=Limits().columns,
        help=f"the most columns that are taken (default {Limits().columns})",
    )
    group.add_argument(
        "--max-classes",
        metavar="N",
        type=whole,
        default=Limits().classes,
        help=f"the most classes that are taken (default {Limits().classes})",
    )


def add_answers(group: argparse._ArgumentGroup, help: str) -> None:
    group.add_argument("--predictions", metavar="FILE", type=Path, help=help)
    group.add_argument("--keep", metavar="A,B", type=names, default=[], help="columns of the table to copy into the predictions")


def open_table(arguments: argparse.Namespace) -> Table:
    return Table(
        arguments.stream,
        arguments.format,
        delimiter=arguments.delimiter,
        header=not arguments.no_header,
        encoding=arguments.encoding,
        limits=Limits(arguments.max_line, arguments.max_columns, arguments.max_classes),
    )


def known(table: Table, wanted: list[str], option: str, hint: str = "") -> None:
    """Refuse columns that the table does not have."""
    for name in wanted:
        if name not in table.place:
            some = ", ".join(table.columns[:12]) + (", ..." if len(table.columns) > 12 else "")
            raise BadTable(f"{option}: {table.name} has no column {name!r}; it has {some}{hint}")


def writable(path: Path, option: str) -> None:
    """Refuse now what could not be written when all is learned."""
    if path.is_dir():
        raise Usage(f"{option} {path}: that is a folder; give the name of a file in it")
    folder = path.absolute().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise Usage(f"{option} {path}: {folder} is no folder that can be written to")
