"""Errors that a client is told: always JSON with ``error`` and ``detail``, never a traceback."""

from __future__ import annotations


class Refused(Exception):
    """An HTTP status, a word for programs and a sentence for people; nothing was changed."""

    def __init__(self, status: int, error: str, detail: str, retry_after: int | None = None):
        super().__init__(detail)
        self.status, self.error, self.detail, self.retry_after = status, error, detail, retry_after
