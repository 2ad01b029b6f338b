"""`onkel video`: masks, boxes and films from any video, and `onkel video eval`: how good they are."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from onkel.terminal.extras import need
from onkel.terminal.progress import say

EXAMPLES = """
examples
  onkel video street.mp4 --out result.mp4 --boxes boxes.csv
  onkel video rtsp://camera/stream --masks masks --save street.onkel
  onkel video 0 --resume street.onkel

`onkel video eval --help` tells how to measure the masks on sequences with labels.
"""
EVALUATING = """
examples
  onkel video eval DIR --figure roc.png --sheets sheets
  onkel video eval DIR --ablate
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Attach `video` to the command line."""
    fill(subparsers.add_parser("video", help="find what moves in a video", formatter_class=argparse.RawDescriptionHelpFormatter))


def fill(parser: argparse.ArgumentParser) -> None:
    from onkel.video.film.pipeline import add_arguments

    parser.description, parser.epilog = "Finds moving objects in a video: masks, boxes, a film.", EXAMPLES
    parser.add_argument(
        "input", metavar="INPUT", help="a video file, a folder of pictures, a camera number, an rtsp:// or http:// address"
    )
    add_arguments(parser)
    parser.set_defaults(run=watch)


def fill_evaluating(parser: argparse.ArgumentParser) -> None:
    parser.description, parser.epilog = "Measures masks on sequences with labels, beside other methods.", EVALUATING
    parser.add_argument(
        "dir", metavar="DIR", nargs="?", help="a sequence or a folder of them (CDnet layout, or frames.zip with gt.npz)"
    )
    parser.add_argument("--data", metavar="DIR", help="same as DIR; default: the environment variable ONKEL_DATA")
    parser.add_argument("--only", metavar="A,B", help="names of sequences")
    parser.add_argument("--methods", metavar="A,B", help="names of methods (onkel, silk, norma, MOG2, KNN, average)")
    parser.add_argument("--figure", metavar="FILE", help="write ROC and precision-recall curves to this file")
    parser.add_argument("--sheets", metavar="DIR", help="write a contact sheet of masks per sequence into this folder")
    parser.add_argument("--ablate", action="store_true", help="our default with each part taken out, instead of other methods")
    parser.add_argument("--grid", action="store_true", help="AUC of silk and norma over a grid of settings, instead")
    parser.add_argument(
        "--stress", action="store_true", help="F on noisy, flickering, grey, small ... copies of the sequences, instead"
    )
    parser.set_defaults(run=evaluate)


def main(argv: list[str]) -> int:
    evaluating = argv[:1] == ["eval"]
    name = "onkel video eval" if evaluating else "onkel video"
    parser = argparse.ArgumentParser(name, formatter_class=argparse.RawDescriptionHelpFormatter)
    (fill_evaluating if evaluating else fill)(parser)
    arguments = parser.parse_args(argv[evaluating:])
    return int(arguments.run(arguments))


def watch(args: argparse.Namespace) -> int:
    """Masks, boxes and a film of one input."""
    need("onkel video", "cv2", "av")
    from onkel.video.film.pipeline import run as film

    return film(args)


def evaluate(args: argparse.Namespace) -> int:
    """Table, figure and contact sheets over all sequences below a folder."""
    need("onkel video eval", "cv2", *(["matplotlib"] if args.figure else []))
    import cv2

    from onkel.video.judge import evaluate as judge
    from onkel.video.judge.sequences import find_sequences

    from .subtractor import BackgroundSubtractor

    root = args.dir or args.data or os.environ.get("ONKEL_DATA")
    try:
        if not root:
            raise FileNotFoundError("no folder: give DIR or --data, or set ONKEL_DATA")
        sequences = find_sequences(root)
    except FileNotFoundError as error:
        say("onkel video eval", error)
        return 2
    contenders = judge.methods()
    if args.ablate:
        contenders = {
            name: (lambda o=options: BackgroundSubtractor(median=False, threads=1, **o))
            for name, options in judge.ablations().items()
        }
    if args.grid:
        contenders = {
            f"{rule} {name}": (lambda r=rule, o=options: BackgroundSubtractor(r, threads=1, **o))
            for name, options in judge.pair_grid().items()
            for rule in ("silk", "norma")
        }
    if args.stress and not (args.ablate or args.grid):
        contenders = {name: contenders[name] for name in ("onkel", "MOG2", "KNN")}
    if args.grid or args.stress:
        sequences = [s for s in sequences if any(labels is not None for *_, labels in s.frames())]
    for option, wanted, there in (
        ("--only", args.only, [s.name for s in sequences]),
        ("--methods", args.methods, list(contenders)),
    ):
        if unknown := set(wanted.split(",") if wanted else ()) - set(there):
            say("onkel video eval", f"{option}: no {', '.join(sorted(unknown))}; there are {', '.join(there)}")
            return 2
    if args.only:
        sequences = [s for s in sequences if s.name in args.only.split(",")]
    if args.methods:
        contenders = {name: make for name, make in contenders.items() if name in args.methods.split(",")}
    cv2.setNumThreads(1)
    if args.stress:
        from onkel.video.judge.stress import CHANGES, Stressed, stress_table

        for sequence in sequences:
            for change in CHANGES:
                print(stress_table(change, judge.run(Stressed(sequence, change), contenders)), flush=True)
        return 0
    results = []
    for sequence in sequences:
        every = max(1, sum(1 for _ in sequence.frames()) // 14) if args.sheets else 0
        part = judge.run(sequence, contenders, every)
        show = judge.pair_table if args.grid else judge.ablation_table if args.ablate else judge.table
        print(show(part), flush=True)
        results += part
        if args.sheets:
            Path(args.sheets).mkdir(parents=True, exist_ok=True)
            judge.contact_sheet(sequence, part, every, Path(args.sheets) / f"{sequence.name}.png")
    if args.figure:
        judge.figure(results, args.figure)
    return 0
