"""The same rules on a GPU, with CuPy; CUDA C compiled on first use. Nothing here is imported unless backend="gpu".

The paper's rules run as ONE fused kernel that is bound by memory, so the state is packed: a colour takes 3 bytes, a
coefficient 16 bits of fixed point, 5 bytes a slot instead of 7. One thread owns four neighbouring pixels; words of four
pixels are read at a time, and squared distances come from `dp4a` (four products in one instruction).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

from .cuda import EXACT, FOLD
from .fold import BOOST, DARKEST, LIGHT_SHARE, LIGHTEST, LOST_SHARE, MILD, REACH, ROWS, SAMPLES, SHADES, THETA_RANGE
from .settings import Settings

RANGE = 4.0  # a stored coefficient may grow to this multiple of the cap before all are scaled back


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
def kernels(source: str, slots: int, channels: int) -> Any:
    flags = (
        "--std=c++14",
        f"-DSLOTS={slots}",
        f"-DCHANNELS={channels}",
        f"-DSAMPLES={SAMPLES}",
        f"-DREACH={REACH}",
        f"-DDARKEST={DARKEST}f",
        f"-DLIGHTEST={LIGHTEST}f",
        f"-DMILD={MILD}f",
    )
    return cupy().RawModule(code=source, options=flags)


class Gpu:
    """One model for all cameras; frames are (cameras, height, width, channels) uint8, on the host or on the device."""

    def __init__(self, settings: Settings, cameras: int, height: int, width: int, channels: int, dtype: np.dtype):
        if np.dtype(dtype) != np.uint8:
            raise ValueError(f"backend='gpu' takes uint8 frames, given {dtype}: convert them, or use backend='cpu'")
        self.cp = cp = cupy()
        self.settings, self.shape = settings, (cameras, height, width, channels)
        self.pixels = height * width
        self.padded = -(-self.pixels // 64) * 64  # of one camera
        self.total = cameras * self.padded
        self.frame = cp.zeros((cameras, self.padded, channels), cp.uint8)
        self.raw, self.out = cp.zeros((2, cameras, self.padded), cp.uint8)
        self.score = cp.zeros((cameras, self.padded), cp.float32)
        self.keep_scores = True
        self.scale, self.frames, self.reach = 1.0, 0, 0.0
        budget = settings.budget
        self.folding = settings.rule == "fold"
        self.module = kernels(EXACT, budget, channels)
        self.points = cp.zeros((budget, channels, self.total), cp.uint8)
        if not self.folding:
            self.coef = cp.zeros((budget, self.total), cp.uint16)
            self.unit = RANGE * settings.C / 65535.0
            return
        self.fold_module = kernels(FOLD, budget, channels)
        self.coef = cp.zeros((budget, self.total), cp.float32)
        self.unrest, self.previous = cp.zeros((2, cameras, self.padded), cp.uint8)
        self.reference = cp.zeros_like(self.frame)
        rows = max(2, min(ROWS, height // SAMPLES))
        self.tiles = rows, max(2, min(round(rows * width / height), width // SAMPLES))
        self.gain = cp.zeros((cameras, *self.tiles), cp.float32)
        self.alarms, self.explained, self.known = cp.zeros((3, cameras, *self.tiles), cp.int32)
        self.counts = cp.zeros((cameras, 3), cp.int32)
        theta = 0.6 * settings.rho if settings.threshold is None else settings.threshold
        self.control = cp.tile(cp.array([theta, 0.0], cp.float32), (cameras, 1))

    def apply(self, frames: Any, out: np.ndarray, learn: bool, forgetting: float | None) -> None:
        """Host frames in, host masks out, waiting for both."""
        cameras, _, _, channels = self.shape
        flat = frames.reshape(cameras, self.pixels, channels)
        self.frame[:, : self.pixels] = flat if isinstance(flat, self.cp.ndarray) else self.cp.asarray(flat)
        self.step(self.frame, learn, forgetting)
        out[...] = self.cp.asnumpy(self.out[:, : self.pixels]).reshape(out.shape)

    def step(self, frame: Any, learn: bool, forgetting: float | None = None) -> Any:
        """One frame of every camera, already on the device as (cameras, padded, channels); the masks stay there too."""
        if self.folding:
            self._fold(frame, learn, forgetting)
        else:
            self._exact(frame, learn, forgetting)
        return self.out

    def _exact(self, frame: Any, learn: bool, forgetting: float | None) -> None:
        s, f4 = self.settings, np.float32
        cameras, height, width, _ = self.shape
        shrink, cap = s.step(forgetting)
        if learn and self.scale * shrink * RANGE < 1.0:  # the next coefficient would no longer fit its 16 bits
            self.module.get_function("rescale")((2048,), (256,), (self.coef, np.int64(self.coef.size), f4(self.scale)))
            self.scale = 1.0
        groups = self.total // 4
        threshold = s.threshold * min(1.0, self.reach / s.rho)
        implicit = s.rule == "silk"
        target = self.raw if s.median else self.out
        self.module.get_function("exact_step")(
            (-(-groups // 256),),
            (256,),
            (
                frame,
                self.points,
                self.coef,
                self.score if self.keep_scores else np.uint64(0),
                target,
                np.int64(groups),
                f4(-s.sharpness),
                f4(self.scale * self.unit),
                f4(self.scale * self.unit * shrink),
                f4(1.0 / (self.scale * shrink * self.unit)),
                f4(cap),
                f4(s.rho),
                f4(threshold),
                np.int32(implicit),
                np.int32(learn),
            ),
        )
        if s.median:
            self.module.get_function("median5")(
                (-(-width // 128), height, cameras),
                (128,),
                (self.raw, self.out, np.int32(height), np.int32(width), np.int64(self.padded)),
            )
        if not learn:
            return
        self.frames += 1
        self.reach = shrink * self.reach + (
            min(max(s.rho - shrink * self.reach, 0.0), cap) if implicit else cap * (self.reach < s.rho)
        )
        self.scale *= shrink

    def _fold(self, frame: Any, learn: bool, forgetting: float | None) -> None:
        s, f4, i4, i8 = self.settings, np.float32, np.int32, np.int64
        cameras, height, width, channels = self.shape
        if self.frames == 0:
            self.out[...] = 0
            if learn:
                self.points[0] = frame.transpose(2, 0, 1).reshape(channels, self.total)
                self.coef[0], self.score[...], self.reference[...], self.frames = s.rho, s.rho, frame, 1
                self.control[:, 1] = 1.0
            return
        get = self.fold_module.get_function
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
            (frame, self.reference, self.gain, self.alarms, self.explained, self.known, self.counts, *size),
            shared_mem=8 * rows * cols,
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
                self.out,
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
            ),
        )
        self.frames += 1
        self.scale = next_scale
        if self.scale < 1e-6:
            self.coef *= f4(self.scale)
            self.scale = 1.0

    def stream(self, frames: Iterable[np.ndarray], depth: int = 3) -> Iterator[np.ndarray]:
        """Masks of many host frames, with upload, kernel and download overlapped through pinned buffers.

        A yielded mask is a view that stays valid until `depth` - 1 more masks have been taken.
        """
        cp, (cameras, _, _, channels) = self.cp, self.shape
        up, work, down = (cp.cuda.Stream(non_blocking=True) for _ in range(3))
        lanes = [Lane(self) for _ in range(depth)]
        waiting: list[Lane] = []
        for i, image in enumerate(frames):
            lane = lanes[i % depth]
            if len(waiting) == depth:
                yield waiting.pop(0).finished()
            lane.host_frame[:, : self.pixels] = np.asarray(image, np.uint8).reshape(cameras, self.pixels, channels)
            lane.send(up, work, down)
            waiting.append(lane)
        for lane in waiting:
            yield lane.finished()

    def stream_pinned(self, frames: list[np.ndarray], count: int, depth: int = 3) -> float:
        """Seconds per frame when the frames already lie in pinned memory (a capture card's buffers): no staging copy."""
        from time import perf_counter

        up, work, down = (self.cp.cuda.Stream(non_blocking=True) for _ in range(3))
        lanes = [Lane(self) for _ in range(depth)]
        for lane, frame in zip(lanes, frames, strict=False):
            lane.host_frame[:, : self.pixels] = frame.reshape(self.shape[0], self.pixels, -1)
        self.cp.cuda.Device().synchronize()
        begin = perf_counter()
        for i in range(count):
            lane = lanes[i % depth]
            if lane.used:
                lane.downloaded.synchronize()
            lane.send(up, work, down)
        self.cp.cuda.Device().synchronize()
        return (perf_counter() - begin) / count

    def scores(self) -> np.ndarray:
        cameras, height, width, _ = self.shape
        return self.cp.asnumpy(self.score[:, : self.pixels]).reshape(cameras, height, width)

    def background(self) -> np.ndarray:
        cp, (cameras, _, _, channels) = self.cp, self.shape
        if self.folding:
            points, coef = self.points, self.coef
        else:  # words of four pixels back to single ones
            words = self.points.reshape(self.settings.budget, channels, self.total // 4, 4)
            points = words.transpose(0, 2, 1, 3).reshape(self.settings.budget, self.total, channels).transpose(0, 2, 1)
            coef = self.coef
        best = coef.argmax(0)
        colours = cp.take_along_axis(points, best[None, None, :], 0)[0].T.reshape(cameras, self.padded, channels)
        return cp.asnumpy(colours[:, : self.pixels]).reshape(self.shape)

    def arrays(self) -> dict[str, Any]:
        names = ["points", "coef"] + (["unrest", "previous", "reference", "control"] if self.folding else [])
        return {name: getattr(self, name) for name in names}

    def scalars(self) -> dict[str, float]:
        return {"scale": self.scale, "reach": self.reach, "frames": self.frames}


class Lane:
    """Pinned and device buffers for one frame under way."""

    def __init__(self, model: Gpu):
        cp = model.cp

        def pinned(shape: tuple[int, ...]) -> np.ndarray:
            size = int(np.prod(shape))
            return np.frombuffer(cp.cuda.alloc_pinned_memory(size), np.uint8, size).reshape(shape)

        self.frame, self.mask = cp.zeros_like(model.frame), cp.zeros_like(model.out)
        self.host_frame, self.host_mask = pinned(model.frame.shape), pinned(model.out.shape)
        self.uploaded, self.computed, self.downloaded = (cp.cuda.Event(disable_timing=True) for _ in range(3))
        self.model, self.used = model, False

    def send(self, up: Any, work: Any, down: Any) -> None:
        """Queue upload, kernel and download of this lane's frame on three streams."""
        if self.used:
            up.wait_event(self.computed)
            work.wait_event(self.downloaded)
        self.frame.set(self.host_frame, stream=up)
        self.uploaded.record(up)
        work.wait_event(self.uploaded)
        with work:
            self.mask[...] = self.model.step(self.frame, True)
            self.computed.record(work)
        down.wait_event(self.computed)
        self.mask.get(stream=down, out=self.host_mask, blocking=False)
        self.downloaded.record(down)
        self.used = True

    def finished(self) -> np.ndarray:
        self.downloaded.synchronize()
        cameras, height, width, _ = self.model.shape
        mask = self.host_mask[:, : self.model.pixels].reshape(cameras, height, width)
        return mask[0] if cameras == 1 else mask
