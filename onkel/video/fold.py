"""The default rule, on the CPU: the paper's learner with folding, and what tells an object from light and from unrest.

Per pixel and frame: score f as in `cpu.step`; an update goes INTO the nearest stored colour when that is very close (its
coefficient grows, its colour moves a little) and takes a slot only when the colour is new. A few slots then describe what
twenty insertions did, so the loop runs over the slots in use. Alarms pass two questions before they count: does a smooth
change of light explain them (`explain`), and do their neighbours agree (`settle`, a 5x5 median)? Alarms that fail are false,
and every false alarm raises that pixel's own bar (`unrest`): a restless pixel must be more novel to count.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .cpu import LANES, Grid, bell, distance1, distance3, fetch_slots, gauss, load_block, slot_mask, strongest, tagged
from .settings import Settings

ALARM, SHADE, EXPLAINED = np.uint8(255), np.uint8(254), np.uint8(128)
SAMPLES = 3  # a tile of the light map is judged by SAMPLES x SAMPLES pixels
DARKEST, LIGHTEST = np.float32(0.5), np.float32(2.0)  # more than this from one frame to the next is not light
MILD = np.float32(0.12)  # no object of interest is so little lighter or darker than what is behind it
AHEAD = 2  # blocks from prefetch to use
REACH = 2  # and smoothed by medians over 2 REACH + 1 columns, then rows


@njit(nogil=True, cache=True, fastmath={"contract"})
def step(
    frame,
    first,
    last,
    points,
    coef,
    used,
    unrest,
    previous,
    sharpness,
    far,
    scale,
    shrink,
    cap,
    shade_cap,
    slow_cap,
    rho,
    near_k,
    move,
    rounding,
    theta,
    kappa,
    learn,
    scores,
    mask,
    x,
    acc,
    low,
    near,
    pull,
    slot_mask,
):
    """Score, raise the raw alarm where f (1 + kappa unrest) < theta, and learn. `previous` is the last settled mask:
    a pixel that was foreground learns with `slow_cap`, one that light could have changed with `shade_cap`, and both leave
    their colours where they are."""
    budget, channels = points.shape[1], points.shape[2]
    zero, one = np.float32(0.0), np.float32(1.0)
    curve, scale32, shrunk = bell(sharpness), np.float32(scale), np.float32(scale * shrink)
    grow = np.float32(1.0 / (scale * shrink))
    rho32, near32 = np.float32(rho), np.float32(near_k)
    cap32, shade32, slow32 = np.float32(cap), np.float32(shade_cap), np.float32(slow_cap)
    move32, half, theta32, kappa32 = np.float32(move), np.float32(rounding), np.float32(theta), np.float32(kappa)
    for block in range(first, last):
        if block + AHEAD < last:
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


@njit(nogil=True, cache=True)
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


@njit(inline="always")
def brightness(image, p):
    """Sum over the channels of pixel p, one more than zero so that ratios exist in the dark."""
    total = np.float32(8.0)
    for c in range(image.shape[1]):
        total += np.float32(image[p, c])
    return total


@njit(inline="always")
def middle(values, count):
    """Median of the first `count` values, which are sorted in place by insertion (count <= 9)."""
    for i in range(1, count):
        v = values[i]
        j = i
        while j > 0 and values[j - 1] > v:
            values[j] = values[j - 1]
            j -= 1
        values[j] = v
    return values[count // 2]


@njit(nogil=True, cache=True)
def light_map(frame, reference, width, height, tiles, across, gain, values):
    """gain[i, j] = how much lighter tile (i, j) is than the reference: median over samples, then over neighbouring tiles."""
    rows, cols = tiles.shape
    for i in range(rows):
        for j in range(cols):
            count = 0
            for a in range(SAMPLES):
                y = ((2 * SAMPLES * i + 2 * a + 1) * height) // (2 * SAMPLES * rows)
                for b in range(SAMPLES):
                    p = y * width + ((2 * SAMPLES * j + 2 * b + 1) * width) // (2 * SAMPLES * cols)
                    values[count] = brightness(frame, p) / brightness(reference, p)
                    count += 1
            tiles[i, j] = middle(values, count)
    for i in range(rows):
        for j in range(cols):
            count = 0
            for b in range(max(0, j - REACH), min(cols, j + REACH + 1)):
                values[count] = tiles[i, b]
                count += 1
            across[i, j] = middle(values, count)
    for i in range(rows):
        for j in range(cols):
            count = 0
            for a in range(max(0, i - REACH), min(rows, i + REACH + 1)):
                values[count] = across[a, j]
                count += 1
            g = middle(values, count)
            gain[i, j] = g if DARKEST < g < LIGHTEST else np.float32(1.0)


@njit(inline="always")
def gain_at(gain, y, x, height, width):
    """The light map at a pixel, bilinear between tile centres."""
    rows, cols = gain.shape
    v = min(
        max((np.float32(y) + np.float32(0.5)) * np.float32(rows) / np.float32(height) - np.float32(0.5), np.float32(0.0)),
        np.float32(rows - 1),
    )
    u = min(
        max((np.float32(x) + np.float32(0.5)) * np.float32(cols) / np.float32(width) - np.float32(0.5), np.float32(0.0)),
        np.float32(cols - 1),
    )
    i, j = min(np.int64(v), rows - 2), min(np.int64(u), cols - 2)
    v, u = v - np.float32(i), u - np.float32(j)
    one = np.float32(1.0)
    return (one - v) * ((one - u) * gain[i, j] + u * gain[i, j + 1]) + v * ((one - u) * gain[i + 1, j] + u * gain[i + 1, j + 1])


@njit(nogil=True, cache=True)
def explain(frame, reference, previous, width, height, gain, limit, share, mask, words, before, alarms, explained, known):
    """Take back the alarms that light explains: |frame / gain - reference|^2 < limit, where `gain` is smooth.

    Only where, in the surrounding tiles, light explains more than `share` of the alarms, and objects already known there
    (`previous`) cover less than `share` of them or the change is mild: light comes at once and everywhere, an object comes in
    from somewhere, so a dark car stays although a change of light could explain its inside. Those taken back are left as
    EXPLAINED. Returns how many.
    `words` and `before` are mask and previous eight pixels at a time: most words are empty.
    """
    rows, cols = gain.shape
    alarms[:] = 0
    explained[:] = 0
    known[:] = 0
    for word in range(words.size):
        if words[word] == 0 and before[word] == 0:
            continue
        for p in range(8 * word, min(8 * word + 8, height * width)):
            if mask[p] == 0 and previous[p] == 0:
                continue
            y, x = p // width, p % width
            i, j = (y * rows) // height, (x * cols) // width
            known[i, j] += previous[p] != 0
            if mask[p] == 0:
                continue
            alarms[i, j] += 1
            g = gain_at(gain, y, x, height, width)
            distance = np.float32(0.0)
            for c in range(frame.shape[1]):
                d = (np.float32(frame[p, c]) + np.float32(4.0)) / g - np.float32(4.0) - np.float32(reference[p, c])
                distance += d * d
            if distance < limit:
                explained[i, j] += 1
                mask[p] = EXPLAINED
    total = 0
    for i in range(rows):
        for j in range(cols):
            if explained[i, j] == 0:
                continue
            a, e, k = 0, 0, 0
            for r in range(max(0, i - REACH), min(rows, i + REACH + 1)):
                for q in range(max(0, j - REACH), min(cols, j + REACH + 1)):
                    a += alarms[r, q]
                    e += explained[r, q]
                    k += known[r, q]
            mild = abs(gain[i, j] - np.float32(1.0)) < MILD
            if e > share * a and (mild or k < share * a):
                total += explained[i, j]
                continue
            for y in range((i * height + rows - 1) // rows, ((i + 1) * height + rows - 1) // rows):
                for x in range((j * width + cols - 1) // cols, ((j + 1) * width + cols - 1) // cols):
                    if mask[y * width + x] == EXPLAINED:
                        mask[y * width + x] = ALARM
    return total


@njit(nogil=True, cache=True)
def learn_now(frame, first, last, points, coef, used, mask, sharpness, near_k, coefficient):
    """What light explains is background: give every EXPLAINED pixel's colour a full coefficient at once."""
    budget, channels = points.shape[1], points.shape[2]
    curve, far = bell(sharpness), np.float32(120.0 / sharpness)
    for block in range(first, last):
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


