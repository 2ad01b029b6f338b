"""Background subtraction beside OpenCV's MOG2 and KNN: frames per second of one core, and of two, and F1, on the same frames."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from .bulk import Size
from .measure import Contender, Race, Results, limits
from .rows import AT_LEAST, Row, faster

EMPTY, FRAMES = 40, 24  # frames without objects, shown once, and with them, played in each round
SIZES = ((320, 240), (640, 480), (1280, 720))
SILK, DEFAULT, MOG2, KNN = "onkel, silk", "onkel, default", "OpenCV MOG2", "OpenCV KNN"
ONE, TWO, SIDE_BY_SIDE = "1 thread", "2 threads", "side by side"


def scene(width: int, height: int, n: int) -> tuple[Any, Any]:
    """EMPTY frames without and n with moving rectangles, and where those are."""
    from onkel.video.judge.sequences import rectangles

    frames, truth = zip(*rectangles(height, width, EMPTY + n, EMPTY))
    return np.stack(frames), np.stack(truth)


def f1(masks: Any, truth: Any) -> float:
    """2 TP / (2 TP + FP + FN)."""
    both = float((masks & truth).sum())
    return 2.0 * both / max(1.0, float(masks.sum() + truth.sum()))


def play(apply: Callable[..., Any], frames: Any, truth: Any, r: int) -> float | None:
    """Round 0: the empty frames; then those with objects.  Only in round 1 are they news, so only its masks are judged."""
    masks = np.empty(truth.shape, bool)
    mask = np.empty(truth[0].shape, np.uint8)
    part = slice(EMPTY) if r == 0 else slice(EMPTY, None)
    for frame, found in zip(frames[part], masks[part]):
        apply(frame, mask)
        np.greater(mask, 127, out=found)
    return f1(masks[part], truth[part]) if r == 1 else None


def video(size: Size) -> Iterator[Race]:
    """One core each."""
    import cv2

    from onkel.video import BackgroundSubtractor

    cv2.setNumThreads(1)
    for width, height in SIZES[: 1 if size.shrink > 1 else 3]:
        frames, truth = scene(width, height, max(2, FRAMES // size.shrink))
        methods = {
            SILK: BackgroundSubtractor("silk", threads=1),
            DEFAULT: BackgroundSubtractor(threads=1),
            MOG2: cv2.createBackgroundSubtractorMOG2(detectShadows=False),
            KNN: cv2.createBackgroundSubtractorKNN(detectShadows=False),
        }
        contenders = [
            Contender(name, partial(play, method.apply, frames, truth), len(frames) - EMPTY) for name, method in methods.items()
        ]
        yield Race(f"video, {width}x{height}", [*contenders, *limits()], partial(video_rows, f"video, {width}x{height}"))


def video_rows(title: str, results: Results) -> list[Row]:
    return [
        faster(f"{title}, silk", results[SILK], results[MOG2], 1.3),
        faster(f"{title}, silk", results[SILK], results[KNN], 1.6),
        faster(f"{title}, default", results[DEFAULT], results[MOG2], 1.0),
        faster(f"{title}, default", results[DEFAULT], results[KNN]),
    ]


def two_threads(size: Size) -> Iterator[Race]:
    """Two cores, by the clock on the wall, in the best of many short rounds.

    Beside it two separate subtractors, one thread each: what the machine gives to nobody who shares a frame between two threads.
    """
    from onkel.video import BackgroundSubtractor

    if (os.cpu_count() or 1) < 2:
        return
    pool = ThreadPoolExecutor(2)
    for rule, name in (("silk", "silk"), ("fold", "default")):
        for width, height in SIZES[: 1 if size.shrink > 1 else 3]:
            frames, _ = scene(width, height, 16)
            count = max(4, 2_000_000 // (height * width)) // size.shrink + 1
            one, other, two = (BackgroundSubtractor(rule, threads=threads) for threads in (1, 1, 2))
            work = {
                ONE: partial(show, [one], pool, frames, count),
                TWO: partial(show, [two], pool, frames, count),
                SIDE_BY_SIDE: partial(show, [one, other], pool, frames, count),
            }
            title = f"video, {width}x{height}, {name}"
            contenders = [Contender(key, do, count, time.perf_counter) for key, do in work.items()]
            yield Race(f"{title}, two threads", contenders, partial(thread_rows, title), rounds=max(2, 25 // size.shrink))


def show(subtractors: list[Any], pool: ThreadPoolExecutor, frames: Any, count: int, r: int) -> None:
    """``count`` frames to each, side by side."""

    def watch(subtractor: Any) -> None:
        mask = np.empty(frames.shape[1:3], np.uint8)
        for frame in frames[:EMPTY] if r == 0 else ():
            subtractor.apply(frame, mask)
        for i in range(count):
            subtractor.apply(frames[EMPTY + i % (len(frames) - EMPTY)], mask)

    if len(subtractors) == 1:
        watch(subtractors[0])
    else:
        list(pool.map(watch, subtractors))


def thread_rows(title: str, results: Results) -> list[Row]:
    one, two, limit = (results[name].best for name in (ONE, TWO, SIDE_BY_SIDE))
    path = f"{title}, 2 threads, wall"
    return [
        Row(path, ONE, one / two, "x", AT_LEAST, 1.7, two, one),
        Row(path, f"2 subtractors {SIDE_BY_SIDE}, {2.0 * one / limit:.2f} x one", 50.0 * limit / two, "%"),
    ]
