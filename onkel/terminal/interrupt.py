"""Ctrl-C and SIGTERM, answered where nothing is half done."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Self


class Interrupt:
    """Ctrl-C and SIGTERM are answered between two blocks, and at once while waiting for input; a second Ctrl-C always at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._reading = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._handle)
            except ValueError:  # not the main thread: signals are somebody else's
                break
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = self.signal is not None, number
        if again or self._reading:
            raise KeyboardInterrupt

    def waiting(self, read: Callable[[], Any]) -> Any:
        """What read returns, or None if a signal came meanwhile; part of a block is dropped."""
        self._reading = True
        try:
            return read()
        except KeyboardInterrupt:
            if self.signal is None:  # raised by somebody else
                raise
            return None
        finally:
            self._reading = False
