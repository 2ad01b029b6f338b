"""Changes of light, on the CPU: a coarse map of how much lighter every part of the frame became, and what it explains."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onkel.core.machine.compiled import compiled

ALARM, SHADE, EXPLAINED = np.uint8(255), np.uint8(254), np.uint8(128)
ROWS = 24  # tiles of the light map from top to bottom
SAMPLES = 3  # a tile is judged by SAMPLES x SAMPLES pixels
REACH = 2  # and smoothed by medians over 2 REACH + 1 columns, then rows
DARKEST, LIGHTEST = np.float32(0.5), np.float32(2.0)  # more than this from one frame to the next is not light
MILD = np.float32(0.12)  # no object of interest is so little lighter or darker than what is behind it


@compiled(inline="always")
def brightness(image, p):
    """Sum over the channels of pixel p, a little more than zero so that ratios exist in the dark."""
    total = np.float32(8.0)
    for c in range(image.shape[1]):
        total += np.float32(image[p, c])
    return total


@compiled(inline="always")
def middle(stack, count, width):
    """Sort the columns of stack[:count] as far as needed to leave their medians in row count // 2: bubbles, all columns at once."""
    for top in range(count - 1, count // 2 - 1, -1):
        for k in range(top):
            for j in range(width):
                a, b = stack[k, j], stack[k + 1, j]
                stack[k, j], stack[k + 1, j] = min(a, b), max(a, b)


@compiled
def light_map(frame, reference, samples, stack, tiles, across, gain):
    """gain[i, j] = how much lighter tile (i, j) is than the reference: median over samples, then over neighbouring tiles.

    `tiles` and `across` have REACH more places on both sides that hold -inf and +inf: one of each leaves a median where it is.
    """
    rows, cols = gain.shape
    window = 2 * REACH + 1
    for i in range(rows):
        for k in range(SAMPLES * SAMPLES):
            for j in range(cols):
                p = np.int64(samples[i, k, j])
                stack[k, j] = brightness(frame, p) / brightness(reference, p)
        middle(stack, SAMPLES * SAMPLES, cols)
        for j in range(cols):
            tiles[j + REACH] = stack[SAMPLES * SAMPLES // 2, j]
        for k in range(window):
            for j in range(cols):
                stack[k, j] = tiles[j + k]
        middle(stack, window, cols)
        for j in range(cols):
            across[i + REACH, j] = stack[REACH, j]
    for i in range(rows):
        for k in range(window):
            for j in range(cols):
                stack[k, j] = across[i + k, j]
        middle(stack, window, cols)
        for j in range(cols):
            g = stack[REACH, j]
            gain[i, j] = g if DARKEST < g < LIGHTEST else np.float32(1.0)


@compiled(inline="always")
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


class Tiles(NamedTuple):
    """The map, where each row and column of pixels lies in it, and what is counted in its tiles."""

    row_of: np.ndarray
    col_of: np.ndarray
    gain: np.ndarray
    alarms: np.ndarray
    explained: np.ndarray
    known: np.ndarray


@compiled
def explain(frame, reference, previous, tiles, limit, share, mask, words, before):
    """Take back the alarms that light explains: |frame / gain - reference|^2 < limit, where `gain` is smooth.

    Only where, in the surrounding tiles, light explains more than `share` of the alarms, and objects already known there
    (`previous`) cover less than `share` of them or the change is mild: light comes at once and everywhere, an object comes in
    from somewhere, so a dark car stays although a change of light could explain its inside. Those taken back are left as
    EXPLAINED. Returns how many.
    `words` and `before` are mask and previous eight pixels at a time: most words are empty. `row_of[y]` and `col_of[x]` give
    the tile of a pixel.
    """
    row_of, col_of, gain, alarms, explained, known = tiles
    rows, cols = gain.shape
    height, width = row_of.size, col_of.size
    alarms[:] = 0
    explained[:] = 0
    known[:] = 0
    for word in range(words.size):
        if words[word] == 0 and before[word] == 0:
            continue
        y, x = divmod(8 * word, width)
        for p in range(8 * word, min(8 * word + 8, height * width)):
            if mask[p] != 0 or previous[p] != 0:
                i, j = row_of[y], col_of[x]
                known[i, j] += previous[p] != 0
                if mask[p] != 0:
                    alarms[i, j] += 1
                    g = gain_at(gain, y, x, height, width)
                    distance = np.float32(0.0)
                    for c in range(frame.shape[1]):
                        d = (np.float32(frame[p, c]) + np.float32(4.0)) / g - np.float32(4.0) - np.float32(reference[p, c])
                        distance += d * d
                    if distance < limit:
                        explained[i, j] += 1
                        mask[p] = EXPLAINED
            x += 1
            if x == width:
                y, x = y + 1, 0
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


@compiled
def keep_objects(old, new, mask, words, limit):
    """new, a copy of the frame, gets the old colour back where the settled mask says object. Returns how many pixels do.

    An object pixel that is merely lighter or darker than the old colour, |new / g - old|^2 < limit for its own ratio g of
    brightness, is marked SHADE: it may be a shadow or a patch of sun, and these are learned sooner than coloured things.
    """
    kept = 0
    for word in range(words.size):
        if words[word] == 0:
            continue
        for p in range(8 * word, min(8 * word + 8, old.shape[0])):
            if mask[p] == 0:
                continue
            kept += 1
            g = brightness(new, p) / brightness(old, p)
            distance = np.float32(0.0)
            for c in range(old.shape[1]):
                d = (np.float32(new[p, c]) + np.float32(4.0)) / g - np.float32(4.0) - np.float32(old[p, c])
                distance += d * d
                new[p, c] = old[p, c]
            mask[p] = SHADE if distance < limit and DARKEST < g < LIGHTEST else ALARM
    return kept


class Light:
    """The light map of frames of one size, with its scratch."""

    def __init__(self, height: int, width: int):
        rows = max(2, min(ROWS, height // SAMPLES))
        cols = max(2, min(round(rows * width / height), width // SAMPLES))
        y, x = ((2 * np.arange(SAMPLES * n) + 1) * size // (2 * SAMPLES * n) for n, size in ((rows, height), (cols, width)))
        samples = (y[:, None] * width + x).reshape(rows, SAMPLES, cols, SAMPLES)
        self.samples = np.ascontiguousarray(samples.transpose(0, 1, 3, 2).reshape(rows, -1, cols), np.int32)
        self.gain = np.ones((rows, cols), np.float32)
        places = np.arange(height) * rows // height, np.arange(width) * cols // width
        self.map = Tiles(*places, self.gain, *np.zeros((3, rows, cols), np.int64))
        self.stack = np.zeros((SAMPLES * SAMPLES, cols), np.float32)
        self.tiles, self.across = np.zeros(cols + 2 * REACH, np.float32), np.zeros((rows + 2 * REACH, cols), np.float32)
        for padded in (self.tiles, self.across):
            padded[0], padded[1], padded[-2], padded[-1] = -np.inf, np.inf, np.inf, -np.inf
            if len(padded) == 3 + 2 * REACH:  # the middle one of three sees the inner two: they must not be alike
                padded[-2], padded[-1] = -np.inf, np.inf

    def compare(self, frame: np.ndarray, reference: np.ndarray) -> None:
        """Draw the map: how much lighter is the frame than the reference?"""
        light_map(frame, reference, self.samples, self.stack, self.tiles, self.across, self.gain)

    def take_back(self, frame: np.ndarray, reference: np.ndarray, previous: np.ndarray, alarms: np.ndarray, limit: float) -> int:
        """Mark the alarms that the light of the map explains; how many."""
        words = alarms.view(np.uint64)
        return explain(frame, reference, previous, self.map, limit, 0.5, alarms, words, previous.view(np.uint64))
