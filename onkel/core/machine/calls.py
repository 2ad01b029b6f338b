"""Calls so short that handing over the arguments is most of their cost: one example in, one answer out.

Numba takes an array apart anew at each call, a twentieth of a microsecond each, and a learner has ten.  Here a function's fixed
arguments are taken apart once, and only their address travels (``Road``, ``unpacked``); an example is looked at where it lies,
as NumPy's own C macros do (``Row``, ``data_of``), which also finds out whether it is the kind of row that was promised.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, c_char
from functools import cached_property, partial
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.callconv import excinfo_t
from numba.core.registry import cpu_target
from numba.extending import NativeValue, models, register_model, unbox
from numba.np.arrayobj import populate_array

from onkel import undisturbed
from onkel.core.machine.compiled import compiled, inner, intrinsic


class Packed(types.Type):  # type: ignore[misc]
    """The address of values of these types."""

    def __init__(self, kinds: Any):
        self.kinds = kinds
        super().__init__(f"Packed({kinds})")

    @property
    def key(self) -> Any:
        """What makes it equal to another: the types, not their names, for two losses of users may have the same."""
        return self.kinds


class Row(types.Type):  # type: ignore[misc]
    """Any Python object, as its address."""

    def __init__(self) -> None:
        super().__init__("Row")


@register_model(Packed)
@register_model(Row)
class _Address(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any):
        super().__init__(manager, kind, ir.IntType(64))


@unbox(Packed)  # type: ignore[untyped-decorator]
def _unbox_packed(kind: Any, given: Any, c: Any) -> Any:
    return NativeValue(c.pyapi.long_as_longlong(given))


@unbox(Row)  # type: ignore[untyped-decorator]
def _unbox_row(kind: Any, given: Any, c: Any) -> Any:
    return NativeValue(c.builder.ptrtoint(given, ir.IntType(64)))


@intrinsic
def _put(typingctx: Any, address: Any, values: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], args[1].type.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, values), generate


@intrinsic
def unpacked(typingctx: Any, fixed: Any) -> Any:
    """The values that were packed."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = context.get_value_type(fixed.kinds)
        return builder.load(builder.inttoptr(args[0], kind.as_pointer()))

    return fixed.kinds(fixed), generate


@compiled(borrow=True)
def _pack(address, values):
    _put(address, values)


class Road:
    """A way into compiled code whose first argument is one pack: ``road(values)`` calls ``dispatcher`` with what it unpacks.

    Made for the types of ``values``; whatever comes later must really have these types, for nobody looks at them any more.
    ``tail`` are the types of the other arguments, for ways in that are kept open.
    """

    def __init__(self, dispatcher: Any, values: tuple[Any, ...], *tail: Any):
        kinds = numba.typeof(values)
        context = cpu_target.target_context
        with undisturbed():
            self._write = _pack.compile((types.int64, kinds))
            self._enter = dispatcher.compile((Packed(kinds), *tail))
        self._size = context.get_abi_sizeof(context.get_value_type(kinds))
        self._code = dispatcher, (Packed(kinds), *tail)

    @cached_property
    def address(self) -> int:
        return address_of(*self._code)

    def _packed(self, values: tuple[Any, ...]) -> tuple[bytearray, int]:
        memory = bytearray(self._size)
        address = addressof(c_char.from_buffer(memory))
        self._write(address, values)
        return memory, address

    def __call__(self, values: tuple[Any, ...]) -> int:
        packed = self._packed(values)  # whose memory must last as long as the call
        return int(self._enter(packed[1]))

    def pack(self, values: tuple[Any, ...]) -> Pack:
        """The values packed for good, for other compiled code."""
        memory, address = self._packed(values)
        return Pack(self.address, address, (memory, values))

    def entry(self, values: tuple[Any, ...], keeps: Any = None) -> Callable[..., Any]:
        """The values packed for good: a function of the other arguments, which must really have their types.

        The arrays among the values must stay where they are.  ``keeps`` is what must stay in memory beside them.
        """
        memory, address = self._packed(values)
        entry = partial(self._enter, address)
        entry.keeps = (memory, values, keeps)  # type: ignore[attr-defined]
        return entry


class Pack(NamedTuple):
    """Where compiled code stands, where its arguments do, and what must stay in memory meanwhile."""

    code: int
    values: int
    keeps: Any


def close(entry: Any) -> None:
    """From now on every row is unfit for this entry, also for a thread that holds it already but has not called it yet.

    What a row is compared with goes first, and with it everything that was packed, in one step for all threads.
    """
    memory = memoryview(entry.keeps[0])
    memory[:] = bytes(len(memory))


# --- code by its address ----------------------------------------------------------------------------------------------------------
# What is rarely needed, or the same for many callers, is compiled apart, when somebody asks for its address; numbers that hold
# addresses (exact below 2^53) stand among a learner's settings.  Nobody checks types at an address: both sides agree on one name,
# and on whole numbers of 64 bits and double precision.

promised: dict[str, set[Any]] = {}  # by name, the types for which an address was asked, and those that compiled code passes there:
passed: dict[str, set[Any]] = {}  # a test compares them


