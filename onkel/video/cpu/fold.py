"""The default rule, on the CPU: the paper's learner with folding, and what tells an object from light and from unrest.

Per pixel and frame: score f as in `cpu.step`; an update goes INTO the nearest stored colour when that is very close (its
coefficient grows, its colour moves a little) and takes a slot only when the colour is new. A few slots then describe what
twenty insertions did, so the loop runs over the slots in use. Alarms pass two questions before they count: does a smooth
change of light explain them (`explain`), and do their neighbours agree (`settle`, a 5x5 median)? Alarms that fail are false,
and every false alarm raises that pixel's own bar (`unrest`): a restless pixel must be more novel to count.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from onkel.core.machine.compiled import compiled
from onkel.video.cpu.crew import Crew, claim, report, tally
from onkel.video.cpu.light import ALARM, EXPLAINED, SHADE, Light, keep_objects
from onkel.video.cpu.paper import (
    GRAIN,
    LANES,
    Grid,
    bell,
    distance1,
    distance3,
    fetch_slots,
    gauss,
    load_block,
    slot_mask,
    strongest,
    tagged,
)
from onkel.video.settings import Settings

AHEAD = 2  # blocks from prefetch to use
ROWS_AT_ONCE = 16  # that a thread settles


class Pixels(NamedTuple):
    """The state that the step reads and writes, in blocks of 64 pixels."""

    points: np.ndarray
    coef: np.ndarray
    used: np.ndarray
    unrest: np.ndarray
    previous: np.ndarray


class FoldRule(NamedTuple):
    """The numbers of one frame."""

    sharpness: float
    far: np.generic
    scale: float
    shrink: float
    cap: float
    shade_cap: float
    slow_cap: float
    rho: float
    near: float
    move: float
    rounding: float
    theta: float
    kappa: float


@compiled(fastmath={"contract"})
def step(frame, turns, pixels, rule, learn, scores, mask, scratch, slot_mask):
    """Score, raise the raw alarm where f (1 + kappa unrest) < theta, and learn. `previous` is the last settled mask:
    a pixel that was foreground learns with `slow_cap`, one that light could have changed with `shade_cap`, and both leave
    their colours where they are."""
    points, coef, used, unrest, previous = pixels
    x, acc, low, near, pull = scratch
    far, scale, shrink = rule.far, rule.scale, rule.shrink
    budget, channels = points.shape[1], points.shape[2]
    zero, one = np.float32(0.0), np.float32(1.0)
    curve, scale32, shrunk = bell(rule.sharpness), np.float32(scale), np.float32(scale * shrink)
    grow = np.float32(1.0 / (scale * shrink))
    rho32, near32 = np.float32(rule.rho), np.float32(rule.near)
    cap32, shade32, slow32 = np.float32(rule.cap), np.float32(rule.shade_cap), np.float32(rule.slow_cap)
    move32, half, theta32, kappa32 = (
        np.float32(rule.move),
        np.float32(rule.rounding),
        np.float32(rule.theta),
        np.float32(rule.kappa),
    )
    blocks, first = coef.shape[0], claim(turns, GRAIN)
    while first < blocks:
        last = min(first + GRAIN, blocks)
        for block in range(first, last):
            if block + AHEAD < last:  # what lies beyond may be in the hands of another thread
                fetch_slots(points, coef, block + AHEAD, np.int64(used[block + AHEAD]))
            load_block(frame, block, x)
            for i in range(LANES):
                acc[i] = zero
                low[i] = np.int32(0x7FFFFFFF)
                near[i] = np.int32(0)
            slots = np.int64(used[block])
            if channels == 3:
                for s in range(slots):
                    for i in range(LANES):
                        a, k = coef[block, s, i], gauss(distance3(points, block, s, i, x, far), curve)
                        acc[i] += a * k
                        low[i] = min(low[i], tagged(a, s, slot_mask))
                        near[i] = max(near[i], tagged(k if a > zero else zero, s, slot_mask))
            else:
                for s in range(slots):
                    for i in range(LANES):
                        a, k = coef[block, s, i], gauss(distance1(points, block, s, i, x, far), curve)
                        acc[i] += a * k
                        low[i] = min(low[i], tagged(a, s, slot_mask))
                        near[i] = max(near[i], tagged(k if a > zero else zero, s, slot_mask))
            for i in range(LANES):
                f = scale32 * acc[i]
                scores[block, i] = f
                mask[block, i] = ALARM if f * (one + kappa32 * np.float32(unrest[block, i])) < theta32 else np.uint8(0)
            if not learn:
                continue
            strangers = np.int32(0)  # lanes whose colour is new, and which must therefore take a slot
            for i in range(LANES):
                calm = previous[block, i] == 0
                limit = cap32 if calm else (shade32 if previous[block, i] == SHADE else slow32)
                a = max(min(rho32 - shrunk * acc[i], limit), zero) * grow
                close = np.int32(near[i] & slot_mask).view(np.float32) > near32
                low[i] = low[i] if (not close) and a > zero else np.int32(-1)
                strangers += np.int32(low[i] >= 0)
                near[i] = np.int32(near[i] & ~slot_mask) if close else np.int32(-1)
                acc[i] = a
                pull[i] = move32 if calm else zero
            for s in range(slots):  # fold: the nearest colour's coefficient grows, and a calm pixel's colour moves a little
                for i in range(LANES):
                    coef[block, s, i] += acc[i] if near[i] == np.int32(s) else zero
                for c in range(channels):
                    for i in range(LANES):
                        old, pulled = np.float32(points[block, s, c, i]), pull[i] if near[i] == np.int32(s) else zero
                        points[block, s, c, i] = old + pulled * (np.float32(x[c, i]) - old) + half
            if strangers == 0:
                continue
            for i in range(LANES):
                if low[i] < 0:
                    continue
                s = np.int64(low[i] & ~slot_mask)
                if slots < budget and coef[block, s, i] > zero:
                    s = slots
                    used[block] = slots + 1
                if acc[i] >= coef[block, s, i]:
                    coef[block, s, i] = acc[i]
                    for c in range(channels):
                        points[block, s, c, i] = frame[block, i, c]
                else:  # too weak to take a slot: wear the weakest down, or colours that stay could be locked out for ever
                    coef[block, s, i] -= acc[i]
        report(turns, last - first)
        first = claim(turns, GRAIN)


@compiled
def forget(coef, used, first, last, floor):
    """Clear coefficients under `floor` and give back the slots at the end that no pixel of the block uses."""
    for block in range(first, last):
        for s in range(np.int64(used[block])):
            for i in range(LANES):
                a = coef[block, s, i]
                coef[block, s, i] = a if a >= floor else np.float32(0.0)
        while used[block] > 1:
            top = np.int64(used[block]) - 1
            largest = np.float32(0.0)
            for i in range(LANES):
                largest = max(largest, coef[block, top, i])
            if largest > np.float32(0.0):
                break
            used[block] -= 1


@compiled
def learn_now(frame, points, coef, used, mask, sharpness, near_k, coefficient):
    """What light explains is background: give every EXPLAINED pixel's colour a full coefficient at once."""
    budget, channels = points.shape[1], points.shape[2]
    curve, far = bell(sharpness), np.float32(120.0 / sharpness)
    for block in range(coef.shape[0]):
        wanted = np.int32(0)
        for i in range(LANES):
            wanted += np.int32(mask[block, i] == EXPLAINED)
        if wanted == 0:
            continue
        for i in range(LANES):
            if mask[block, i] != EXPLAINED:
                continue
            slots = np.int64(used[block])
            weakest, nearest, closest = 0, 0, np.float32(-1.0)
            for s in range(slots):
                a = coef[block, s, i]
                if a < coef[block, weakest, i]:
                    weakest = s
                if a > np.float32(0.0):
                    distance = np.float32(0.0)
                    for c in range(channels):
                        d = np.float32(points[block, s, c, i]) - np.float32(frame[block, i, c])
                        distance += d * d
                    k = gauss(min(distance, far), curve)
                    if k > closest:
                        closest, nearest = k, s
            s = weakest
            if closest > near_k:
                s = nearest
            elif coef[block, weakest, i] > np.float32(0.0) and slots < budget:
                s = slots
                used[block] = slots + 1
            coef[block, s, i] = max(coef[block, s, i], np.float32(coefficient))
            for c in range(channels):
                points[block, s, c, i] = frame[block, i, c]


