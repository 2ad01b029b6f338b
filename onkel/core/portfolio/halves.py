"""Coefficients in sixteen bits: the upper half of a float32, so that widening is a shift, which vectorises."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from onkel.core.machine.compiled import intrinsic


@intrinsic
def wide(typingctx: Any, half: Any) -> Any:
    """The float32 that sixteen bits stand for."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        whole = builder.shl(builder.zext(args[0], ir.IntType(32)), ir.Constant(ir.IntType(32), 16))
        return builder.bitcast(whole, ir.FloatType())

    return types.float32(types.uint16), generate


@intrinsic
def narrow(typingctx: Any, value: Any) -> Any:
    """The sixteen bits nearest to a finite float32; ties go to the even one."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        i32 = ir.IntType(32)
        bits = builder.bitcast(args[0], i32)
        odd = builder.and_(builder.lshr(bits, ir.Constant(i32, 16)), ir.Constant(i32, 1))
        rounded = builder.add(bits, builder.add(odd, ir.Constant(i32, 0x7FFF)))
        return builder.trunc(builder.lshr(rounded, ir.Constant(i32, 16)), ir.IntType(16))

    return types.uint16(types.float32), generate