def address(name: str, dispatcher: Any, *samples: Any) -> int:
    """Where the machine code of dispatcher for arguments like these begins; ``jumper(name)`` goes there."""
    kinds = tuple(_agreed(numba.typeof(sample)) for sample in samples)
    promised.setdefault(name, set()).add(kinds)
    return address_of(dispatcher, kinds)


def address_of(dispatcher: Any, kinds: tuple[Any, ...]) -> int:
    with undisturbed():
        dispatcher.compile(kinds)
    made = dispatcher.overloads[kinds]
    if types.unliteral(made.signature.return_type) != types.int64:
        raise TypeError(f"{dispatcher.__name__} must return a whole number; it returns {made.signature.return_type}")
    return int(made.library.get_pointer_to_function(made.fndesc.llvm_func_name))


def _agreed(kind: Any) -> Any:
    kind = types.unliteral(kind)
    if isinstance(kind, types.Integer | Packed):
        return types.int64
    return types.float64 if isinstance(kind, types.Float) else kind


def jumper(name: str) -> Any:
    """A function of compiled code, jump(where, arguments): calls what stands there, which returns a whole number."""

    @intrinsic
    def jump(typingctx: Any, where: Any, arguments: Any) -> Any:
        kinds = tuple(map(_agreed, arguments.types))
        passed.setdefault(name, set()).add(kinds)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            convention = context.call_conv
            kind = convention.get_function_type(types.int64, kinds)
            target = builder.inttoptr(args[0], kind.as_pointer())
            given = [
                context.cast(builder, builder.extract_value(args[1], i), have, want)
                for i, (have, want) in enumerate(zip(arguments.types, kinds))
            ]
            result = cgutils.alloca_once(builder, ir.IntType(64))
            error = cgutils.alloca_once(builder, ir.PointerType(excinfo_t))
            code = builder.call(target, [result, error, *convention._get_arg_packer(kinds).as_arguments(builder, given)])
            status = convention._get_return_status(builder, code, builder.load(error))
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            return builder.load(result)

        return types.int64(types.int64, arguments), generate

    return jump


# --- a row of numbers, straight from the Python object ----------------------------------------------------------------------------

ROW = Row()
_TYPE, _DATA, _DIMENSIONS, _SHAPE, _DTYPE, _FLAGS = 8, 16, 24, 32, 56, 64  # where a PyArrayObject keeps them; part of NumPy's ABI
_CONTIGUOUS_AND_ALIGNED = 0x1 | 0x100


def rows_like(width: int, dtype: Any) -> tuple[int, int, int]:
    """What ``data_of`` compares a row with: the addresses of NumPy's array type and of the dtype, and the length."""
    return id(np.ndarray), id(np.dtype(dtype)), width


def _peeking(bits: int) -> Any:
    @intrinsic
    def peek(typingctx: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            cell = builder.load(builder.inttoptr(args[0], ir.IntType(bits).as_pointer()))
            return builder.sext(cell, ir.IntType(64)) if bits < 64 else cell

        return types.int64(types.int64), generate

    return peek


_int, _word = _peeking(32), _peeking(64)


@intrinsic
def _address(typingctx: Any, row: Any) -> Any:
    return types.int64(row), lambda context, builder, sig, args: args[0]


@inner(inlined=True)
def data_of(row, like):
    """Where the numbers of a row lie; 0 if it is not an aligned, contiguous array like those that ``like`` describes."""
    o = _address(row)
    if _word(o + _TYPE) != like[0] or _word(o + _DTYPE) != like[1] or _int(o + _DIMENSIONS) != 1:
        return 0
    plain = _int(o + _FLAGS) & _CONTIGUOUS_AND_ALIGNED == _CONTIGUOUS_AND_ALIGNED
    return _word(o + _DATA) if plain and _word(_word(o + _SHAPE)) == like[2] else 0


def _view(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any]) -> Any:
    """An array of that type over memory that someone else keeps."""
    size = context.get_constant(types.intp, kind.dtype.bitwidth // 8)
    strides = [size] if len(shape) == 1 else [builder.mul(shape[1], size), size]
    made = context.make_array(kind)(context, builder)
    populate_array(made, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return made._getvalue()


@intrinsic
def array_at(typingctx: Any, address: Any, width: Any, array: Any) -> Any:
    """The numbers there as an array, no copy, with the dtype of ``array``."""
    kind = types.Array(array.dtype, 1, "C")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = builder.inttoptr(args[0], context.get_data_type(array.dtype).as_pointer())
        return _view(context, builder, kind, data, [args[1]])

    return kind(types.int64, types.int64, array), generate


@intrinsic
def matrix_of(typingctx: Any, array: Any, start: Any, rows: Any, columns: Any) -> Any:
    """What stands in a contiguous array from ``start`` on, as a matrix; ``reshape`` without a call."""
    kind = types.Array(array.dtype, 2, "C")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        data = builder.gep(context.make_array(sig.args[0])(context, builder, args[0]).data, [args[1]])
        return _view(context, builder, kind, data, [args[2], args[3]])

    return kind(array, types.int64, types.int64, types.int64), generate
