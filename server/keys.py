"""API keys: made by the operator, kept as hashes in a file that a running server follows.

A key is 256 random bits, so one round of SHA-256 hides it as well as anything would: slow hashes
are for secrets that people choose, and could be guessed. The file is replaced whole, and the
server looks whether it changed at each request: a new key or a revocation holds at once.

Where the file is, keys are asked for. To revoke the last one therefore locks everybody out and
opens nothing, and a file that can no longer be read does the same.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import structlog

from server.state import state_folder, write_whole

PREFIX = "parley_"
"""Keys begin with it, so that people and scanners of sources know one when they see it."""

log = structlog.get_logger(__name__)


class ApiKey(msgspec.Struct, frozen=True):
    """A key, as far as it is kept: ``created`` in unix seconds, ``sha256`` of the key in hex."""

    id: str
    name: str
    created: int
    sha256: str


class KeysProblem(Exception):
    """The file cannot be used; the message names it and says why."""


def keys_path(chosen: Path | None) -> Path:
    """The file: the operator's choice, or in the server's own folder."""
    return chosen or state_folder() / "keys.json"


def read(path: Path) -> tuple[ApiKey, ...] | None:
    """The keys in the file at ``path``; None where there is none.

    Raises:
        KeysProblem: it is there and cannot be read.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=tuple[ApiKey, ...])
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise KeysProblem(f"keys_file: cannot read {path}: {problem.strerror}") from None
    except msgspec.MsgspecError:
        raise KeysProblem(f"keys_file: {path} does not hold keys") from None


def create(path: Path, name: str, now: int) -> tuple[ApiKey, str]:
    """Makes a key; returns it and, for the one time that it is known, the secret itself.

    Raises:
        KeysProblem: the file cannot be read or written.
    """
    secret = PREFIX + secrets.token_urlsafe(32)
    key = ApiKey(f"key_{secrets.token_hex(6)}", name, now, _digest(secret))
    with _alone(path):
        _write(path, (*(read(path) or ()), key))
    return key, secret


def revoke(path: Path, key_id: str) -> bool:
    """Takes a key out; False where there is none of that id.

    Raises:
        KeysProblem: the file cannot be read or written.
    """
    if not (keys := read(path)) or all(key.id != key_id for key in keys):
        return False
    with _alone(path):
        _write(path, tuple(key for key in read(path) or () if key.id != key_id))
    return True


class Keys:
    """The file's keys as a running server sees them.

    Args:
        path: the file; it need not be there yet.

    Raises:
        KeysProblem: it is there and cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _version(path)
        keys = read(path)
        self._keys = keys or ()
        self._required = keys is not None

    @property
    def required(self) -> bool:
        """Whether callers have to show a key. Once they had to, they do until the server ends."""
        self._follow()
        return self._required

    def find(self, secret: str) -> ApiKey | None:
        """The key that ``secret`` is. Takes as long whichever it is, and if it is none."""
        self._follow()
        digest = _digest(secret)
        found = [key for key in self._keys if hmac.compare_digest(key.sha256, digest)]
        return found[0] if found else None

    def has(self, key_id: str) -> bool:
        """Whether that key is there still."""
        self._follow()
        return any(key.id == key_id for key in self._keys)

    def _follow(self) -> None:
        """Reads the file if it changed: a replaced file has another inode, or another time."""
        version = _version(self._path)
        if version == self._seen:
            return
        self._seen = version
        try:
            self._keys = read(self._path) or ()
        except KeysProblem as problem:
            self._keys = ()
            log.error("keys cannot be read", problem=str(problem))
        else:
            log.info("keys read", keys=len(self._keys))
        self._required = True


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def _write(path: Path, keys: tuple[ApiKey, ...]) -> None:
    write_whole(path, msgspec.json.format(msgspec.json.encode(keys)) + b"\n", 0o600)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keeps others who change the file at the same time waiting: none of their keys is lost."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
    except OSError as problem:
        raise KeysProblem(f"keys_file: cannot write {path}: {problem.strerror}") from None
