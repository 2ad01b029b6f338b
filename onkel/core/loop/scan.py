"""The hot loop over a block: have an example's kernel values, learn it (step.py), keep its point; and scores without learning."""

from __future__ import annotations

from typing import NamedTuple

from onkel.core.loop import layout as at
from onkel.core.loop.dispatch import coefficient_rows, outputs
from onkel.core.loop.rows import fill, self_value
from onkel.core.loop.step import step
from onkel.core.loop.vectors import mix, padded, place, sums
from onkel.core.machine.calls import unpacked
from onkel.core.machine.compiled import compiled, overload
from onkel.core.machine.numbers import keys_of, whole


class Given(NamedTuple):
    """Stands where a kernel would, when kernel values come in a matrix."""


def row_of(kernel, X, t, own, slots, base, n):
    """Have the kernel values between example t and the slots; returns the one with itself."""


@overload(row_of)
def _row_of(kernel, X, t, own, slots, base, n):
    if kernel.instance_class is Given:
        return lambda kernel, X, t, own, slots, base, n: own[t]

    def computed(kernel, X, t, own, slots, base, n):
        fill(kernel, slots, base + at.AUX, X, t, n, slots, base + at.WORK)
        return self_value(kernel, X, t)

    return computed


def rows_of(kernel, X, slots):
    """The matrix in which kernel values stand: row t of the given one, or the row WORK of slots."""


@overload(rows_of)
def _rows_of(kernel, X, slots):
    if kernel.instance_class is Given:
        return lambda kernel, X, slots: X
    return lambda kernel, X, slots: slots


def keep_point(kernel, X, t, slot, inner, slots, base, source):
    """Example t has taken a slot."""


@overload(keep_point)
def _keep_point(kernel, X, t, slot, inner, slots, base, source):
    if kernel.instance_class is not Given:

        def copied(kernel, X, t, slot, inner, slots, base, source):
            for j in range(X.shape[1]):
                slots[base + at.AUX + j, slot] = X[t, j]

        return copied

    def noted(kernel, X, t, slot, inner, slots, base, source):
        # Later rows of the block must see the slot's new owner: its kernel values overwrite the rest of that column.
        source[slot] = t
        for later in range(t + 1, len(X)):
            X[later, slot] = inner[later, t]

    return noted


@compiled(borrow=True)
def scan(fixed):
    """Learn a block one by one; pace holds step size, weight and reach back, one row for all or one for each example.  Returns
    an error code, or 0.  Scores go to ``answers``, what else is told of example t to column begin + t of ``traces``.

    Either X holds the examples and ``kernel`` fills their rows, or ``kernel`` is Given() and X holds the kernel values between
    the block and the slots, ``inner`` those within the block and ``own`` their diagonal; ``source[slot]`` then tells which
    example lives there.  ``kappa`` is the label kernel, empty for the identity; ``traced`` is None where there is no trace.

    Later rows see the buffer as it is, in slot order, so any way of cutting the stream into blocks gives the same model.
    A single example comes in as a block of one (one_row.py): there is one loop, and one piece of machine code for it.
    """
    (
        loss, kappa, kernel, traced, X, inner, own, y, pace, rule, num, slots, born, gram, answers, traces, begin, source,
    ) = unpacked(fixed)  # fmt: skip
    m = outputs(loss, answers)
    base = coefficient_rows(traced, m)
    keys, K = keys_of(slots), rows_of(kernel, X, slots)
    for t in range(len(X)):
        kxx = row_of(kernel, X, t, own, slots, base, padded(whole(num[at.USED]), slots))
        r = t if inner.size > 0 else base + at.WORK
        p = t if len(pace) > 1 else 0
        slot = step(
            loss, kappa, traced, K, r, kxx, y[t], pace[p, 0], pace[p, 1], pace[p, 2],
            rule, num, slots, keys, born, gram, answers, t, traces, begin + t, m, base,
        )  # fmt: skip
        if slot < at.NOT_STORED:
            return slot
        if slot >= 0:
            keep_point(kernel, X, t, slot, inner, slots, base, source)
    return 0


@compiled(borrow=True)
def score(fixed):
    """f(x) + b for the rows of X, kernel values computed here; ``work`` is the caller's, so that readers may share a state."""
    kappa, kernel, first, X, num, slots, work, raw, out = unpacked(fixed)
    m, start = out.shape[1], whole(0.0)  # not the constant: all that is called would be compiled again for it
    for t in range(len(X)):
        n = padded(whole(num[at.USED]), slots)
        fill(kernel, slots, first, X, t, n, work, start)
        sums(work, start, slots, start, n, raw, start, m, num[at.SCALE])
        mix(kappa, raw, start, m, m)
        for z in range(m):
            out[t, z] = raw[m + z] + num[place(at.B, m) + z]
    return 0
