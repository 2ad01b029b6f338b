"""`onkel reproduce` and `onkel data`."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

from onkel import data
from onkel.terminal.arguments import natural, whole
from onkel.terminal.extras import need
from onkel.terminal.progress import minutes, say

from . import NAMES, every_figure, figure, report, runner
from .experiment import Experiment, Setting


def add_parser(subparsers: Any) -> None:
    """Add the two commands to a parser's subcommands; each sets `run`, a function of the parsed arguments."""
    reproduce = subparsers.add_parser(
        "reproduce",
        help="run the experiments of the papers and say, figure by figure, what holds",
        description="Runs the experiments of the papers. Finished parts are kept, so an interrupted run goes on where it "
        "stopped; the same seed gives the same numbers.",
    )
    reproduce.add_argument("figure", nargs="*", metavar="FIGURE", help="names as --list prints them; all if none is given")
    reproduce.add_argument("--list", action="store_true", help="list the figures and what data they need")
    reproduce.add_argument(
        "--quick", action="store_true", help="about two minutes, without data sets: synthetic streams and small digits"
    )
    reproduce.add_argument("--data", metavar="DIR", type=Path, help="folder with the data sets (default: $ONKEL_DATA)")
    reproduce.add_argument(
        "--out", metavar="DIR", type=Path, default=Path("results"), help="folder for the results (default: results)"
    )
    reproduce.add_argument(
        "--jobs", metavar="N", type=whole, default=os.cpu_count() or 1, help="processes side by side (default: the number of cores)"
    )
    reproduce.add_argument("--seed", metavar="S", type=natural, default=0, help="seed of the random numbers (default 0)")
    reproduce.add_argument("--fresh", action="store_true", help="compute everything again, finished parts too")
    reproduce.add_argument("--peers", action="store_true", help="include River's and scikit-learn's learners in the comparisons")
    reproduce.set_defaults(run=run_reproduce)
    listing = subparsers.add_parser(
        "data",
        help="list the data sets: present or not, size, source, licence",
        description="Lists the data sets of the experiments: whether they are here, their size, source and licence.",
    )
    listing.add_argument("--data", metavar="DIR", type=Path, help="folder with the data sets (default: $ONKEL_DATA)")
    listing.set_defaults(run=run_data)


def run_reproduce(arguments: argparse.Namespace) -> int:
    if arguments.list:
        for experiment in every_figure():
            needs = ", ".join(experiment.needs) or "no data"
            print(f"{experiment.name:<18} {experiment.paper:<20} {experiment.title}  [{needs}]")
        return 0
    try:
        chosen = [figure(name) for name in arguments.figure] or every_figure()
    except ValueError as error:
        say("onkel reproduce", error)
        return 2
    need("onkel reproduce", "matplotlib", *(["river"] if arguments.peers else []))
    for experiment in [] if arguments.quick else chosen:
        need(f"onkel reproduce {experiment.name}", *experiment.packages)
    size = "quick" if arguments.quick else "full"
    setting = Setting(size, arguments.seed, arguments.data, arguments.peers)
    return reproduce(chosen, setting, arguments.out, arguments.jobs, arguments.fresh)


def reproduce(chosen: list[Experiment], setting: Setting, out: Path, jobs: int, fresh: bool = False) -> int:
    """Run, report, and return 0 if every figure was computed (whatever its verdict)."""
    start = time.perf_counter()
    missing: dict[str, str] = {}
    for experiment in chosen:
        for name in experiment.needs if setting.full else ():
            try:
                data.find(name, setting.directory)
            except data.MissingData as error:
                missing[experiment.name] = str(error)
    ready = [experiment for experiment in chosen if experiment.name not in missing]
    failed = runner.run(ready, setting, out, jobs, fresh, lambda experiment, parts: report.finish(experiment, parts, setting, out))
    results = report.collect(out, NAMES)
    page = report.index(out, results, {**missing, **failed})
    mine = {experiment.name for experiment in chosen} - set(failed) - set(missing)
    print(report.summary(result for result in results if result["name"] in mine))
    for name, reason in {**missing, **failed}.items():
        say("onkel reproduce", f"{name} was not computed:\n{reason}")
    print(f"\n{page}  ({minutes(time.perf_counter() - start)} minutes)")
    return 1 if missing or failed else 0


def run_data(arguments: argparse.Namespace) -> int:
    places = ", ".join(str(place) for place in data.places(arguments.data))
    print(f"looked for in {places}\n")
    print(f"{'name':<18} {'here':<5} {'size':>9}  what; source; licence")
    for name, entry in data.SETS.items():
        folder = data.present(name, arguments.data)
        size = f"{sum((folder / file).stat().st_size for file in entry.files) / 1e6:.1f} MB" if folder else ""
        fetched = "" if folder or entry.openml is None else "  (would be fetched from OpenML)"
        print(f"{name:<18} {'yes' if folder else 'no':<5} {size:>9}  {entry.about}; {entry.source}; {entry.licence}{fetched}")
    for name, about in (
        ("digits", "1,797 digits, 8 x 8, inside scikit-learn; BSD"),
        ("counting_sequence", "made from usps"),
        *((name, "synthetic, a generator with a seed") for name in data.SYNTHETIC),
    ):
        print(f"{name:<18} {'yes':<5} {'':>9}  {about}")
    return 0


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m onkel.experiments")
    add_parser(parser.add_subparsers(required=True))
    arguments = parser.parse_args(argv)
    return int(arguments.run(arguments))
