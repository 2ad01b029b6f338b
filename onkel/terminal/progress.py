"""Where a command stands, and what it has to say meanwhile: standard error, shared by a line of progress and by messages.

A terminal sees one line that is rewritten.  Under TERM=dumb, under NO_COLOR and where standard error is no terminal there are
whole lines, few of them and without control codes.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Self, TypeVar

from onkel.terminal.escape import for_terminal

FRESH = "\r\x1b[2K"  # to the start of the line, and empty it
WIDTH = 12  # of the bar
OFTEN, SELDOM = 0.2, 10.0  # seconds between two lines, rewritten or whole
Item = TypeVar("Item")


def rewritten() -> bool:
    """Whether a line on standard error can be written over."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def say(command: str, text: object) -> None:
    """A message of a command, on a line of its own; what it quotes is made harmless here."""
    print(f"{FRESH if rewritten() else ''}{command}: {for_terminal(text, lines=True)}", file=sys.stderr, flush=True)


class Progress:
    """One line that tells how far a command has come; ``quiet`` tells nothing.

    ``first`` is shown at once where the line is rewritten: compiling takes its time before anything else is known.
    """

    def __init__(self, quiet: bool = False, first: str = ""):
        self.wanted, self.rewrites = not quiet, rewritten()
        self.begun = time.monotonic()
        self.next = self.begun + (0.0 if self.rewrites else SELDOM)
        if first and self.wanted and self.rewrites:
            self._write(first)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def due(self) -> bool:
        """Whether a line would be written now: what is dear to find out may wait until then."""
        return self.wanted and time.monotonic() >= self.next

    def show(self, text: str, share: float = 0.0) -> None:
        """The line, if it is time for one; ``share`` of the work, if known, comes first as a bar and as time left."""
        if not self.due:
            return
        now = time.monotonic()
        self.next = now + (OFTEN if self.rewrites else SELDOM)
        self._write(f"{self._bar(share, now - self.begun)}{text}")

    @staticmethod
    def _bar(share: float, seconds: float) -> str:
        if not 0.0 < share <= 1.0:
            return ""
        full = int(WIDTH * share)
        left = seconds * (1.0 - share) / share
        return f"{'█' * full}{'░' * (WIDTH - full)} {100 * share:3.0f} %, {minutes(left)} left; "

    def _write(self, text: str) -> None:
        text = for_terminal(text)
        if self.rewrites:
            sys.stderr.write(FRESH + text[: max(20, _columns() - 1)])
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Leave an empty line behind."""
        if self.wanted and self.rewrites:
            sys.stderr.write(FRESH)
            sys.stderr.flush()


def over(items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items one by one, with progress on the way."""
    with Progress() as progress:
        for done, item in enumerate(items):
            progress.show(f"{done} of {len(items)} {what}", done / len(items))
            yield item


def minutes(seconds: float) -> str:
    """
    >>> minutes(75)
    '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80
