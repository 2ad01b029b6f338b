"""How good the masks are on labelled cuts: F of onkel, MOG2 and KNN at their defaults, with CPU time a frame, in one table."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

FITTED = ("cdnet_highway", "cdnet_traffic", "pets2001_illumination")  # what the first generation was settled on
PEERS = ("PAWCS", "SuBSENSE", "LOBSTER", "ViBe")  # of bgslibrary


def methods() -> dict[str, Callable[[], Any]]:
    """Everyone at defaults (OpenCV's mark shadows, which then do not count), one thread each."""
    import cv2

    from onkel.video import BackgroundSubtractor

    cv2.setNumThreads(1)
    chosen: dict[str, Callable[[], Any]] = {
        "onkel": lambda: BackgroundSubtractor(threads=1),
        "fold1": lambda: BackgroundSubtractor("fold1", threads=1),
        "MOG2": cv2.createBackgroundSubtractorMOG2,
        "KNN": cv2.createBackgroundSubtractorKNN,
    }
    if find_spec("pybgs"):
        import pybgs

        chosen |= {name: getattr(pybgs, name) for name in PEERS if hasattr(pybgs, name)}
    return chosen


def judged(frames: list[tuple[int, Any, Any]], subtractor: Any) -> tuple[float, float]:
    """(F, milliseconds of CPU a frame): 5x5 median, only 255 counts, the first min(50, n / 4) frames are not counted."""
    import cv2

    start, counts, seconds = min(50, len(frames) // 4), np.zeros(3), 0.0
    for index, (_, frame, labels) in enumerate(frames):
        begin = time.process_time()
        mask = subtractor.apply(frame)
        seconds += time.process_time() - begin
        if index < start or labels is None:
            continue
        found = cv2.medianBlur(mask, 5) == 255
        truth, ground = labels == 255, (labels == 0) | (labels == 50)
        counts += np.sum(found & truth), np.sum(found & ground), np.sum(~found & truth)
    hits, false, missed = counts
    return 2 * hits / max(1.0, 2 * hits + false + missed), 1e3 * seconds / len(frames)


def report(arguments: argparse.Namespace) -> int:
    """Print the table; the folder is --data or ONKEL_DATA."""
    from onkel.video.judge.sequences import find_sequences

    root = arguments.data or os.environ.get("ONKEL_DATA")
    try:
        sequences = find_sequences(root) if root else []
    except FileNotFoundError as error:
        print(f"onkel bench video-cuts: {error}", file=sys.stderr)
        return 2
    if not sequences:
        print("left out: labelled cuts; give their folder with --data, or set ONKEL_DATA")
        return 0
    chosen = methods()
    if len(chosen) == 4:
        print(f"left out: {', '.join(PEERS)}; pybgs is not installed")
    print(f"{'F of labelled cuts':26}" + "".join(f"{name:>9}" for name in chosen))
    rows: dict[str, list[tuple[float, float]]] = {}
    for sequence in sequences:
        frames = list(sequence.frames())
        if all(labels is None for *_, labels in frames):
            continue
        for make in chosen.values():  # compile outside the clock
            warm = make()
            for _, frame, _ in frames[:3]:
                warm.apply(frame)
        rows[sequence.name] = [judged(frames, make()) for make in chosen.values()]
        print(f"{sequence.name[:25]:26}" + "".join(f"{f:9.3f}" for f, _ in rows[sequence.name]), flush=True)
    groups = {"the three": [n for n in rows if n in FITTED], "the others": [n for n in rows if n not in FITTED], "all": list(rows)}
    for title, names in groups.items():
        if names:
            means = np.mean([[f for f, _ in rows[n]] for n in names], axis=0)
            print(f"{'mean of ' + title:26}" + "".join(f"{f:9.3f}" for f in means))
    if rows:
        times = np.mean([[ms for _, ms in row] for row in rows.values()], axis=0)
        print(f"{'CPU ms a frame':26}" + "".join(f"{ms:9.2f}" for ms in times))
    return 0
