"""The paper's rule for every pixel of a frame, on the CPU: blocks of 64 pixels, SIMD over pixels.

State of a block of 64 pixels, slots outside and pixels inside so that every inner loop is a vector operation:
`points[block, slot, channel, 64]` in the frame's own type and `coef[block, slot, 64]` in float32. The decay is the same for
all pixels, so it is ONE scalar for the image: the true coefficient is `scale * coef`, and a pixel that does not update writes
nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onkel.core.machine.compiled import compiled
from onkel.core.machine.memory import prefetch
from onkel.video.cpu.crew import Crew, claim, report
from onkel.video.settings import Settings

LANES = 64
GRAIN = 64  # blocks that a thread takes at a time
_ROUND = np.float32(12582912.0)  # 1.5 * 2^23: adding and subtracting it rounds to an integer, left in the low bits
# 2^r on [-1/2, 1/2], minimax of degree 4, relative error below 3e-6
_E0, _E1, _E2, _E3, _E4 = (np.float32(c) for c in (0.999999281, 0.693121575, 0.240247236, 0.0559190723, 0.00957080384))


@compiled(inline="always")
def bell(sharpness):
    """What `gauss` needs to know: 2^(-sharpness d) = 2^-n p(d - n / sharpness) with a polynomial p of degree 4."""
    s = np.float32(-sharpness)
    return s, np.float32(1.0 / sharpness), _E1 * s, _E2 * s * s, _E3 * s * s * s, _E4 * s * s * s * s


@compiled(inline="always")
def gauss(distance, curve):
    """2^(-sharpness distance) in float32: the integer part of the exponent goes straight into the exponent bits."""
    steep, unit, c1, c2, c3, c4 = curve
    m = distance * steep + _ROUND
    r = distance + (m - _ROUND) * unit
    p = _E0 + r * (c1 + r * (c2 + r * (c3 + r * c4)))
    bits = np.int32(np.float32(p).view(np.int32) + np.int32(np.float32(m).view(np.int32) << np.int32(23)))
    return np.int32(bits).view(np.float32)


@compiled(inline="always")
def square(kind, p, x):
    """(p - x)^2 in the type `kind`: exact in uint16 for bytes, where the wrap of a negative difference squares away."""
    d = kind(kind(p) - x)
    return kind(d * d)


@compiled(inline="always")
def plus(kind, a, b):
    """a + b >= 0; in uint16 what does not fit stays at the top."""
    total = kind(a + b)
    return total if total >= a else kind(65535)


@compiled(inline="always")
def distance3(points, block, s, i, x, far):
    """min(|p_s - x|^2, far) of lane i, three channels, computed in the type of x."""
    kind = x.dtype.type
    d = plus(kind, square(kind, points[block, s, 0, i], x[0, i]), square(kind, points[block, s, 1, i], x[1, i]))
    return np.float32(min(plus(kind, d, square(kind, points[block, s, 2, i], x[2, i])), far))


@compiled(inline="always")
def distance1(points, block, s, i, x, far):
    """min((p_s - x)^2, far) of lane i, one channel."""
    return np.float32(min(square(x.dtype.type, points[block, s, 0, i], x[0, i]), far))


@compiled(inline="always")
def fetch_slots(points, coef, block, slots):
    """Prefetch the first slots of a block: only some are in use, and hardware does not guess across the gaps."""
    begin, size = np.int64(points.ctypes.data) + block * points.strides[0], slots * points.strides[1]
    for line in range(0, size, 64):
        prefetch(begin + line)
    begin, size = np.int64(coef.ctypes.data) + block * coef.strides[0], slots * coef.strides[1]
    for line in range(0, size, 64):
        prefetch(begin + line)


@compiled(inline="always")
def tagged(a, s, slot_mask):
    """The bits of a >= 0, ordered like a, with the slot number in the low bits: a minimum over them is an argmin."""
    return np.int32(np.int32(np.float32(a).view(np.int32) & slot_mask) | np.int32(s))


@compiled(inline="always")
def load_block(frame, block, x):
    """Spread 64 interleaved pixels into the planes x[channel, 64]."""
    if frame.shape[2] == 3:
        for i in range(LANES):
            x[0, i] = frame[block, i, 0]
            x[1, i] = frame[block, i, 1]
            x[2, i] = frame[block, i, 2]
    else:
        for i in range(LANES):
            x[0, i] = frame[block, i, 0]


class Scratch(NamedTuple):
    """What one thread works in: a block's colours in planes, and numbers of its 64 pixels."""

    x: np.ndarray
    acc: np.ndarray
    low: np.ndarray
    near: np.ndarray
    pull: np.ndarray


