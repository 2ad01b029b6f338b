"""Random features of a Gaussian kernel whose matrix is never stored: signs come from a counter, products from Hadamard transforms.

Three rounds of signs and transforms make rows that are as good as Gaussian ones (Yu et al. 2016, orthogonal random features).
"""

from __future__ import annotations

import math

import numpy as np

from onkel.core.machine.compiled import compiled

WIDTH = 0.6  # of the median distance


@compiled
def noise(i):
    """Sixty-four bits that look random, of a counter (splitmix64)."""
    z = np.uint64(i) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def hadamard(a):
    """The Walsh-Hadamard transform in place; the length is a power of two."""
    h = 1
    while h < len(a):
        for i in range(0, len(a), 2 * h):
            for j in range(i, i + h):
                x, y = a[j], a[j + h]
                a[j], a[j + h] = x + y, x - y
        h *= 2


@compiled
def features(z, median, D, work, out):
    """out[:D] = sqrt(2 / D) cos(w.z + b), w drawn with deviation 1 / (WIDTH sqrt(median)), always the same for the same D."""
    n = len(work)
    size = 1.0 / (n * WIDTH * math.sqrt(median))  # two of three transforms are orthonormal, rows end with length sqrt(n)
    high = math.sqrt(2.0 / D)
    for first in range(0, D, n):
        work[: len(z)] = z
        work[len(z) :] = 0.0
        for turn in range(3):
            for i in range(0, n, 64):
                bits = noise(np.uint64(first * 3 + turn * n + i))
                for j in range(i, min(i + 64, n)):
                    if bits & np.uint64(1):
                        work[j] = -work[j]
                    bits >>= np.uint64(1)
            hadamard(work)
        for j in range(min(n, D - first)):
            angle = (noise(np.uint64(1 << 40) + np.uint64(first + j)) >> np.uint64(11)) * (2.0 * math.pi / 9007199254740992.0)
            out[first + j] = high * math.cos(size * work[j] + angle)
