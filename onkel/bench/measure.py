"""How things are timed: contenders take turns in one process, in CPU time, on one thread, each called once before.

A race is a few contenders that are measured in the same rounds, so that whatever else the machine does hits all of them
alike.  What is believed is the median over the rounds, and above all the ratio of two medians.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from onkel.core.machine.compiled import compiled
from onkel.core.machine.lanes import WIDTH, load, store

from .rows import Row

Work = Callable[[int], "float | None"]


class Contender(NamedTuple):
    """One way to do the work: ``work(r)`` is round r, which handles ``examples`` of them and may return a quality.

    Round 0 is the warm-up and is not timed.  ``clock`` is CPU time of the process unless the work is elsewhere.
    """

    name: str
    work: Work
    examples: float
    clock: Callable[[], float] = time.process_time


@dataclass(frozen=True)
class Result:
    """What one contender took, in seconds per example for each round, and how well it predicted before learning."""

    name: str
    examples: float
    seconds: list[float]
    quality: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)


Results = dict[str, Result]


@dataclass(frozen=True)
class Race:
    """Contenders that take turns, and the rows of the table that their results make."""

    name: str
    contenders: list[Contender]
    rows: Callable[[Results], list[Row]]
    rounds: int = 0  # 0: as many as the run has
    extra: dict[str, list[float]] = field(default_factory=dict)  # what else was noted on the way, for the files

    def run(self, rounds: int) -> Results:
        """Time them, round by round."""
        for contender in self.contenders:
            contender.work(0)
        gc.collect()
        gc.freeze()  # what the packages hold need not be looked through before each turn
        seconds: dict[str, list[float]] = {contender.name: [] for contender in self.contenders}
        quality: dict[str, list[float]] = {contender.name: [] for contender in self.contenders}
        for r in range(1, (self.rounds or rounds) + 1):
            for name, work, examples, clock in self.contenders:
                gc.collect()
                start = clock()
                good = work(r)
                seconds[name].append((clock() - start) / examples)
                if good is not None:
                    quality[name].append(good)
        gc.unfreeze()
        return {
            c.name: Result(c.name, c.examples, seconds[c.name], statistics.mean(quality[c.name]) if quality[c.name] else None)
            for c in self.contenders
        }


@contextmanager
def one_thread() -> Iterator[None]:
    """Every BLAS and OpenMP pool in this process on one thread: equal for all, and steady on a busy machine."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield


def children_time() -> float:
    """CPU seconds of the child processes that have ended."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# --- the limits of the machine ----------------------------------------------------------------------------------------------------

SGEMM, DGEMM, READ, FMA = "SGEMM", "DGEMM", "read", "FMA"


@compiled
def multiply_add(ones, n):
    """8 x 16 numbers that stay in registers, each times one plus one, n times: what the arithmetic units can do at the most."""
    one = load(ones, 0, 0)
    a = b = c = d = e = f = g = h = one
    for _ in range(n):
        a, b, c, d = a * one + one, b * one + one, c * one + one, d * one + one
        e, f, g, h = e * one + one, f * one + one, g * one + one, h * one + one
    store(ones, 1, 0, ((a + b) + (c + d)) + ((e + f) + (g + h)))


def limits(side: int = 1024, megabytes: int = 128) -> list[Contender]:
    """BLAS's matrix products and multiply-adds in registers, per flop, and reading an array that no cache holds, per byte."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, side, side))
    single, out = [a.astype(np.float32), b.astype(np.float32)], [np.empty((side, side), kind) for kind in (np.float32, float)]
    long = np.ones(megabytes << 18, np.float32)

    def sgemm(r: int) -> None:
        np.dot(*single, out=out[0])

    def dgemm(r: int) -> None:
        np.dot(a, b, out=out[1])

    def read(r: int) -> None:
        np.dot(long, long)

    ones, turns = np.ones((2, WIDTH), np.float32), side * side

    def fma(r: int) -> None:
        multiply_add(ones, turns)

    flops = 2.0 * side**3
    return [
        Contender(SGEMM, sgemm, flops),
        Contender(DGEMM, dgemm, flops),
        Contender(FMA, fma, 2.0 * 8 * WIDTH * turns),
        Contender(READ, read, long.nbytes),
    ]


def percent_of_sgemm(flops: float, ours: Result, results: Results) -> float:
    """The useful flops per example over what a plain matrix product does in the same time.

    >>> fast = Result("SGEMM", 1, [1e-11])             # 100 GFLOP/s
    >>> round(percent_of_sgemm(2e6, Result("ours", 1, [4e-5]), {"SGEMM": fast}), 6)
    50.0
    """
    return 100.0 * flops * results[SGEMM].median / ours.median
