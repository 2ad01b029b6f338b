"""`onkel run`: learn a table from its first row to its last, predicting each row before it is learned."""

from __future__ import annotations

import argparse
import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any

import onkel
from onkel import plots
from onkel.commands import tables
from onkel.commands.scorecard import ESTIMATORS, MODELS, Run, guess_task, start
from onkel.commands.tables import BLOCK, BadTable, Block, Marked, Reader, Row, Table
from onkel.core.maths.budget import Rule
from onkel.core.maths.kernels import Kernel
from onkel.core.maths.labelled import Loss
from onkel.core.maths.value import names as names_of
from onkel.persist import BadFile, load, save
from onkel.saved import atomic
from onkel.terminal.arguments import encoding, gamma, names, natural, one_character, positive, whole
from onkel.terminal.interrupt import Interrupt
from onkel.terminal.progress import Progress, say

EXAMPLES = """
examples
  onkel run prices.csv --target up                    classes or real numbers: the first 1000 rows tell
  onkel run prices.csv.xz --target price --task reals --model svmd --budget 200
  onkel run sensors.parquet                           no target: novelty
  tail -f log.ndjson | onkel run - --target status --drop id,time --out live
  onkel run prices.csv --target up --save-every 10000
  onkel run prices.csv --resume prices.onkel          goes on where it was stopped, to the same model

exit status
  0  done        1  a row, a file or the model was bad        2  wrong use        130, 143  interrupted, all saved
"""

NEW_RUN = ("target", "task", "model", "features", "drop", "kernel", "gamma", "loss", "eta", "lam", "C", "budget", "forget", "nu")
BAD_SHOWN = 20


