"""Frames from anywhere: a file, a folder of pictures, a webcam, a network stream that may go away and come back."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LIVE = ("rtsp://", "rtsps://", "rtmp://", "http://", "https://", "tcp://", "udp://", "srt://")
FRESH = "\r\x1b[2K"  # on a terminal: over the line of progress
PATIENCE = 10.0  # seconds without a sign of life from the network
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")


class InputError(Exception):
    """The input cannot be read; the message says what to do."""


class Frame(NamedTuple):
    number: int  # counted from 0 in the input, before --every
    seconds: float
    image: np.ndarray  # BGR, uint8
    live: bool = False  # from a source that does not wait: better left out than late


def say(text: str) -> None:
    start = FRESH if sys.stderr.isatty() else ""
    print(f"{start}onkel video: {text}", file=sys.stderr, flush=True)


def read(source: str, retries: int = 10, wait: Callable[[float], Any] = time.sleep) -> Iterator[Frame]:
    """All frames of `source`. A live source that breaks is opened again, waiting 1, 2, 4 ... 30 seconds in between;
    after `retries` attempts in a row without a frame it is given up. A file behind an address is read once."""
    if source.isdigit():
        yield from _live(lambda: webcam(int(source)), f"camera {source}", retries, wait)
    elif source.lower().startswith(LIVE):
        yield from _live(lambda: decoded(source, remote=True), shown(source), retries, wait)
    elif Path(source).is_dir():
        yield from folder(Path(source))
    elif Path(source).is_file():
        yield from decoded(source)
    else:
        raise InputError(f"{source}: no such file or folder, and not a camera number or an address ({', '.join(LIVE[:4])} ...)")


def shown(source: str) -> str:
    """An address without the password in it.

    >>> shown("rtsp://admin:secret@camera/stream")
    'rtsp://camera/stream'
    """
    return re.sub(r"(?<=://)[^/?#]*@", "", source)


def _live(connect: Callable[[], Iterator[Frame]], name: str, retries: int, wait: Callable[[float], Any]) -> Iterator[Frame]:
    number, failures, begin = 0, 0, time.monotonic()
    while True:
        frame = None
        try:
            for frame in connect():
                if failures:
                    say(f"{name}: back after {failures} attempt{'s' * (failures > 1)}")
                failures = 0
                yield frame._replace(number=number, seconds=time.monotonic() - begin if frame.live else frame.seconds)
                number += 1
            if frame is not None and not frame.live:
                return
            reason = "the stream ended"
        except InputError as error:
            if frame is not None and not frame.live:
                raise
            reason = str(error).removeprefix(f"{name}: ")
        failures += 1
        if failures > retries:
            raise InputError(f"{name}: gave up after {retries} attempts ({reason}); check the address, the network and the camera")
        pause = min(30.0, 2.0 ** (failures - 1))
        say(f"{name}: {reason}; attempt {failures} of {retries} in {pause:g} s")
        wait(pause)


def folder(path: Path) -> Iterator[Frame]:
    """Pictures in the order of their names, digits read as numbers; an unreadable one is told and skipped."""
    import cv2

    pictures = sorted(
        (p for p in path.iterdir() if p.suffix.lower() in PICTURES),
        key=lambda p: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", p.name)],
    )
    if not pictures:
        raise InputError(f"{path}: no pictures ({', '.join(PICTURES)}) in this folder")
    for number, picture in enumerate(pictures):
        image = cv2.imread(str(picture), cv2.IMREAD_COLOR)
        if image is None:
            say(f"{picture.name}: not a readable picture, skipped")
            continue
        yield Frame(number, number / 25.0, image)


def webcam(index: int) -> Iterator[Frame]:
    import cv2

    capture = cv2.VideoCapture(index)
    try:
        if not capture.isOpened():
            raise InputError(f"camera {index} cannot be opened")
        number, begin = 0, time.monotonic()
        while True:
            ok, image = capture.read()
            if not ok:
                raise InputError(f"camera {index} gives no more frames")
            yield Frame(number, time.monotonic() - begin, image, live=True)
            number += 1
    finally:
        capture.release()


def decoded(source: str, remote: bool = False) -> Iterator[Frame]:
    """A video file or stream through PyAV; broken packets are told and skipped, each counted as one frame."""
    try:
        import av
    except ImportError as error:
        raise InputError("reading videos needs PyAV: pip install av") from error
    name = shown(source) if remote else source
    try:
        options = {"rtsp_transport": "tcp"} if source.lower().startswith("rtsp") else {}
        container = av.open(source, timeout=PATIENCE if remote else None, options=options)
    except (av.FFmpegError, OSError) as error:
        raise InputError(f"{name}: cannot be opened as a video ({_cause(error)})") from error
    with container:
        if not container.streams.video:
            raise InputError(f"{name}: holds no video")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        live = remote and not container.duration and container.size <= 0  # what has a length is a file, wherever it lies
        fps = float(stream.average_rate or 25)
        number = broken = 0
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
                images = packet.decode() if packet is not None else None
            except av.error.EOFError:
                images = None
            except (av.FFmpegError, OSError) as error:
                if isinstance(error, av.error.InvalidDataError):
                    broken, number = broken + 1, number + 1
                    if broken == 1:
                        say(f"{name}: a broken piece at frame {number - 1}, skipped")
                    if broken < 1000:
                        continue
                raise InputError(f"{name}: reading stopped after frame {number} ({_cause(error)})") from error
            if images is None:
                if broken > 1:
                    say(f"{name}: {broken} broken pieces in all")
                return
            for picture in images:
                seconds = number / fps if picture.time is None else picture.time
                yield Frame(number, seconds, picture.to_ndarray(format="bgr24"), live)
                number += 1


def _cause(error: Exception) -> str:
    """Without the address, which may hold a password."""
    if type(error).__name__ == "ExitError":
        return f"nothing came for {PATIENCE:g} seconds"
    return str(getattr(error, "strerror", None) or type(error).__name__)
