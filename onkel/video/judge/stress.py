"""Labelled sequences under changes that leave the labels true: does a method live on one kind of footage?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import cv2
import numpy as np

from onkel.video.judge.evaluate import Result, rates
from onkel.video.judge.sequences import Sequence

Change = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def bytes_of(values: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def half(image: np.ndarray, way: int = cv2.INTER_AREA) -> np.ndarray:
    return cv2.resize(image, (image.shape[1] // 2, image.shape[0] // 2), interpolation=way)


# What it does to a frame, by the name it has in the table; "every 2nd frame" is the one that does nothing to a frame.
CHANGES: dict[str, Change] = {
    "as it is": lambda frame, rng: frame,
    "noise, 10 grey levels": lambda frame, rng: bytes_of(frame + rng.normal(0.0, 10.0, frame.shape)),
    "flicker, 5 %": lambda frame, rng: bytes_of(frame * (1.0 + 0.05 * rng.standard_normal())),
    "grey": lambda frame, rng: cv2.cvtColor(frame, cv2.COLOR_BGR2GRAY),
    "half the contrast": lambda frame, rng: bytes_of(64.0 + 0.5 * frame),
    "half the size": lambda frame, rng: half(frame),
    "every 2nd frame": lambda frame, rng: frame,
}


class Stressed(NamedTuple):
    """`sequence` under one of CHANGES; the same noise in every run."""

    sequence: Sequence
    change: str

    @property
    def name(self) -> str:
        return self.sequence.name

    def frames(self) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
        rng, step = np.random.default_rng(0), 2 if self.change == "every 2nd frame" else 1
        for index, (n, frame, labels) in enumerate(self.sequence.frames()):
            if index % step == 0:
                if self.change == "half the size" and labels is not None:
                    labels = half(labels, cv2.INTER_NEAREST)
                yield n, CHANGES[self.change](frame, rng), labels


def stress_table(change: str, results: Iterable[Result]) -> str:
    """One line: F of everyone with the median."""
    results = list(results)
    return f"{results[0].sequence[:23]:24}{change:24}" + "".join(f"{r.method:>8} {rates(r.filtered)[2]:.3f}" for r in results)
