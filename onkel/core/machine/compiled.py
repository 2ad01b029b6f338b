"""How onkel compiles: one decorator around Numba's, with a disk cache that knows the whole core.

Numba's own cache looks only at the file in which a function stands.  A change in ``losses.py`` would then leave stale machine
code behind in the loop of ``scan.py``.  Here every cached function carries the stamp of all modules of the core and of the room
it stands in, so any edit or upgrade compiles afresh, and the second process starts from the cache.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba
from numba import extending
from numba.core.registry import CPUDispatcher

from onkel import undisturbed
from onkel.core.machine.inner import PIPELINE

# Numba's own decorators say more about types than they keep.
intrinsic: Any = extending.intrinsic

# Sums may be re-ordered so that they vectorise; NaN and infinity keep their meaning.
VECTOR = {"reassoc", "contract", "nsz", "arcp"}


PACKAGE = Path(__file__).parents[2]


@cache
def _stamp(room: str) -> tuple[tuple[str, int, int], ...]:
    """Time and size of every module of the core, and of the room in which the function stands."""
    files = sorted({path for name in ("core", room) for path in (PACKAGE / name).rglob("*.py")})
    return tuple((str(path.relative_to(PACKAGE)), s.st_mtime_ns, s.st_size) for path in files for s in [path.stat()])


def _room(function: Callable[..., Any]) -> str:
    """The folder of the package below which the function's module lies: "core", "video"; the core for what lies elsewhere."""
    parts = function.__module__.split(".")
    return parts[1] if parts[0] == PACKAGE.name and len(parts) > 2 else "core"


def compiled(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: set[str] | bool = False,
    inline: str = "never",
    borrow: bool = False,
    nogil: bool = True,
    cache: bool = True,
    parallel: bool = False,
) -> Any:
    """What Python calls: compiled on first call, the machine code kept on disk.

    ``borrow`` is for entry points that allocate nothing: arrays are lent by the caller and nobody counts references to them,
    which otherwise takes more time than learning an example does.  ``nogil=False`` is for calls so short that letting other
    threads run would cost more.  ``cache=False`` is for what a user wrote in his session.  ``parallel`` is for ``numba.prange``.
    """
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": fastmath, "nogil": nogil, "inline": inline}
    options["_nrt"] = not borrow  # said in both cases: callees would inherit it otherwise
    options["no_cfunc_wrapper"] = True
    if parallel:
        options["parallel"] = True
    if function is None:
        return lambda f: _cached(f, options) if cache else numba.njit(**options)(f)
    return _cached(function, options) if cache else numba.njit(**options)(function)


def inner(
    function: Callable[..., Any] | None = None,
    *,
    fastmath: set[str] | bool = False,
    inlined: bool = False,
    borrow: bool = False,
    alone: bool = False,
    cache: bool = True,
) -> Any:
    """What compiled code calls (inner.py); Python may call it too, and then gets a copy that is compiled for it.

    ``inlined`` is for functions of the innermost loop: their machine code becomes part of the caller's, since handing over arrays
    takes as long as their work does.  They allocate nothing, as those with ``borrow`` don't: nobody counts references in there.
    ``alone`` is for short loops that are hot: optimised by themselves, then once more in the caller, what is left over of a loop
    in vectors becomes vectors, too, which makes a fifth of the whole for a budget of a hundred.
    """
    if function is None:
        return lambda f: inner(f, fastmath=fastmath, inlined=inlined, borrow=borrow, alone=alone, cache=cache)
    options = {**_inner_options(fastmath, inlined, borrow, alone), "no_cpython_wrapper": True}
    dispatcher: Any = numba.njit(**options)(function)
    dispatcher.__class__ = _Inner
    dispatcher.copy_for_python = partial(compiled, function, fastmath=fastmath, cache=cache)
    return dispatcher


class _Inner(CPUDispatcher):  # type: ignore[misc]
    """Python has no way into the code of an inner function; it goes by a copy."""

    copy_for_python: Any

    def __call__(self, *args: Any) -> Any:
        if isinstance(self.copy_for_python, partial):
            self.copy_for_python = self.copy_for_python()
        return self.copy_for_python(*args)


def overload(function: Callable[..., Any], *, fastmath: set[str] | bool = False, inlined: bool = True) -> Any:
    """``inner`` for what is chosen by the types of the arguments, as numba.extending.overload has it."""
    return extending.overload(function, jit_options=_inner_options(fastmath, inlined, inlined, False))


def _inner_options(fastmath: set[str] | bool, inlined: bool, borrow: bool, alone: bool) -> Any:
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": fastmath, "forceinline": inlined}
    options["no_cfunc_wrapper"] = True
    options["_nrt"] = not (inlined or borrow)
    # The order of sums that may be re-ordered depends on how often they are optimised: those functions go Numba's way.
    if PIPELINE is not None and fastmath != VECTOR and not alone:
        options["pipeline_class"] = PIPELINE
    return options


def _cached(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    try:
        dispatcher = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # nowhere to write: compile in every process instead of failing
        return numba.njit(**options)(function)
    try:
        entry = dispatcher._cache._cache_file
        entry._source_stamp = _stamp(_room(function))
        entry._load_index = partial(_readable, entry._load_index)
        store = dispatcher._cache
        store._load_overload = partial(_if_lasting, store._load_overload)
        store._save_overload = partial(_if_lasting, store._save_overload)
        # Two processes that compile at once would both choose number 1 and overwrite each other's machine code.
        entry._data_name_pattern = entry._data_name_pattern.replace(".{number", f".{os.getpid()}.{{number")
    except AttributeError:  # another Numba: its own stamp has to do
        pass
    return dispatcher


def _if_lasting(access: Callable[..., Any], kinds: Any, *rest: Any) -> Any:
    """Machine code for classes that others have defined stays in this process: the stamp does not know their files."""
    return access(kinds, *rest) if lasting(getattr(kinds, "args", kinds)) else None


def lasting(kind: Any) -> bool:
    """Whether this type, or tuple of types, is made of this library's classes and Numba's alone."""
    if not getattr(getattr(kind, "instance_class", None), "ours", True):
        return False
    parts = kind if isinstance(kind, tuple) else getattr(kind, "types", getattr(kind, "kinds", ()))
    return all(lasting(part) for part in (parts if isinstance(parts, Iterable) else (parts,)))


def _readable(load: Callable[[], Any]) -> Any:
    """The index of a cached function.  One that cannot be read, since it names a class that has moved, is as good as none."""
    try:
        return load()
    except Exception:
        return {}


def bound(dispatcher: Any, head: tuple[Any, ...], tail: tuple[Any, ...]) -> Callable[..., Any]:
    """dispatcher with its first arguments fixed, the types of the others known from ``tail``: no type is looked at any more.

    A call then costs a third of a microsecond instead of two.  The tail's types must really be these.
    """
    with undisturbed():
        return partial(dispatcher.compile(tuple(numba.typeof(a) for a in (*head, *tail))), *head)
