"""`onkel video INPUT`: reading, computing and writing at the same time."""

from __future__ import annotations

import argparse
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from .frames import Frame, InputError, rate, read, say
from .output import Boxes, BoxFile, Film, Masks, OutputError
from .settings import RULES
from .subtractor import BackgroundSubtractor

DONE = object()


class Ahead:
    """Runs an iterator in a thread of its own, a few items ahead; its exception arrives where the items would."""

    def __init__(self, items: Iterable[Any], depth: int = 8):
        self.items, self.queue, self.stop = items, queue.Queue(depth), threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True, name="onkel-read")
        self.thread.start()

    def _put(self, item: Any) -> None:
        while not self.stop.is_set():
            try:
                self.queue.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def _run(self) -> None:
        try:
            for item in self.items:
                self._put(item)
                if self.stop.is_set():
                    return
            self._put(DONE)
        except BaseException as error:  # carried over to the consumer
            self._put(error)

    def __iter__(self) -> Iterator[Any]:
        while (item := self.queue.get()) is not DONE:
            if isinstance(item, BaseException):
                raise item
            yield item


class Behind:
    """Runs `write(item)` in a thread of its own; its first exception is raised at the next `put` or at `close`."""

    def __init__(self, write: Callable[[Any], None], depth: int = 8):
        self.write, self.queue, self.error = write, queue.Queue(depth), None
        self.thread = threading.Thread(target=self._run, daemon=True, name="onkel-write")
        self.thread.start()

    def _run(self) -> None:
        while (item := self.queue.get()) is not DONE:
            if self.error is None:
                try:
                    self.write(item)
                except BaseException as error:  # raised in the main thread
                    self.error = error

    def put(self, item: Any) -> None:
        if self.error is not None:
            raise self.error
        self.queue.put(item)

    def close(self) -> None:
        self.queue.put(DONE)
        self.thread.join()
        if self.error is not None:
            raise self.error


class Progress:
    """Frames per second and foreground share: one line that is rewritten on a terminal, else a line every ten seconds."""

    def __init__(self, quiet: bool):
        self.quiet, self.live = quiet, sys.stderr.isatty()
        self.begin = self.last = time.monotonic()
        self.count = self.shown = 0

    def tick(self, number: int, share: float) -> None:
        self.count += 1
        now = time.monotonic()
        if self.quiet or now - self.last < (0.5 if self.live else 10.0):
            return
        fps = (self.count - self.shown) / (now - self.last)
        print(
            f"{chr(13) if self.live else ''}frame {number}  {fps:6.1f} fps  foreground {share:6.2%}   ",
            file=sys.stderr,
            end="" if self.live else "\n",
            flush=True,
        )
        self.last, self.shown = now, self.count

    def end(self) -> None:
        seconds = max(1e-9, time.monotonic() - self.begin)
        if self.count and not self.quiet:
            start = chr(13) if self.live else ""
            print(f"{start}{self.count} frames in {seconds:.1f} s, {self.count / seconds:.1f} fps" + " " * 20, file=sys.stderr)


