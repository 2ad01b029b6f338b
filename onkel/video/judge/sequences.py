"""Test sequences with ground truth: the CDnet folder layout, archives of frames with `gt.npz`, and one made here."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

BACKGROUND, SHADOW, OUTSIDE, UNKNOWN, OBJECT = 0, 50, 85, 170, 255  # CDnet's labels; a shadow counts as background
# Stretches in which the room is known to be empty: (first frame, last step of the light, last frame). Every alarm is false.
EMPTY = {"i2r_lobby": ((1420, 1448, 1499), (2055, 2095, 2149))}
_PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff")


class Sequence(NamedTuple):
    """A test sequence; `frames()` yields (number, BGR frame, labels or None)."""

    name: str
    path: Path

    def frames(self) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
        return _zipped(self.path) if (self.path / "frames.zip").exists() else _cdnet(self.path)


def find_sequences(root: str | Path) -> list[Sequence]:
    """The sequence at `root`, or all of them up to two folders below."""
    root = Path(root)
    if not root.is_dir():
        raise FileNotFoundError(f"{root}: no such folder; give a sequence (CDnet: input/, groundtruth/; or frames.zip) or a parent")
    places = [root, *sorted(root.glob("*")), *sorted(root.glob("*/*"))]
    found = [Sequence(p.name, p) for p in places if (p / "frames.zip").exists() or (p / "input").is_dir()]
    if not found:
        raise FileNotFoundError(f"{root}: no sequence here; expected CDnet's input/ and groundtruth/, or frames.zip and gt.npz")
    return found


def number(name: str) -> int:
    """The frame number in a file name: its last run of digits."""
    digits = re.findall(r"\d+", Path(name).stem)
    if not digits:
        raise ValueError(f"{name}: a frame's file name needs a number, such as in000001.jpg")
    return int(digits[-1])


def _zipped(path: Path) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    import cv2

    labels: dict[int, np.ndarray] = {}
    if (path / "gt.npz").exists():
        with np.load(path / "gt.npz") as file:
            labels = dict(zip(file["frame"].tolist(), file["gt"], strict=True))
    with zipfile.ZipFile(path / "frames.zip") as archive:
        names = sorted((n for n in archive.namelist() if n.lower().endswith(_PICTURES)), key=number)
        for name in names:
            frame = cv2.imdecode(np.frombuffer(archive.read(name), np.uint8), cv2.IMREAD_COLOR)
            if frame is None:
                raise ValueError(f"{path / 'frames.zip'}: {name} is not a readable picture")
            yield number(name), frame, labels.get(number(name))


def _cdnet(path: Path) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
    import cv2

    inside = None
    roi = next((path / n for n in ("ROI.bmp", "ROI.jpg") if (path / n).exists()), None)
    if roi is not None:
        inside = cv2.imread(str(roi), cv2.IMREAD_GRAYSCALE) > 127
    first, last = 1, 10**9
    if (path / "temporalROI.txt").exists():
        first, last = map(int, (path / "temporalROI.txt").read_text().split()[:2])
    truth = {number(p.name): p for p in (path / "groundtruth").glob("*") if p.suffix.lower() in _PICTURES}
    for picture in sorted((p for p in (path / "input").iterdir() if p.suffix.lower() in _PICTURES), key=lambda p: number(p.name)):
        n = number(picture.name)
        frame = cv2.imread(str(picture), cv2.IMREAD_COLOR)
        if frame is None:
            raise ValueError(f"{picture}: not a readable picture")
        labels = None
        if n in truth and first <= n <= last:
            labels = cv2.imread(str(truth[n]), cv2.IMREAD_GRAYSCALE)
            if inside is not None and inside.shape == labels.shape:
                labels = np.where(inside, labels, OUTSIDE).astype(np.uint8)
        yield n, frame, labels


def rectangles(
    height: int, width: int, frames: int, objects_from: int = 30, seed: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Coloured tiles with sensor noise of 4 grey levels and a flickering band; six rectangles move over them. (frame, truth)"""
    rng = np.random.default_rng(seed)
    tiles = rng.integers(30, 226, (-(-height // 16), -(-width // 16), 3))
    still = np.kron(tiles, np.ones((16, 16, 1), np.int64))[:height, :width].astype(np.float32)
    noise = rng.normal(0, 4, (height + 64, width + 64, 3)).astype(np.float32)
    for t in range(frames):
        image, truth = still.copy(), np.zeros((height, width), bool)
        if t % 3 == 0:
            image[height // 4 : height // 3] += 40.0
        for k in range(6 if t >= objects_from else 0):
            y, x = int(height * (0.1 + 0.13 * k)), (3 * t + 97 * k) % (width - width // 8)
            place = slice(y, y + height // 10), slice(x, x + width // 12)
            image[place], truth[place] = (40 * k, 255 - 40 * k, 20 * k), True
        dy, dx = rng.integers(0, 64, 2)
        yield np.clip(image + noise[dy : dy + height, dx : dx + width], 0, 255).astype(np.uint8), truth
