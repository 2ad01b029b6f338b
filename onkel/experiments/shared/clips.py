"""What the two video figures share: clips with masks, made or read, and scores of every pixel turned into curves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from onkel import data
from onkel.experiments.experiment import Setting
from onkel.video import BackgroundSubtractor

from .contenders import grid

BUDGET = 20  # the paper's
EDGES = np.linspace(0.0, 2.0, 2001)  # scores f of a pixel; the margin is 1
GRID = grid(sigma=(10.0, 20.0, 40.0), C=(0.12, 0.25, 0.5), lam=(0.001, 0.01, 0.05))


def load(setting: Setting, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Frames and masks; quick runs make a small clip of the same kind."""
    if setting.full:
        loaded = data.load(name, directory=setting.directory)
        return loaded.X, loaded.y
    return made(name, setting.pick(0, 160, 100), setting.seed)


def made(name: str, n: int, seed: int, height: int = 48, width: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """A textured wall with sensor noise: a box moves across it; the light fades and returns, or the camera shakes."""
    rng = np.random.default_rng(seed)
    wall = rng.uniform(60, 180, (height // 8 + 2, width // 8 + 2, 3)).repeat(8, axis=0).repeat(8, axis=1)
    X, y = np.empty((n, height, width, 3), np.uint8), np.zeros((n, height, width), np.uint8)
    for t in range(n):
        dy, dx = rng.integers(0, 3, 2) if name == "cdnet_traffic" else (0, 0)
        frame = wall[dy : dy + height, dx : dx + width].copy()
        if name != "i2r_lobby" and t >= n // 5:
            left = (3 * t) % (width + 16) - 16
            box = np.s_[height // 3 : height // 3 + 14, max(left, 0) : max(left + 14, 0)]
            frame[box] = (230, 40, 40)
            y[t][box] = 255
        if name != "cdnet_traffic":
            frame *= 1 - 0.35 * np.clip((t - 0.5 * n) / 8, 0, 1) + 0.35 * np.clip((t - 0.75 * n) / 8, 0, 1)
        X[t] = np.clip(frame + rng.normal(0, 3, frame.shape), 0, 255)
    return X, y


def scores(rule: str, parameters: dict[str, float], frames: np.ndarray) -> Iterator[np.ndarray]:
    """f of every pixel of each frame, before learning from it."""
    budget = None if rule == "fold" else BUDGET
    camera = BackgroundSubtractor(rule, budget=budget, threads=1, median=False, **parameters)
    for frame in frames:
        camera.apply(frame)
        yield camera.scores


def histograms(rule: str, parameters: dict[str, float], frames: np.ndarray, masks: np.ndarray, first: int) -> np.ndarray:
    """Counts of scores, background and moving, over the frames from `first` on; frames before only teach."""
    counts = np.zeros((2, len(EDGES) - 1))
    for t, f in enumerate(scores(rule, parameters, frames)):
        if t < first:
            continue
        for row, pixels in enumerate(((masks[t] == 0) | (masks[t] == 50), masks[t] == 255)):
            counts[row] += np.histogram(np.clip(f[pixels], EDGES[0], EDGES[-1]), EDGES)[0]
    return counts


def rates(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False and true positive rate at each threshold: a pixel moves when f is below it."""
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    false, true = np.cumsum(counts, axis=1) / total
    return np.r_[0.0, false], np.r_[0.0, true]


def early_area(counts: np.ndarray, limit: float) -> float:
    """Mean true positive rate over false positive rates up to `limit`."""
    x = np.linspace(0, limit, 200)
    return float(np.interp(x, *rates(counts)).mean())


def tuned(rule: str, frames: np.ndarray, masks: np.ndarray, first: int, limit: float, quick: bool) -> dict[str, float]:
    """The parameters with the largest early area on the clip's first part; the same grid for every rule."""
    candidates = GRID[::5] if quick else GRID
    return max(candidates, key=lambda p: early_area(histograms(rule, p, frames, masks, first), limit))


def picture(axes: Any, image: np.ndarray, title: str) -> None:
    axes.imshow(image, cmap="gray", interpolation="nearest")
    axes.set_title(title, fontsize=11)
    axes.set_axis_off()
