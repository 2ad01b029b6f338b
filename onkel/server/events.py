"""What happens, told to whoever listens: server-sent events for each model, and the numbers that Prometheus collects."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from .served import Served
from .shelf import Shelf

LISTENERS = 200
HEARTBEAT = 15.0  # seconds; a comment, so that neither proxies nor browsers give up


class Hub:
    """A listener is a slot for the newest event: who reads slowly misses some, and holds nobody up."""

    def __init__(self) -> None:
        self.slots: dict[int, set[asyncio.Queue[dict[str, Any] | None]]] = {}
        self.count = 0

    def tell(self, number: int, event: dict[str, Any]) -> None:
        for slot in self.slots.get(number, ()):
            if slot.full():
                slot.get_nowait()
            slot.put_nowait(event)

    def close(self) -> None:
        for slots in self.slots.values():
            for slot in slots:
                if slot.full():
                    slot.get_nowait()
                slot.put_nowait(None)

    async def listen(self, number: int) -> AsyncIterator[dict[str, Any] | None]:
        """Events of a model as they come; None: nothing for a while.  Ends when the server does."""
        slot: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(1)
        self.slots.setdefault(number, set()).add(slot)
        self.count += 1
        try:
            while True:
                try:
                    event = await asyncio.wait_for(slot.get(), HEARTBEAT)
                except TimeoutError:
                    yield None
                    continue
                if event is None:
                    return
                yield event
        finally:
            self.slots[number].discard(slot)
            self.count -= 1


class Metrics:
    """Counted here, asked for at /metrics."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf, self.registry = shelf, CollectorRegistry()
        self.known: dict[tuple[str, int], Any] = {}
        own = {"registry": self.registry}
        self.requests = Counter("onkel_requests", "Requests, by what was asked and how it was answered", ["route", "status"], **own)
        self.seconds = Histogram("onkel_request_seconds", "Time to answer", ["route"], **own)
        self.commits = Counter("onkel_commits", "Groups of requests that were made durable", **own)
        self.failed = Counter("onkel_failed_commits", "Groups that could not be written", **own)
        self.queue = Gauge("onkel_queue", "Requests that wait to be learned", **own)
        self.disk = Gauge("onkel_disk_bytes", "Size of the journal", **own)
        self.memory = Gauge("onkel_model_bytes", "Bytes of all models in memory", **own)
        self.steps = Gauge("onkel_steps", "Examples that a model has learned", ["model"], **own)
        self.error = Gauge("onkel_error", "Mean loss of a model so far: mistakes, absolute error, or alerts", ["model"], **own)
        self.recent = Gauge("onkel_recent_error", "The same over some fifty examples", ["model"], **own)
        self.bytes = Gauge("onkel_bytes", "Bytes of a model", ["model"], **own)

    def request(self, route: str, status: int, took: float) -> None:
        if (route, status) not in self.known:  # looking a label up takes longer than counting
            self.known[route, status] = self.requests.labels(route, str(status)), self.seconds.labels(route)
        count, seconds = self.known[route, status]
        count.inc()
        seconds.observe(took)

    def text(self, queue: int, disk: int) -> bytes:
        self.queue.set(queue)
        self.disk.set(disk)
        self.memory.set(self.shelf.bytes)
        for gauge in (self.steps, self.error, self.recent, self.bytes):
            gauge.clear()
        for served in list(self.shelf.entries.values()):
            self.model(served)
        return generate_latest(self.registry)

    def model(self, served: Served) -> None:
        told = served.told()
        self.steps.labels(served.name).set(told["step"])
        self.bytes.labels(served.name).set(told["bytes"])
        for gauge, value in ((self.error, told["error"]), (self.recent, told["recent"])):
            if value is not None:
                gauge.labels(served.name).set(value)
