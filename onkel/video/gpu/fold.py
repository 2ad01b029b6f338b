"""The default rule's first generation on the card; see fold.cu."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from onkel.video.cpu.fold import BOOST, CALM, LIGHT_SHARE, LOST_SHARE, SHADES, THETA_RANGE
from onkel.video.cpu.light import ROWS, SAMPLES
from onkel.video.gpu import Gpu, kernels
from onkel.video.settings import Settings

f4, i4, i8 = np.float32, np.int32, np.int64


class Fold(Gpu):
    """The twin of `cpu.fold.Fold1`, its steps one kernel each."""

    def __init__(self, settings: Settings, cameras: int, height: int, width: int, channels: int, dtype: np.dtype):
        super().__init__(settings, cameras, height, width, channels, dtype)
        cp, budget = self.cp, settings.budget
        self.kernel = cache(kernels(("fold",), budget, channels, self.dtype).get_function)
        self.points = cp.zeros((budget, channels, self.total), self.dtype)
        self.coef = cp.zeros((budget, self.total), cp.float32)
        self.unrest, self.previous = cp.zeros((2, cameras, self.padded), cp.uint8)
        self.reference = cp.zeros((cameras, self.padded, channels), self.dtype)
        rows = max(2, min(ROWS, height // SAMPLES))
        cols = max(2, min(round(rows * width / height), width // SAMPLES))
        self.gain = cp.zeros((cameras, rows, cols), cp.float32)
        self.medians = cp.zeros((cameras, 2, rows, cols), cp.float32)
        self.tiles = cp.zeros((3, cameras, rows, cols), cp.int32)  # alarms, those explained, known objects
        self.counts = cp.zeros((cameras, 3), cp.int32)
        theta = 0.6 * settings.rho if settings.threshold is None else settings.threshold
        self.control = cp.tile(cp.array([theta, 0.0, 0.0, 0.0], cp.float32), (cameras, 1))
        self.rows = (-(-width // 128), height, cameras), (128,)
        self.sizes = i4(height), i4(width), i4(rows), i4(cols), i8(self.padded)
        self.variance, self.rho = f4(2.0 * settings.sigma**2), f4(settings.rho)

    def step(self, frame: Any, learn: bool, forgetting: float | None = None, out: Any = None) -> Any:
        out = self.out if out is None else out
        if self.frames == 0:
            out[...] = 0
            if learn:
                self.start(frame)
            return out
        shrink, cap = self.settings.step(forgetting)
        following = self.scale * shrink
        self.learn(frame, shrink, cap, following, learn)
        self.judge_light(frame, following, learn)
        self.settle(frame, out, learn)
        if learn:
            self.frames += 1
            self.scale = following
            if self.scale < 1e-6:
                self.coef *= f4(self.scale)
                self.scale = 1.0
        return out

    def start(self, frame: Any) -> None:
        """The first frame is background."""
        rho = self.settings.rho
        self.points[0] = frame.transpose(2, 0, 1).reshape(self.shape[3], self.total)
        self.coef[0], self.score[...], self.reference[...], self.frames = rho, rho, frame, 1
        self.control[:, 1] = 1.0

    def learn(self, frame: Any, shrink: float, cap: float, following: float, learn: bool) -> None:
        """Scores, raw alarms, and the update of every pixel."""
        s = self.settings
        state = self.points, self.coef, self.unrest, self.previous, self.control, self.score, self.raw
        decay = f4(-s.sharpness), f4(self.scale), f4(shrink)
        rule = f4(cap), f4(s.slow), f4(SHADES), f4(BOOST), self.rho, f4(s.fold), f4(s.move), f4(s.unrest / 255.0)
        tidy = f4(0.005 * s.rho / following), i4((self.frames + 1) % 64), i8(self.padded // 64)
        spans = i8(self.padded), i8(self.total)
        self.kernel("fold_step")(*self.grid(self.total), (frame, *state, *spans, *decay, *rule, *tidy, i4(learn)))

    def judge_light(self, frame: Any, following: float, learn: bool) -> None:
        """Take back what light explains, and learn it."""
        s, get, cameras, seen = self.settings, self.kernel, self.shape[0], (frame, self.reference)
        get("light_map")((cameras,), (256,), (*seen, self.gain, self.medians, *self.tiles, self.counts, *self.sizes))
        if not s.light:
            return
        objects = self.previous, self.gain, self.control, self.raw
        get("explain")(*self.rows, (*seen, *objects, *self.tiles, *self.sizes, self.variance, self.rho))
        state = self.points, self.coef, self.raw, self.gain, *self.tiles, self.counts
        rule = i8(self.total), f4(-s.sharpness), f4(s.fold), f4(s.rho / following), i4(learn)
        get("accept")(*self.rows, (frame, *state, *self.sizes, *rule))

    def settle(self, frame: Any, out: Any, learn: bool) -> None:
        """The median, the lesson of false alarms, and the threshold of the next frame."""
        s, cameras = self.settings, self.shape[0]
        state = self.unrest, self.previous, self.reference, self.control, self.counts
        height, width, *_, padded = self.sizes
        rule = self.variance, self.rho, i4(s.light), i4(7), i4(s.median), i4(learn)
        self.kernel("settle")(*self.rows, (frame, self.raw, out, *state, height, width, padded, *rule))
        if learn:
            low, high = (f4(s.rho * v) for v in THETA_RANGE)
            aim = f4(s.nu), low, high, i4(s.threshold is None and s.nu > 0)
            limits = f4(LIGHT_SHARE), f4(LOST_SHARE), f4(CALM)
            numbers = i4(cameras), f4(self.pixels), *aim, *limits
            self.kernel("finish")((-(-cameras // 64),), (64,), (self.control, self.counts, *numbers))

    def background(self) -> np.ndarray:
        best = self.coef.argmax(0)
        colours = self.cp.take_along_axis(self.points, best[None, None, :], 0)[0].T
        return self.images(colours.reshape(self.shape[0], self.padded, self.shape[3]))

    def arrays(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("points", "coef", "unrest", "previous", "reference", "control")}

    def scalars(self) -> dict[str, float]:
        return {"scale": self.scale, "reach": 0.0, "frames": self.frames}
