"""Background subtraction beside OpenCV's MOG2 and KNN: frames per second of one core, and F1, on the same frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .bulk import Size
from .measure import Contender, Race, Results, limits
from .rows import Row, faster

FRAMES = 24  # of each round; the sequence is played again and again
SIZES = ((320, 240), (640, 480), (1280, 720))
SILK, DEFAULT, MOG2, KNN = "onkel, silk", "onkel, default", "OpenCV MOG2", "OpenCV KNN"


def scene(width: int, height: int, n: int, moving: bool = True, seed: int = 0) -> tuple[Any, Any]:
    """A still, textured background with a flickering band and sensor noise; six rectangles move over it. Frames and truth."""
    rng = np.random.default_rng(seed)
    blocks = np.random.default_rng(7).integers(40, 200, (height // 8 + 1, width // 8 + 1, 3))
    still = np.kron(blocks, np.ones((8, 8, 1), int))[:height, :width]
    side, colours = height // 8, np.random.default_rng(8).integers(0, 256, (6, 3))
    places, speeds = np.random.default_rng(9).random((6, 2)), np.random.default_rng(10).integers(1, 5, 6)
    frames, truth = np.empty((n, height, width, 3), np.uint8), np.zeros((n, height, width), bool)
    for t in range(n):
        frame = still + rng.normal(0.0, 4.0, still.shape)
        frame[: height // 8] += 30 * (t % 2)
        for (y, x), speed, colour in zip(places, speeds, colours) if moving else ():
            top, left = int(y * (height - side)), int(x * width + speed * t) % (width - side)
            frame[top : top + side, left : left + side] = colour + rng.normal(0.0, 4.0, (side, side, 3))
            truth[t, top : top + side, left : left + side] = True
        frames[t] = np.clip(frame, 0, 255)
    return frames, truth


def f1(masks: Any, truth: Any) -> float:
    """2 TP / (2 TP + FP + FN)."""
    both = float((masks & truth).sum())
    return 2.0 * both / max(1.0, float(masks.sum() + truth.sum()))


def play(apply: Callable[..., Any], empty: Any, frames: Any, truth: Any, mask: Any, r: int) -> float:
    """Round 0 also shows the empty scene first."""
    if r == 0:
        for frame in empty:
            apply(frame, mask)
    masks = np.empty(truth.shape, bool)
    for t, frame in enumerate(frames):
        apply(frame, mask)
        np.greater(mask, 127, out=masks[t])
    return f1(masks, truth)


def video(size: Size) -> Iterator[Race]:
    import cv2

    from onkel.video import BackgroundSubtractor

    cv2.setNumThreads(1)
    for width, height in SIZES[: 1 if size.shrink > 1 else 3]:
        n = max(2, FRAMES // size.shrink)
        empty, _ = scene(width, height, n, moving=False, seed=1)
        frames, truth = scene(width, height, n)
        methods = {
            SILK: BackgroundSubtractor("silk", threads=1),
            DEFAULT: BackgroundSubtractor(threads=1),
            MOG2: cv2.createBackgroundSubtractorMOG2(detectShadows=False),
            KNN: cv2.createBackgroundSubtractorKNN(detectShadows=False),
        }
        work = {
            name: partial(play, method.apply, empty, frames, truth, np.zeros((height, width), np.uint8))
            for name, method in methods.items()
        }
        contenders = [Contender(name, work[name], len(frames)) for name in methods]
        yield Race(f"video, {width}x{height}", [*contenders, *limits()], partial(video_rows, f"video, {width}x{height}"))


def video_rows(title: str, results: Results) -> list[Row]:
    return [
        faster(f"{title}, silk", results[SILK], results[MOG2], 1.3),
        faster(f"{title}, silk", results[SILK], results[KNN], 1.6),
        faster(f"{title}, default", results[DEFAULT], results[MOG2], 1.0),
        faster(f"{title}, default", results[DEFAULT], results[KNN]),
    ]
