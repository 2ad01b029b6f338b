"""Threads that share one frame."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
from numba import njit

from onkel.video.crew import Crew, claim, report, tally


@njit(nogil=True)
def count_visits(visits, owner, thread, turns):
    first = claim(turns, 3)
    while first < visits.size:
        last = min(first + 3, visits.size)
        for i in range(first, last):
            visits[i] += 1
            owner[i] = thread
        tally(turns, last - first)
        report(turns, last - first)
        first = claim(turns, 3)


def test_every_piece_is_done_once_before_run_returns():
    crew, owner = Crew(3), np.zeros(20_000, np.int64)
    for size in [20_000] * 200 + [1, 2, 3, 4]:
        visits = np.zeros(size, np.int64)
        total = crew.run(lambda thread, turns, visits=visits: count_visits(visits, owner, thread, turns), size)
        assert total == size
        assert (visits == 1).all()
    assert set(np.unique(owner)) <= {0, 1, 2}


def test_a_helper_that_comes_late_changes_nothing():
    crew, visits, owner = Crew(2), np.zeros(50, np.int64), np.zeros(50, np.int64)
    release = threading.Event()

    def work(thread, turns):
        if thread:
            release.wait(10)
        count_visits(visits, owner, thread, turns)

    assert crew.run(work, 50) == 50  # the caller did it all and did not wait
    assert (owner == 0).all()
    release.set()
    assert crew.run(work, 50) == 50
    assert (visits == 2).all()


def test_the_threads_end_with_their_crew():
    before = threading.active_count()
    crew = Crew(4)
    assert threading.active_count() == before + 3
    del crew
    gc.collect()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before