def rectangle(text: str) -> tuple[int, int, int, int]:
    try:
        x, y, w, h = (int(v) for v in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: give x,y,width,height in pixels") from error
    if x < 0 or y < 0 or w < 1 or h < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: x and y from 0, width and height from 1")
    return x, y, w, h


def size(text: str) -> tuple[int, int]:
    try:
        w, h = (int(v) for v in text.lower().split("x"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: give WIDTHxHEIGHT, such as 640x480") from error
    return w, h


def selected(frames: Iterable[Frame], args: argparse.Namespace) -> Iterator[Frame]:
    """--start, --every, --limit, then --roi (in input pixels), then --resize; frames of another size are told and skipped."""
    import cv2

    first, taken = None, 0
    for frame in frames:
        if frame.number < args.start or (frame.number - args.start) % args.every:
            continue
        if first is None:
            first = frame.image.shape
        elif frame.image.shape != first:
            now = frame.image.shape
            say(f"frame {frame.number} is {now[1]}x{now[0]}, the first was {first[1]}x{first[0]}: skipped")
            continue
        image = frame.image
        if args.roi:
            x, y, w, h = args.roi
            image = image[y : y + h, x : x + w]
            if image.shape[:2] != (h, w):
                raise InputError(f"--roi {x},{y},{w},{h} leaves the frame of {first[1]}x{first[0]}")
        if args.resize:
            image = cv2.resize(image, args.resize, interpolation=cv2.INTER_AREA)
        yield Frame(frame.number, frame.seconds, np.ascontiguousarray(image))
        taken += 1
        if args.limit and taken >= args.limit:
            return


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--out", help="film of input, score, mask and outlined objects (H.264 .mp4)")
    p.add_argument("--masks", help="folder for one PNG per frame")
    p.add_argument("--boxes", help="CSV of connected components over time")
    p.add_argument("--min-area", type=int, default=40, help="smallest component in pixels (default 40)")
    p.add_argument("--roi", type=rectangle, help="x,y,width,height: look only there")
    p.add_argument("--resize", type=size, help="WIDTHxHEIGHT before computing")
    p.add_argument("--every", type=int, default=1, help="take every n-th frame")
    p.add_argument("--start", type=int, default=0, help="first frame")
    p.add_argument("--limit", type=int, default=0, help="stop after so many frames")
    p.add_argument("--save", help="write the model here at the end")
    p.add_argument("--resume", help="go on with a saved model")
    p.add_argument("--rule", choices=RULES, default="fold", help="fold: our default; silk, norma: the paper's rules")
    p.add_argument("--budget", type=int, help="colours per pixel")
    p.add_argument("--sigma", type=float, default=20.0, help="kernel width in grey levels (default 20)")
    p.add_argument("--threshold", type=float, help="foreground when f is under it; default: sets itself")
    p.add_argument("--backend", choices=("cpu", "gpu"), default="cpu")
    p.add_argument("--threads", type=int, help="CPU threads (default all)")
    p.add_argument("--retries", type=int, default=10, help="attempts in a row to reopen a live input (default 10)")
    p.add_argument("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    try:
        if args.every < 1 or args.start < 0:
            raise InputError(f"--every {args.every} --start {args.start}: every from 1, start from 0")
        return process(args)
    except (InputError, OutputError, ValueError, RuntimeError, OSError) as error:
        say(str(error))
        return 1


def process(args: argparse.Namespace) -> int:
    """The pipeline; whatever happens, everything written so far is closed properly and --save is honoured."""
    if args.resume:
        import onkel

        subtractor = onkel.load(args.resume)
        if not isinstance(subtractor, BackgroundSubtractor):
            raise InputError(f"{args.resume}: holds a {type(subtractor).__name__}, not a video model")
    else:
        subtractor = BackgroundSubtractor(
            args.rule, args.budget, args.sigma, threshold=args.threshold, backend=args.backend, threads=args.threads
        )
    frames = Ahead(selected(read(args.input, args.retries), args))
    film = Film(args.out, rate(args.input) / args.every) if args.out else None
    masks = Masks(args.masks) if args.masks else None
    box_file = BoxFile(args.boxes, append=bool(args.resume)) if args.boxes else None
    boxes = Boxes(args.min_area)

    def write(item: tuple[Frame, np.ndarray, np.ndarray | None]) -> None:
        frame, mask, scores = item
        found = boxes.find(mask) if box_file or film else []
        if masks:
            masks.write(frame.number, mask)
        if box_file:
            box_file.write(frame, found)
        if film and scores is not None:
            film.write(frame, scores, mask, found)

    writer, progress, problems = Behind(write), Progress(args.quiet), []
    try:
        for frame in frames:
            mask = subtractor.apply(frame.image)
            writer.put((frame, mask, subtractor.scores if film else None))
            progress.tick(frame.number, float(np.count_nonzero(mask)) / mask.size)
    except KeyboardInterrupt:
        say("interrupted; finishing the files")
    except (InputError, OutputError, ValueError) as error:
        problems.append(error)
    frames.stop.set()
    for finish in (writer.close, film.close if film else None, box_file.close if box_file else None):
        try:
            if finish:
                finish()
        except (OutputError, OSError) as error:
            problems.append(error)
    progress.end()
    if args.save and progress.count:
        import onkel

        onkel.save(subtractor, args.save)
    for text in dict.fromkeys(map(str, problems)):
        say(text)
    if not progress.count and not problems:
        say(f"{args.input}: no frames (check --start and --every)")
        return 1
    return 1 if problems else 0