@njit(nogil=True, cache=True)
def settle(raw, out, unrest, height, width, lonely, learn, column):
    """5x5 binary median of the alarms, and the lesson of the false ones.

    An alarm that light explained, or with at most `lonely` alarms in its 5x5 neighbourhood, was false: unrest goes up by
    1/16 of the way to 255, otherwise down by 1/16. Returns the number of lonely alarms and of settled ones.
    """
    alone, settled = 0, 0
    for y in range(height):
        for x in range(width + 4):
            column[x] = 0
        for dy in range(-2, 3):
            row = raw[min(max(y + dy, 0), height - 1)]
            for x in range(width):
                column[x + 2] += np.uint8(row[x] >> 7) & np.uint8(row[x])
        column[0] = column[1] = column[2]
        column[width + 2] = column[width + 3] = column[width + 1]
        for x in range(width):
            count = np.uint8(column[x] + column[x + 1] + column[x + 2] + column[x + 3] + column[x + 4])
            out[y, x] = np.uint8(255) if count > np.uint8(12) else np.uint8(0)
            settled += count > np.uint8(12)
            column[x] = count
        if not learn:
            continue
        for x in range(width):
            lone = (raw[y, x] == ALARM) & (column[x] <= lonely)
            false = lone | (raw[y, x] == EXPLAINED)
            u = np.int32(unrest[y, x])
            unrest[y, x] = np.uint8(u + ((np.int32(270) - u) >> 4) if false else u - ((u + 15) >> 4))
            alone += lone
    return alone, settled


