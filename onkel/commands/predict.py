"""`onkel predict`: what a model says of the rows of a table, without learning them."""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path
from typing import Any

from onkel.commands.options import Usage, add_answers, add_table, known, open_table, writable
from onkel.commands.predictions import ending_of, writing
from onkel.commands.rows import BadTable
from onkel.commands.scorecard import Run
from onkel.commands.tables import Reader
from onkel.persist import BadFile, load
from onkel.terminal.interrupt import Interrupt
from onkel.terminal.progress import Progress, say

EXAMPLES = """
examples
  onkel predict prices.onkel today.csv                              CSV on standard output
  onkel predict prices.onkel today.parquet --predictions said.parquet --keep id
  tail -f log.ndjson | onkel predict log.onkel -

The columns are: row, prediction (alert for novelty: 0 or 1), probability or lower and upper, score, then those to --keep.
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "predict",
        help="say what a model thinks of the rows of a table",
        description="Predicts the rows of a table with a model of `onkel run`, which stays as it is.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", metavar="MODEL", type=Path, help="a file that `onkel run` wrote")
    parser.add_argument("stream", metavar="TABLE", help="a file, packed or not; - is standard input")
    add_table(parser.add_argument_group("the table"))
    out = parser.add_argument_group("results")
    add_answers(out, "where to: .csv, .ndjson or .parquet (default: CSV on standard output)")
    out.add_argument("--quiet", "-q", action="store_true", help="print errors only")
    parser.set_defaults(run=command, predictions=Path("-"))


def command(arguments: argparse.Namespace) -> int:
    try:
        return predict(arguments)
    except Usage as error:
        say("onkel predict", error)
        return 2
    except BrokenPipeError:
        raise
    except (BadTable, BadFile, ValueError, OSError) as error:
        text = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else error
        say("onkel predict", text)
        return 1


def predict(arguments: argparse.Namespace) -> int:
    run = load(arguments.model)
    if not isinstance(run, Run):
        raise BadFile(f"{arguments.model}: holds a model, but not a run on a table; `onkel info` tells what it is")
    ending_of(arguments.predictions)
    if str(arguments.predictions) != "-":
        writable(arguments.predictions, "--predictions")
    first, bad, rows = "", 0, 0
    with closing(open_table(arguments)) as table:
        table.widen(run.features)
        known(table, [*run.features, *arguments.keep], "onkel predict")
        reader = Reader(table, run.features, None, gaps=run.model.missing == "ignore", decimal=run.decimal, own=arguments.keep)
        patience = 0.5 if table.path == "-" else None
        blocks = reader.read(iter(table), stop=arguments.on_error == "stop", patience=patience)
        interrupt = Interrupt()
        with writing(arguments.predictions, run.task, arguments.keep) as writer, interrupt, Progress(arguments.quiet) as progress:
            while interrupt.signal is None and (block := interrupt.waiting(lambda: next(blocks, None))) is not None:
                if block.rows:
                    writer.write(block.rows, run.answers(block.X), block.own)
                    writer.stream.flush()
                rows += len(block.rows)
                wrong = [*block.bad, *([block.end] if block.end else [])]
                first, bad = first or "".join(map(str, wrong[:1])), bad + len(wrong)
                progress.show(f"{rows} rows", table.share)
    if bad and arguments.on_error == "stop":
        say("onkel predict", f"{first}. The rows before are predicted; mend it, or --on-error skip")
        return 1
    if bad and not arguments.quiet:
        say("onkel predict", f"{bad} bad rows left out, the first: {first}")
    return 0 if interrupt.signal is None else 128 + interrupt.signal