class PaperRule(NamedTuple):
    """The numbers of one frame."""

    sharpness: float
    far: np.generic
    scale: float
    shrink: float
    cap: float
    rho: float
    implicit: bool
    threshold: float


@compiled(fastmath={"contract"})
def step(frame, turns, points, coef, rule, learn, scores, mask, scratch, slot_mask):
    """One frame, its blocks in turns with other threads: f = scale * sum_i coef_i 2^(-sharpness |p_i - x|^2), then the update.

    f <- shrink f + a k(x, .),   a = clip(rho - shrink f, 0, cap)  (implicit, SILK)   or   cap 1[f < rho]  (explicit, NORMA).
    The smallest coefficient leaves; the new one competes. Under NORMA all coefficients are born equal, so the smallest is
    the oldest. The argmin is one integer min over `bits(coef) with the slot number in the low bits`.
    """
    slots, channels = points.shape[1], points.shape[2]
    x, acc, key, lanes, far = scratch.x, scratch.acc, scratch.low, scratch.near, rule.far
    curve, zero = bell(rule.sharpness), np.float32(0.0)
    scale32, shrunk = np.float32(rule.scale), np.float32(rule.scale * rule.shrink)
    grow = np.float32(1.0 / (rule.scale * rule.shrink))  # a coefficient born now is stored as a * grow
    rho32, cap32, limit = np.float32(rule.rho), np.float32(rule.cap), np.float32(rule.threshold)
    blocks, first = coef.shape[0], claim(turns, GRAIN)
    while first < blocks:
        last = min(first + GRAIN, blocks)
        for block in range(first, last):
            load_block(frame, block, x)
            for i in range(LANES):
                acc[i] = zero
                key[i] = np.int32(0x7FFFFFFF)
            if channels == 3:
                for s in range(slots):
                    for i in range(LANES):
                        a = coef[block, s, i]
                        acc[i] += a * gauss(distance3(points, block, s, i, x, far), curve)
                        key[i] = min(key[i], tagged(a, s, slot_mask))
            else:
                for s in range(slots):
                    for i in range(LANES):
                        a = coef[block, s, i]
                        acc[i] += a * gauss(distance1(points, block, s, i, x, far), curve)
                        key[i] = min(key[i], tagged(a, s, slot_mask))
            for i in range(LANES):
                f = scale32 * acc[i]
                scores[block, i] = f
                mask[block, i] = np.uint8(255) if f < limit else np.uint8(0)
            if not learn:
                continue
            for i in range(LANES):
                if rule.implicit:
                    a = min(max(rho32 - shrunk * acc[i], zero), cap32) * grow
                else:
                    a = cap32 * grow if scale32 * acc[i] < rho32 else zero
                smallest = np.int32(key[i] & slot_mask).view(np.float32)
                acc[i] = a if a >= smallest else zero
            count = 0  # few lanes update: list them without a branch, which would be guessed wrong too often
            for i in range(LANES):
                lanes[count] = i
                count += np.int64(acc[i] > zero)
            for j in range(count):
                i = np.int64(lanes[j])
                s = np.int64(key[i] & ~slot_mask)
                if acc[i] >= coef[block, s, i]:
                    coef[block, s, i] = acc[i]
                    for c in range(channels):
                        points[block, s, c, i] = frame[block, i, c]
        report(turns, last - first)
        first = claim(turns, GRAIN)


@compiled
def median5(raw, out, column):
    """5x5 median of a 0/255 mask with repeated borders, as a count of neighbours."""
    height, width = raw.shape
    for y in range(height):
        for x in range(width + 4):
            column[x] = 0
        for dy in range(-2, 3):
            row = raw[min(max(y + dy, 0), height - 1)]
            for x in range(width):
                column[x + 2] += np.uint8(row[x] & np.uint8(1))
        column[0] = column[1] = column[2]
        column[width + 2] = column[width + 3] = column[width + 1]
        for x in range(width):
            count = np.uint8(column[x] + column[x + 1] + column[x + 2] + column[x + 3] + column[x + 4])
            out[y, x] = np.uint8(255) if count > np.uint8(12) else np.uint8(0)


def apart(shape: int | tuple[int, ...], dtype: type) -> np.ndarray:
    """An array on cache lines that no other thread writes."""
    size, away = int(np.prod(shape)), 128 // np.dtype(dtype).itemsize
    return np.zeros(size + 2 * away, dtype)[away:-away].reshape(shape)


