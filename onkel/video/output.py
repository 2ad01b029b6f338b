"""What `onkel video` writes: a film of four panels, masks, boxes."""

from __future__ import annotations

import csv
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from .frames import Frame


class OutputError(Exception):
    """Something cannot be written; what was written before stays."""


def heat(scores: np.ndarray) -> np.ndarray:
    """f as colours: blue for the familiar (f >= 1), red for the novel (f = 0)."""
    import cv2

    return cv2.applyColorMap(np.clip(255 * (1 - scores), 0, 255).astype(np.uint8), cv2.COLORMAP_JET)


class Boxes:
    """Connected components over time: a component takes the number of the one it overlaps most in the frame before."""

    def __init__(self, min_area: int):
        self.min_area, self.next_id = min_area, 1
        self.before: np.ndarray | None = None

    def find(self, mask: np.ndarray) -> list[tuple[int, int, int, int, int, int]]:
        """(id, x, y, width, height, area) of every component of at least min_area pixels."""
        import cv2

        count, labels, stats, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        ids, rows, taken = np.zeros(count, np.int32), [], set()
        order = sorted((i for i in range(1, count) if stats[i, cv2.CC_STAT_AREA] >= self.min_area), key=lambda i: -stats[i, 4])
        for i in order:
            x, y, w, h, area = (int(v) for v in stats[i])
            mine = 0
            if self.before is not None:
                below = self.before[y : y + h, x : x + w][labels[y : y + h, x : x + w] == i]
                votes = np.bincount(below[below > 0])
                if len(votes) and int(votes.argmax()) not in taken:
                    mine = int(votes.argmax())
            if not mine:
                mine, self.next_id = self.next_id, self.next_id + 1
            taken.add(mine)
            ids[i] = mine
            rows.append((mine, x, y, w, h, area))
        self.before = ids[labels]
        return sorted(rows)


class Film:
    """H.264 through PyAV, four panels side by side: input, score, mask, outlined objects."""

    def __init__(self, path: str, fps: float):
        try:
            import av
        except ImportError as error:
            raise OutputError("--out needs PyAV: pip install av") from error
        self.path, self.av = path, av
        self.fps = Fraction(fps).limit_denominator(1001)
        try:
            self.container = av.open(path, "w")
        except (av.FFmpegError, OSError) as error:
            raise OutputError(f"{path}: cannot be written ({error})") from error
        self.stream: Any = None

    def write(self, frame: Frame, scores: np.ndarray, mask: np.ndarray, boxes: list[tuple[int, ...]]) -> None:
        import cv2

        outlined = frame.image.copy()
        contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        cv2.drawContours(outlined, contours, -1, (0, 255, 255), 1)
        for number, x, y, w, h, _area in boxes:
            cv2.rectangle(outlined, (x, y), (x + w, y + h), (0, 0, 255), 1)
            cv2.putText(outlined, str(number), (x, max(10, y - 3)), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 255), 1)
        picture = np.hstack([frame.image, heat(scores), cv2.cvtColor(mask, cv2.COLOR_GRAY2BGR), outlined])
        picture = np.ascontiguousarray(picture[: picture.shape[0] // 2 * 2, : picture.shape[1] // 2 * 2])  # H.264 wants even sides
        if self.stream is None:
            self.stream = self.container.add_stream("libx264", rate=self.fps, options={"preset": "veryfast", "crf": "23"})
            self.stream.height, self.stream.width = picture.shape[:2]
            self.stream.pix_fmt = "yuv420p"
        try:
            for packet in self.stream.encode(self.av.VideoFrame.from_ndarray(picture, format="bgr24")):
                self.container.mux(packet)
        except (self.av.FFmpegError, OSError) as error:
            raise OutputError(f"{self.path}: writing stopped ({error}); is the disk full?") from error

    def close(self) -> None:
        try:
            if self.stream is not None:
                for packet in self.stream.encode():
                    self.container.mux(packet)
            self.container.close()
        except (self.av.FFmpegError, OSError) as error:
            raise OutputError(f"{self.path}: could not be finished ({error}); is the disk full?") from error


class Masks:
    """One PNG per frame, named by its number; a picture is complete or not there."""

    def __init__(self, path: str):
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path}: cannot be made a folder ({error})") from error

    def write(self, number: int, mask: np.ndarray) -> None:
        import cv2

        target = self.path / f"{number:06d}.png"
        part = target.with_suffix(".part")
        try:
            part.write_bytes(cv2.imencode(".png", mask)[1].tobytes())
            part.replace(target)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise OutputError(f"{target}: cannot be written ({error}); the masks before it are complete") from error


class BoxFile:
    """frame, seconds, id, x, y, width, height, area as CSV; flushed every frame."""

    def __init__(self, path: str, append: bool):
        self.path = Path(path)
        try:
            fresh = not (append and self.path.exists())
            self.file = self.path.open("w" if fresh else "a", newline="")
        except OSError as error:
            raise OutputError(f"{path}: cannot be written ({error})") from error
        self.rows = csv.writer(self.file)
        if fresh:
            self.rows.writerow(["frame", "seconds", "id", "x", "y", "width", "height", "area"])

    def write(self, frame: Frame, boxes: list[tuple[int, ...]]) -> None:
        try:
            self.rows.writerows([frame.number, f"{frame.seconds:.3f}", *box] for box in boxes)
            self.file.flush()
        except OSError as error:
            raise OutputError(f"{self.path}: writing stopped at frame {frame.number} ({error}); is the disk full?") from error

    def close(self) -> None:
        self.file.close()
