"""What passes between the front and a media worker, beside the requests themselves.

A worker asks for places and says how it does; the front answers, says whose sound has to wait, and
when to drain. JSON texts over a WebSocket on the worker's own Unix socket: nobody else is there.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct

from server.errors import ErrorType, ServiceError

CONTROL = "/control"
"""Where a worker's socket takes the front's connection."""


class _Message(Struct, array_like=True, tag=True):
    """Base of all messages."""


# From a worker


class Take(_Message):
    """A place for session ``number`` of the caller counted under ``names``?"""

    number: int
    names: tuple[str, ...]


class End(_Message):
    """The place is given back."""

    number: int


class Offer(_Message):
    """The caller of session ``number`` is lost: a newcomer may have its place."""

    number: int


class Keep(_Message):
    """The caller is back."""

    number: int


class Report(_Message):
    """How a worker does, several times a second.

    ``heard``: seconds of sound of the sessions that have heard more; ``busy``: why no calls should
    be brought here now, empty where they may.
    """

    heard: dict[int, float]
    busy: str


# From the front


class Taken(_Message):
    """The place is had."""

    number: int


class Refused(_Message):
    """There is none; the fields are those of a :class:`server.errors.ServiceError`."""

    number: int
    status: int
    kind: ErrorType
    code: str
    told: str
    retry_after: float | None

    @classmethod
    def of(cls, number: int, error: ServiceError) -> Refused:
        """``error`` for session ``number``."""
        why = (error.status, error.type, error.code, error.message, error.retry_after)
        return cls(number, *why)

    def error(self) -> ServiceError:
        """As it was."""
        told = (self.status, self.kind, self.code, self.told)
        return ServiceError(*told, retry_after=self.retry_after)


class GiveUp(_Message):
    """A newcomer needs the place that was offered: end that session."""

    number: int


class Owing(_Message):
    """Seconds until callers have paid for the sound of these sessions; of all others nothing."""

    debts: dict[int, float]


class Drain(_Message):
    """Take no more callers, and give those here ``seconds`` to finish."""

    seconds: float


FromWorker: TypeAlias = Take | End | Offer | Keep | Report
FromFront: TypeAlias = Taken | Refused | GiveUp | Owing | Drain

from_worker = msgspec.json.Decoder(FromWorker)
from_front = msgspec.json.Decoder(FromFront)


def text(message: FromWorker | FromFront) -> str:
    """A message as it is sent."""
    return msgspec.json.encode(message).decode()
