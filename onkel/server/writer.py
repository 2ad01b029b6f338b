"""The one writer: groups of requests become one transaction each, and nobody is answered before it is on the disk.

A job works on copies of the models it touches.  Only when the group is committed are the copies published, so readers never see
what might still be lost, and a failed commit leaves everything as it was.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .errors import Refused
from .journal import Journal
from .served import Served
from .shelf import Shelf, entry

QUEUE = 2048  # jobs that may wait
GROUP = 256  # jobs in one commit
SNAPSHOT_EVERY = 2000  # examples of a stream between two snapshots
FLUSH = 0.2  # seconds after which open predictions are written though nobody learns

log = logging.getLogger("onkel.server")
Job = Callable[["Desk"], Any]


class Desk:
    """What a group works on: the journal, and a copy of every model that it touches."""

    def __init__(self, shelf: Shelf, journal: Journal, now: float, expire: float):
        self.shelf, self.journal, self.now, self.expire = shelf, journal, now, expire
        self.copies: dict[int, Served] = {}
        self.gone: set[int] = set()
        self.renamed = False
        self.begun = False  # the present job has changed something
        self.fresh: list[tuple[str, Any]] = []

    def find(self, name: str) -> Served:
        """A model, as the jobs before this one in the group left it."""
        return self.work(self.shelf.find(name))

    def work(self, served: Served) -> Served:
        if served.id not in self.copies:
            self.copies[served.id] = (served if served.model is not None else self.shelf.bring(served.name)).copy()
        return self.copies[served.id]

    def together(self, served: Served) -> list[Served]:
        return [self.work(other) for other in self.shelf.together(served) if other.id not in self.gone]

    def finish(self, keep: int) -> None:
        """Everything that changed goes into the transaction."""
        streams: dict[int, list[Served]] = {}
        for served in self.copies.values():
            if served.id in self.gone:
                continue
            streams.setdefault(served.stream, []).append(served)
            served.about["nbytes"] = int(served.model.nbytes)
            self.journal.keep_model(served.id, served.step, served.chain, served.stats, served.about)
            drawn = served.stats.get("drawn", 0)
            if served.steps - drawn >= max(20, served.steps // 400) or (drawn == 0 and served.steps):
                served.stats["drawn"] = served.steps
                self.journal.put_point(served.id, served.step, served.point())
        for stream, members in streams.items():
            step = members[0].step
            for served in members:
                if served.step - served.stats.get("kept", served.begins) >= SNAPSHOT_EVERY:
                    served.stats["kept"] = served.step
                    self.journal.put_snapshot(served.id, served.step, served.chain, served.stats, served.file())
            if step > keep and self.journal.first_step(stream, step) <= step - keep - SNAPSHOT_EVERY:
                every = [self.work(other) for other in self.shelf.together(members[0])]
                self.journal.forget_before(stream, [(other.id, other.begins) for other in every], step - keep)


class Writer:
    """Takes jobs, commits them in groups, publishes, answers."""

    def __init__(self, shelf: Shelf, journal: Journal, expire: float, keep: int, told: Callable[[list[Served]], None]):
        self.shelf, self.journal, self.expire, self.keep, self.told = shelf, journal, expire, keep, told
        self.queue: asyncio.Queue[tuple[Job, bool, asyncio.Future[Any]]] = asyncio.Queue(QUEUE)
        self.thread = ThreadPoolExecutor(1, "onkel-writer")
        self.open: list[tuple[int, str, Any, Any, float]] = []  # predictions that are not on the disk yet
        self.latest = float(journal.fact("latest", 0.0))
        self.swept = 0.0
        self.trouble: str | None = None
        self.commits = 0
        self.closing = False

    def now(self) -> float:
        """Seconds since 1970 that never run backwards, whatever the clock is set to."""
        self.latest = max(self.latest, time.time())
        return self.latest

    async def do(self, job: Job, alone: bool = False) -> Any:
        """Queue a job and wait until its group is committed; what makes, moves or ends models has a group to itself."""
        if self.closing:
            raise Refused(503, "stopping", "the server is stopping; send this again when it is back", 5)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            self.queue.put_nowait((job, alone, answer))
        except asyncio.QueueFull:
            raise Refused(503, "busy", f"{QUEUE} requests wait to be learned already; try again in a moment", 1) from None
        return await answer

    async def run(self) -> None:
        """For as long as the server lives; ends when ``stop`` was called and nothing waits any more."""
        loop = asyncio.get_running_loop()
        held = None
        while held or not (self.closing and self.queue.empty()):
            group, held = [held] if held else [], None
            try:
                if not group:
                    group.append(await asyncio.wait_for(self.queue.get(), FLUSH))
                while not group[0][1] and len(group) < GROUP and not self.queue.empty():
                    taken = self.queue.get_nowait()
                    if taken[1]:
                        held = taken
                        break
                    group.append(taken)
            except TimeoutError:
                if not self.open and self.now() - self.swept < 30.0:
                    continue
            opened, self.open = self.open, []
            done, changed = await loop.run_in_executor(self.thread, self.commit, [job for job, _, _ in group], opened)
            for (_, _, answer), result in zip(group, done):
                if answer.done():  # the client has gone; what it asked for is learned all the same
                    continue
                if isinstance(result, BaseException):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)
            self.told(changed)

    async def stop(self) -> None:
        self.closing = True

    # --- in the writer's thread

    def commit(self, jobs: list[Job], opened: list[Any]) -> tuple[list[Any], list[Served]]:
        results: dict[int, Any] = {}
        try:
            desk = self.attempt(jobs, opened, results)
        except sqlite3.Error as error:
            if self.trouble is None:
                log.error("nothing can be written: %s; learning stops, predictions go on", error)
            self.trouble = str(error)
            self.open = opened + self.open
            why = f"nothing can be written to the disk ({error}); nothing was learned. Free some space; then send this again"
            return [results.get(i) or Refused(503, "disk", why, 5) for i in range(len(jobs))], []
        if self.trouble is not None:
            log.warning("the disk takes data again; learning goes on")
        self.trouble = None
        self.commits += 1
        changed = [served for served in desk.copies.values() if served.id not in desk.gone]
        if desk.renamed or desk.gone:
            self.reload(desk)
            changed = [served for served in changed if served.id in {other.id for other in self.shelf.entries.values()}]
        else:
            self.shelf.publish(changed)
        return [results[i] for i in range(len(jobs))], changed

    def attempt(self, jobs: list[Job], opened: list[Any], results: dict[int, Any]) -> Desk:
        """One transaction for all jobs; a job that fails half-way is left out, and the group is done again without it."""
        while True:
            desk = Desk(self.shelf, self.journal, self.now(), self.expire)
            spoilt = None
            try:
                with self.journal.transaction():
                    self.journal.open(opened)
                    for number, job in enumerate(jobs):
                        if isinstance(results.get(number), BaseException):
                            continue
                        desk.begun = False
                        try:
                            results[number] = job(desk)
                        except sqlite3.Error:
                            raise
                        except Exception as error:
                            results[number] = error if isinstance(error, Refused) else _unforeseen(error)
                            if desk.begun:
                                spoilt = number
                                raise _Again from None
                    self.sweep(desk)
                    desk.finish(self.keep)
                    self.journal.put_fact("latest", desk.now)
            except _Again:
                for number in list(results):
                    if number != spoilt and not isinstance(results[number], BaseException):
                        del results[number]
                continue
            except sqlite3.Error:
                for number in list(results):
                    if not isinstance(results[number], BaseException):
                        del results[number]
                raise
            return desk

    def sweep(self, desk: Desk) -> None:
        """Twice a minute: what was predicted too long ago expires, the log is kept short, pages go back to the disk."""
        if desk.now - self.swept < 30.0:
            return
        self.swept = desk.now
        for stream, count in self.journal.expire(desk.now - self.expire).items():
            self.shelf.expired[stream] = self.shelf.expired.get(stream, 0) + count
            self.journal.put_fact("expired", self.shelf.expired)
        for served in self.shelf.idle():
            if served.id not in desk.copies:
                self.journal.put_snapshot(served.id, served.step, served.chain, served.stats, served.file())
                self.shelf.entries[served.name] = served.copy_of_entry()
                self.shelf.used.pop(served.id, None)

    def reload(self, desk: Desk) -> None:
        """After names changed: the table of models as the disk has it, with the estimators that are there."""
        loaded = {served.id: served.model for served in self.shelf.entries.values()} | {s.id: s.model for s in desk.copies.values()}
        entries = {}
        for row in self.journal.models():
            made = entry(row)
            made.model = loaded.get(made.id)
            entries[made.name] = made
        self.shelf.entries = entries

    def close(self) -> None:
        self.thread.shutdown()
        self.journal.tidy()
        self.journal.close()


class _Again(Exception):
    pass


def _unforeseen(error: Exception) -> Refused:
    log.exception("a request failed for a reason nobody foresaw")
    return Refused(500, "internal", f"{type(error).__name__}; the server's log says more. Nothing was changed")
