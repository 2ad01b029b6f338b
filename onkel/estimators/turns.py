"""One writer at a time, and readers who get a copy of one moment.

The short way to learn an example is one call into compiled code, which no other thread interrupts, so it needs no lock.  Whoever
learns in any other way (blocks, new classes, the first examples) takes a turn: the lock of the estimator, and the short ways into
its model are closed, also for threads that have found one but have not yet gone in.  These then wait for their turn.
Copies (``snapshot``, files, pickles) are taken in turn as well, and in one piece: see :func:`onkel.core.machine.copies.together`.
"""

from __future__ import annotations

from threading import RLock
from typing import Any

LOCK = "_lock"  # where an estimator keeps its lock; it is never copied


def turn(estimator: Any) -> Any:
    """The estimator's lock: ``with turn(self): ...``"""
    lock = estimator.__dict__.get(LOCK)
    return estimator.__dict__.setdefault(LOCK, RLock()) if lock is None else lock  # setdefault is one step for all threads


def without_lock(parts: dict[str, Any]) -> dict[str, Any]:
    """The attributes of an estimator that a copy gets."""
    return {name: value for name, value in parts.items() if name != LOCK}
