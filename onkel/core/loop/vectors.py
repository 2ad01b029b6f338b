"""Vectors in the arrays of the hot loop: where they begin, sums over the slots, scores of related labels."""

from __future__ import annotations

from typing import Any

from numba.core import types

from onkel.core.loop.layout import LANES, NUMBERS
from onkel.core.machine.compiled import VECTOR, inner, intrinsic
from onkel.core.machine.lanes import load, total, zeros
from onkel.core.machine.numbers import smaller

# Views of arrays are not free in compiled code (each counts references, atomically), so the functions below and their callers
# pass an array together with the place that is meant.


@intrinsic
def place(typingctx: Any, which: Any, m: Any) -> Any:
    """NUMBERS + which * m, where one of the vectors behind the numbers begins: no call, nor one more for each constant."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.add(builder.mul(args[0], args[1]), context.get_constant(types.int64, NUMBERS))

    return types.int64(types.int64, types.int64), generate


@inner(inlined=True)
def padded(n, slots):
    """n slots in whole SIMD vectors."""
    return smaller(slots.shape[1], (n + LANES - 1) // LANES * LANES)


@inner(fastmath=VECTOR, inlined=True)
def dot(a, i, b, j, n):
    """sum of a[i, :n] b[j, :n], in the arrays' precision."""
    sum = b.dtype.type(0)
    for k in range(n):
        sum += a[i, k] * b[j, k]
    return sum


@inner(inlined=True)
def sums(K, r, slots, first, n, num, target, m, scale):
    """num[target + z] = scale times the sum of K[r, :n] slots[first + z, :n], for m rows; four at a time share the loads."""
    z = 0
    while z + 4 <= m:
        a = b = c = d = zeros(slots)
        p = first + z
        for k in range(0, n, 16):
            x = load(K, r, k)
            a = a + x * load(slots, p, k)
            b = b + x * load(slots, p + 1, k)
            c = c + x * load(slots, p + 2, k)
            d = d + x * load(slots, p + 3, k)
        num[target + z], num[target + z + 1] = scale * total(a), scale * total(b)
        num[target + z + 2], num[target + z + 3] = scale * total(c), scale * total(d)
        z += 4
    while z < m:
        a = b = c = d = zeros(slots)
        k = 0
        while k + 64 <= n:
            a = a + load(K, r, k) * load(slots, first + z, k)
            b = b + load(K, r, k + 16) * load(slots, first + z, k + 16)
            c = c + load(K, r, k + 32) * load(slots, first + z, k + 32)
            d = d + load(K, r, k + 48) * load(slots, first + z, k + 48)
            k += 64
        while k < n:
            a = a + load(K, r, k) * load(slots, first + z, k)
            k += 16
        num[target + z] = scale * total((a + b) + (c + d))
        z += 1


@inner(inlined=True)
def mix(kappa, num, source, target, m):
    """target = kappa source for two vectors in num: from sums of coefficients to scores of related labels.

    An empty kappa stands for the identity.
    """
    for z in range(m):
        num[target + z] = num[source + z]
    if kappa.size > 0:
        for z in range(m):
            num[target + z] = 0.0
            for w in range(m):
                num[target + z] += kappa[z, w] * num[source + w]
