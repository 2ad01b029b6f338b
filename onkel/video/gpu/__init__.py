"""The same rules on a GPU, with CuPy; CUDA C compiled on first use. Nothing here is imported unless backend="gpu".

The paper's rules run as ONE fused kernel that is bound by memory, so the state of `uint8` frames is packed: a colour takes 3
bytes, a coefficient 12 bits, and seven slots of a pixel share a sector of 32 bytes (see packed.cu). Host frames go through
pinned memory, filled by all cores; upload, kernel and download overlap, band by band or frame by frame.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from onkel.core.machine.compiled import compiled
from onkel.video.cpu.crew import Crew, claim, report
from onkel.video.cpu.light import DARKEST, LIGHTEST, MILD, REACH, SAMPLES
from onkel.video.settings import Settings

PINNED, UP, DOWN = 1, 1, 2  # cudaMemoryTypeHost, cudaMemcpyHostToDevice and back
PIECE = 1 << 20  # bytes that a thread copies at a time
BAND = 6 << 20  # bytes of a frame that go to the card at a time; the kernel starts on the first ones


def cupy() -> Any:
    """CuPy, or an error that says what to do."""
    try:
        import cupy as cp

        cp.cuda.runtime.getDeviceCount()
    except Exception as error:
        raise RuntimeError(
            f"backend='gpu' needs CuPy and a CUDA device ({error}); install cupy-cuda12x or cupy-cuda13x, or use backend='cpu'"
        ) from error
    return cp


@cache
def kernels(files: tuple[str, ...], slots: int, channels: int, dtype: np.dtype) -> Any:
    source = "".join((Path(__file__).parent / f"{name}.cu").read_text() for name in files)
    named = {
        "SLOTS": slots,
        "CHANNELS": channels,
        "FLOATS": int(dtype == np.float32),
        "SAMPLES": SAMPLES,
        "REACH": REACH,
        "DARKEST": f"{DARKEST}f",
        "LIGHTEST": f"{LIGHTEST}f",
        "MILD": f"{MILD}f",
    }
    return cupy().RawModule(code=source, options=("--std=c++14", *(f"-D{name}={value}" for name, value in named.items())))


def pinned(shape: tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
    """An array in pinned memory. Frames that lie in such arrays go to the card without another copy on the host."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(cupy().cuda.alloc_pinned_memory(size), np.uint8, size).view(dtype).reshape(shape)


@compiled
def _copy_in_turns(target, source, turns):
    first = claim(turns, PIECE)
    while first < target.size:
        last = min(first + PIECE, target.size)
        target[first:last] = source[first:last]
        report(turns, last - first)
        first = claim(turns, PIECE)


@cache
def _crew() -> Crew:
    return Crew(os.cpu_count() or 1)


def copy(target: np.ndarray, source: np.ndarray) -> None:
    """Contiguous arrays of equal size, by all cores when they are large."""
    if target.nbytes > PIECE:
        to, of = target.reshape(-1).view(np.uint8), source.reshape(-1).view(np.uint8)
        _crew().run(lambda part, turns: _copy_in_turns(to, of, turns), to.size)
    else:
        np.copyto(target.reshape(-1), source.reshape(-1))


