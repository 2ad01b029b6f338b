"""Vectors that stay in registers: sixteen numbers, which compiled code loads, computes with and stores as one.

A loop over an array vectorises by itself, but keeps its running sums in memory when another loop runs inside it.  Written over
lanes, the distances of sixty-four points are summed over all features before anything is stored, which is twice as fast.

``+``, ``-`` and ``*`` work between lanes, and between lanes and a number.  ``floored``, ``capped``, ``magnitude``, ``root`` and
``exp2`` take lanes or a number, so that a formula is written once for both.
"""

from __future__ import annotations

import operator
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model
from numpy.typing import NDArray

from onkel.core.machine.compiled import inner, intrinsic, overload

WIDTH = 16  # floats of one AVX-512 register; narrower machines take two or four registers for it
LINE = 64  # bytes: lanes that cross a cache line take two loads


def aligned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros that begin at a cache line."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    view: NDArray[Any] = room[start : start + size].view(dtype)
    return view.reshape(shape)


class Lanes(types.Type):  # type: ignore[misc]
    """Sixteen numbers of one type, to Numba."""

    def __init__(self, dtype: Any):
        self.dtype = dtype
        super().__init__(f"Lanes({dtype})")


@register_model(Lanes)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, lanes: Any):
        super().__init__(manager, lanes, ir.VectorType(manager.lookup(lanes.dtype).get_value_type(), WIDTH))


def _spread(context: Any, builder: Any, lanes: Any, value: Any, given: Any) -> Any:
    """value in all lanes, unless it is lanes already."""
    if isinstance(given, Lanes):
        return value
    vector, first = context.get_value_type(lanes), ir.Constant(ir.IntType(32), 0)
    nothing = ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(nothing, context.cast(builder, value, given, lanes.dtype), first)
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))


def _arithmetic(operation: Any, instruction: str) -> None:
    @infer_global(operation)
    class Typing(AbstractTemplate):  # type: ignore[misc]
        def generic(self, args: Any, kws: Any) -> Any:
            found = [a for a in args if isinstance(a, Lanes)]
            if found and all(a == found[0] or isinstance(a, types.Float) for a in args):
                return signature(found[0], *args)
            return None

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        sides = [_spread(context, builder, sig.return_type, value, given) for value, given in zip(args, sig.args)]
        return getattr(builder, instruction)(*sides, flags=("contract",))  # a product that is added becomes one instruction

    for sides in ((Lanes, Lanes), (Lanes, types.Float), (types.Float, Lanes)):
        lower_builtin(operation, *sides)(lower)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


def _cell(context: Any, builder: Any, array_type: Any, array: Any, row: Any, column: Any) -> Any:
    view = context.make_array(array_type)(context, builder, array)
    width = builder.extract_value(view.shape, 1)
    vector = ir.VectorType(context.get_data_type(array_type.dtype), WIDTH)
    return builder.bitcast(builder.gep(view.data, [builder.add(builder.mul(row, width), column)]), vector.as_pointer())


@intrinsic
def load(typingctx: Any, array: Any, row: Any, column: Any) -> Any:
    """array[row, column : column + 16] of a contiguous array, neither index negative."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_cell(context, builder, sig.args[0], *args), align=array.dtype.bitwidth // 8)

    return Lanes(array.dtype)(array, types.intp, types.intp), generate


@intrinsic
def store(typingctx: Any, array: Any, row: Any, column: Any, lanes: Any) -> Any:
    """array[row, column : column + 16] = lanes"""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[3], _cell(context, builder, sig.args[0], *args[:3]), align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, lanes), generate


@intrinsic
def zeros(typingctx: Any, array: Any) -> Any:
    """Lanes of the array's type, all zero."""
    lanes = Lanes(array.dtype)
    return lanes(array), lambda context, builder, sig, args: ir.Constant(context.get_value_type(lanes), None)


