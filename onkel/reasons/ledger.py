"""What a budget dropped, followed in compiled code: one row of kernel values for each term that goes, as learning takes one for
each example that comes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onkel.core.loop.rows import fill
from onkel.core.machine.compiled import VECTOR, compiled
from onkel.core.machine.lanes import aligned


def followed(kernel: Any, X: Any, coefs: Any, decays: Any, scores: Any, own: Any, reach: Any, size: int, smallest: bool) -> Any:
    """(squares |f_t|^2, |f|^2 at the end, lengths of what went at each step, what they come to, birth dates at the end)."""
    m, width = X.shape
    held = int(min(np.count_nonzero(coefs), size, reach.max())) + 1
    room = (held + 15) // 16 * 16
    slots, row = aligned((width, room), X.dtype), aligned((1, room), X.dtype)
    slots[:], row[:] = 0, 0
    born, weight = np.full(room, -1, np.int64), np.zeros(room)
    squares, drops = np.empty(m), np.zeros(m)
    last, dropped = _follow(kernel, X, coefs, decays, scores, own, reach, size, smallest, slots, row, born, weight, squares, drops)
    return squares, last, drops, dropped, np.sort(born[born >= 0])


@compiled
def _follow(kernel, X, coefs, decays, scores, own, reach, size, smallest, slots, row, born, weight, squares, drops):
    # fifteen arguments: arrays that the caller has laid out, and what the run was; compiled code takes no objects
    m, room, live = len(X), len(born), 0
    oldest = 1  # no term is older
    scale, square, dropped = 1.0, 0.0, 0.0
    for t in range(m):
        squares[t] = square
        a, s = coefs[t], decays[t]
        square = max(s * s * square + 2.0 * s * a * scores[t] + a * a * own[t], 0.0)
        dropped *= s
        scale *= s
        if scale < 1e-9:
            for i in range(room):
                weight[i] *= scale
            scale = 1.0
        if a != 0.0:
            i = 0
            while born[i] >= 0:
                i += 1
            born[i], weight[i] = t + 1, a / scale
            for j in range(X.shape[1]):
                slots[j, i] = X[t, j]
            live += 1
        while live > 0:
            if live > size and smallest:
                out = _weakest(weight, born)
            else:
                if live <= size and not oldest < t + 2 - reach[t]:
                    break
                out = _oldest(born)
                oldest = born[out]
                if live <= size and not oldest < t + 2 - reach[t]:
                    break
            gone, k = scale * weight[out], own[born[out] - 1]
            fill(kernel, slots, 0, X, born[out] - 1, room, row, 0)
            square = max(square - 2.0 * gone * scale * _product(row, weight) + gone * gone * k, 0.0)
            drops[t] += abs(gone) * math.sqrt(k)
            born[out], weight[out] = -1, 0.0
            live -= 1
        dropped += drops[t]
    return square, dropped


@compiled
def _oldest(born):
    out = -1
    for i in range(len(born)):
        if born[i] >= 0 and (out < 0 or born[i] < born[out]):
            out = i
    return out


@compiled
def _weakest(weight, born):
    """The smallest coefficient, the oldest on ties."""
    out = -1
    for i in range(len(born)):
        if born[i] >= 0:
            a = abs(weight[i])
            if out < 0 or a < abs(weight[out]) or (a == abs(weight[out]) and born[i] < born[out]):
                out = i
    return out


@compiled(fastmath=VECTOR)
def _product(row, weight):
    total = 0.0
    for i in range(len(weight)):
        total += row[0, i] * weight[i]
    return total
