"""`onkel bench`."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from onkel.terminal.extras import need

from . import bulk, growth, report, single, start, video
from .bulk import Size
from .measure import Race, Results, one_thread
from .rows import Row
from .video_gpu import gpu_rows

BENCHES: dict[str, Callable[[Size], Iterator[Race]]] = {
    "bulk": bulk.bulk,
    "methods": bulk.methods,
    "score": bulk.score,
    "sparse": bulk.sparse,
    "many": bulk.many,
    "one": single.one,
    "peers": single.peers,
    "novelty": single.novelty,
    "start": start.start,
    "growth": growth.growth,
}
PEERS = ("peers", "novelty")

# What is no race: a module of this room whose report(arguments) prints its own table; what it needs; what it says.
TABLES = {
    "reasons": ("", "explaining, certifying, bounds on moving targets, drift"),
    "defaults": ("river", "the tables behind the estimators' defaults"),
    "drift": ("river", "detectors of drift: delay, false alarms, the error afterwards"),
    "quality": ("river", "what the self-tuning estimators reach on raw streams, beside what is asked of them"),
    "gpu": ("cupy", "learning on a graphics card"),
    "serve": ("fastapi", "the server beside a bare route and beside River behind one"),
    "start": ("", "import, help, first fit, first row, first video frame: with nothing compiled yet, and again"),
    "video-cuts": ("cv2", "F of the masks on labelled videos"),
    "video-gpu": ("cupy", "background subtraction on a graphics card"),
}
WHAT = f"video: background subtraction beside OpenCV's; {'; '.join(f'{name}: {line}' for name, (_, line) in TABLES.items())}"
QUICK, FULL = Size(rounds=5, seconds=0.06), Size(rounds=9, seconds=0.3)


def add_parser(subparsers: Any) -> None:
    """Add the command to a parser's subcommands; it sets `run`, a function of the parsed arguments."""
    parser = subparsers.add_parser(
        "bench",
        help="ours and the peers in one run: ratios, the machine's limits, a chart",
        description="Measures onkel beside naive NumPy, River, scikit-learn, Vowpal Wabbit and, for video, OpenCV: in one "
        "process, on one thread, in CPU time, in turn. Peers that are not installed are left out and named.",
    )
    parser.add_argument("what", nargs="?", choices=("video", *TABLES), metavar="WHAT", help=WHAT)
    parser.add_argument("--quick", action="store_true", help="under two minutes, with fewer and shorter rounds")
    parser.add_argument("--out", "-o", metavar="DIR", type=Path, help="default: results/bench, or results/bench-video")
    parser.add_argument("--only", metavar="NAME", nargs="+", choices=BENCHES, default=[], help=f"some of: {', '.join(BENCHES)}")
    parser.add_argument("--peers", action="store_true", help="quality: River's learners on the same streams, which takes hours")
    parser.add_argument("--no-peers", action="store_true", help="only onkel, naive NumPy and the limits")
    parser.add_argument("--data", metavar="DIR", type=Path, help="folder with the data sets (default: $ONKEL_DATA)")
    parser.set_defaults(run=run_bench)


def run_bench(arguments: argparse.Namespace) -> int:
    if arguments.what in TABLES:
        need(f"onkel bench {arguments.what}", *filter(None, [TABLES[arguments.what][0]]))
        return int(import_module(f"onkel.bench.{arguments.what.replace('-', '_')}").report(arguments) or 0)
    is_video = arguments.what == "video"
    if is_video:
        need("onkel bench video", "cv2")
    need("onkel bench", "matplotlib")
    chosen = [video.video, video.two_threads] if is_video else [
        bench for name, bench in BENCHES.items()
        if (not arguments.only or name in arguments.only) and not (arguments.no_peers and name in PEERS)
    ]  # fmt: skip
    words = [*(["video"] if is_video else []), *(["--quick"] if arguments.quick else [])]
    words += ["--only", *arguments.only] if arguments.only else []
    words += ["--no-peers"] if arguments.no_peers else []
    skipped = [] if is_video else left_out(arguments.no_peers, arguments.only)
    result, rows = measure(chosen, QUICK if arguments.quick else FULL, skipped, " ".join(["onkel bench", *words]))
    files = report.write(arguments.out or Path("results/bench-video" if is_video else "results/bench"), result, rows)
    print("\n".join(["", *report.header(result), "", report.table(rows), "", *skipped]))
    verdicts = [row.verdict for row in rows]
    print(f"{verdicts.count('met')} targets met, {verdicts.count('missed')} missed; {', '.join(map(str, files))}")
    if is_video:
        print()
        import_module("onkel.bench.video_cuts").report(arguments)
        print("\n".join(["", *gpu_rows()]))
    return 0


def left_out(no_peers: bool, only: list[str]) -> list[str]:
    """A line for each contender that cannot take part."""
    lines = []
    if no_peers:
        lines.append("left out: the peers, as --no-peers says")
    elif not only or set(only) & set(PEERS):
        for package, name in (("river", "River"), ("vowpalwabbit", "Vowpal Wabbit")):
            if not find_spec(package):
                lines.append(f"left out: {name}, which is not installed here; ./run bench installs it")
    return lines


def measure(
    chosen: list[Callable[[Size], Iterator[Race]]], size: Size, skipped: list[str], command: str
) -> tuple[dict[str, Any], list[Row]]:
    """Run the races one after the other; the rows of the table, and all that the file holds."""
    before = report.machine()
    finished: list[tuple[Race, Results]] = []
    rows: list[Row] = []
    with one_thread():
        began = time.perf_counter()
        for bench in chosen:
            for race in bench(size):
                results = race.run(size.rounds)
                finished.append((race, results))
                rows += race.rows(results)
                print(f"{time.perf_counter() - began:4.0f} s  {race.name}", file=sys.stderr, flush=True)
    return report.as_json(finished, rows, skipped, before, command), rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m onkel.bench")
    add_parser(parser.add_subparsers(required=True))
    arguments = parser.parse_args(["bench", *(sys.argv[1:] if argv is None else argv)])
    return int(arguments.run(arguments))
