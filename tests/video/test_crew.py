"""Threads that share one frame."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
from numba import njit

from onkel.video.cpu.crew import Crew, claim, report, tally


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
    for _ in range(5):
        crew.run(work, 50)
    assert crew.jobs[0].qsize() <= 1  # what was slept through does not pile up
    release.set()
    assert crew.run(work, 50) == 50
    assert (visits == 7).all()


def test_the_threads_end_with_their_crew():
    before = set(threading.enumerate())
    crew = Crew(4)
    helpers = set(threading.enumerate()) - before
    assert len(helpers) == 3
    visits, owner = np.zeros(500, np.int64), np.zeros(500, np.int64)

    def work_of(crew):  # which keeps the crew, as the work of a model keeps the model
        return lambda thread, turns: crew and count_visits(visits, owner, thread, turns)

    assert crew.run(work_of(crew), 500) == 500
    alive = weakref.ref(crew)
    del crew
    wait = time.monotonic() + 10
    while alive() is not None and time.monotonic() < wait:
        time.sleep(0.01)
        gc.collect()
    assert alive() is None
    for helper in helpers:
        helper.join(10)
        assert not helper.is_alive()
