"""What `onkel video` writes: a film of four panels, masks, boxes."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from onkel.saved import atomic
from onkel.video.film.frames import Frame

TICK = Fraction(1, 90000)  # seconds, the clock of the film
HEADINGS = ("frame", "seconds", "id", "x", "y", "width", "height", "area")
HEADER = ",".join(HEADINGS).encode()
FILMS = (".mp4", ".m4v", ".mov")  # written in pieces, and a full disk is noticed at once
WIDEST = 8192  # pixels: the largest picture of H.264's levels
LONGEST = 2.0  # seconds that one frame is shown: an outage does not stop the film


class OutputError(Exception):
    """Something cannot be written; what was written before stays."""


def cause(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def heat(scores: np.ndarray) -> np.ndarray:
    """f as colours: blue for the familiar (f >= 1), red for the novel (f = 0)."""
    import cv2

    return cv2.applyColorMap(np.clip(255 * (1 - scores), 0, 255).astype(np.uint8), cv2.COLORMAP_JET)


class Boxes:
    """Connected components over time: a component takes the number of the one it overlaps most in the frame before."""

    def __init__(self, min_area: int, next_id: int = 1):
        self.min_area, self.next_id = min_area, next_id
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
    """H.264 through PyAV, four panels side by side: input, score, mask, outlined objects, each frame at its own time.

    It is written in pieces of fifty frames that can be played whatever happens next, and joined at the end.
    """

    def __init__(self, path: str):
        try:
            import av
        except ImportError as error:
            raise OutputError("--out needs PyAV: pip install av") from error
        self.path, self.av = path, av
        try:
            open(path, "wb").close()  # PyAV would find out only at the first packet
            self.container = av.open(path, "w", options={"movflags": "hybrid_fragmented"})
        except (av.FFmpegError, OSError, ValueError) as error:
            raise OutputError(f"{path}: cannot be written ({cause(error)})") from error
        self.stream: Any = None
        self.broken = False
        self.shown = self.seconds = 0.0  # time in the film, time in the input

    def write(self, frame: Frame, scores: np.ndarray, mask: np.ndarray, boxes: list[tuple[int, ...]]) -> None:
        import cv2

        outlined = frame.image.copy()
        contours, _ = cv2.findContours(mask, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        cv2.drawContours(outlined, contours, -1, (0, 255, 255), 1)
        for number, x, y, w, h, _area in boxes:
            cv2.rectangle(outlined, (x, y), (x + w - 1, y + h - 1), (0, 0, 255), 1)
            cv2.putText(outlined, str(number), (x, max(10, y - 3)), cv2.FONT_HERSHEY_SIMPLEX, 0.4, (0, 0, 255), 1)
        picture = np.hstack([frame.image, heat(scores), cv2.cvtColor(mask, cv2.COLOR_GRAY2BGR), outlined])
        if (shrink := WIDEST / max(picture.shape)) < 1:
            height, width = (max(1, round(shrink * side)) for side in picture.shape[:2])  # of one row something is left
            picture = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
        odd = [side % 2 for side in picture.shape[:2]]
        picture = cv2.copyMakeBorder(picture, 0, odd[0], 0, odd[1], cv2.BORDER_REPLICATE)  # H.264 wants even sides
        if self.stream is None:
            self.stream = self.container.add_stream("libx264", rate=25, options={"preset": "veryfast", "crf": "23"})
            self.stream.height, self.stream.width = picture.shape[:2]
            self.stream.pix_fmt = "yuv420p"
            self.stream.codec_context.thread_count = min(4, os.cpu_count() or 1)  # more would only delay the film
            self.stream.codec_context.gop_size, self.stream.codec_context.max_b_frames = 50, 0
            self.stream.codec_context.time_base = TICK
        else:
            passed = frame.seconds - self.seconds
            self.shown += min(passed, LONGEST) if passed > 0 else 0.04  # clocks of streams jump back
        self.seconds = frame.seconds
        image = self.av.VideoFrame.from_ndarray(picture, format="bgr24")
        image.time_base, image.pts = TICK, round(self.shown / TICK)
        try:
            self.container.mux(self.stream.encode(image))
        except (self.av.FFmpegError, OSError) as error:
            self.broken = True
            raise OutputError(
                f"{self.path}: writing stopped at frame {frame.number} ({error.strerror}); almost up to there it can be played"
            ) from error

    def close(self) -> None:
        try:
            if self.stream is not None and not self.broken:
                self.container.mux(self.stream.encode())
            self.container.close()
        except (self.av.FFmpegError, OSError) as error:
            if not self.broken:  # else it has been told
                raise OutputError(
                    f"{self.path}: could not be finished ({error.strerror}); all but its end can be played"
                ) from error


class Masks:
    """One PNG per frame, named by its number; a picture is complete or not there."""

    def __init__(self, path: str):
        self.path = Path(path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path}: cannot be made a folder ({cause(error)})") from error

    def write(self, number: int, mask: np.ndarray) -> None:
        import cv2

        target = self.path / f"{number:06d}.png"
        try:
            atomic.write(target, cv2.imencode(".png", mask)[1].tobytes(), flush=False)
        except OSError as error:
            raise OutputError(f"{target}: cannot be written ({error.strerror}); the masks before it are complete") from error


class BoxFile:
    """frame, seconds, id, x, y, width, height, area as CSV; the rows of a frame are written together or not at all."""

    def __init__(self, path: str, append: bool):
        self.path = Path(path)
        try:
            before = self.path.read_bytes() if append and self.path.exists() else b""
            if not (before.startswith(HEADER) or HEADER.startswith(before)):
                raise ValueError("it holds something else than boxes to append to; give another name")
            before = before[: before.rfind(b"\n") + 1]  # a run that was killed may have left half a row
            self.next_id = 1 + max((int(row["id"]) for row in csv.DictReader(before.decode().splitlines())), default=0)
            self.file = self.path.open("r+b" if before else "wb", buffering=0)
            self.length = len(before)
            if before:
                self.file.truncate(self.file.seek(self.length))
            else:
                self._write([HEADINGS])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OutputError(f"{path}: cannot be written ({cause(error)})") from error

    def _write(self, rows: Iterable[Iterable[Any]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text).writerows(rows)
        rest = content = text.getvalue().encode()
        try:
            while rest:
                rest = rest[self.file.write(rest) :]
        except OSError:
            with suppress(OSError):
                self.file.truncate(self.length)
            raise
        self.length += len(content)

    def write(self, frame: Frame, boxes: list[tuple[int, ...]]) -> None:
        try:
            self._write([frame.number, f"{frame.seconds:.3f}", *box] for box in boxes)
        except OSError as error:
            raise OutputError(
                f"{self.path}: writing stopped at frame {frame.number} ({error.strerror}); the frames before it are complete"
            ) from error

    def close(self) -> None:
        self.file.close()
