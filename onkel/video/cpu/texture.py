"""Texture and soft shadows, on the CPU: does a pixel still stand to its neighbours as it did?

Of 16 neighbours (8 directions, 1 and 2 pixels away) each differs from the pixel or not: a code of 16 bits. How many bits differ
between the frame and the background, averaged over 5x5 pixels, is compared with what is usual at that pixel: water and leaves
differ all the time. All in bytes, many at a time; the codes themselves are never written down.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onkel.core.machine.compiled import compiled
from onkel.video.cpu.crew import claim, report
from onkel.video.cpu.light import ALARM, brightness
from onkel.video.cpu.votes import RIM

SHADED = np.uint8(2)  # in the raw mask: an alarm that a soft shadow explains. Even, so that it does not count as one
MARGIN = np.int16(38)  # alarm: 3 bits of 16 and two deviations over the usual; 12.5 to a bit
FAST, SLOW = np.int16(5), np.int16(9)  # what is usual moves by 1/32 where there is background, by 1/512 elsewhere
STILL, AGREES = 25, 12  # texture bears witness where at most 2 bits usually differ; it agrees within 1 bit of the usual


class Shade(NamedTuple):
    """Where a shadow lies in colour space: wide along brightness, narrow across it."""

    dark: float  # ratios of brightness
    light: float
    across: float  # squared distance to the background's colour times the ratio


AGREED, ALONE = Shade(0.7, 1.05, 200.0), Shade(0.85, 1.05, 120.0)  # with the texture's word, and without


@compiled(inline="always")
def in_byte(a):
    return np.uint8(min(max(a, np.float32(0.0)), np.float32(255.0)))


@compiled
def grey(image, out, width, turns):
    """Mean of the channels, in bytes, inside the rim; rows in turns."""
    height, channels = out.shape[0] - 2 * RIM, image.size // ((out.shape[0] - 2 * RIM) * width)
    y = claim(turns, 1)
    while y < height:
        row, colours = out[y + RIM, RIM:], image[y * width * channels : (y + 1) * width * channels]
        if channels == 3:
            for x in range(width):
                a, b, c = colours[3 * x], colours[3 * x + 1], colours[3 * x + 2]
                if image.itemsize == 1:
                    row[x] = np.uint8(np.uint16((np.uint16(a) + np.uint16(b) + np.uint16(c)) * np.uint16(85)) >> np.uint16(8))
                else:
                    row[x] = in_byte(np.float32((np.float32(a) + np.float32(b) + np.float32(c)) * np.float32(85 / 256)))
        else:
            for x in range(width):
                row[x] = in_byte(np.float32(colours[x]))
        report(turns, 1)
        y = claim(turns, 1)


@compiled
def repeat_rim(out):
    """The outermost pixels go on into the rim."""
    height, width = out.shape
    for y in range(RIM, height - RIM):
        for x in range(RIM):
            out[y, x], out[y, width - 1 - x] = out[y, RIM], out[y, width - 1 - RIM]
    for y in range(RIM):
        for x in range(width):
            out[y, x], out[height - 1 - y, x] = out[RIM, x], out[height - 1 - RIM, x]


@compiled(inline="always")
def apart(a, b):
    return np.uint8(max(a, b) - min(a, b))


@compiled(inline="always")
def far_apart(a, b, limit):
    return np.uint8(apart(a, b) > limit)


@compiled
def compare(mine, other, limit, old, before, bound, row, width):
    """Add to `row` whether a neighbour's bit differs: in the frame |other - mine| > limit, in the background likewise."""
    for x in range(width):
        one, two = far_apart(other[x], mine[x], limit[x]), far_apart(before[x], old[x], bound[x])
        row[x] = np.uint8(row[x] + np.uint8(one ^ two))