class Usage(ValueError):
    """The command was given what does not fit together."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "run",
        help="learn a CSV, Parquet or NDJSON stream: predict each row, then learn it",
        description="Learns a table row by row in bounded memory, predicting each row before it is learned. Writes the model "
        "(PREFIX.onkel), a report (PREFIX.json) and a figure (PREFIX.png).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("stream", metavar="STREAM", help="a file, .gz, .xz or .bz2 too; - is standard input")
    data = parser.add_argument_group("the table")
    data.add_argument("--target", metavar="COLUMN", help="what to predict; without it, novelty")
    data.add_argument("--task", choices=("auto", *ESTIMATORS), help="default auto: from the first values of the target")
    data.add_argument("--features", metavar="A,B", type=names, help="columns to learn from (default: all but the target)")
    data.add_argument("--drop", metavar="A,B", type=names, help="columns to leave out")
    data.add_argument("--format", choices=tables.FORMATS, help="default: by the name, or by the first character")
    data.add_argument("--delimiter", metavar="C", type=one_character, help="of CSV (default: the likeliest of , ; | and tab)")
    data.add_argument("--no-header", action="store_true", help="CSV without names: columns are called 0, 1, 2, ...")
    data.add_argument("--encoding", metavar="NAME", type=encoding, default="utf-8", help="of CSV (default utf-8)")
    data.add_argument("--missing", choices=("error", "ignore"), help="ignore: a kernel that leaves missing values out")
    data.add_argument("--on-error", choices=("stop", "skip"), default="stop", help="what a bad row does (default stop)")
    data.add_argument("--no-scale", action="store_true", help="leave columns as they are (default: running mean 0, spread 1)")
    model = parser.add_argument_group("the model")
    model.add_argument("--model", choices=MODELS, help="default silk; for novelty norma. ilk keeps every point")
    model.add_argument("--kernel", choices=names_of(Kernel), help="default rbf")
    model.add_argument("--gamma", metavar="G", type=gamma, help="width of the kernel: scale (default), auto or a number")
    model.add_argument("--loss", choices=names_of(Loss))
    model.add_argument("--eta", metavar="X", type=positive, help="step size")
    model.add_argument("--lam", metavar="X", type=positive, help="how fast the model forgets")
    model.add_argument("--C", metavar="X", type=positive, help="weight of the loss")
    model.add_argument("--budget", metavar="N", type=whole, help="points to keep (default 512)")
    model.add_argument("--forget", choices=names_of(Rule), help="which point goes when the budget is full")
    model.add_argument("--nu", metavar="X", type=positive, help="share of rows that violate the margin, or alert (norma, svmd)")
    out = parser.add_argument_group("results")
    out.add_argument("--out", metavar="PREFIX", type=Path, help="default: the stream's name, in this folder")
    out.add_argument("--no-figure", action="store_true", help="write no figure")
    out.add_argument("--resume", metavar="FILE", type=Path, help="go on with this model; the same stream goes on where it stopped")
    out.add_argument("--skip", metavar="N", type=natural, help="leave out the first N rows")
    out.add_argument("--save-every", metavar="N", type=whole, help="save the model every N rows, too")
    out.add_argument("--quiet", "-q", action="store_true", help="print errors only")
    parser.set_defaults(run=command)


def command(arguments: argparse.Namespace) -> int:
    try:
        return run(arguments)
    except Usage as error:
        return _fail(error, 2)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else error, 1)
    except (BadTable, BadFile, FloatingPointError) as error:
        return _fail(error, 1)


def _fail(error: Any, status: int) -> int:
    say("onkel run", error)
    return status


def run(arguments: argparse.Namespace) -> int:
    with closing(_table(arguments)) as table:
        marked = Marked(iter(table))
        if arguments.resume is None:
            ahead = list(islice(marked, BLOCK))
            work = _new(arguments, table, ahead)
        else:
            work = _resumed(arguments, table)
            ahead = list(islice(marked, min(work.source["read"], Marked.FIRST)))
        rows = chain(ahead, marked)
        skipped = sum(1 for _ in islice(rows, _learned_before(arguments, work, marked)))
        work.source = {"name": os.path.basename(arguments.stream), "read": skipped, "mark": ""}
        prefix = arguments.out or (arguments.resume.with_suffix("") if arguments.resume else Path(tables.stem(table.path)))
        if not os.access(folder := prefix.absolute().parent, os.W_OK):  # now, not when all is learned
            raise Usage(f"--out {prefix}: {folder} is no folder that can be written to")
        reader = Reader(table, work.features, work.target, work.task == "reals", work.model.missing == "ignore")
        patience = 0.5 if table.path == "-" else None  # what comes in live is not held back for long
        blocks = reader.blocks(rows, stop=arguments.on_error == "stop", patience=patience)
        return _learn(arguments, table, marked, work, blocks, prefix)


def _table(arguments: argparse.Namespace) -> Table:
    return Table(
        arguments.stream,
        arguments.format,
        delimiter=arguments.delimiter,
        header=not arguments.no_header,
        encoding=arguments.encoding,
    )


def _new(arguments: argparse.Namespace, table: Table, ahead: list[Any]) -> Run:
    target, dropped = arguments.target, set(arguments.drop or ())
    for wanted, option in (([target] if target else [], "--target"), (arguments.features or [], "--features"), (dropped, "--drop")):
        _known(table, wanted, option)
    features = arguments.features or [name for name in table.columns if name != target and name not in dropped]
    if not features or target in features:
        raise Usage(f"there is nothing to learn from: the features are {', '.join(features) or 'none'}, the target is {target}")
    text = tables.texts(table.columns, ahead)
    if odd := [name for name in features if name in text]:
        raise BadTable(f"{table.name}: no numbers in {', '.join(odd)}; leave such columns out: --drop {','.join(odd)}")
    task = arguments.task or "auto"
    if task == "auto":
        goals = [row.values[table.columns.index(target)] for row in ahead if isinstance(row, Row)] if target else []
        task = guess_task(target, [goal for goal in goals if not tables.missing(goal)])
    elif (task == "novelty") != (target is None):
        raise Usage(f"--task {task} {'needs no --target' if target else 'needs a --target'}")
    options = {name: getattr(arguments, name) for name in ("model", "kernel", "gamma", "loss", "eta", "lam", "C", "budget", "nu")}
    try:
        work = start(
            task, features, target, **options, drop=arguments.forget, missing=arguments.missing, scale=not arguments.no_scale
        )
        work.model.plan().learner(1.0, len(features), 2)  # refuses now what does not fit together
    except (ValueError, TypeError) as error:
        raise Usage(str(error)) from None
    return work


def _resumed(arguments: argparse.Namespace, table: Table) -> Run:
    given = [f"--{name}" for name in NEW_RUN if getattr(arguments, name) is not None]
    if given or arguments.no_scale or arguments.missing:
        raise Usage(f"{', '.join(given) or '--no-scale, --missing'}: a resumed run keeps what it was started with; leave it out")
    work = load(arguments.resume)
    if not isinstance(work, Run):
        raise BadFile(f"{arguments.resume}: holds a model, but not a run on a table; `onkel info` tells what it is")
    _known(table, [*work.features, *([work.target] if work.target else [])], "--resume")
    return work


def _known(table: Table, wanted: Any, option: str) -> None:
    for name in wanted:
        if name not in table.columns:
            some = ", ".join(table.columns[:12]) + (", ..." if len(table.columns) > 12 else "")
            raise BadTable(f"{option}: {table.name} has no column {name!r}; it has {some}")


def _learned_before(arguments: argparse.Namespace, work: Run, marked: Marked) -> int:
    """How many rows to pass over: a stream that begins as the one before goes on where that one stopped."""
    before = work.source
    if arguments.skip is not None or not before:
        return arguments.skip or 0
    if marked.mark(before["read"]) == before["mark"]:
        return int(before["read"])
    if before["name"] == os.path.basename(arguments.stream) != "-":
        raise BadTable(f"{arguments.stream} does not begin as it did when {arguments.resume} learned it; --skip 0 learns all of it")
    return 0


def _learn(arguments: argparse.Namespace, table: Table, marked: Marked, work: Run, blocks: Iterator[Block], prefix: Path) -> int:
    begun, fresh, messages = time.perf_counter(), 0, []
    end: Any = None
    recent: list[float] = []
    first = "learning (the first run of all compiles for some seconds)"
    with Interrupt() as interrupt, Progress(arguments.quiet, first) as progress:
        while interrupt.signal is None and end is None:
            block = interrupt.waiting(lambda: next(blocks, None))
            if block is None:
                break
            before, end = work.tally.rows, block.end
            if block.y:
                recent = [*recent, *work.learn(block.X, block.y).tolist()][-1000:]
            fresh += len(block.y)
            read = work.source["read"] + block.read
            work.source |= {"read": read, "mark": marked.mark(read)}
            work.bad += len(block.bad)
            messages += [str(error) for error in block.bad[: BAD_SHOWN - len(messages)]]
            if arguments.save_every and work.tally.rows // arguments.save_every > before // arguments.save_every:
                save(work, f"{prefix}.onkel")
            if progress.due:
                speed, error = fresh / (time.perf_counter() - begun), sum(recent) / max(len(recent), 1)
                text = f"{work.tally.rows} rows, {speed:.0f}/s, error {error:.4g} over the last {len(recent)}"
                progress.show(text, table.share)
    if work.tally.rows == 0:
        raise BadTable(f"{table.name}: no row could be learned; {end or (messages or ['there is none'])[0]}")
    seconds = time.perf_counter() - begun
    save(work, f"{prefix}.onkel")
    report = _report(work, table, messages, seconds, fresh, interrupt.signal is None and end is None)
    atomic.write(f"{prefix}.json", (json.dumps(report, indent=1, allow_nan=False) + "\n").encode())
    written = [f"{prefix}.onkel", f"{prefix}.json"]
    if not arguments.no_figure and _draw(work, f"{prefix}.png"):
        written.append(f"{prefix}.png")
    if not arguments.quiet:
        print(_summary(report), "\nwritten: " + ", ".join(written), sep="")
    if end is not None:
        return _fail(f"{end}. The rows before are learned and saved; mend it and --resume {prefix}.onkel, or --on-error skip", 1)
    if interrupt.signal is not None:
        return _fail(
            f"interrupted after {work.tally.rows} rows, all saved; --resume {prefix}.onkel goes on", 128 + interrupt.signal
        )
    return 0


def _report(work: Run, table: Table, messages: list[str], seconds: float, fresh: int, complete: bool) -> dict[str, Any]:
    parameters = {
        name: value if isinstance(value, str | int | float | bool | None) else repr(value)
        for name, value in work.model.get_params().items()
    }
    return {
        "stream": table.name,
        "format": table.format,
        "task": work.task,
        "target": work.target,
        "features": work.features,
        "complete": complete,
        **work.report(),
        "bad": messages,
        "estimator": type(work.model).__name__,
        "parameters": parameters,
        "seconds": round(seconds, 3),
        "rows_per_second": round(fresh / max(seconds, 1e-9)),
        "onkel": onkel.__version__,
    }


def _summary(report: dict[str, Any]) -> str:
    lines = [f"{report['rows']} rows, {report['bad_rows']} bad; {report['points']} points kept in {report['bytes']} bytes; "
             f"{report['seconds']:.1f} s, {report['rows_per_second']} rows/s"]  # fmt: skip
    if report["task"] == "classes":
        lines.append(f"error {report['error']:.4f}; the last label again {report['error_of_last_label']:.4f}, "
                     f"the most frequent {report['error_of_most_frequent_label']:.4f}")  # fmt: skip
    elif report["task"] == "reals":
        lines.append(f"mean absolute error {report['mean_absolute_error']:.6g}; the last value again "
                     f"{report['mean_absolute_error_of_last_value']:.6g}, the mean so far "
                     f"{report['mean_absolute_error_of_running_mean']:.6g}")  # fmt: skip
    else:
        lines.append(f"alerts {report['alerts']:.4f}")
    return "\n".join(lines)


def _draw(work: Run, path: str) -> bool:
    """The error over the stream beside that of the simplest rival; False without matplotlib."""
    try:
        with plots.style():
            figure, (axes,) = plots.panels(1, width=7.2)
            rows, curve = work.tally.windows()
            title = {"classes": "Mistakes", "reals": "Mean absolute error", "novelty": "Alerts"}[work.task]
            axes.set(title=f"{title}, rows of {work.tally.width} together", xlabel="rows", xlim=(0, rows[-1]))
            axes.plot(rows, curve[:, 0], color=plots.colour("blue"), label=type(work.model).__name__)
            if work.target is not None:
                axes.plot(rows, curve[:, 1], color=plots.colour("grey"), linewidth=1.0, label="last one again")
            axes.set_ylim(bottom=0)
            plots.name_lines(axes)
            image = io.BytesIO()
            figure.savefig(image, format="png")
    except ModuleNotFoundError:
        return False
    atomic.write(path, image.getvalue())
    return True
