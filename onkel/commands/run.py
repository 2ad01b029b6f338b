"""`onkel run`: learn a table from its first row to its last, predicting each row before it is learned."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, islice
from pathlib import Path
from typing import Any

from onkel.commands import results, tables
from onkel.commands.formats import stem
from onkel.commands.options import Usage, add_answers, add_table, known, open_table, writable
from onkel.commands.page import page
from onkel.commands.predictions import Writer, ending_of, writing
from onkel.commands.rows import BadTable, Block, Marked, Row, first_of, missing
from onkel.commands.scorecard import ESTIMATORS, MODELS, STEPS, Run, guess_task, start
from onkel.commands.tables import Reader, Table
from onkel.core.maths.budget import Rule
from onkel.core.maths.kernels import Kernel
from onkel.core.maths.labelled import Loss
from onkel.core.maths.value import names as names_of
from onkel.persist import BadFile, load, save
from onkel.saved import atomic
from onkel.terminal.arguments import gamma, names, natural, one_character, positive, whole
from onkel.terminal.escape import for_terminal, option
from onkel.terminal.extras import how, installed, need
from onkel.terminal.interrupt import Interrupt
from onkel.terminal.progress import Progress, say

EXAMPLES = """
examples
  onkel run prices.csv --target up                    classes or real numbers: the first 1000 rows tell
  onkel run prices.csv.xz --target price --task reals --model svmd --budget 200
  onkel run sensors.parquet                           no target: novelty
  onkel run prices.csv --target up --predictions said.csv --report run.html
  tail -f log.ndjson | onkel run - --target status --drop id,time --out live
  onkel run prices.csv --target up --save-every 10000
  onkel run prices.csv --resume prices.onkel          goes on where it was stopped, to the same model

exit status
  0  done        1  a row, a file or the model was bad        2  wrong use        130, 143  interrupted, all saved
