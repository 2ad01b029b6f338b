"""How onkel compiles: one decorator around Numba's, with a disk cache that knows the whole core.

Numba's own cache looks only at the file in which a function stands.  A change in ``losses.py`` would then leave stale machine
code behind in the loop of ``scan.py``.  Here every cached function carries the stamp of all modules of the package's core, so
any edit or upgrade compiles afresh, and the second process starts from the cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.extending import intrinsic, overload

CORE = ("compiled", "layout", "kernels", "labels", "losses", "prox", "budget", "scan", "blocks", "calibration")

# Sums may be re-ordered so that they vectorise; NaN and infinity keep their meaning.
VECTOR = {"reassoc", "contract", "nsz", "arcp"}


def _stamp() -> tuple[tuple[str, int, int], ...]:
    folder = Path(__file__).parent
    stats = [(name, os.stat(folder / f"{name}.py")) for name in CORE if (folder / f"{name}.py").exists()]
    return tuple((name, s.st_mtime_ns, s.st_size) for name, s in stats)


_STAMP = _stamp()


def compiled(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: set[str] | bool = False,
    inline: str = "never",
    melt: bool = False,
    borrow: bool = False,
    nogil: bool = True,
    cache: bool = True,
) -> Any:
    """Compile on first call, keep the machine code on disk.

    ``melt`` is for functions of the innermost loop: their machine code becomes part of the caller's, since handing over arrays
    takes as long as their work does.  ``borrow`` is for entry points that allocate nothing: arrays are lent by the caller and
    nobody counts references to them, which otherwise takes more time than learning an example does.  ``nogil=False`` is for
    calls so short that letting other threads run would cost more.  ``cache=False`` is for what a user wrote in his session.
    """
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": fastmath, "nogil": nogil, "inline": inline, "forceinline": melt}
    options["_nrt"] = not (borrow or melt)  # said in both cases: callees would inherit it otherwise
    if function is None:
        return lambda f: _cached(f, options) if cache else numba.njit(**options)(f)
    return _cached(function, options) if cache else numba.njit(**options)(function)


def _cached(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write: compile in every process instead of failing
        return numba.njit(**options)(function)
    try:
        entry = dispatcher._cache._cache_file
        entry._source_stamp = _STAMP
        # Two processes that compile at once would both choose number 1 and overwrite each other's machine code.
        entry._data_name_pattern = entry._data_name_pattern.replace(".{number", f".{os.getpid()}.{{number")
    except AttributeError:  # another Numba: its own stamp has to do
        pass
    return dispatcher


class Value:
    """Named tuples that are values of their own: RBF(1.0) is not Laplacian(1.0), though the tuples are alike."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and bool(tuple.__eq__(self, other))  # type: ignore[operator, arg-type]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple.__hash__(self)))  # type: ignore[arg-type]


@intrinsic  # type: ignore[untyped-decorator]
def _bits_to_double(typingctx: Any, bits: Any = None) -> Any:
    return numba.float64(numba.int64), lambda context, builder, sig, args: builder.bitcast(args[0], ir.DoubleType())


@intrinsic  # type: ignore[untyped-decorator]
def _double_to_bits(typingctx: Any, value: Any = None) -> Any:
    return numba.int64(numba.float64), lambda context, builder, sig, args: builder.bitcast(args[0], ir.IntType(64))


@intrinsic  # type: ignore[untyped-decorator]
def _bits_to_float(typingctx: Any, bits: Any = None) -> Any:
    return numba.float32(numba.int32), lambda context, builder, sig, args: builder.bitcast(args[0], ir.FloatType())


@intrinsic  # type: ignore[untyped-decorator]
def _float_to_bits(typingctx: Any, value: Any = None) -> Any:
    return numba.int32(numba.float32), lambda context, builder, sig, args: builder.bitcast(args[0], ir.IntType(32))


_LOG2E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it leaves round(x) in the low bits


@compiled(fastmath={"contract"})
def _exp_double(x):
    x = x if x > -708.0 else -708.0
    shifted = x * _LOG2E + _MAGIC
    n = shifted - _MAGIC
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    p = 1.6059043836821613e-10  # Taylor to r^13: 4e-18 on |r| <= ln 2 / 2
    p = p * r + 2.08767569878681e-09
    p = p * r + 2.505210838544172e-08
    p = p * r + 2.755731922398589e-07
    p = p * r + 2.7557319223985893e-06
    p = p * r + 2.48015873015873e-05
    p = p * r + 0.0001984126984126984
    p = p * r + 0.001388888888888889
    p = p * r + 0.008333333333333333
    p = p * r + 0.041666666666666664
    p = p * r + 0.16666666666666666
    p = p * r + 0.5
    p = (p * r) * r + r
    return (1.0 + p) * _bits_to_double((_double_to_bits(shifted) << np.int64(52)) + np.int64(4607182418800017408))


_LOG2E_F = np.float32(1.4426950408889634)
_LN2_HIGH_F = np.float32(0.693359375)
_LN2_LOW_F = np.float32(-2.12194440e-4)
_MAGIC_F = np.float32(12582912.0)
_ONE_F = np.float32(1.0)
_FLOOR_F = np.float32(-87.0)
_P0, _P1, _P2, _P3, _P4, _P5 = (np.float32(c) for c in (1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1 / 5040))


@compiled(fastmath={"contract"})
def _exp_single(x):
    x = x if x > _FLOOR_F else _FLOOR_F
    shifted = x * _LOG2E_F + _MAGIC_F
    n = shifted - _MAGIC_F
    r = (x - n * _LN2_HIGH_F) - n * _LN2_LOW_F
    p = _P5 * r + _P0
    p = p * r + _P1
    p = p * r + _P2
    p = p * r + _P3
    p = p * r + _P4
    p = (p * r) * r + r
    bits = np.int32(np.int32(_float_to_bits(shifted) << np.int32(23)) + np.int32(1065353216))
    return (_ONE_F + p) * _bits_to_float(bits)


def exp(x: Any) -> Any:
    """exp of a number that is not positive, in the number's own precision, without a call: loops over it vectorise."""
    return np.exp(x)


@overload(exp)
def _exp(x):
    if x == numba.float32:
        return lambda x: _exp_single(x)
    return lambda x: _exp_double(x)


def bound(dispatcher: Any, head: tuple[Any, ...], tail: tuple[Any, ...]) -> Callable[..., Any]:
    """dispatcher with its first arguments fixed, the types of the others known from ``tail``: no type is looked at any more.

    A call then costs a third of a microsecond instead of two.  The tail's types must really be these.
    """
    return partial(dispatcher.compile(tuple(numba.typeof(a) for a in (*head, *tail))), *head)
