"""Threads that share one frame: each takes a few blocks at a time until none is left, in compiled code, without the GIL.

Who takes what is settled by one atomic counter, so no thread waits for another's interpreter, a thread that is held up
elsewhere delays little, and a helper that wakes too late finds nothing left.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from onkel.core.machine.compiled import compiled
from onkel.core.machine.memory import add_atomic

Work = Callable[[int, np.ndarray], Any]
NEXT, FINISHED, TALLY = 0, 1, 2  # what `turns` counts: pieces begun, pieces finished, and whatever the work wants summed
PATIENCE = 50_000  # looks at the counter, about 0.1 ms, before others are let run: going to sleep and waking up takes as long


@compiled(inline="always")
def claim(turns, pieces):
    """Take the next pieces; the number of the first one, which is past the end when nothing is left."""
    return add_atomic(turns.ctypes.data + 8 * NEXT, np.int64(pieces))


@compiled(inline="always")
def report(turns, pieces):
    """Say that so many pieces are finished."""
    add_atomic(turns.ctypes.data + 8 * FINISHED, np.int64(pieces))


@compiled(inline="always")
def tally(turns, amount):
    """Add to the sum that `Crew.run` returns."""
    add_atomic(turns.ctypes.data + 8 * TALLY, np.int64(amount))


@compiled
def finished(turns, size):
    """Wait a little for the other threads; are all pieces finished?"""
    for _ in range(PATIENCE):
        if add_atomic(turns.ctypes.data + 8 * FINISHED, 0) >= size:
            return True
    return False


def serve(number: int, jobs: SimpleQueue[tuple[Work, np.ndarray] | None]) -> None:
    """The life of helper `number`: one job after the other until None comes. What fails here fails in the caller's thread too."""
    while (job := jobs.get()) is not None:
        with suppress(Exception):
            job[0](number, job[1])
        job = None  # while it waits, it holds on to nobody's frames


class Crew:
    """`threads` threads, the caller's among them, for compiled work that takes its pieces by `claim` and `report`."""

    def __init__(self, threads: int):
        self.jobs: list[SimpleQueue[tuple[Work, np.ndarray] | None]] = [SimpleQueue() for _ in range(1, threads)]
        for number, jobs in enumerate(self.jobs, 1):
            Thread(target=serve, args=(number, jobs), name=f"onkel-video-{number}", daemon=True).start()
            weakref.finalize(self, jobs.put, None)

    def run(self, work: Work, size: int, meanwhile: Callable[[], Any] | None = None) -> int:
        """work(thread, turns) in every thread until `size` pieces are finished, and the tally; the caller's own is number 0.

        It does something else `meanwhile`, before it joins in: helpers take a moment to wake up.
        """
        turns = np.zeros(3, np.int64)  # new for every run: a helper that comes late must not meet the counter of the next
        for jobs in self.jobs:
            with suppress(Empty):
                jobs.get_nowait()  # a job that its helper slept through, or after a fork will never see, must not pile up
            jobs.put((work, turns))
        if meanwhile:
            meanwhile()
        work(0, turns)
        while not finished(turns, size):
            time.sleep(0)
        return int(turns[TALLY])
