"""The folder where the weights lie, and the proof that they are what was pinned.

Hashing 200 MB at every start would cost a second, so a file that was proved is stamped with its
size and time of change; while both hold, it counts as proved. A file that was touched since is
hashed again, which also admits one that an image or a backup brought in.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from engine.weights.pinned import Weight


def folder() -> Path:
    """``PARLEY_CACHE``, or ``parley`` in the user's XDG cache."""
    if named := os.environ.get("PARLEY_CACHE"):
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "parley"


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Stamp(msgspec.Struct, frozen=True):
    size: int
    mtime_ns: int
    sha256: str


_Stamps = dict[str, _Stamp]


class Cache:
    """The weights in one folder.

    Args:
        root: the folder; it need not exist before ``locked``.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._stamps = root / "verified.json"

    def path(self, weight: Weight) -> Path:
        """Where ``weight`` lies, or will."""
        return self.root / weight.name

    def state(self, weight: Weight) -> Literal["verified", "missing", "damaged"]:
        """Whether the file can be used; hashes it unless it is stamped as it stands."""
        path = self.path(weight)
        if not path.is_file():
            return "missing"
        stamps = self._read()
        if stamps.get(weight.name) == _stamp(path, weight.sha256):
            return "verified"
        if sha256(path) != weight.sha256:
            return "damaged"
        stamps[weight.name] = _stamp(path, weight.sha256)
        with contextlib.suppress(OSError):  # a cache that may only be read still serves
            self._write(stamps)
        return "verified"

    def install(self, weight: Weight, file: Path) -> None:
        """Moves ``file``, which lies on the same disk, to where ``weight`` belongs, in one step."""
        path = self.path(weight)
        path.parent.mkdir(exist_ok=True)
        file.replace(path)

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Makes the folder and holds it against other fetches; yields whether it had to wait."""
        self.root.mkdir(parents=True, exist_ok=True)
        with (self.root / "lock").open("w") as lock:
            waited = False
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waited = True
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield waited

    def _read(self) -> _Stamps:
        try:
            return msgspec.json.decode(self._stamps.read_bytes(), type=_Stamps)
        except (OSError, msgspec.DecodeError):
            return {}

    def _write(self, stamps: _Stamps) -> None:
        fresh = self._stamps.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(msgspec.json.encode(stamps))
        fresh.replace(self._stamps)


def _stamp(path: Path, digest: str) -> _Stamp:
    stat = path.stat()
    return _Stamp(stat.st_size, stat.st_mtime_ns, digest)