@compiled(inline="always")
def sixteenth(u):
    """ceil(u / 16) of a byte."""
    return np.uint8((u >> np.uint8(4)) + min(np.uint8(u & np.uint8(15)), np.uint8(1)))


@compiled
def settle(frame, raw, out, unrest, previous, reference, turns, lonely, learn, column, count):
    """5x5 binary median of the alarms, and the lesson of the false ones; rows in turns with other threads.

    An alarm that light explained, or with at most `lonely` alarms in its 5x5 neighbourhood, was false: unrest goes up by
    1/16 of the way to 255, otherwise down by 1/16. `previous` becomes the mask and `reference` the frame. Tallies the lonely
    alarms. All in bytes, 64 at a time; of the values in `raw` only ALARM is odd.
    """
    height, width = raw.shape
    most, one, zero = np.uint8(lonely), np.uint8(1), np.uint8(0)
    first = claim(turns, ROWS_AT_ONCE)
    while first < height:
        last = min(first + ROWS_AT_ONCE, height)
        for y in range(first, last):
            a, b, here = raw[max(y - 2, 0)], raw[max(y - 1, 0)], raw[y]
            c, d = raw[min(y + 1, height - 1)], raw[min(y + 2, height - 1)]
            for x in range(width):
                column[x + 2] = (a[x] & one) + (b[x] & one) + (here[x] & one) + (c[x] & one) + (d[x] & one)
            column[0] = column[1] = column[2]
            column[width + 2] = column[width + 3] = column[width + 1]
            for x in range(width):
                count[x] = column[x] + column[x + 1] + column[x + 2] + column[x + 3] + column[x + 4]
                out[y, x] = ALARM if count[x] > np.uint8(12) else zero
            if learn:
                for x in range(width):
                    lone = np.uint8(count[x] <= most) & here[x] & one
                    u = unrest[y, x]
                    unrest[y, x] = u + sixteenth(~u) if (here[x] == EXPLAINED) | (lone != zero) else u - sixteenth(u)
                    count[x] = lone
                alone = 0
                for x in range(width):
                    alone += np.int64(count[x])
                tally(turns, alone)
                for x in range(width):
                    previous[y, x] = out[y, x]
                row = frame.size // height
                now, then = frame[y * row : (y + 1) * row], reference[y * row : (y + 1) * row]
                for q in range(row):
                    then[q] = now[q]
        report(turns, last - first)
        first = claim(turns, ROWS_AT_ONCE)


