"""`onkel video INPUT`: reading, computing and writing at the same time."""

from __future__ import annotations

import argparse
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from onkel.persist import load, save
from onkel.terminal.arguments import natural, rectangle, whole, width_and_height
from onkel.terminal.interrupt import Interrupt
from onkel.terminal.progress import Progress
from onkel.video.film.frames import MOST_PIXELS, Frame, InputError, Limits, read, runs_by_itself, say, shown
from onkel.video.film.outputs import FILMS, Boxes, BoxFile, Film, Masks, OutputError
from onkel.video.settings import RULES
from onkel.video.subtractor import BackgroundSubtractor

DONE = object()
MODEL = ("rule", "budget", "sigma", "threshold", "backend")  # what a resumed model brings along


class Ahead:
    """Reads frames in a thread of its own, a few ahead; an exception arrives where the frames would.

    A file waits until there is room. A camera does not: when computing falls behind, the oldest frame waiting is left out.
    """

    def __init__(self, frames: Iterable[Frame], stop: threading.Event, depth: int = 8):
        self.frames, self.queue, self.stop = frames, queue.Queue(depth), stop
        self.left_out = 0
        self.thread = threading.Thread(target=self._run, daemon=True, name="onkel-read")
        self.thread.start()

    def _put(self, item: Any, fleeting: bool = False) -> None:
        while not self.stop.is_set():
            try:
                self.queue.put(item, timeout=0 if fleeting else 0.2)
                return
            except queue.Full:
                if fleeting:
                    with suppress(queue.Empty):
                        self.queue.get_nowait()
                        self.left_out += 1

    def _run(self) -> None:
        try:
            for frame in self.frames:
                self._put(frame, frame.fleeting)
                if self.stop.is_set():
                    return
            self._put(DONE)
        except BaseException as error:  # carried over to the consumer
            self._put(error)

    def __iter__(self) -> Iterator[Frame]:
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


class Watching(Progress):
    """Frames per second and foreground share; at the end, how many frames there were."""

    def __init__(self, quiet: bool):
        super().__init__(quiet, "waiting for frames (the first run of all compiles for some seconds)")
        self.count = self.shown = 0
        self.since = self.begun

    def tick(self, number: int, share: float) -> None:
        self.count += 1
        if self.due:
            now = time.monotonic()
            fps = (self.count - self.shown) / max(now - self.since, 1e-9)
            self.show(f"frame {number}  {fps:6.1f} fps  foreground {share:6.2%}")
            self.since, self.shown = now, self.count

    def end(self) -> None:
        self.close()
        seconds = max(1e-9, time.monotonic() - self.begun)
        if self.count and self.wanted:
            frames = f"{self.count} frame{'s' * (self.count > 1)}"
            print(f"{frames} in {seconds:.1f} s, {self.count / seconds:.1f} fps", file=sys.stderr)


def selected(frames: Iterable[Frame], args: argparse.Namespace) -> Iterator[Frame]:
    """--start, --every, then --roi (in input pixels), then --resize; frames of another size are told and skipped."""
    import cv2

    first, other, count = None, None, 0
    for frame in frames:
        count = frame.number + 1
        if frame.number < args.start or (frame.number - args.start) % args.every:
            continue
        if first is None:
            first = frame.image.shape
        elif frame.image.shape != first:
            if other != (other := frame.image.shape):  # told once, should a camera keep it
                say(f"frame {frame.number} is {other[1]}x{other[0]}, the first was {first[1]}x{first[0]}: skipped, and all like it")
            continue
        image = frame.image
        if args.roi:
            x, y, w, h = args.roi
            image = image[y : y + h, x : x + w]
            if image.shape[:2] != (h, w):
                raise InputError(f"--roi {x},{y},{w},{h} leaves the frame of {first[1]}x{first[0]}")
        if args.resize:
            image = cv2.resize(image, args.resize, interpolation=cv2.INTER_AREA)
        yield frame._replace(image=np.ascontiguousarray(image))
    if first is None:
        raise InputError(f"{shown(args.input)}: no frames" + f" from --start {args.start} on, it has {count}" * (count > 0))


