"""Whoever is sent a session's events: the client, by its socket or data channel, and sidebands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from server.missed import Missed
from server.protocol.event import ServerEvent, encode

if TYPE_CHECKING:
    from msgspec import Struct

    from server.protocol.adapter import Adapter, Place

SUBSCRIBERS = 8
"""Who may be sent one session's events."""


class Subscriber(Protocol):
    """Takes a session's events."""

    def send(self, text: bytes) -> None:
        """Takes an event's JSON. Never blocks; one who cannot keep up closes itself."""


class Audience:
    """The subscribers of one session.

    Args:
        adapter: says who hears what.
        missed: keeps what a client may come back for.
    """

    __slots__ = ("_adapter", "_keeps_sound", "_places", "missed")

    def __init__(self, adapter: Adapter, missed: Missed) -> None:
        self.missed = missed
        self._adapter = adapter
        self._keeps_sound = missed.sound
        self._places: tuple[tuple[Subscriber, Place], ...] = ()

    @property
    def crowded(self) -> bool:
        """Whether nobody else may join."""
        return len(self._places) >= SUBSCRIBERS

    def join(self, subscriber: Subscriber, place: Place, missed: Sequence[bytes] = ()) -> None:
        """Sends it what is heard at ``place`` from now on: the opening first, then ``missed``."""
        for event in self._adapter.opening(place):
            subscriber.send(encode(event))
        for text in missed:
            subscriber.send(text)
        self.leave(subscriber)
        self._places += ((subscriber, place),)

    def leave(self, subscriber: Subscriber) -> None:
        """Sends it nothing more."""
        self._places = tuple(each for each in self._places if each[0] is not subscriber)

    def clear(self) -> None:
        """Sends nobody anything more."""
        self._places = ()

    def place(self, subscriber: Subscriber) -> Place:
        """Where it sits; the client's for one who has gone."""
        return next((place for each, place in self._places if each is subscriber), "client")

    def tell(self, events: Sequence[Struct], only: Sequence[Subscriber] | None = None) -> None:
        """Sends each event, written once, to whoever hears it; with ``only``, to these alone."""
        hearers = self._places if only is None else [(who, self.place(who)) for who in only]
        for event in events:
            text = b""
            for subscriber, place in hearers:
                if self._adapter.hears(place, event):
                    text = text or encode(event)
                    subscriber.send(text)
            if (
                only is None
                and isinstance(event, ServerEvent)
                and (self._keeps_sound or not event.carries_sound)
            ):
                self._keep(event, text)

    def _keep(self, event: ServerEvent, text: bytes) -> None:
        if self._adapter.hears("client", event):
            self.missed.keep(event.event_id, text or encode(event))
