"""The hot loop over a block: have an example's kernel values, learn it (step.py), keep its point; and scores without learning."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from onkel.core.loop.dispatch import outputs
from onkel.core.loop.evict import integer
from onkel.core.loop.layout import ADAPTIVE, ADAPTIVE_IMPLICIT, AUX, NOT_STORED, SCALE, STEP, USED, WORK, B
from onkel.core.loop.rows import fill, self_value
from onkel.core.loop.step import step
from onkel.core.loop.vectors import mix, padded, place, sums
from onkel.core.machine.compiled import MELT, compiled, overload


class Given(NamedTuple):
    """Stands where a kernel would, when kernel values come in a matrix."""


def look(kernel, X, t, own, slots, base, n):
    """Have the kernel values between example t and the slots; returns the one with itself."""


@overload(look, jit_options=MELT)
def _look(kernel, X, t, own, slots, base, n):
    if kernel.instance_class is Given:
        return lambda kernel, X, t, own, slots, base, n: own[t]

    def computed(kernel, X, t, own, slots, base, n):
        fill(kernel, slots, base + AUX, X, t, n, slots, base + WORK)
        return self_value(kernel, X, t)

    return computed


def rows_of(kernel, X, slots):
    """The matrix in which kernel values stand: row t of the given one, or the row WORK of slots."""


@overload(rows_of, jit_options=MELT)
def _rows_of(kernel, X, slots):
    if kernel.instance_class is Given:
        return lambda kernel, X, slots: X
    return lambda kernel, X, slots: slots


def keep_point(kernel, X, t, slot, inner, slots, base, source):
    """Example t has taken a slot."""


@overload(keep_point, jit_options=MELT)
def _keep_point(kernel, X, t, slot, inner, slots, base, source):
    if kernel.instance_class is not Given:

        def copied(kernel, X, t, slot, inner, slots, base, source):
            for j in range(X.shape[1]):
                slots[base + AUX + j, slot] = X[t, j]

        return copied

    def noted(kernel, X, t, slot, inner, slots, base, source):
        # Later rows of the block must see the slot's new owner: its kernel values overwrite the rest of that column.
        source[slot] = t
        for later in range(t + 1, len(X)):
            X[later, slot] = inner[later, t]

    return noted


@compiled(borrow=True)
def scan(loss, kappa, kernel, X, inner, own, y, pace, rule, num, slots, born, gram, answers, traces, begin, source):
    """Learn a block one by one; pace holds step size, weight and reach back, one row for all or one for each example.  Returns
    an error code, or 0.  Scores go to ``answers``, what else is told of example t to column begin + t of ``traces``.

    Either X holds the examples and ``kernel`` fills their rows, or ``kernel`` is Given() and X holds the kernel values between
    the block and the slots, ``inner`` those within the block and ``own`` their diagonal; ``source[slot]`` then tells which
    example lives there.  ``kappa`` is the label kernel, empty for the identity.

    Later rows see the buffer as it is, in slot order, so any way of cutting the stream into blocks gives the same model.
    """
    m = outputs(loss, answers)
    base = 2 * m if rule[STEP] == ADAPTIVE or rule[STEP] == ADAPTIVE_IMPLICIT else m
    keys, K = slots.view(integer(slots)), rows_of(kernel, X, slots)
    for t in range(len(X)):
        kxx = look(kernel, X, t, own, slots, base, padded(int(num[USED]), slots))
        r = t if inner.size > 0 else base + WORK
        p = t if len(pace) > 1 else 0
        slot = step(
            loss, kappa, K, r, kxx, y[t], pace[p, 0], pace[p, 1], pace[p, 2],
            rule, num, slots, keys, born, gram, answers, t, traces, begin + t, m, base,
        )  # fmt: skip
        if slot < NOT_STORED:
            return slot
        if slot >= 0:
            keep_point(kernel, X, t, slot, inner, slots, base, source)
    return 0


@compiled(melt=True)
def answer(kappa, kernel, X, t, first, num, slots, work, raw):
    """f(x) + b of row t of X into the second half of raw; points stand from row ``first`` of slots on."""
    m, n = raw.size // 2, padded(int(num[USED]), slots)
    fill(kernel, slots, first, X, t, n, work, 0)
    sums(work, 0, slots, 0, n, raw, 0, m, num[SCALE])
    mix(kappa, raw, 0, m, m)
    for z in range(m):
        raw[m + z] += num[place(B, m) + z]


@compiled
def score(kappa, kernel, X, first, num, slots, out):
    """f(x) + b for the rows of X, kernel values computed here; works in memory of its own, so that readers may share a state."""
    m = out.shape[1]
    work, raw = np.empty((1, slots.shape[1]), slots.dtype), np.empty(2 * m)
    for t in range(len(X)):
        answer(kappa, kernel, X, t, first, num, slots, work, raw)
        for z in range(m):
            out[t, z] = raw[m + z]