THETA_RANGE = (0.45, 0.75)  # the frame's threshold on f moves in here
LIGHT_SHARE, LOST_SHARE = 0.1, 0.5  # of all pixels: explained by light, or alarmed at all, that restart fast learning
SHADES = 5.6  # times as fast as an object, a pixel that is only lighter or darker is learned
BOOST = 2.0  # a foreground pixel t frames after a start learns with max(slow, BOOST / t)
CALM = 150  # frames after which a disturbance is over


class Fold1:
    """The default rule, first generation; see `step`, `explain`, `settle`."""

    theta_range = THETA_RANGE

    def __init__(self, settings: Settings, height: int, width: int, channels: int, dtype: np.dtype, threads: int):
        self.settings = settings
        self.grid = grid = Grid(height, width, channels, dtype, threads, settings.sharpness)
        self.points = np.zeros((grid.blocks, settings.budget, channels, LANES), dtype)
        self.coef = np.zeros((grid.blocks, settings.budget, LANES), np.float32)
        self.used = np.ones(grid.blocks, np.uint8 if settings.budget < 256 else np.uint16)
        self.unrest = np.zeros((grid.blocks, LANES), np.uint8)
        self.previous = np.zeros((grid.blocks, LANES), np.uint8)
        self.state = Pixels(self.points, self.coef, self.used, self.unrest, self.previous)
        self.reference, self.spare = np.zeros((2, grid.pixels, channels), dtype)
        self.settlers = grid.crew if grid.pixels >= 2**17 else Crew(1)  # in small frames there is too little to share
        self.light = Light(height, width) if settings.light else None
        self.scale, self.frames, self.calm_frames = 1.0, 0, 0
        self.usual, self.disturbed = 0, 0  # pixels in objects before something happened to the whole picture, and whether it did
        self.theta = 0.6 * settings.rho if settings.threshold is None else settings.threshold

    def apply(self, frame: np.ndarray, out: np.ndarray, learn: bool, forgetting: float | None) -> None:
        s, g = self.settings, self.grid
        flat = frame.reshape(g.pixels, g.channels)
        if self.frames == 0:
            self.start(flat, out, learn)
            return
        shrink, cap = s.step(forgetting)
        slow = min(cap, max(s.slow, BOOST / max(1, self.calm_frames)))
        shade = min(cap, max(SHADES * s.slow, slow))
        explained = self.raise_alarms(flat, shrink, (cap, shade, slow), learn)
        lonely = self.settle(flat, out, learn)
        if not learn:
            return
        # the colour that each pixel last showed as background: the frame, except where an object is
        before = self.previous.reshape(-1)
        settled = keep_objects(self.reference, self.spare, before, before.view(np.uint64), self.limit if s.light else 0.0)
        self.reference, self.spare = self.spare, self.reference
        self.calm_frames += 1
        if explained > LIGHT_SHARE * g.pixels or settled > LOST_SHARE * g.pixels:
            self.calm_frames, self.disturbed = 0, 1
        elif not self.disturbed:
            self.usual = settled
        elif settled <= 1.5 * self.usual + 0.005 * g.pixels:  # all as before: it was a flash, or light that has been explained
            self.calm_frames, self.disturbed = max(self.calm_frames, CALM), 0
        elif self.calm_frames > CALM:
            self.disturbed = 0
        self.end(lonely, shrink)

    def raise_alarms(self, flat: np.ndarray, shrink: float, caps: tuple[float, ...], learn: bool) -> int:
        """Score every pixel, learn, and take back what light explains; how many alarms that were."""
        s, g = self.settings, self.grid
        pixels = g.in_blocks(flat)
        bits, rounding, near = slot_mask(s.budget), 0.5 if g.dtype == np.uint8 else 0.0, s.fold
        numbers = (s.sharpness, g.far, self.scale, shrink, *caps, s.rho, near, s.move, rounding, self.theta)
        rule = FoldRule(*numbers, s.unrest / 255.0)

        def work(part: int, turns: np.ndarray) -> None:
            step(pixels, turns, self.state, rule, learn, g.score_blocks, g.raw_blocks, g.scratch[part], bits)

        g.crew.run(work, g.blocks, meanwhile=self.light and partial(self.light.compare, flat, self.reference))
        if not self.light:
            return 0
        alarms, before = g.raw_blocks.reshape(-1), self.previous.reshape(-1)
        explained = self.light.take_back(flat, self.reference, before, alarms, self.limit)
        if learn and explained:
            coefficient = s.rho / (self.scale * shrink)
            learn_now(pixels, self.points, self.coef, self.used, g.raw_blocks, s.sharpness, s.fold, coefficient)
        return explained

    @property
    def limit(self) -> float:
        """The squared distance at which a colour with the full coefficient falls under the threshold."""
        s = self.settings
        return 2.0 * s.sigma**2 * -float(np.log(min(self.theta / s.rho, 0.99)))

    def settle(self, flat: np.ndarray, out: np.ndarray, learn: bool) -> int:
        """The median of the alarms, and the lesson of the false ones; how many were lonely."""
        g = self.grid
        raw, unrest, previous = g.image(g.raw_blocks), g.image(self.unrest), g.image(self.previous)
        lonely = self.settlers.run(
            lambda part, turns: settle(
                flat.ravel(), raw, out, unrest, previous, self.spare.ravel(), turns, 7, learn, g.column[part], g.count[part]
            ),
            g.height,
        )
        if not self.settings.median:
            np.equal(raw, ALARM, out=out.view(np.bool_))
            np.multiply(out, ALARM, out=out)
        return lonely

    def end(self, lonely: int, shrink: float) -> None:
        """The frame has been learned: the threshold and the decay of the next one."""
        s = self.settings
        self.frames += 1
        if s.threshold is None and s.nu:
            rate = max(lonely / self.grid.pixels, 1e-5)
            low, high = (s.rho * v for v in self.theta_range)
            self.theta = min(max(self.theta * (s.nu / rate) ** 0.02, low), high)
        self.scale *= shrink
        self.tidy()

    def start(self, flat: np.ndarray, out: np.ndarray, learn: bool) -> None:
        """The first frame is background: one colour per pixel with the full coefficient rho."""
        out[...] = 0
        if not learn:
            return
        self.points[:, 0] = self.grid.in_blocks(flat).transpose(0, 2, 1)
        self.coef[:, 0] = self.settings.rho
        self.reference[:] = flat
        self.grid.score_blocks[:] = self.settings.rho
        self.frames = self.calm_frames = 1

    def tidy(self) -> None:
        """Drop coefficients under rho / 200, in a 64th of the blocks per frame; fold the scale back before it underflows."""
        if self.scale < 1e-6:
            self.coef *= np.float32(self.scale)
            self.scale = 1.0
        turn, blocks = self.frames % 64, self.grid.blocks
        floor = np.float32(0.005 * self.settings.rho / self.scale)
        forget(self.coef, self.used, blocks * turn // 64, blocks * (turn + 1) // 64, floor)

    def background(self) -> np.ndarray:
        return strongest(self.points, self.coef, self.grid)

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            "points": self.points,
            "coef": self.coef,
            "used": self.used,
            "unrest": self.unrest,
            "previous": self.previous,
            "reference": self.reference,
        }

    def scalars(self) -> dict[str, float]:
        names = ("scale", "frames", "calm_frames", "usual", "disturbed", "theta")
        return {name: getattr(self, name) for name in names}