@intrinsic
def total(typingctx: Any, lanes: Any) -> Any:
    """The sum of all lanes."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector, number = args[0].type, context.get_value_type(lanes.dtype)
        kind = ir.FunctionType(number, [number, vector])
        reduce = builder.module.declare_intrinsic(f"llvm.vector.reduce.fadd.v{WIDTH}f{lanes.dtype.bitwidth}", (), kind)
        return builder.call(reduce, [ir.Constant(number, -0.0), args[0]], fastmath=("reassoc",))

    return lanes.dtype(lanes), generate


# --- of lanes or of a number ---------------------------------------------------------------------------------------------------


@intrinsic
def like(typingctx: Any, x: Any, value: Any) -> Any:
    """value as a number of x's precision."""
    number = x.dtype if isinstance(x, Lanes) else x
    return number(x, value), lambda context, builder, sig, args: context.cast(builder, args[1], value, number)


def _limit(comparison: str) -> Any:
    @intrinsic
    def limit(typingctx: Any, x: Any, bound: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            number = x.dtype if isinstance(x, Lanes) else x
            edge = context.cast(builder, args[1], bound, number)
            edge = _spread(context, builder, x, edge, number) if isinstance(x, Lanes) else edge
            return builder.select(builder.fcmp_ordered(comparison, args[0], edge), args[0], edge)

        return x(x, bound), generate

    return limit


floored = _limit(">")  # the larger of x and a number; what is not a number becomes the number
capped = _limit("<")  # the smaller of them


def _unary(name: str) -> Any:
    @intrinsic
    def call(typingctx: Any, x: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            number = x.dtype if isinstance(x, Lanes) else x
            suffix = f"{f'v{WIDTH}' if isinstance(x, Lanes) else ''}f{number.bitwidth}"
            kind = ir.FunctionType(args[0].type, [args[0].type])
            return builder.call(builder.module.declare_intrinsic(f"llvm.{name}.{suffix}", (), kind), args)

        return x(x), generate

    return call


root = _unary("sqrt")
magnitude = _unary("fabs")


@intrinsic
def _times_power(typingctx: Any, value: Any, shifted: Any) -> Any:
    """value * 2^n, n the whole number in the low bits of ``shifted``: added to the exponent."""
    number = value.dtype if isinstance(value, Lanes) else value
    mantissa = 23 if number == numba.float32 else 52

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        integer: Any = ir.IntType(number.bitwidth)
        by = ir.Constant(integer, mantissa)
        if isinstance(value, Lanes):
            integer = ir.VectorType(integer, WIDTH)
            by = ir.Constant(integer, [mantissa] * WIDTH)
        bits, n = (builder.bitcast(arg, integer) for arg in args)
        return builder.bitcast(builder.add(bits, builder.shl(n, by)), args[0].type)

    return value(value, shifted), generate


LOG2E = 1.4426950408889634
_LN2 = 0.6931471805599453
_MAGIC = 6755399441055744.0  # 1.5 * 2^52: adding it leaves round(x) in the low bits
_MAGIC_F = np.float32(12582912.0)
# 2^r = 1 + r (_C1 + r (_C2 + ...)) on |r| <= 1/2: minimax in relative error, 2e-9; rounding makes it 8e-8
_C1, _C2, _C3 = np.float32(0.6931472), np.float32(0.24022648), np.float32(0.055503324)
_C4, _C5, _C6 = np.float32(0.009618437), np.float32(0.0013398875), np.float32(0.0001535336)
_ONE = np.float32(1.0)


@inner(fastmath={"contract"}, inlined=True)
def _exp2_single(x):
    x = floored(x, np.float32(-125.0))
    shifted = x + _MAGIC_F
    r = x - (shifted - _MAGIC_F)
    p = r * _C6 + _C5
    p = p * r + _C4
    p = p * r + _C3
    p = p * r + _C2
    p = p * r + _C1
    return _times_power(p * r + _ONE, shifted)


@inner(fastmath={"contract"}, inlined=True)
def _exp2_double(x):
    x = floored(x, -1021.0)
    shifted = x + _MAGIC
    r = (x - (shifted - _MAGIC)) * _LN2
    p = r * 1.6059043836821613e-10 + 2.08767569878681e-09  # Taylor of exp to r^13: 4e-18 on |r| <= ln 2 / 2
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
    return _times_power(p + 1.0, shifted)


def exp2(x: Any) -> Any:
    """2^x of numbers that are not positive, in their own precision, without a call; never less than 2^-125, resp. 2^-1021."""
    return np.exp2(x)


@overload(exp2)
def _exp2(x):
    if x in (numba.float32, Lanes(numba.float32)):
        return lambda x: _exp2_single(x)
    return lambda x: _exp2_double(x)
