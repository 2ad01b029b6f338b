"""The same rules on a GPU, with CuPy; CUDA C compiled on first use. Nothing here is imported unless backend="gpu".

The paper's rules run as ONE fused kernel that is bound by memory, so the state of `uint8` frames is packed: a colour takes 3
bytes, a coefficient 12 bits, and seven slots of a pixel share a sector of 32 bytes (see `cuda.py`). Host frames go through
pinned memory, filled by all cores; upload, kernel and download overlap, band by band or frame by frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numba
import numpy as np

from onkel.video.cpu.fold import BOOST, CALM, LIGHT_SHARE, LOST_SHARE, SHADES, THETA_RANGE
from onkel.video.cpu.light import DARKEST, LIGHTEST, MILD, REACH, ROWS, SAMPLES
from onkel.video.gpu.cuda import EXACT, EXACT_FLOAT, FOLD, MEDIAN
from onkel.video.settings import Settings

RANGE = 2.0  # a packed coefficient may grow to this multiple of the cap before all are scaled back
PINNED, UP, DOWN = 1, 1, 2  # cudaMemoryTypeHost, cudaMemcpyHostToDevice and back
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
def kernels(source: str, slots: int, channels: int, dtype: np.dtype) -> Any:
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


@numba.njit(parallel=True, nogil=True, cache=True)
def _copy_in_parts(target, source, parts):
    for i in numba.prange(parts):
        first, last = target.size * i // parts, target.size * (i + 1) // parts
        target[first:last] = source[first:last]


@cache
def _many_copy() -> bool:
    """Whether several threads may copy: some of Numba's thread pools end the program when two threads call them at once."""
    if numba.get_num_threads() < 2:
        return False
    _copy_in_parts(np.zeros(2, np.uint8), np.zeros(2, np.uint8), 2)
    return numba.threading_layer() in ("omp", "tbb")


def copy(target: np.ndarray, source: np.ndarray) -> None:
    """Contiguous arrays of equal size, by all cores when they are large."""
    if target.nbytes > 1 << 20 and _many_copy():
        _copy_in_parts(target.reshape(-1), source.reshape(-1), numba.get_num_threads())
    else:
        np.copyto(target.reshape(-1), source.reshape(-1))


