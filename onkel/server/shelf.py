"""All models of a folder: those in use in memory, the others on the disk, each rebuilt to the bit when it is asked for."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Any

from onkel.persist import loads

from .errors import Refused
from .journal import Journal
from .served import Served, first_link


def entry(row: dict[str, Any]) -> Served:
    """A line of the table of models, its estimator still on the disk."""
    about = ("id", "name", "stream", "begins", "shadow_of", "about", "step", "chain", "stats")
    return Served(**{name: row[name] for name in about})


def rebuilt(journal: Journal, served: Served, step: int | None = None, from_start: bool = False) -> Served:
    """The model as it was after ``step`` of its stream (now, if None): the newest snapshot before it, then the log, in order."""
    wanted = served.step if step is None else step
    found = None if from_start else journal.snapshot(served.id, wanted)
    made = served.copy_of_entry()
    if found is None:
        file = journal.start_of(served.id)
        made.step, made.chain, made.stats = served.begins, first_link(file), {}
    else:
        made.step, made.chain, made.stats, file = found
    if made.step < wanted and journal.first_step(served.stream, served.step) > made.step + 1:
        raise Refused(
            410, "gone", f"the log no longer reaches back to step {wanted - served.begins}; --keep-log says how far it does"
        )
    made.model = loads(file)
    for example in journal.examples(served.stream, made.step, wanted):
        made.count(example.judged.get(str(served.id), [None, None]), example.label)
        made.learn(example.row, example.label, example.weight)
    if step is None:
        made.stats = dict(served.stats)
    return made


class Shelf:
    """Names to models.  The writer publishes; anybody reads.  At most ``limit`` bytes of models stay in memory."""

    def __init__(self, journal: Journal, limit: int):
        self.journal, self.limit = journal, limit
        self.entries: dict[str, Served] = {row["name"]: entry(row) for row in journal.models()}
        self.expired: dict[int, int] = {int(stream): count for stream, count in journal.fact("expired", {}).items()}
        self.used: OrderedDict[int, float] = OrderedDict()
        self.lock = threading.Lock()  # held while a model is brought in, never while one is in use

    def find(self, name: str) -> Served:
        found = self.entries.get(name)
        if found is None:
            raise Refused(404, "model", f"there is no model {name!r} here; GET /v1/models lists them")
        return found

    def ready(self, name: str) -> Served | None:
        """The model, if it is in memory."""
        found = self.find(name)
        if found.model is None:
            return None
        self.used[found.id] = time.monotonic()
        self.used.move_to_end(found.id)
        return found

    def bring(self, name: str) -> Served:
        """The model, from the disk if need be: takes as long as its replay."""
        with self.lock:
            found = self.find(name)
            if found.model is None:
                with self.journal.reader() as journal:
                    found = rebuilt(journal, found)
                current = self.entries.get(name)
                if current is None or current.step != found.step:
                    raise Refused(503, "busy", "the model changed while it was brought from the disk; try again", 1)
                self.entries[name] = found
            self.used[found.id] = time.monotonic()
            return found

    def shadows(self, served: Served) -> list[Served]:
        return [other for other in list(self.entries.values()) if other.shadow_of == served.id]

    def answering(self, served: Served) -> Served | None:
        """The model that a shadow shadows."""
        return next((other for other in list(self.entries.values()) if other.id == served.shadow_of), None)

    def together(self, served: Served) -> list[Served]:
        """Every model that learns the same stream, this one first."""
        return [
            served,
            *(other for other in list(self.entries.values()) if other.stream == served.stream and other.id != served.id),
        ]

    def publish(self, changed: list[Served]) -> None:
        for served in changed:
            self.entries[served.name] = served
            self.used[served.id] = time.monotonic()
            self.used.move_to_end(served.id)

    @property
    def bytes(self) -> int:
        return sum(int(served.model.nbytes) for served in list(self.entries.values()) if served.model is not None)

    def idle(self) -> list[Served]:
        """Models to put on the disk, longest unused first, until the others fit."""
        loaded = {served.id: served for served in self.entries.values() if served.model is not None}
        excess, going = sum(int(s.model.nbytes) for s in loaded.values()) - self.limit, []
        for number in list(self.used):
            if excess <= 0 or len(going) == len(loaded) - 1:
                break
            if number in loaded:
                going.append(loaded[number])
                excess -= int(loaded[number].model.nbytes)
        return going
