"""Who hears what of a session: each event is written once, and goes where it belongs."""

from __future__ import annotations

import json
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from server.audience import SUBSCRIBERS, Audience
from server.missed import Missed
from server.protocol.adapter import Adapter, Place


class Told(Struct):
    """An event that is for one place, or for everybody."""

    number: int
    place: str = ""


class Protocol:
    """As much of an adapter as an audience asks."""

    def opening(self, place: Place) -> list[Told]:
        return [Told(-1, place)]

    def hears(self, place: Place, event: Told) -> bool:
        return event.place in ("", place)


class Hearer:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []

    def send(self, text: bytes) -> None:
        self.texts.append(text)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(text) for text in self.texts]


def audience() -> Audience:
    return Audience(cast(Adapter, Protocol()), Missed(sound=False))


places = st.sampled_from(["client", "sideband"])
steps = st.lists(
    st.tuples(st.sampled_from(["join", "leave", "tell", "only"]), st.integers(0, 3), places),
    max_size=40,
)


@given(steps)
def test_each_hears_its_opening_and_then_what_is_for_its_place_while_it_is_there(
    happened: list[tuple[str, int, Place]],
) -> None:
    room, hearers = audience(), [Hearer() for _ in range(4)]
    there: dict[int, Place] = {}
    expected: list[list[dict[str, Any]]] = [[] for _ in hearers]
    for number, (what, who, place) in enumerate(happened):
        event: dict[str, Any] = {"number": number, "place": place if number % 2 else ""}
        match what:
            case "join":
                room.join(hearers[who], place)
                there[who] = place
                expected[who].append({"number": -1, "place": place})
            case "leave":
                room.leave(hearers[who])
                there.pop(who, None)
            case "tell":
                room.tell([Told(**event)])
                for hearer, at in there.items():
                    if event["place"] in ("", at):
                        expected[hearer].append(event)
            case _:
                room.tell([Told(**event)], [hearers[who]])
                if event["place"] in ("", there.get(who, "client")):
                    expected[who].append(event)
    assert [hearer.events for hearer in hearers] == expected


def test_an_event_is_written_once_for_all() -> None:
    room, hearers = audience(), [Hearer() for _ in range(3)]
    for hearer in hearers:
        room.join(hearer, "client")
    room.tell([Told(1)])
    assert len({id(hearer.texts[-1]) for hearer in hearers}) == 1


def test_there_is_room_for_so_many_and_after_the_end_for_nobody() -> None:
    room, hearers = audience(), [Hearer() for _ in range(SUBSCRIBERS)]
    for hearer in hearers:
        assert not room.crowded
        room.join(hearer, "sideband")
    assert room.crowded
    room.clear()
    room.tell([Told(1)])
    assert [len(hearer.texts) for hearer in hearers] == [1] * SUBSCRIBERS


def test_one_who_has_gone_is_answered_as_a_client() -> None:
    room, hearer = audience(), Hearer()
    room.join(hearer, "sideband")
    room.leave(hearer)
    assert room.place(hearer) == "client"
