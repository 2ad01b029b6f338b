"""Frames from anywhere: a file, a folder of pictures, a webcam, a network stream that may go away and come back."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from onkel.terminal import progress

LIVE = ("rtsp://", "rtsps://", "rtmp://", "http://", "https://", "tcp://", "udp://", "srt://")
CAMERA = re.compile(r"(?:/dev/video)?([0-9]+)")
PATIENCE = 10.0  # seconds without a sign of life from the network
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp")


class InputError(Exception):
    """The input cannot be read; the message says what to do."""


class Refused(InputError):
    """There is no such video; to ask again would not help."""


MOST_PIXELS = 67_108_864  # 8192 x 8192; the default model of a picture takes some seventy bytes a pixel
NETWORK = "tcp,udp,tls,http,https,httpproxy,crypto,data,srtp,rtp"  # what one address may lead to; no files of this machine
LOCAL = "file,crypto,data"  # and what a file or a list of pieces may: nothing over the network


class Limits(NamedTuple):
    """What an input that nobody vouches for may cost, and what it may open."""

    pixels: int = MOST_PIXELS
    protocols: str = ""  # beside what its own kind of address needs

    def check(self, width: int, height: int) -> None:
        if width * height > self.pixels:
            raise ValueError(f"{width}x{height} has more than --max-pixels {self.pixels}")


USUAL = Limits()


class Frame(NamedTuple):
    number: int  # counted from 0 in the input, before --every
    seconds: float
    image: np.ndarray  # BGR, uint8
    live: bool = False  # from a source without end, which is opened again when it breaks
    fleeting: bool = False  # from one that does not wait: better left out than late


say = partial(progress.say, "onkel video")


def read(source: str, retries: int = 10, wait: Callable[[float], Any] = time.sleep, limits: Limits = USUAL) -> Iterator[Frame]:
    """All frames of `source`. A live source that breaks is opened again, waiting 1, 2, 4 ... 30 seconds in between;
    after `retries` attempts in a row without a frame it is given up. A file behind an address is read once, and an address
    that answers from the start that there is no such video is asked once. `wait` says with True that nobody wants more frames."""
    source = re.sub("^[A-Za-z]+://", lambda scheme: scheme[0].lower(), source)
    if camera := CAMERA.fullmatch(source):
        index = int(camera[1])
        yield from _live(lambda: webcam(index), f"camera {index}", retries, wait)
    elif source.startswith(LIVE):
        yield from _live(lambda: decoded(source, remote=True, limits=limits), shown(source), retries, wait)
    elif Path(source).is_dir():
        yield from folder(Path(source), limits)
    elif Path(source).is_file():
        yield from decoded(source, limits=limits)
    else:
        addresses = ", ".join(LIVE[:4])
        raise InputError(f"{shown(source)}: no such file or folder, and not a camera number or an address ({addresses} ...)")


def runs_by_itself(source: str) -> bool:
    """Will frames come whether we are ready or not?"""
    return bool(CAMERA.fullmatch(source)) or source.lower().startswith(LIVE)


def shown(source: str) -> str:
    """An address without the password in it.

    >>> shown("rtsp://admin:se/cret@camera/stream?channel=1&pwd=secret")
    'rtsp://***@camera/stream?channel=1&pwd=***'
    """
    source = re.sub(r"(?<=://).*@", "***@", source)  # up to the last @: people forget to quote the one in the password
    return re.sub(r"(?i)((?:pass\w*|pwd|token|key|secret|auth)=)[^&;/]*", r"\1***", source)


def _live(connect: Callable[[], Iterator[Frame]], name: str, retries: int, wait: Callable[[float], Any]) -> Iterator[Frame]:
    number, failures, begin = 0, 0, time.monotonic()
    while True:
        frame = None
        try:
            for frame in connect():
                if failures:
                    say(f"{name}: back after {failures} attempt{'s' * (failures > 1)}")
                failures = 0
                yield frame._replace(number=number, seconds=time.monotonic() - begin if frame.fleeting else frame.seconds)
                number += 1
            if frame is not None and not frame.live:
                return
            reason = "the stream ended"
        except InputError as error:
            if (frame is not None and not frame.live) or (isinstance(error, Refused) and not number):
                raise
            reason = str(error).removeprefix(f"{name}: ")
        failures += 1
        if failures > retries:
            tried = f" after {retries} attempt{'s' * (retries > 1)}" if retries else ""
            raise InputError(f"{name}: gave up{tried} ({reason}); check the address, the network and the camera")
        pause = min(30.0, 2.0 ** (failures - 1))
        say(f"{name}: {reason}; attempt {failures} of {retries} in {pause:g} s")
        if wait(pause):
            return


def folder(path: Path, limits: Limits = USUAL) -> Iterator[Frame]:
    """Pictures in the order of their names, digits read as numbers; one that is cut off or unreadable is told and skipped."""
    pictures = sorted(
        (p for p in path.iterdir() if p.suffix.lower() in PICTURES and not p.name.startswith(".")),
        key=lambda p: [int(t) if t.isdecimal() else t for t in re.split(r"(\d+)", p.name)],
    )
    if not pictures:
        raise InputError(f"{path}: no pictures ({', '.join(PICTURES)}) in this folder")
    for number, picture in enumerate(pictures):
        try:
            yield Frame(number, number / 25.0, unpacked(picture.read_bytes(), limits))
        except (ValueError, OSError) as error:
            say(f"{picture.name}: {getattr(error, 'strerror', None) or error}, skipped")


def unpacked(content: bytes, limits: Limits = USUAL) -> np.ndarray:
    """The picture (BGR, uint8) in the bytes of a file; one that was cut off is an error, where OpenCV paints its rest grey."""
    import cv2

    jpeg, png = content.startswith(b"\xff\xd8"), content.startswith(b"\x89PNG")
    if (jpeg and content.find(b"\xff\xd9", scan(content)) < 0) or (png and content.rfind(b"IEND") <= content.rfind(b"IDAT")):
        raise ValueError("the picture is cut off")
    if png and len(content) > 24:  # before so much is unpacked
        limits.check(int.from_bytes(content[16:20], "big"), int.from_bytes(content[20:24], "big"))
    try:
        image = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR) if content else None
    except cv2.error as error:
        raise ValueError(f"not a readable picture ({error.err})") from error
    if image is None:
        raise ValueError("not a readable picture" if content else "the file is empty")
    limits.check(image.shape[1], image.shape[0])
    return image


def scan(jpeg: bytes) -> int:
    """Where the coded picture begins, behind the headers and the small picture that one of them may hold."""
    at = 2
    while jpeg[at : at + 1] == b"\xff" and jpeg[at + 1 : at + 2] != b"\xda" and at + 4 <= len(jpeg):
        at += 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
    return at


def webcam(index: int) -> Iterator[Frame]:
    import cv2

    with suppress(AttributeError):  # from OpenCV 5 on; its warnings say less than we do
        cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_ERROR)
    capture = cv2.VideoCapture(index)
    try:
        if not capture.isOpened():
            raise InputError(f"camera {index}: cannot be opened; is it connected, and does no other program use it?")
        number, begin = 0, time.monotonic()
        while True:
            ok, image = capture.read()
            if not ok:
                raise InputError(f"camera {index}: gives no more frames")
            yield Frame(number, time.monotonic() - begin, image, live=True, fleeting=True)
            number += 1
    finally:
        capture.release()


def decoded(source: str, remote: bool = False, limits: Limits = USUAL) -> Iterator[Frame]:
    """A video file or stream through PyAV; broken packets and damaged pictures are told and skipped, each counted as one frame."""
    try:
        import av
    except ImportError as error:
        raise InputError("reading videos needs PyAV: pip install av") from error
    name = shown(source) if remote else source
    try:
        container = av.open(source, timeout=PATIENCE if remote else None, options=_options(source, remote, limits))
    except (av.FFmpegError, OSError) as error:
        e = av.error
        final = (ValueError, LookupError, e.HTTPBadRequestError, e.HTTPUnauthorizedError, e.HTTPForbiddenError, e.HTTPNotFoundError)
        hint = "" if remote else "; is it a video, and whole?"
        if remote and "@" in source and (error.errno == errno.EINVAL or isinstance(error, e.HTTPUnauthorizedError)):
            hint = "; in a password write %2F for /, %40 for @, %3A for :"
        elif remote and error.errno == errno.EIO:
            hint = "; is the name of the host right?"
        kind = Refused if isinstance(error, final) else InputError
        raise kind(f"{name}: cannot be opened as a video ({_cause(error)}{hint})") from error
    with container:
        if not container.streams.video:
            raise Refused(f"{name}: holds no video")
        stream = container.streams.video[0]
        try:
            limits.check(stream.codec_context.width or 0, stream.codec_context.height or 0)
        except ValueError as error:
            raise Refused(f"{name}: {error}") from error
        stream.thread_type = "AUTO"
        listed = "hls" in container.format.name  # a list that grows; what else has a length is a file, wherever it lies
        live = remote and not container.duration and (listed or container.size <= 0)
        fps = float(stream.average_rate or 25)
        number = broken = in_a_row = 0
        packets = container.demux(stream)
        while True:
            packet = None
            try:
                packet = next(packets, None)
                images: Iterable[Any] | None = packet.decode() if packet is not None else None
            except av.error.EOFError:
                images = None
            except (av.FFmpegError, OSError) as error:
                in_a_row += 1
                if not isinstance(error, av.error.InvalidDataError) or in_a_row > 1000:
                    if live:
                        raise InputError(f"{name}: the connection broke ({_cause(error)})") from error
                    advice = "; download the file and give its path" if remote else ""
                    raise Refused(f"{name}: reading stopped after frame {number} ({_cause(error)}){advice}") from error
                images = [None]
                if packet is None:  # the reading failed, not the decoding, and that ended the generator
                    packets = container.demux(stream)
            if images is None:
                if broken > 1:
                    say(f"{name}: {broken} broken pieces in all")
                return
            for picture in images:
                if picture is None or picture.is_corrupt:
                    broken += 1
                    if broken == 1:
                        say(f"{name}: a broken piece at frame {number}, skipped")
                else:
                    in_a_row = 0
                    seconds = number / fps if picture.time is None else picture.time
                    turns = getattr(picture, "rotation", 0) // 90 % 4  # a phone held upright; PyAV tells from 14.1 on
                    image = np.rot90(picture.to_ndarray(format="bgr24"), turns)
                    yield Frame(number, seconds, image, live, live and not listed)
                number += 1


def _options(source: str, remote: bool, limits: Limits) -> dict[str, str]:
    """RTSP over TCP, or UDP where a camera has only that; a file behind an address goes on where a connection broke.

    Whatever a playlist or a header names is opened only if it is of the input's own kind: nothing on this machine for an address,
    nothing over the network for a file.
    """
    own = f"{source.split(':', 1)[0]},{NETWORK}" if remote else LOCAL
    allowed = {"protocol_whitelist": f"{own},{limits.protocols}".rstrip(",")}
    if source.startswith("rtsp"):
        return {**allowed, "rtsp_flags": "prefer_tcp"}
    return {**allowed, "reconnect": "1"} if source.startswith("http") else allowed


def _cause(error: Exception) -> str:
    """Without the address, which may hold a password."""
    if type(error).__name__ == "ExitError":
        return f"nothing came for {PATIENCE:g} seconds"
    return str(getattr(error, "strerror", None) or type(error).__name__)
