"""Copies that no other thread can tear.

Short calls into compiled code keep Python's lock, so an example is learned as one step for all threads.  Copying several arrays has
to be one step as well: between two copies, and inside one that NumPy makes of a large array, other threads may run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.machine.lanes import aligned

# Without the lock (free-threaded Python) nothing is one step: whoever learns in place then has to take the long way, which locks.
ONE_AT_A_TIME: bool = getattr(sys, "_is_gil_enabled", lambda: True)()


def together(arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Copies of contiguous arrays, all of one moment, each beginning at a cache line."""
    moment = b"".join(arrays)  # type: ignore[arg-type] # one C call, which keeps the lock as long as anything in it may change
    copies, start = [], 0
    for array in arrays:
        copy = aligned(array.shape, array.dtype)
        copy.ravel()[:] = np.frombuffer(moment, array.dtype, array.size, start)
        copies.append(copy)
        start += array.nbytes
    return copies