@njit(nogil=True, cache=True)
def keep_objects(old, new, mask, words, limit):
    """new, a copy of the frame, gets the old colour back where the settled mask says object.

    An object pixel that is merely lighter or darker than the old colour, |new / g - old|^2 < limit for its own ratio g of
    brightness, is marked SHADE: it may be a shadow or a patch of sun, and these are learned sooner than coloured things.
    """
    for word in range(words.size):
        if words[word] == 0:
            continue
        for p in range(8 * word, min(8 * word + 8, old.shape[0])):
            if mask[p] == 0:
                continue
            g = brightness(new, p) / brightness(old, p)
            distance = np.float32(0.0)
            for c in range(old.shape[1]):
                d = (np.float32(new[p, c]) + np.float32(4.0)) / g - np.float32(4.0) - np.float32(old[p, c])
                distance += d * d
                new[p, c] = old[p, c]
            mask[p] = SHADE if distance < limit and DARKEST < g < LIGHTEST else ALARM


THETA_RANGE = (0.45, 0.67)  # the frame's threshold on f moves in here
ROWS = 24  # tiles of the light map from top to bottom
LIGHT_SHARE, LOST_SHARE = 0.1, 0.5  # of all pixels: explained by light, or alarmed at all, that restart fast learning
SHADES = 3.0  # times as fast as an object, a pixel that is only lighter or darker is learned
BOOST = 2.0  # a foreground pixel t frames after a start learns with max(slow, BOOST / t)


