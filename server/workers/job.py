"""What the front tells a worker: what it is to do, and who asks."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import msgspec

from server.caller import Caller
from server.settings import ServerSettings

SENDER = "X-Parley-Caller"
"""The header in which the front says who asks: msgpack of a :class:`Caller`, in base64."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker is to do: number ``index``, with sockets in ``folder``."""

    index: int
    settings: ServerSettings
    folder: Path

    @property
    def socket(self) -> Path:
        """Where it answers."""
        return self.folder / f"worker{self.index}"

    @property
    def mark(self) -> str:
        """What stands in its sessions' ids."""
        return f"_w{self.index}"


def sender(caller: Caller) -> str:
    """The header's value for ``caller``."""
    return base64.b64encode(msgspec.msgpack.encode(caller)).decode()


def caller_of(value: str) -> Caller:
    """The caller whom a header's ``value`` stands for."""
    return msgspec.msgpack.decode(base64.b64decode(value), type=Caller)