class Grid:
    """What every CPU model holds: the frame's pixels in blocks of 64, padded; masks, scores and scratch, allocated once."""

    def __init__(self, height: int, width: int, channels: int, dtype: np.dtype, threads: int, sharpness: float):
        self.height, self.width, self.channels, self.dtype = height, width, channels, np.dtype(dtype)
        self.pixels, self.threads = height * width, threads
        self.blocks = -(-self.pixels // LANES)
        self.crew = Crew(threads)
        self.padded = np.zeros((self.blocks * LANES, channels), dtype) if self.pixels % LANES else None
        self.score_blocks = np.zeros((self.blocks, LANES), np.float32)
        self.raw_blocks = np.zeros((self.blocks, LANES), np.uint8)
        # Bytes are compared in 16 bits, twice as many at a time, unless colours that 16 bits cannot tell apart still have a k
        narrow = self.dtype == np.uint8 and (channels == 1 or sharpness * 65535 > 24)
        kind = np.dtype(np.uint16 if narrow else np.float32).type
        self.far = kind(min(120.0 / sharpness, 65535.0 if narrow else np.inf))  # k is nothing from here on
        self.scratch = [
            Scratch(apart((3, LANES), kind), *(apart(LANES, t) for t in (np.float32, np.int32, np.int32, np.float32)))
            for _ in range(threads)
        ]
        self.column, self.count = ([apart(width + 4, np.uint8) for _ in range(threads)] for _ in range(2))

    def image(self, blocks: np.ndarray) -> np.ndarray:
        """The (height, width) view of an array kept in blocks."""
        return blocks.reshape(-1)[: self.pixels].reshape(self.height, self.width)

    def in_blocks(self, frame: np.ndarray) -> np.ndarray:
        """The frame as (blocks, 64, channels); copied only when the size is no multiple of 64."""
        if self.padded is None:
            return frame.reshape(self.blocks, LANES, self.channels)
        self.padded[: self.pixels] = frame.reshape(self.pixels, self.channels)
        return self.padded.reshape(self.blocks, LANES, self.channels)


def slot_mask(budget: int) -> np.int32:
    """Bits of a float that stay when the slot number takes the lowest ones."""
    return np.int32(~((1 << max(1, int(budget - 1).bit_length())) - 1))


class Exact:
    """SILK or truncated NORMA for every pixel, as printed; see `step`."""

    def __init__(self, settings: Settings, height: int, width: int, channels: int, dtype: np.dtype, threads: int):
        self.settings = settings
        self.grid = grid = Grid(height, width, channels, dtype, threads, settings.sharpness)
        self.points = np.zeros((grid.blocks, settings.budget, channels, LANES), dtype)
        self.coef = np.zeros((grid.blocks, settings.budget, LANES), np.float32)
        self.scale, self.reach = 1.0, 0.0
        self.frames = 0

    def apply(self, frame: np.ndarray, out: np.ndarray, learn: bool, forgetting: float | None) -> None:
        s, g = self.settings, self.grid
        shrink, cap = s.step(forgetting)
        pixels = g.in_blocks(frame)
        mask = slot_mask(s.budget)
        # a pixel that always looked the same has f = reach by now: before rho is reached the threshold is as much lower
        threshold = s.threshold * min(1.0, self.reach / s.rho)
        implicit = s.rule == "silk"

        rule = PaperRule(s.sharpness, g.far, self.scale, shrink, cap, s.rho, implicit, threshold)

        def work(part: int, turns: np.ndarray) -> None:
            step(pixels, turns, self.points, self.coef, rule, learn, g.score_blocks, g.raw_blocks, g.scratch[part], mask)

        g.crew.run(work, g.blocks)
        if s.median:
            median5(g.image(g.raw_blocks), out, g.column[0])
        else:
            out[...] = g.image(g.raw_blocks)
        if not learn:
            return
        self.frames += 1
        self.reach = shrink * self.reach + (
            min(max(s.rho - shrink * self.reach, 0.0), cap) if implicit else cap * (self.reach < s.rho)
        )
        self.scale *= shrink
        if self.scale < 1e-6:
            self.coef *= np.float32(self.scale)
            self.scale = 1.0

    def background(self) -> np.ndarray:
        return strongest(self.points, self.coef, self.grid)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"points": self.points, "coef": self.coef}

    def scalars(self) -> dict[str, float]:
        return {"scale": self.scale, "reach": self.reach, "frames": self.frames}


def strongest(points: np.ndarray, coef: np.ndarray, grid: Grid) -> np.ndarray:
    """The stored colour with the largest coefficient, per pixel: (height, width, channels)."""
    best = coef.argmax(1)
    colours = np.take_along_axis(points, best[:, None, None, :], 1)[:, 0]
    flat = colours.transpose(0, 2, 1).reshape(-1, grid.channels)[: grid.pixels]
    return np.ascontiguousarray(flat.reshape(grid.height, grid.width, grid.channels))