class Gpu:
    """What every model on the card holds, one for all cameras; frames are (cameras, height, width, channels)."""

    def __init__(self, settings: Settings, cameras: int, height: int, width: int, channels: int, dtype: np.dtype):
        self.cp = cp = cupy()
        self.settings, self.shape, self.dtype = settings, (cameras, height, width, channels), np.dtype(dtype)
        self.pixels = height * width
        self.padded = -(-self.pixels // 64) * 64  # of one camera
        self.total = cameras * self.padded
        self.raw, self.out = cp.zeros((2, cameras, self.padded), cp.uint8)
        self.score = cp.zeros((cameras, self.padded), cp.float32)
        self.keep_scores = True
        self.scale, self.frames = 1.0, 0
        self.lanes: list[Lane] = []

    @property
    def by_pixel(self) -> bool:
        """Whether no pixel looks at its neighbours."""
        return False

    def apply(self, frames: np.ndarray, out: np.ndarray, learn: bool, forgetting: float | None) -> None:
        """Host frames in, host masks out, waiting for both."""
        lane = self._lanes(1)[0]
        lane.send(frames, learn, forgetting, bands=max(1, min(4, frames.nbytes // BAND)))
        copy(out, lane.finished())

    def stream(self, frames: Iterable[np.ndarray], depth: int = 3) -> Iterator[np.ndarray]:
        """Masks of many host frames, with upload, kernel and download overlapped.

        A yielded mask is a view that stays valid until `depth` - 1 more masks have been taken. Frames are copied before the
        next one is asked for, but those in `pinned` arrays are read in place: leave such a frame alone until its mask is out.
        """
        lanes = self._lanes(depth)
        waiting: list[Lane] = []
        for i, image in enumerate(frames):
            if len(waiting) == depth:
                yield self._mask(waiting.pop(0))
            lanes[i % depth].send(np.ascontiguousarray(image, self.dtype), True, None)
            waiting.append(lanes[i % depth])
        for lane in waiting:
            yield self._mask(lane)

    def _lanes(self, count: int) -> list[Lane]:
        if not self.lanes:
            self.streams = [self.cp.cuda.Stream(non_blocking=True) for _ in range(3)]
            self.cp.cuda.Device().synchronize()  # what the constructor queued elsewhere
        self.lanes += [Lane(self) for _ in range(count - len(self.lanes))]
        return self.lanes[:count]

    def _mask(self, lane: Lane) -> np.ndarray:
        cameras, height, width, _ = self.shape
        masks = lane.finished().reshape(cameras, height, width)
        return masks[0] if cameras == 1 else masks

    def step(self, frame: Any, learn: bool, forgetting: float | None = None, out: Any = None) -> Any:
        """One frame of every camera, already on the device as (cameras, padded, channels); the masks stay there too."""
        raise NotImplementedError

    def grid(self, pixels: int) -> tuple[tuple[int], tuple[int]]:
        """Blocks and threads for one thread a pixel."""
        return (-(-pixels // 256),), (256,)

    def scores(self) -> np.ndarray:
        cameras, height, width, _ = self.shape
        return self.cp.asnumpy(self.score[:, : self.pixels]).reshape(cameras, height, width)

    def images(self, colours: Any) -> np.ndarray:
        """(cameras, padded, channels) on the device as an array in the frames' shape."""
        return self.cp.asnumpy(colours[:, : self.pixels]).reshape(self.shape)


class Lane:
    """Pinned and device buffers for one frame under way."""

    def __init__(self, model: Gpu):
        cp, (cameras, _, _, channels) = model.cp, model.shape
        self.frame = cp.zeros((cameras, model.padded, channels), model.dtype)
        self.mask = cp.zeros_like(model.out)
        self.host_frame = pinned((cameras, model.pixels, channels), model.dtype)
        self.host_mask = pinned((cameras, model.pixels))
        self.uploaded, self.computed, self.downloaded = (cp.cuda.Event(disable_timing=True) for _ in range(3))
        self.model, self.used = model, False

    def send(self, image: np.ndarray, learn: bool, forgetting: float | None, bands: int = 1) -> None:
        """Queue upload, kernel and download of a frame on three streams; by several bands where no pixel needs another."""
        model, runtime = self.model, self.model.cp.cuda.runtime
        up, work, down = model.streams
        if self.used:
            up.wait_event(self.computed)
            work.wait_event(self.downloaded)
        self.used = True
        image = image.reshape(self.host_frame.shape)
        address, each = image.ctypes.data, image.itemsize * image.shape[2]  # bytes of a pixel
        in_place = runtime.pointerGetAttributes(address).type == PINNED
        if not in_place:
            address = self.host_frame.ctypes.data
        with work:
            numbers = model.begin(learn, forgetting) if model.by_pixel else ()
            size = -(-model.pixels // bands // 64) * 64
            for camera, first in ((c, f) for c in range(len(image)) for f in range(0, model.pixels, size)):
                here, there = camera * model.pixels + first, camera * model.padded + first
                count = min(size, model.pixels - first)
                if not in_place:
                    copy(self.host_frame[camera, first : first + count], image[camera, first : first + count])
                runtime.memcpyAsync(self.frame.data.ptr + each * there, address + each * here, each * count, UP, up.ptr)
                if model.by_pixel:
                    self._follow(self.uploaded, up, work)
                    model.pixels_step(self.frame, self.mask, there, count, numbers)
                    self._download(here, there, count)
            if not model.by_pixel:
                self._follow(self.uploaded, up, work)
                model.step(self.frame, learn, forgetting, self.mask)
                for camera in range(len(image)):
                    self._download(camera * model.pixels, camera * model.padded, model.pixels)
            self.computed.record(work)
        self.downloaded.record(down)

    def _download(self, here: int, there: int, count: int) -> None:
        _, work, down = self.model.streams
        self._follow(self.computed, work, down)
        address = self.host_mask.ctypes.data + here
        self.model.cp.cuda.runtime.memcpyAsync(address, self.mask.data.ptr + there, count, DOWN, down.ptr)

    @staticmethod
    def _follow(event: Any, one: Any, other: Any) -> None:
        """What is queued on the other stream from now on waits for what is queued on this one."""
        event.record(one)
        other.wait_event(event)

    def finished(self) -> np.ndarray:
        """The masks, (cameras, pixels), in pinned memory."""
        self.downloaded.synchronize()
        return self.host_mask
