"""Ghost or object? A blob's edge says it: pixels of an uncovered place look like what is around them, those of an object do not.

For each foreground pixel p near background q: v = k(x_p, x_q) - k(what p showed as background, x_q). v > 0: p goes with its
surroundings better than its old background does, so the old background was an object that has left: a ghost. v < 0: an object.
Votes are collected in cells of CELL x CELL pixels, averaged over neighbouring cells and over the blob (connected cells, holes
filled: the edge of a hole would vote wrongly, and an object that erodes would eat itself), both smoothed in time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onkel.core.machine.compiled import compiled
from onkel.video.cpu.crew import claim, report
from onkel.video.cpu.light import ALARM, SHADE
from onkel.video.cpu.paper import bell, gauss

CELL = 4
RIM = 4  # of grey images: two pixels for the neighbours, two for the window of 5
REACH, BEYOND = 3, 2  # pixels from p to the first background, and from there to the one that is looked at
KEEP = np.float32(0.8)  # of a vote, from frame to frame
DOUBT = np.float32(-0.1)  # a blob's vote over this is no clear word:
TRIALS = np.uint32(3932)  # its cells are learned like a ghost in 6 % of the frames, in 65536ths
OUTSIDE, HOLE = np.int32(-1), np.int32(-2)
OBJECT, GHOST, UNCLEAR, SHADOW = ALARM, SHADE, np.uint8(253), np.uint8(252)  # what a pixel was, for the next step


class Cells(NamedTuple):
    """Votes of the cells: sums and counts of this frame, and what stays of both in time."""

    sums: np.ndarray
    counts: np.ndarray
    place: np.ndarray
    blob: np.ndarray
    root: np.ndarray  # of the blob that a cell belongs to; OUTSIDE, HOLE
    total: np.ndarray  # of blobs, at their root
    number: np.ndarray


def cells(height: int, width: int) -> Cells:
    rows, cols = -(-height // CELL), -(-width // CELL)
    sums, place, blob = np.zeros((3, rows, cols), np.float32)
    counts, root = np.zeros((2, rows, cols), np.int32)
    return Cells(sums, counts, place, blob, root.reshape(-1), np.zeros(rows * cols, np.float32), np.zeros(rows * cols, np.int32))


@compiled(inline="always")
def top(root, k):
    """The smallest cell of the set that k belongs to; the way there becomes shorter."""
    while root[k] != k:
        root[k] = root[root[k]]
        k = np.int64(root[k])
    return k


@compiled(inline="always")
def join(root, j, k):
    a, b = top(root, j), top(root, k)
    if a != b:
        root[max(a, b)] = min(a, b)


@compiled
def find_blobs(settled, tally, root):
    """root[k] of every cell: the first cell of its blob, or OUTSIDE. Holes belong to the blob around them, as cells of their own.

    `tally` becomes 1 for cells with foreground in them, 2 for holes.
    """
    rows, cols = tally.shape
    height, width = settled.shape
    found = 0
    for i in range(rows):
        for j in range(cols):
            tally[i, j] = 0
        for y in range(CELL * i, min(CELL * i + CELL, height)):
            for j in range(width // CELL):
                for x in range(CELL):
                    tally[i, j] |= np.int32(settled[y, CELL * j + x] & np.uint8(1))
            for x in range(width - width % CELL, width):
                tally[i, cols - 1] |= np.int32(settled[y, x] & np.uint8(1))
        for j in range(cols):
            found += np.int64(tally[i, j])
    if found == 0:
        root[:] = OUTSIDE
        return False
    # what is empty, by its four neighbours: all that reaches the rim is outside, the rest are holes
    for k in range(rows * cols):
        root[k] = k
    rim = np.int64(-1)
    for i in range(rows):
        for j in range(cols):
            if tally[i, j] != 0:
                continue
            k = i * cols + j
            if j > 0 and tally[i, j - 1] == 0:
                join(root, k - 1, k)
            if i > 0 and tally[i - 1, j] == 0:
                join(root, k - cols, k)
            if i == 0 or j == 0 or i == rows - 1 or j == cols - 1:
                if rim >= 0:
                    join(root, rim, k)
                rim = k
    outside = top(root, rim) if rim >= 0 else np.int64(-1)
    for i in range(rows):
        for j in range(cols):
            if tally[i, j] == 0 and top(root, i * cols + j) != outside:
                tally[i, j] = 2
    for k in range(rows * cols):
        root[k] = k
    for i in range(rows):
        for j in range(cols):
            k = i * cols + j
            if tally[i, j] == 0:
                root[k] = OUTSIDE
                continue
            if j > 0 and tally[i, j - 1] != 0:
                join(root, k - 1, k)
            if i > 0:
                for b in range(max(0, j - 1), min(cols, j + 2)):
                    if tally[i - 1, b] != 0:
                        join(root, k - cols + b - j, k)
    for k in range(rows * cols):
        if root[k] >= 0:
            root[k] = top(root, k)
    return True


@compiled(inline="always")
def alike(a, p, b, q, curve, far):
    """k of two pixels' colours."""
    d = np.float32(0.0)
    for c in range(a.shape[1]):
        u = np.float32(a[p, c]) - np.float32(b[q, c])
        d += u * u
    return gauss(min(d, far), curve)


