"""Who may: keys with a scope, of which only the digests are stored.

{"alice": {"scope": "learn", "sha256": "..."}}        read < learn < admin
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from pathlib import Path

from onkel.saved import atomic

SCOPES = ("read", "learn", "admin")


class Keys:
    """The file is read again when it changes, so that a key can be added or taken back while the server runs."""

    def __init__(self, path: Path):
        self.path = path
        self.seen: tuple[int, int] | None = None
        self.known: dict[str, tuple[str, bytes]] = {}
        self.read()

    def read(self) -> None:
        stat = os.stat(self.path)
        if (stat.st_mtime_ns, stat.st_size) == self.seen:
            return
        try:
            content = json.loads(self.path.read_text())
            known = {name: (key["scope"], bytes.fromhex(key["sha256"])) for name, key in content.items()}
            if any(scope not in SCOPES or len(digest) != 32 for scope, digest in known.values()):
                raise ValueError("a scope or a digest is not as it should be")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{self.path} is no file of keys ({error}); `onkel keys add NAME --keys {self.path}` makes one"
            ) from None
        self.known, self.seen = known, (stat.st_mtime_ns, stat.st_size)

    def scope(self, key: str) -> str | None:
        """What a key may do; every stored digest is compared, each in constant time."""
        try:
            self.read()
        except (OSError, ValueError):
            pass  # the keys that were good stay good while the file is being changed
        digest, found = hashlib.sha256(key.encode()).digest(), None
        for scope, stored in self.known.values():
            if hmac.compare_digest(stored, digest):
                found = scope
        return found


def allows(scope: str | None, wanted: str) -> bool:
    return scope is not None and SCOPES.index(scope) >= SCOPES.index(wanted)


def add(path: Path, name: str, scope: str) -> str:
    """A new key under this name; the file keeps its digest, the caller shows it once."""
    if path.exists():
        Keys(path)
    content = json.loads(path.read_text()) if path.exists() else {}
    if name in content:
        raise ValueError(f"{path} has a key for {name!r} already; remove it first: onkel keys remove {name}")
    key = f"onkel_{secrets.token_urlsafe(32)}"
    content[name] = {"scope": scope, "sha256": hashlib.sha256(key.encode()).hexdigest()}
    _write(path, content)
    return key


def remove(path: Path, name: str) -> None:
    content = json.loads(path.read_text())
    if content.pop(name, None) is None:
        raise ValueError(f"{path} has no key for {name!r}")
    _write(path, content)


def _write(path: Path, content: dict[str, object]) -> None:
    atomic.write(path, (json.dumps(content, indent=1) + "\n").encode())
    os.chmod(path, 0o600)