class Fold:
    """The default rule; see `step`, `explain`, `settle`."""

    def __init__(self, settings: Settings, height: int, width: int, channels: int, dtype: np.dtype, threads: int):
        self.settings = settings
        self.grid = grid = Grid(height, width, channels, dtype, threads, settings.sharpness)
        self.points = np.zeros((grid.blocks, settings.budget, channels, LANES), dtype)
        self.coef = np.zeros((grid.blocks, settings.budget, LANES), np.float32)
        self.used = np.ones(grid.blocks, np.uint8 if settings.budget < 256 else np.uint16)
        self.unrest = np.zeros((grid.blocks, LANES), np.uint8)
        self.previous = np.zeros((grid.blocks, LANES), np.uint8)
        self.reference, self.spare = np.zeros((2, grid.pixels, channels), dtype)
        rows = max(2, min(ROWS, height // SAMPLES))
        cols = max(2, min(round(rows * width / height), width // SAMPLES))
        self.tiles, self.across, self.gain = np.zeros((3, rows, cols), np.float32)
        self.alarms, self.explained, self.known = np.zeros((3, rows, cols), np.int64)
        self.values = np.zeros(SAMPLES * SAMPLES, np.float32)
        self.scale, self.frames, self.calm_frames = 1.0, 0, 0
        self.theta = 0.6 * settings.rho if settings.threshold is None else settings.threshold

    def apply(self, frame: np.ndarray, out: np.ndarray, learn: bool, forgetting: float | None) -> None:
        s, g = self.settings, self.grid
        pixels, flat = g.in_blocks(frame), frame.reshape(g.pixels, g.channels)
        if self.frames == 0:
            out[...] = 0
            if learn:
                self.start(pixels, flat)
            return
        shrink, cap = s.step(forgetting)
        slow = min(cap, max(s.slow, BOOST / max(1, self.calm_frames)))
        shade = min(cap, max(SHADES * s.slow, slow))
        bits, rounding = slot_mask(s.budget), 0.5 if g.dtype == np.uint8 else 0.0

        def work(part: int, first: int, last: int) -> None:
            step(
                pixels,
                first,
                last,
                self.points,
                self.coef,
                self.used,
                self.unrest,
                self.previous,
                s.sharpness,
                g.far,
                self.scale,
                shrink,
                cap,
                shade,
                slow,
                s.rho,
                s.fold,
                s.move,
                rounding,
                self.theta,
                s.unrest / 255.0,
                learn,
                g.score_blocks,
                g.raw_blocks,
                g.x[part],
                g.acc[part],
                g.low[part],
                g.near[part],
                g.pull[part],
                bits,
            )

        g.crew.run(work)
        raw = g.image(g.raw_blocks)
        explained, limit = 0, 2.0 * s.sigma**2 * -np.log(min(self.theta / s.rho, 0.99))
        if s.light:
            light_map(flat, self.reference, g.width, g.height, self.tiles, self.across, self.gain, self.values)
            alarms, before = g.raw_blocks.reshape(-1), self.previous.reshape(-1)
            explained = explain(
                flat,
                self.reference,
                before,
                g.width,
                g.height,
                self.gain,
                limit,
                0.5,
                alarms,
                alarms.view(np.uint64),
                before.view(np.uint64),
                self.alarms,
                self.explained,
                self.known,
            )
        if learn and explained:
            coefficient = s.rho / (self.scale * shrink)
            g.crew.run(
                lambda part, first, last: learn_now(
                    pixels, first, last, self.points, self.coef, self.used, g.raw_blocks, s.sharpness, s.fold, coefficient
                )
            )
        lonely, settled = settle(raw, out, g.image(self.unrest), g.height, g.width, 7, learn, g.column)
        if learn:
            g.image(self.previous)[...] = out
        if not s.median:
            np.equal(raw, ALARM, out=out.view(np.bool_))
            np.multiply(out, ALARM, out=out)
        if not learn:
            return
        # the colour that each pixel last showed as background: the frame, except where an object is
        self.spare[...] = flat
        before = self.previous.reshape(-1)
        keep_objects(self.reference, self.spare, before, before.view(np.uint64), limit if s.light else 0.0)
        self.reference, self.spare = self.spare, self.reference
        self.frames += 1
        self.calm_frames += 1
        if explained > LIGHT_SHARE * g.pixels or settled > LOST_SHARE * g.pixels:
            self.calm_frames = 0
        if s.threshold is None and s.nu:
            rate = max(lonely / g.pixels, 1e-5)
            low, high = (s.rho * v for v in THETA_RANGE)
            self.theta = min(max(self.theta * (s.nu / rate) ** 0.02, low), high)
        self.scale *= shrink
        self.tidy()

    def start(self, pixels: np.ndarray, flat: np.ndarray) -> None:
        """The first frame is background: one colour per pixel with the full coefficient rho."""
        self.points[:, 0] = pixels.transpose(0, 2, 1)
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
        return {"scale": self.scale, "frames": self.frames, "calm_frames": self.calm_frames, "theta": self.theta}