@compiled
def vote(frame, reference, settled, tally, sums, counts, sharpness, turns):
    """The votes of all cells, rows of cells in turns with other threads. A background in a hole has no say."""
    height, width = settled.shape
    rows, cols = sums.shape
    curve, far = bell(sharpness), np.float32(120.0 / sharpness)
    i = claim(turns, 1)
    while i < rows:
        for j in range(cols):
            total, number = np.float32(0.0), np.int32(0)
            if tally[i, j] == 1:
                for y in range(CELL * i, min(CELL * i + CELL, height)):
                    for x in range(CELL * j, min(CELL * j + CELL, width)):
                        if settled[y, x] == 0:
                            continue
                        for way in range(4):
                            dy, dx = (np.int64(way == 0) - np.int64(way == 1)), (np.int64(way == 2) - np.int64(way == 3))
                            for r in range(1, REACH + 1):
                                a, b = y + r * dy, x + r * dx
                                if a < 0 or b < 0 or a >= height or b >= width:
                                    break
                                if settled[a, b] != 0:
                                    continue
                                if tally[a // CELL, b // CELL] == 2:
                                    break
                                e, g = a + BEYOND * dy, b + BEYOND * dx
                                if 0 <= e < height and 0 <= g < width and settled[e, g] == 0:
                                    a, b = e, g
                                p, q = y * width + x, a * width + b
                                total += alike(frame, p, frame, q, curve, far) - alike(reference, p, frame, q, curve, far)
                                number += np.int32(1)
                                break
            sums[i, j], counts[i, j] = total, number
        report(turns, 1)
        i = claim(turns, 1)


@compiled(inline="always")
def chance(k, time):
    """A number below 65536, as good as random, for cell k at this time."""
    h = np.uint32(np.uint32(k) * np.uint32(2654435761) + np.uint32(time) * np.uint32(2246822519))
    h = np.uint32((h ^ (h >> np.uint32(15))) * np.uint32(2246822519))
    h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(3266489917))
    return np.uint32(h >> np.uint32(16))


@compiled
def judge(state, tally, time):
    """Average the votes over neighbours and blobs, smooth them in time, and leave each cell's verdict in `tally`."""
    sums, counts, place, blob, root, total, number = state
    rows, cols = sums.shape
    total[:] = np.float32(0.0)
    number[:] = 0
    for i in range(rows):
        for j in range(cols):
            k = np.int64(root[i * cols + j])
            if k >= 0:
                total[k] += sums[i, j]
                number[k] += counts[i, j]
    rest = np.float32(1.0) - KEEP
    for i in range(rows):
        for j in range(cols):
            k = np.int64(root[i * cols + j])
            if k < 0:
                place[i, j] = blob[i, j] = np.float32(0.0)
                tally[i, j] = 0
                continue
            v, n = np.float32(0.0), np.int32(0)
            for a in range(max(0, i - 1), min(rows, i + 2)):
                for b in range(max(0, j - 1), min(cols, j + 2)):
                    v += sums[a, b]
                    n += counts[a, b]
            if n > 0:
                place[i, j] = KEEP * place[i, j] + rest * (v / np.float32(n))
            if number[k] > 0:
                blob[i, j] = KEEP * blob[i, j] + rest * (total[k] / np.float32(number[k]))
            verdict = OBJECT
            if place[i, j] > np.float32(0.0) and blob[i, j] > np.float32(0.0):
                verdict = GHOST
            elif blob[i, j] > DOUBT:
                verdict = GHOST if chance(i * cols + j, time) < TRIALS else UNCLEAR
            tally[i, j] = np.int32(verdict)


@compiled
def keep_reference(old, new, old_grey, new_grey, settled, raw, tally, mark):
    """new, a copy of the frame, gets the old colour back where an object or a shadow is.

    `settled` gets the cells' verdicts. An alarm that the median took out at the rim of an object belongs to it: it would be eaten
    from its corners otherwise.
    """
    height, width = settled.shape
    for y in range(height):
        kept = np.uint8(0)
        for x in range(width):
            kept |= np.uint8(settled[y, x] | raw[y, x])
        if kept == 0:
            continue
        for x in range(width):
            verdict = np.uint8(tally[y // CELL, x // CELL])
            if settled[y, x] == 0 and raw[y, x] != mark and (raw[y, x] != ALARM or verdict != OBJECT):
                continue
            p = y * width + x
            settled[y, x] = SHADOW if raw[y, x] == mark and settled[y, x] == 0 else verdict
            for c in range(old.shape[1]):
                new[p, c] = old[p, c]
            new_grey[y + RIM, x + RIM] = old_grey[y + RIM, x + RIM]