@compiled
def differing(now, then, out, turns, limit, bound):
    """out: how many of the 16 bits differ, for all but the outermost two pixels of the rim; rows in turns."""
    height, width = now.shape
    three, n = np.uint8(3), width - 4
    y = claim(turns, 1)
    while y < height - 4:
        row, mine, old = out[y + 2, 2:], now[y + 2, 2:], then[y + 2, 2:]
        for x in range(n):
            row[x] = np.uint8(0)
            limit[x] = np.uint8(np.uint8(mine[x] >> three) + three)
            bound[x] = np.uint8(np.uint8(old[x] >> three) + three)
        for dy in range(-2, 3):
            for dx in range(-2, 3):
                if (dy != 0 or dx != 0) and abs(dy) + abs(dx) != 3:
                    compare(mine, now[y + 2 + dy, 2 + dx :], limit, old, then[y + 2 + dy, 2 + dx :], bound, row, n)
        report(turns, 1)
        y = claim(turns, 1)


@compiled(inline="always")
def shaded(frame, reference, p, dark, light, across):
    """Could the pixel be its background under another light? For the ratio g of brightness, |x - g background|^2 < across."""
    g = brightness(frame, p) / brightness(reference, p)
    distance = np.float32(0.0)
    for c in range(frame.shape[1]):
        d = np.float32(frame[p, c]) - g * np.float32(reference[p, c])
        distance += d * d
    return np.float32(dark) <= g <= np.float32(light) and distance < np.float32(across)


@compiled
def look(frame, reference, bits, usual, spread, previous, raw, texture, shadows, learn, time, turns, column, count):
    """Raise alarms where the texture has changed, take those back that a soft shadow explains, and learn what is usual.

    bits: of `differing`. usual, spread: mean and variance (by 32) of the window's sum, halved; they move by whole steps, rounded up
    or down by turns of `time`. Rows in turns with other threads.
    """
    height, width = raw.shape
    fast, slow = np.int16((13 * time) & 31), np.int16((205 * time) & 511)
    y = claim(turns, 1)
    while y < height:
        for x in range(width + 4):
            column[x] = bits[y + 2, x + 2] + bits[y + 3, x + 2] + bits[y + 4, x + 2] + bits[y + 5, x + 2] + bits[y + 6, x + 2]
        for x in range(width):
            total = np.uint16(np.uint16(np.uint16(np.uint16(column[x]) + column[x + 1]) + column[x + 2]) + column[x + 3])
            count[x] = np.uint8(np.uint16(total + column[x + 4] + np.uint16(1)) >> np.uint16(1))
        if texture:
            for x in range(width):
                over = np.uint16(max(np.int16(np.int16(count[x]) - np.int16(usual[y, x]) - MARGIN), np.int16(0)))
                new = np.uint16(over * over) > np.uint16(np.uint16(spread[y, x]) << np.uint16(7))
                raw[y, x] = ALARM if (raw[y, x] == np.uint8(0)) & new else raw[y, x]
        if shadows:
            for x in range(width):
                if raw[y, x] != ALARM or (texture and usual[y, x] >= STILL):
                    continue
                p = y * width + x
                if texture and np.int32(count[x]) - np.int32(usual[y, x]) < AGREES:
                    if shaded(frame, reference, p, AGREED.dark, AGREED.light, AGREED.across):
                        raw[y, x] = SHADED
                elif shaded(frame, reference, p, ALONE.dark, ALONE.light, ALONE.across):
                    raw[y, x] = SHADED
        if learn:
            for x in range(width):
                u, s, calm = np.int16(usual[y, x]), np.int16(spread[y, x]), previous[y, x] == np.uint8(0)
                over = np.int16(np.int16(count[x]) - u)
                square = np.uint16(np.uint16(abs(over)) * np.uint16(abs(over))) >> np.uint16(5)
                wide = np.int16(np.int16(min(np.uint16(square), np.uint16(255))) - s)
                soon, late = np.int16(over + fast) >> FAST, np.int16(over + slow) >> SLOW
                usual[y, x] = np.uint8(np.int16(u + (soon if calm else late)))
                soon, late = np.int16(wide + fast) >> FAST, np.int16(wide + slow) >> SLOW
                spread[y, x] = np.uint8(np.int16(s + (soon if calm else late)))
        report(turns, 1)
        y = claim(turns, 1)
