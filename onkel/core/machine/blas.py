"""BLAS, held to one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_lock, _holders, _limit = Lock(), 0, None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS on one thread until the last holder leaves: on small blocks, or on a busy machine, more of them wait for each other, and
    several learners at once have cores enough to fill."""
    global _holders, _limit
    with _lock:
        _holders += 1
        if _holders == 1:
            _limit = _controller().limit(limits=1, user_api="blas")
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                _limit.restore_original_limits()  # type: ignore[attr-defined]


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