"""

RULES = names_of(Rule)
CHOICES = ("kernel", "gamma", "loss", "eta", "lam", "C", "budget", "nu", "missing")  # called as the estimators' parameters
NEW_RUN = ("target", "task", "weight", "model", "features", "drop", "decimal", "drop_point", *CHOICES)
BAD_SHOWN = 20


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "run",
        help="learn a table: predict each row, then learn it",
        description="Learns a table row by row in bounded memory, predicting each row before it is learned. Writes the model "
        "(PREFIX.onkel), a report (PREFIX.json) and a figure (PREFIX.png).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "stream", metavar="STREAM", help="a file: CSV, NDJSON, JSON, Parquet or feather, packed or not; - is standard input"
    )
    data = parser.add_argument_group("the table")
    data.add_argument("--target", metavar="COLUMN", help="what to predict; without it, novelty")
    data.add_argument("--task", choices=("auto", *ESTIMATORS), help="default auto: from the first values of the target")
    data.add_argument("--features", metavar="A,B", type=names, help="columns to learn from (default: all but the target)")
    data.add_argument("--drop", metavar="A,B", type=names, help="columns to leave out")
    data.add_argument("--weight", metavar="COLUMN", help="how much each row counts, a number above 0 (default: 1 for all)")
    data.add_argument(
        "--decimal", metavar="C", type=one_character, help="decimal point of the numbers (default .); a comma for 1,5"
    )
    data.add_argument(
        "--missing", choices=("error", "ignore"), help="what a missing value is: an error (the default), or ignored by the kernel"
    )
    data.add_argument("--no-scale", action="store_true", help="leave columns as they are (default: running mean 0, spread 1)")
    add_table(data)
    add_model(parser.add_argument_group("the model"))
    out = parser.add_argument_group("results")
    out.add_argument("--out", "-o", metavar="PREFIX", type=Path, help="default: the stream's name, in this folder")
    add_answers(out, "what was predicted for each row, before it was learned: .csv, .ndjson, .parquet, or - for standard output")
    out.add_argument("--report", metavar="FILE", type=Path, help="write a page with everything that was found (.html)")
    out.add_argument("--json", action="store_true", help="print the report instead of a summary")
    out.add_argument("--no-figure", action="store_true", help="write no figure")
    out.add_argument("--resume", metavar="FILE", type=Path, help="go on with this model; the same stream goes on where it stopped")
    out.add_argument("--skip", metavar="N", type=natural, help="pass over the first N rows")
    out.add_argument("--save-every", metavar="N", type=whole, help="also save the model every N rows")
    out.add_argument("--verbose", "-v", action="store_true", help="name the parameters and the bad rows in the summary")
    out.add_argument("--quiet", "-q", action="store_true", help="print errors only")
    parser.set_defaults(run=command)


def add_model(model: argparse._ArgumentGroup) -> None:
    model.add_argument(
        "--model", choices=(*MODELS, *STEPS), help="default silk; for novelty norma. ilk keeps every point. "
        "implicit, explicit and adaptive are silk, norma and svmd"
    )  # fmt: skip
    model.add_argument("--kernel", choices=names_of(Kernel), help="default rbf")
    model.add_argument("--gamma", metavar="G", type=gamma, help="width of the kernel: scale (default), auto or a number")
    model.add_argument("--loss", choices=names_of(Loss), help="default: hinge, squared or novelty, by the task")
    model.add_argument("--eta", metavar="X", type=positive, help="step size")
    model.add_argument(
        "--lam", metavar="X", type=positive, help="how fast the model forgets: each step shrinks it by about eta * lam"
    )
    model.add_argument("--C", metavar="X", type=positive, help="weight of the loss")
    model.add_argument("--budget", metavar="N", type=whole, help="points to keep (default 512)")
    model.add_argument(
        "--drop-point",
        "--forget",
        choices=RULES,
        metavar="RULE",
        help=f"which point goes when the budget is full: {', '.join(RULES)}; drop= in Python",
    )
    model.add_argument("--nu", metavar="X", type=positive, help="share of rows that shall raise an alert, or violate the margin")


def command(arguments: argparse.Namespace) -> int:
    try:
        return run(arguments)
    except Usage as error:
        return _fail(error, 2)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else error, 1)
    except (BadTable, BadFile, FloatingPointError) as error:
        return _fail(error, 1)


def _fail(error: Any, status: int) -> int:
    say("onkel run", error)
    return status


def run(arguments: argparse.Namespace) -> int:
    _early(arguments)
    with closing(open_table(arguments)) as table:
        marked = Marked(iter(table))
        known(table, arguments.keep, "--keep")
        if arguments.resume is None:
            ahead = first_of(marked)
            work = _new(arguments, table, ahead)
        else:
            work = _resumed(arguments, table)
            ahead = list(islice(marked, min(work.source.get("read", 0), Marked.FIRST)))
        rows = chain(ahead, marked)
        skipped = _skip(arguments, work, marked, rows)
        work.source = {"name": os.path.basename(arguments.stream), "read": skipped, "mark": marked.mark(skipped)}
        prefix = arguments.out or (arguments.resume.with_suffix("") if arguments.resume else Path(stem(table.path)))
        for ending in (".onkel", ".json", ".png"):
            writable(Path(f"{prefix}{ending}"), f"--out {prefix}:")
        reader = Reader(
            table,
            work.features,
            work.target,
            work.task == "reals",
            work.model.missing == "ignore",
            decimal=work.decimal,
            known=work.frequent,
            own=arguments.keep,
            weight=work.weight,
        )
        patience = 0.5 if table.path == "-" else None  # what comes in live is not held back for long
        blocks = reader.read(rows, skipped, stop=arguments.on_error == "stop", patience=patience)
        with writing(arguments.predictions, work.task, arguments.keep) as writer:
            outcome = _learn(arguments, table, marked, work, blocks, prefix, writer)
        return _finish(arguments, table, work, prefix, *outcome)


def _early(arguments: argparse.Namespace) -> None:
    """Refuse before any work what could not be done after it."""
    if arguments.report is not None:
        need("--report", "matplotlib")
        writable(arguments.report, "--report")
    if arguments.out is not None and (arguments.out.is_dir() or str(arguments.out).endswith(os.sep)):
        raise Usage(f"--out {arguments.out}: that is a folder; give a prefix for files in it, such as {arguments.out / 'run'}")
    if arguments.predictions is None:
        if arguments.keep:
            raise Usage("--keep is for the predictions; give --predictions FILE, too")
        return
    try:
        ending_of(arguments.predictions)
    except ValueError as error:
        raise Usage(str(error)) from None
    if str(arguments.predictions) != "-":
        writable(arguments.predictions, "--predictions")
    elif arguments.json:
        raise Usage("--predictions - and --json both want standard output; give one of them the name of a file")


def _new(arguments: argparse.Namespace, table: Table, ahead: list[Any]) -> Run:
    target, dropped, decimal = arguments.target or table.target, arguments.drop or [], arguments.decimal or "."
    weight = arguments.weight or table.weight
    known(table, [target] if target else [], "--target")
    known(table, [weight] if weight else [], "--weight")
    known(table, arguments.features or [], "--features")
    rule = next((name for name in dropped if name in RULES), None)
    known(table, dropped, "--drop", f". Which point goes when the budget is full says --drop-point {rule}" if rule else "")
    features = arguments.features or [name for name in table.columns if name not in {target, weight, *dropped}]
    if not features or target in features:
        raise Usage(f"there is nothing to learn from: the features are {', '.join(features) or 'none'}, the target is {target}")
    text = set(tables.texts(table.columns, ahead, decimal))
    if odd := [name for name in features if name in text]:
        way = option("--drop", ",".join(_listed(name) for name in [*dropped, *odd]))
        raise BadTable(f"{table.name}: no numbers in {', '.join(odd)}; leave such columns out: {way}")
    task = arguments.task or "auto"
    if task == "auto":
        goals = [row.values[table.place[target]] for row in ahead if isinstance(row, Row)] if target else []
        task = guess_task(target, [goal for goal in goals if not missing(goal)])
    elif (task == "novelty") != (target is None):
        raise Usage(f"--task {task} {'needs no --target' if target else 'needs a --target'}")
    options = {name: getattr(arguments, name) for name in CHOICES}
    try:
        work = start(
            task, features, target, arguments.model, decimal, drop=arguments.drop_point, scale=not arguments.no_scale, **options
        )
        work.model.plan().learner(1.0, len(features), 2)  # refuses now what does not fit together
    except (ValueError, TypeError) as error:
        raise Usage(str(error)) from None
    work.weight = weight
    return work


def _listed(name: str) -> str:
    """A name in a list with commas, as --drop reads it."""
    return '"' + name.replace('"', '""') + '"' if any(c in name for c in ',"') or name != name.strip() else name


def _resumed(arguments: argparse.Namespace, table: Table) -> Run:
    given = [f"--{name.replace('_', '-')}" for name in NEW_RUN if getattr(arguments, name) is not None]
    if given or arguments.no_scale:
        raise Usage(f"{', '.join(given) or '--no-scale'}: a resumed run keeps what it was started with; leave it out")
    work = load(arguments.resume)
    if not isinstance(work, Run):
        raise BadFile(f"{arguments.resume}: holds a model, but not a run on a table; `onkel info` tells what it is")
    table.widen(work.features)
    known(table, [*work.features, *filter(None, (work.target, work.weight))], "--resume")
    return work


def _skip(arguments: argparse.Namespace, work: Run, marked: Marked, rows: Iterator[Any]) -> int:
    """Pass over what was learned before: a stream that begins as the one before goes on where that one stopped."""
    before = work.source
    if arguments.skip is not None or not before:
        return sum(1 for _ in islice(rows, arguments.skip or 0))
    if marked.mark(before["read"]) == before["mark"]:
        skipped = sum(1 for _ in islice(rows, int(before["read"])))
        if skipped < before["read"]:
            raise BadTable(
                f"{arguments.stream} holds {skipped} rows, and {arguments.resume} has learned {before['read']} of a stream that "
                "begins like it. Has it been cut? --skip 0 learns all of it"
            )
        return skipped
    if before["name"] == os.path.basename(arguments.stream) != "-":
        raise BadTable(f"{arguments.stream} does not begin as it did when {arguments.resume} learned it; --skip 0 learns all of it")
    return 0


Outcome = tuple[int, Any, list[str], float, int, results.Alerts]  # signal, what ended it, bad rows, seconds, rows, alerts


def _learn(
    arguments: argparse.Namespace,
    table: Table,
    marked: Marked,
    work: Run,
    blocks: Iterator[Block],
    prefix: Path,
    writer: Writer | None,
) -> Outcome:
    begun, fresh, messages, alerts = time.perf_counter(), 0, [], results.Alerts()
    end: Any = None
    recent: list[float] = []
    tell = writer is not None or arguments.report is not None
    first = "learning (the first run of all compiles for some seconds)"
    with Interrupt() as interrupt, Progress(arguments.quiet, first) as progress:
        while interrupt.signal is None and end is None:
            try:
                block = interrupt.waiting(lambda: next(blocks, None))
            except BadTable as error:  # a file that ends in the middle of something: what came before is kept
                end = error
                break
            if block is None:
                break
            before, end = work.tally.rows, block.end
            if block.y:
                learned = work.learn(block.X, block.y, tell, block.weights)
                recent = [*recent, *learned.errors.tolist()][-1000:]
                if work.task == "novelty" and learned.answers is not None:
                    alerts.add(block.rows, learned.answers)
                if writer is not None and learned.answers is not None:
                    writer.write(block.rows, learned.answers, block.own)
                    if table.path == "-":
                        writer.stream.flush()
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
    return interrupt.signal or 0, end, messages, time.perf_counter() - begun, fresh, alerts


def _finish(
    arguments: argparse.Namespace,
    table: Table,
    work: Run,
    prefix: Path,
    signal: int,
    end: Any,
    messages: list[str],
    seconds: float,
    fresh: int,
    alerts: results.Alerts,
) -> int:
    """Write everything, say what came out."""
    save(work, f"{prefix}.onkel")
    facts = results.report(work, table, messages, seconds, fresh, not signal and end is None, alerts)
    atomic.write(f"{prefix}.json", (json.dumps(facts, indent=1, allow_nan=False) + "\n").encode())
    written = [f"{prefix}.onkel", f"{prefix}.json"]
    notes = []
    if not arguments.no_figure and installed("matplotlib"):
        atomic.write(f"{prefix}.png", results.figure(work))
        written.append(f"{prefix}.png")
    elif not arguments.no_figure:
        notes.append(f"no figure: matplotlib is not installed; {how('matplotlib')}")
    if arguments.report is not None:
        atomic.write(arguments.report, page(work, facts).encode())
        written.append(str(arguments.report))
    said = sys.stdout
    if arguments.predictions is not None:
        written.append(str(arguments.predictions))
        said = sys.stderr if str(arguments.predictions) == "-" else sys.stdout
    if arguments.json:
        print(json.dumps(facts, indent=1, allow_nan=False))
    elif not arguments.quiet:
        text = "\n".join([results.summary(facts, arguments.verbose), "written: " + ", ".join(written), *notes])
        print(for_terminal(text, lines=True), file=said)
    way = option("--resume", f"{prefix}.onkel")
    if end is not None:
        return _fail(f"{end}. The rows before are learned and saved; mend it and {way}, or --on-error skip", 1)
    if signal:
        return _fail(f"interrupted after {work.tally.rows} rows, all saved; {way} goes on", 128 + signal)
    return 0