def add_arguments(p: argparse.ArgumentParser) -> None:
    p.add_argument("--out", "-o", metavar="FILE", help="film of input, score, mask and outlined objects (H.264 .mp4)")
    p.add_argument("--masks", metavar="DIR", help="folder for one PNG per frame")
    p.add_argument("--boxes", metavar="FILE", help="CSV of connected components over time")
    p.add_argument("--min-area", metavar="N", type=natural, default=40, help="smallest component in pixels (default 40)")
    p.add_argument("--roi", metavar="X,Y,W,H", type=rectangle, help="look only at this rectangle, in pixels")
    p.add_argument("--resize", metavar="WxH", type=width_and_height, help="resize frames before computing")
    p.add_argument("--every", metavar="N", type=whole, default=1, help="take every N-th frame")
    p.add_argument("--start", metavar="N", type=natural, default=0, help="the first frame to take (default 0)")
    p.add_argument("--limit", metavar="N", type=natural, default=0, help="stop after N frames (default 0: never)")
    p.add_argument("--save", metavar="FILE", help="write the model here at the end")
    p.add_argument("--resume", metavar="FILE", help="go on with a saved model")
    p.add_argument("--rule", choices=RULES, help="fold: our default; silk, norma: the paper's rules")
    p.add_argument("--budget", metavar="N", type=whole, help="colours per pixel")
    p.add_argument("--sigma", metavar="X", type=float, help="kernel width in grey levels (default 20)")
    p.add_argument("--threshold", metavar="X", type=float, help="foreground where f is below it (default: sets itself)")
    p.add_argument("--backend", choices=("cpu", "gpu"), help="where to compute (default cpu)")
    p.add_argument("--threads", metavar="N", type=whole, help="CPU threads (default: all)")
    p.add_argument("--retries", metavar="N", type=natural, default=10, help="attempts in a row to reopen a live input (default 10)")
    most = f"largest frame, width x height (default {MOST_PIXELS:,})"
    p.add_argument("--max-pixels", metavar="N", type=whole, default=MOST_PIXELS, help=most)
    what = "what FFmpeg may open beside the input's own kind of address, with commas, such as file,udp (default: nothing)"
    p.add_argument("--protocols", metavar="LIST", default="", help=what)
    p.add_argument("--quiet", "-q", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    try:
        check_outputs(args)
        return process(args)
    except (InputError, OutputError, ValueError, RuntimeError, OSError) as error:
        say(str(error))
        return 1


def check_outputs(args: argparse.Namespace) -> None:
    """What cannot go well is told before the work, and nothing that is still needed is overwritten."""
    taken = {Path(value).resolve(): what for what, value in (("the input", args.input), ("--resume", args.resume)) if value}
    for name in ("out", "masks", "boxes", "save"):
        if not (given := getattr(args, name)):
            continue
        path, option = Path(given).resolve(), f"--{name} {given}"
        if given == "-":
            raise InputError(f"{option}: it is not written to the terminal; give a name, or ./- for a file called so")
        if path in taken and not (name == "save" and taken[path] == "--resume"):
            raise InputError(f"{option}: that is {taken[path]}; give another name")
        taken[path] = f"--{name}"
        if name == "out" and path.suffix.lower() not in FILMS:
            raise InputError(f"{option}: give a name that ends in {', '.join(FILMS)}")
        if name != "masks" and path.is_dir():
            raise InputError(f"{option}: that is a folder; give the name of a file")
        if name != "masks" and not os.access(path.parent, os.W_OK):
            raise InputError(f"{option}: {path.parent} is no folder that can be written to")


def subtractor_for(args: argparse.Namespace) -> BackgroundSubtractor:
    given = {name: value for name in (*MODEL, "threads") if (value := getattr(args, name)) is not None}
    if not args.resume:
        return BackgroundSubtractor(**given)
    if given:
        raise InputError(f"{', '.join(f'--{name}' for name in given)}: a resumed model keeps its settings; leave it out")
    try:
        model = load(args.resume)
    except OSError as error:
        raise InputError(f"--resume {args.resume}: {error.strerror}") from error
    if not isinstance(model, BackgroundSubtractor):
        raise InputError(f"--resume {args.resume}: holds another kind of model; onkel video goes on with what its --save wrote")
    return model


def warm_up(subtractor: BackgroundSubtractor) -> None:
    """Compile, or load what was compiled, on a model of its own: a camera would not wait for it."""
    other = BackgroundSubtractor(subtractor.settings.rule, backend=subtractor.backend, threads=subtractor.threads)
    for _ in range(2):
        other.apply(np.zeros((8, 8, 3), np.uint8))


def check_size(args: argparse.Namespace, subtractor: BackgroundSubtractor, frame: Frame) -> None:
    (height, width), (h, w) = subtractor.getBackgroundImage().shape[:2], frame.image.shape[:2]
    if (height, width) != (h, w):
        raise InputError(
            f"--resume {args.resume}: its model is for frames of {width}x{height}, these are {w}x{h}; "
            f"give --resize {width}x{height} or the --roi of that time, or leave out --resume"
        )


class Outputs:
    """The film, the masks and the boxes that were asked for, written in a thread of their own."""

    def __init__(self, args: argparse.Namespace):
        self.masks = Masks(args.masks) if args.masks else None
        self.box_file = BoxFile(args.boxes, append=bool(args.resume)) if args.boxes else None
        self.boxes = Boxes(args.min_area, self.box_file.next_id if self.box_file else 1)
        self.film = Film(args.out) if args.out else None  # last: it empties an older one, for which nothing else may fail
        self.writer = Behind(self._write)

    def put(self, frame: Frame, mask: np.ndarray, subtractor: BackgroundSubtractor) -> None:
        self.writer.put((frame, mask, subtractor.scores if self.film else None))

    def _write(self, item: tuple[Frame, np.ndarray, np.ndarray]) -> None:
        frame, mask, scores = item
        found = self.boxes.find(mask) if self.box_file or self.film else []
        if self.masks:
            self.masks.write(frame.number, mask)
        if self.box_file:
            self.box_file.write(frame, found)
        if self.film:
            self.film.write(frame, scores, mask, found)

    def close(self) -> list[Exception]:
        """Finish every file, whatever happens to the others; the problems met."""
        problems = []
        for part in (self.writer, self.film, self.box_file):
            try:
                if part:
                    part.close()
            except (OutputError, OSError) as error:
                problems.append(error)
        return problems


def process(args: argparse.Namespace) -> int:
    """The pipeline; whatever happens, everything written so far is closed properly and --save is honoured."""
    subtractor, progress = subtractor_for(args), Watching(args.quiet)
    if runs_by_itself(args.input):
        warm_up(subtractor)
    stop = threading.Event()
    ahead = Ahead(selected(read(args.input, args.retries, stop.wait, Limits(args.max_pixels, args.protocols)), args), stop)
    frames = iter(ahead)
    outputs: Outputs | None = None
    problems: list[Exception] = []
    with Interrupt() as interrupt:
        try:
            while interrupt.signal is None and (frame := interrupt.waiting(lambda: next(frames, None))) is not None:
                if args.resume and outputs is None and subtractor.nbytes:
                    check_size(args, subtractor, frame)
                mask = subtractor.apply(frame.image)
                outputs = outputs or Outputs(args)  # not before there is something to write: older files stay
                outputs.put(frame, mask, subtractor)
                progress.tick(frame.number, float(np.count_nonzero(mask)) / mask.size)
                if progress.count == args.limit:
                    break
        except (InputError, OutputError, ValueError) as error:
            problems.append(error)
        finally:
            stop.set()
            if interrupt.signal is not None:
                say("interrupted; finishing the files")
            problems += outputs.close() if outputs else []
            ahead.thread.join(2.0)  # a reader that ends with the process, in the middle of OpenCV, would abort it
            progress.end()
            problems += _saved(subtractor, args.save) if args.save and progress.count else []
    if ahead.left_out:
        say(f"{ahead.left_out} frames came faster than they could be computed and were left out")
    for text in dict.fromkeys(map(str, problems)):
        say(text)
    return 1 if problems else 0 if interrupt.signal is None else 128 + interrupt.signal


def _saved(subtractor: BackgroundSubtractor, path: str) -> list[Exception]:
    try:
        save(subtractor, path)
    except OSError as error:
        return [OutputError(f"{path}: the model could not be saved ({error.strerror}); an older file there is unchanged")]
    return []
