"""`onkel video`: masks, boxes and films from any video, and `onkel video eval`: how good they are."""
from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Attach `video` to the command line; heavy imports wait until it is called."""
    parser = subparsers.add_parser("video", help="find moving objects in a video, or evaluate on labelled sequences",
                                   description="onkel video INPUT ... finds moving objects; onkel video eval DIR ... measures.")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="INPUT and options, or: eval DIR and options (--help after either)")
    parser.set_defaults(run=lambda args: main(args.rest))


def main(argv: list[str]) -> int:
    if argv[:1] == ["eval"]:
        return evaluate(argv[1:])
    from .film import main as film
    return film(argv)


def evaluate(argv: list[str]) -> int:
    """Table, figure and contact sheets over all sequences below a folder."""
    parser = argparse.ArgumentParser("onkel video eval", description=evaluate.__doc__)
    parser.add_argument("dir", nargs="?", help="a sequence or a folder of them (CDnet layout, or frames.zip with gt.npz)")
    parser.add_argument("--data", help="same as DIR; default: the environment variable ONKEL_DATA")
    parser.add_argument("--only", help="names of sequences, with commas")
    parser.add_argument("--methods", help="names of methods, with commas (onkel, silk, norma, MOG2, KNN, average)")
    parser.add_argument("--figure", help="write ROC and precision-recall curves to this file")
    parser.add_argument("--sheets", help="write a contact sheet of masks per sequence into this folder")
    parser.add_argument("--ablate", action="store_true", help="our default with each part taken out instead of the other methods")
    args = parser.parse_args(argv)

    import os

    from . import evaluate as judge
    from .sequences import find_sequences
    root = args.dir or args.data or os.environ.get("ONKEL_DATA")
    if not root:
        parser.error("no folder: give DIR or --data, or set ONKEL_DATA")
    try:
        sequences = find_sequences(root)
    except FileNotFoundError as error:
        print(f"onkel video eval: {error}", file=sys.stderr)
        return 2
    if args.only:
        sequences = [s for s in sequences if s.name in args.only.split(",")]
    contenders = judge.methods()
    if args.ablate:
        from .subtractor import BackgroundSubtractor
        contenders = {name: (lambda o=options: BackgroundSubtractor(median=False, threads=1, **o))
                      for name, options in judge.ablations().items()}
    if args.methods:
        contenders = {name: make for name, make in contenders.items() if name in args.methods.split(",")}
    if not sequences or not contenders:
        parser.error("nothing left to run: check --only and --methods")
    import cv2
    cv2.setNumThreads(1)
    every = 0
    results = []
    for sequence in sequences:
        if args.sheets:
            every = max(1, sum(1 for _ in sequence.frames()) // 14)
        part = judge.run(sequence, contenders, every)
        print(judge.ablation_table(part) if args.ablate else judge.table(part), flush=True)
        results += part
        if args.sheets:
            Path(args.sheets).mkdir(parents=True, exist_ok=True)
            judge.contact_sheet(sequence, part, every, Path(args.sheets) / f"{sequence.name}.png")
    if args.figure:
        judge.figure(results, args.figure)
    return 0
