"""One-line functions of numbers and arrays, written straight in LLVM's language.

Numba compiles a library for each ``max``, ``min``, ``int`` and ``np.finfo`` that it meets, again for each constant among the
arguments; a first call had a hundred of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

from onkel.core.machine.compiled import intrinsic


def _choice(comparison: str) -> Any:
    @intrinsic
    def choose(typingctx: Any, a: Any, b: Any) -> Any:
        number = typingctx.unify_types(types.unliteral(a), types.unliteral(b))

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            first, second = (context.cast(builder, value, given, number) for value, given in zip(args, sig.args))
            compare = builder.fcmp_ordered if isinstance(number, types.Float) else builder.icmp_signed
            return builder.select(compare(comparison, second, first), second, first)

        return number(types.unliteral(a), types.unliteral(b)), generate

    return choose


larger = _choice(">")  # as Python's max and min: the first on ties, and where a comparison with NaN fails
smaller = _choice("<")


@intrinsic
def whole(typingctx: Any, x: Any) -> Any:
    """int(x)"""
    given = types.unliteral(x)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.fptosi(args[0], ir.IntType(64)) if isinstance(given, types.Float) else args[0]

    return types.int64(given), generate


@intrinsic
def keys_of(typingctx: Any, array: Any) -> Any:
    """The same memory as whole numbers: floats that are not negative compare like their bits, and minima of integers vectorise."""
    kind = types.Array(types.int32 if array.dtype.bitwidth == 32 else types.int64, array.ndim, "C")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        given = context.make_array(array)(context, builder, args[0])
        made = context.make_array(kind)(context, builder)
        data = builder.bitcast(given.data, context.get_data_type(kind.dtype).as_pointer())
        populate_array(made, data=data, shape=given.shape, strides=given.strides, itemsize=given.itemsize, meminfo=None)
        return made._getvalue()

    return kind(array), generate


def _limit_of(name: str) -> Any:
    @intrinsic
    def limit(typingctx: Any, array: Any) -> Any:
        value = float(getattr(np.finfo(as_dtype(array.dtype)), name))
        return types.float64(array), lambda context, builder, sig, args: ir.Constant(ir.DoubleType(), value)

    return limit


epsilon_of, tiny_of, largest_of = _limit_of("eps"), _limit_of("tiny"), _limit_of("max")  # of the array's numbers
