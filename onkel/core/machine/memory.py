"""Two instructions that Numba does not offer: adding to a number that other threads use, and asking for memory ahead of time."""

from __future__ import annotations

from llvmlite import ir
from numba import types

from .compiled import intrinsic


@intrinsic
def add_atomic(typingctx, address, amount):
    """Add to the int64 at an address, as one step for all threads; what stood there before."""

    def lower(context, builder, signature, args):
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", pointer, args[1], "seq_cst")

    return types.int64(types.intp, types.int64), lower


@intrinsic
def prefetch(typingctx, address):
    """Ask for the cache line at an address that will be read and written soon; never a fault, at worst in vain."""

    def lower(context, builder, signature, args):
        line, i32 = builder.inttoptr(args[0], ir.IntType(8).as_pointer()), ir.IntType(32)
        ask = ir.FunctionType(ir.VoidType(), [line.type, i32, i32, i32])
        builder.call(builder.module.declare_intrinsic("llvm.prefetch", [line.type], ask), [line, i32(1), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(types.intp), lower
