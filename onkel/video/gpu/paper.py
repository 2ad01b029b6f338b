"""The paper's rules on the card: one fused kernel that is bound by memory."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from onkel.video.gpu import Gpu, kernels
from onkel.video.settings import Settings

RANGE = 2.0  # a packed coefficient may grow to this multiple of the cap before all are scaled back


class Exact(Gpu):
    """SILK or truncated NORMA for every pixel; see packed.cu, and floats.cu for `float32` frames."""

    def __init__(self, settings: Settings, cameras: int, height: int, width: int, channels: int, dtype: np.dtype):
        super().__init__(settings, cameras, height, width, channels, dtype)
        cp, budget = self.cp, settings.budget
        self.reach = 0.0
        self.packed = self.dtype == np.uint8
        self.kernel = cache(kernels(("packed" if self.packed else "floats", "median"), budget, channels, self.dtype).get_function)
        per_sector = 7 if channels == 3 else 10
        self.state = (
            cp.zeros((-(-budget // per_sector), self.total, 8), cp.uint32)
            if self.packed
            else cp.zeros((budget, channels + 1, self.total), cp.float32)
        )
        self.unit = RANGE * settings.C / 4095.0 if self.packed else 1.0

    @property
    def by_pixel(self) -> bool:
        return not self.settings.median

    def step(self, frame: Any, learn: bool, forgetting: float | None = None, out: Any = None) -> Any:
        out = self.out if out is None else out
        numbers = self.begin(learn, forgetting)
        self.pixels_step(frame, self.raw if self.settings.median else out, 0, self.total, numbers)
        if self.settings.median:
            cameras, height, width, _ = self.shape
            sizes = np.int32(height), np.int32(width), np.int64(self.padded)
            self.kernel("median5")((-(-width // 128), height, cameras), (128,), (self.raw, out, *sizes))
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

    def background(self) -> np.ndarray:
        cp, (cameras, _, _, channels) = self.cp, self.shape
        if self.packed:
            colours = cp.empty((cameras, self.padded, channels), cp.uint8)
            self.kernel("strongest")(*self.grid(self.total), (self.state, colours, np.uint64(self.total)))
            return self.images(colours)
        best = self.state[:, -1].argmax(0)
        colours = cp.take_along_axis(self.state[:, :-1], best[None, None, :], 0)[0].T
        return self.images(colours.reshape(cameras, self.padded, channels))

    def arrays(self) -> dict[str, Any]:
        return {"state": self.state}

    def scalars(self) -> dict[str, float]:
        return {"scale": self.scale, "reach": self.reach, "frames": self.frames}
