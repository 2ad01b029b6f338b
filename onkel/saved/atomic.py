"""The one way in which onkel writes a file: whole or not at all, whatever happens meanwhile.

The new file is written beside the old one, flushed to the disk and renamed over it, then the folder is flushed.  Until then it
is called .NAME.0.part (.1 where another writer of NAME is at work) and is locked.  The kernel gives up the locks of a process
that was killed, so the next writer of NAME can tell what is left over, which it removes, from what is still being written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not on Windows: there a part that was left over stays
    fcntl = None  # type: ignore[assignment]

Name = str | os.PathLike[str]


def write(path: Name, content: bytes, flush: bool = True) -> None:
    """The file ``path`` with this content, whole or not at all."""
    with replacing(path, flush) as stream:
        stream.write(content)


@contextmanager
def replacing(path: Name, flush: bool = True) -> Iterator[BinaryIO]:
    """A stream whose content becomes the file ``path`` at the end of the block; an error inside leaves everything as it was.

    ``flush=False`` is for files that can be made again: a killed process leaves the old one or the new one all the same, but
    after a power cut the new one may be missing.  An OSError names ``path``, also when the disk is full.
    """
    target = Path(os.path.realpath(path))  # a link keeps pointing where it does
    with _named(path):
        descriptor, part = _part_of(target)
        try:
            with open(descriptor, "wb") as stream:
                yield stream
                stream.flush()
                with suppress(FileNotFoundError):
                    os.chmod(part, target.stat().st_mode & 0o777)  # who could not read the old file cannot read the new one
                if flush:
                    os.fsync(descriptor)
                if fcntl:
                    os.replace(part, target)  # while it is locked
            if not fcntl:
                os.replace(part, target)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
        if flush and os.name == "posix":  # elsewhere a folder cannot be opened
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def check(path: Name) -> None:
    """Raise now, before any work is done, what would keep ``path`` from being written later."""
    with _named(path):
        descriptor, part = _part_of(Path(os.path.realpath(path)))
        os.close(descriptor)
        part.unlink()


# --- inside ----------------------------------------------------------------------------------------------------------------------


@contextmanager
def _named(path: Name) -> Iterator[None]:
    """Every error of the system tells of the file that was wanted, not of its part, and never of none."""
    try:
        yield
    except OSError as error:
        if error.filename is None or str(error.filename).endswith(".part"):
            error.filename, error.filename2 = os.fspath(path), None
        raise


def _part_of(target: Path) -> tuple[int, Path]:
    """A new, locked file beside ``target``; parts of ``target`` that nobody writes any more are removed on the way."""
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "This is a folder; give the name of a file", os.fspath(target))
    mine: tuple[int, Path] | None = None
    for number in count():
        part = target.with_name(f".{target.name}.{number}.part")
        while part.exists() and _removed(part):
            pass
        if mine is None:
            mine = _created(part)
        elif not part.exists():
            return mine
    raise AssertionError


def _created(part: Path) -> tuple[int, Path] | None:
    """A new file, locked; None if there is one of that name."""
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    except FileExistsError:
        return None
    if fcntl:
        with suppress(OSError):  # a file system without locks: nobody will take it for left over
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink == 0:  # somebody took it for left over before it was locked
            os.close(descriptor)
            return None
    return descriptor, part


def _removed(part: Path) -> bool:
    """Whether nobody writes this part, which then is gone."""
    if not fcntl:
        return False
    try:
        descriptor = os.open(part, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return True
    except OSError:  # somebody else's
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.stat(part)):
            part.unlink()
        return True
    except FileNotFoundError:
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
