"""Frames from anywhere: a file, a folder of pictures, a webcam, a network stream that may go away and come back."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LIVE = ("rtsp://", "rtsps://", "rtmp://", "http://", "https://", "tcp://", "udp://", "srt://")
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")


class InputError(Exception):
    """The input cannot be read; the message says what to do."""


class Frame(NamedTuple):
    number: int  # counted from 0 in the input, before --every
    seconds: float
    image: np.ndarray  # BGR, uint8


def say(text: str) -> None:
    print(f"onkel video: {text}", file=sys.stderr, flush=True)


def read(source: str, retries: int = 10, wait: Callable[[float], Any] = time.sleep) -> Iterator[Frame]:
    """All frames of `source`. A live source that breaks is opened again, waiting 1, 2, 4 ... 30 seconds in between;
    after `retries` attempts in a row without a frame it is given up."""
    if source.isdigit():
        yield from _live(lambda: webcam(int(source)), f"camera {source}", retries, wait)
    elif source.lower().startswith(LIVE):
        yield from _live(lambda: decoded(source, live=True), source, retries, wait)
    elif Path(source).is_dir():
        yield from folder(Path(source))
    elif Path(source).is_file():
        yield from decoded(source)
    else:
        raise InputError(f"{source}: no such file or folder, and not a camera number or an address ({', '.join(LIVE[:4])} ...)")


def _live(connect: Callable[[], Iterator[Frame]], name: str, retries: int, wait: Callable[[float], Any]) -> Iterator[Frame]:
    number, failures, begin = 0, 0, time.monotonic()
    while True:
        try:
            for frame in connect():
                if failures:
                    say(f"{name}: back after {failures} attempt{'s' * (failures > 1)}")
                failures = 0
                yield Frame(number, time.monotonic() - begin, frame.image)
                number += 1
            reason = "the stream ended"
        except InputError as error:
            reason = str(error).removeprefix(f"{name}: ")
        failures += 1
        if failures > retries:
            raise InputError(f"{name}: gave up after {retries} attempts ({reason}); check the address, the network and the camera")
        pause = min(30.0, 2.0 ** (failures - 1))
        say(f"{name}: {reason}; attempt {failures} of {retries} in {pause:g} s")
        wait(pause)


def folder(path: Path) -> Iterator[Frame]:
    """Pictures in the order of their names, digits read as numbers; an unreadable one is told and skipped."""
    import re

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
            yield Frame(number, time.monotonic() - begin, image)
            number += 1
    finally:
        capture.release()


def decoded(source: str, live: bool = False) -> Iterator[Frame]:
    """A video file or stream through PyAV; broken packets are counted, told once, and skipped."""
    try:
        import av
    except ImportError as error:
        raise InputError("reading videos needs PyAV: pip install av") from error
    try:
        options = {"rtsp_transport": "tcp"} if source.startswith("rtsp") else {}
        container = av.open(source, timeout=(10.0, 10.0) if live else None, options=options)
    except (av.FFmpegError, OSError) as error:
        raise InputError(f"{source}: cannot be opened as a video ({getattr(error, 'strerror', None) or error})") from error
    with container:
        if not container.streams.video:
            raise InputError(f"{source}: holds no video")
        stream = container.streams.video[0]
        stream.thread_type = "AUTO"
        number = broken = 0
        packets = container.demux(stream)
        while True:
            try:
                packet = next(packets, None)
                if packet is None:
                    return
                images = packet.decode()
            except av.error.EOFError:
                return
            except (av.FFmpegError, OSError) as error:
                if isinstance(error, av.error.InvalidDataError):
                    broken += 1
                    if broken == 1:
                        say(f"{source}: a broken piece after frame {number}, skipped ({error})")
                    if broken < 1000:
                        continue
                raise InputError(f"{source}: reading stopped after frame {number} ({error})") from error
            for picture in images:
                yield Frame(number, float(picture.time or 0.0), picture.to_ndarray(format="bgr24"))
                number += 1


def rate(source: str) -> float:
    """Frames per second that the input claims, 25 where it says nothing."""
    if source.isdigit() or Path(source).is_dir() or source.lower().startswith(LIVE):
        return 25.0
    import av

    with av.open(source) as container:
        claimed = container.streams.video[0].average_rate if container.streams.video else None
    return float(claimed) if claimed else 25.0