class Gpu:
    """One model for all cameras; frames are (cameras, height, width, channels), on the host or on the device."""

    def __init__(self, settings: Settings, cameras: int, height: int, width: int, channels: int, dtype: np.dtype):
        self.cp = cp = cupy()
        self.settings, self.shape, self.dtype = settings, (cameras, height, width, channels), np.dtype(dtype)
        self.pixels = height * width
        self.padded = -(-self.pixels // 64) * 64  # of one camera
        self.total = cameras * self.padded
        self.raw, self.out = cp.zeros((2, cameras, self.padded), cp.uint8)
        self.score = cp.zeros((cameras, self.padded), cp.float32)
        self.keep_scores = True
        self.scale, self.frames, self.reach = 1.0, 0, 0.0
        self.lanes: list[Lane] = []
        budget = settings.budget
        self.folding = settings.rule == "fold"
        self.packed = not self.folding and self.dtype == np.uint8
        self.by_pixel = not self.folding and not settings.median  # no pixel looks at its neighbours
        source = FOLD if self.folding else (EXACT if self.packed else EXACT_FLOAT) + MEDIAN
        self.kernel = cache(kernels(source, budget, channels, self.dtype).get_function)
        if not self.folding:
            per_sector = 7 if channels == 3 else 10
            self.state = (
                cp.zeros((-(-budget // per_sector), self.total, 8), cp.uint32)
                if self.packed
                else cp.zeros((budget, channels + 1, self.total), cp.float32)
            )
            self.unit = RANGE * settings.C / 4095.0 if self.packed else 1.0
            return
        self.points = cp.zeros((budget, channels, self.total), self.dtype)
        self.coef = cp.zeros((budget, self.total), cp.float32)
        self.unrest, self.previous = cp.zeros((2, cameras, self.padded), cp.uint8)
        self.reference = cp.zeros((cameras, self.padded, channels), self.dtype)
        rows = max(2, min(ROWS, height // SAMPLES))
        self.tiles = rows, max(2, min(round(rows * width / height), width // SAMPLES))
        self.gain = cp.zeros((cameras, *self.tiles), cp.float32)
        self.medians = cp.zeros((cameras, 2, *self.tiles), cp.float32)
        self.alarms, self.explained, self.known = cp.zeros((3, cameras, *self.tiles), cp.int32)
        self.counts = cp.zeros((cameras, 3), cp.int32)
        theta = 0.6 * settings.rho if settings.threshold is None else settings.threshold
        self.control = cp.tile(cp.array([theta, 0.0, 0.0, 0.0], cp.float32), (cameras, 1))

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
        out = self.out if out is None else out
        if self.folding:
            self._fold(frame, out, learn, forgetting)
            return out
        numbers = self.begin(learn, forgetting)
        self.pixels_step(frame, self.raw if self.settings.median else out, 0, self.total, numbers)
        if self.settings.median:
            cameras, height, width, _ = self.shape
            self.kernel("median5")(
                (-(-width // 128), height, cameras),
                (128,),
                (self.raw, out, np.int32(height), np.int32(width), np.int64(self.padded)),
            )
        return out

    def begin(self, learn: bool, forgetting: float | None) -> tuple[Any, ...]:
        """The numbers that the kernel of the paper's rules needs for the next frame; the decay moves on."""
        s, f4 = self.settings, np.float32
        shrink, cap = s.step(forgetting)
        implicit = s.rule == "silk"
        if learn and self.packed and self.scale * shrink * RANGE < 1.0:  # the next coefficient would not fit its 12 bits
            factor = self.scale if implicit or shrink * RANGE >= 1.0 else self.scale * shrink
            sectors = self.state.size // 8
            self.kernel("rescale")((-(-sectors // 256),), (256,), (self.state, np.uint64(sectors), f4(factor)))
            self.scale /= factor
        elif learn and self.scale < 1e-6:
            self.state[:, -1] *= f4(self.scale)
            self.scale = 1.0
        worth = self.scale * self.unit * (4096.0 if self.packed else 1.0)
        threshold = s.threshold * min(1.0, self.reach / s.rho)
        numbers = (
            f4(-s.sharpness),
            f4(worth),
            f4(worth * shrink),
            f4(1.0 / (self.scale * shrink * self.unit)),
            f4(cap),
            f4(s.rho),
            f4(threshold),
            np.int32(implicit),
            np.int32(learn),
        )
        if learn:
            self.frames += 1
            self.reach = shrink * self.reach + (
                min(max(s.rho - shrink * self.reach, 0.0), cap) if implicit else cap * (self.reach < s.rho)
            )
            self.scale *= shrink
        return numbers

    def pixels_step(self, frame: Any, out: Any, first: int, count: int, numbers: tuple[Any, ...]) -> None:
        """The paper's rules for some of the pixels."""
        score = self.score if self.keep_scores else np.uint64(0)
        span = (np.uint64(first), np.uint64(count), np.uint64(self.total))
        self.kernel("exact_step")((-(-count // 256),), (256,), (frame, self.state, score, out, *span, *numbers))

    def _fold(self, frame: Any, out: Any, learn: bool, forgetting: float | None) -> None:
        s, f4, i4, i8 = self.settings, np.float32, np.int32, np.int64
        cameras, height, width, channels = self.shape
        if self.frames == 0:
            out[...] = 0
            if learn:
                self.points[0] = frame.transpose(2, 0, 1).reshape(channels, self.total)
                self.coef[0], self.score[...], self.reference[...], self.frames = s.rho, s.rho, frame, 1
                self.control[:, 1] = 1.0
            return
        get = self.kernel
        shrink, cap = s.step(forgetting)
        rows, cols = self.tiles
        grid, wide = (-(-width // 128), height, cameras), (128,)
        size = (i4(height), i4(width), i4(rows), i4(cols), i8(self.padded))
        next_scale = self.scale * shrink
        variance = f4(2.0 * s.sigma**2)
        get("fold_step")(
            (-(-self.total // 256),),
            (256,),
            (
                frame,
                self.points,
                self.coef,
                self.unrest,
                self.previous,
                self.control,
                self.score,
                self.raw,
                i8(self.padded),
                i8(self.total),
                f4(-s.sharpness),
                f4(self.scale),
                f4(shrink),
                f4(cap),
                f4(s.slow),
                f4(SHADES),
                f4(BOOST),
                f4(s.rho),
                f4(s.fold),
                f4(s.move),
                f4(s.unrest / 255.0),
                f4(0.005 * s.rho / next_scale),
                i4((self.frames + 1) % 64),
                i8(self.padded // 64),
                i4(learn),
            ),
        )
        get("light_map")(
            (cameras,),
            (256,),
            (frame, self.reference, self.gain, self.medians, self.alarms, self.explained, self.known, self.counts, *size),
        )
        if s.light:
            get("explain")(
                grid,
                wide,
                (
                    frame,
                    self.reference,
                    self.previous,
                    self.gain,
                    self.control,
                    self.raw,
                    self.alarms,
                    self.explained,
                    self.known,
                    *size,
                    variance,
                    f4(s.rho),
                ),
            )
            get("accept")(
                grid,
                wide,
                (
                    frame,
                    self.points,
                    self.coef,
                    self.raw,
                    self.gain,
                    self.alarms,
                    self.explained,
                    self.known,
                    self.counts,
                    *size,
                    i8(self.total),
                    f4(-s.sharpness),
                    f4(s.fold),
                    f4(s.rho / next_scale),
                    i4(learn),
                ),
            )
        get("settle")(
            grid,
            wide,
            (
                frame,
                self.raw,
                out,
                self.unrest,
                self.previous,
                self.reference,
                self.control,
                self.counts,
                i4(height),
                i4(width),
                i8(self.padded),
                variance,
                f4(s.rho),
                i4(s.light),
                i4(7),
                i4(s.median),
                i4(learn),
            ),
        )
        if not learn:
            return
        low, high = (s.rho * v for v in THETA_RANGE)
        get("finish")(
            (-(-cameras // 64),),
            (64,),
            (
                self.control,
                self.counts,
                i4(cameras),
                f4(self.pixels),
                f4(s.nu),
                f4(low),
                f4(high),
                i4(s.threshold is None and s.nu > 0),
                f4(LIGHT_SHARE),
                f4(LOST_SHARE),
                f4(CALM),
            ),
        )
        self.frames += 1
        self.scale = next_scale
        if self.scale < 1e-6:
            self.coef *= f4(self.scale)
            self.scale = 1.0

    def scores(self) -> np.ndarray:
        cameras, height, width, _ = self.shape
        return self.cp.asnumpy(self.score[:, : self.pixels]).reshape(cameras, height, width)

    def background(self) -> np.ndarray:
        cp, (cameras, _, _, channels) = self.cp, self.shape
        if self.packed:
            colours = cp.empty((cameras, self.padded, channels), cp.uint8)
            self.kernel("strongest")((-(-self.total // 256),), (256,), (self.state, colours, np.uint64(self.total)))
        else:
            points, coef = (self.points, self.coef) if self.folding else (self.state[:, :-1], self.state[:, -1])
            best = coef.argmax(0)
            colours = cp.take_along_axis(points, best[None, None, :], 0)[0].T.reshape(cameras, self.padded, channels)
        return cp.asnumpy(colours[:, : self.pixels]).reshape(self.shape)

    def arrays(self) -> dict[str, Any]:
        names = ["points", "coef", "unrest", "previous", "reference", "control"] if self.folding else ["state"]
        return {name: getattr(self, name) for name in names}

    def scalars(self) -> dict[str, float]:
        return {"scale": self.scale, "reach": self.reach, "frames": self.frames}


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
