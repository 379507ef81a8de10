"""Places: no more than there are, and each is given back once."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.errors import ServiceError
from server.places import OwnPlaces, Place
from server.settings import Limits

FREE = Limits(caller_sessions=1000, caller_starts=float("inf"), caller_audio=float("inf"))


async def take(places: OwnPlaces, *names: str) -> Place | str:
    try:
        return await places.take(names)
    except ServiceError as error:
        return error.code


@given(st.lists(st.sampled_from(["take", "end", "end again"]), max_size=40))
async def test_as_many_are_taken_as_there_are_and_each_is_given_back_once(steps: list[str]) -> None:
    places, held, ended = OwnPlaces(FREE, lambda: 3), list[Place](), list[Place]()
    for step in steps:
        if step == "take":
            place = await take(places, "key anna")
            assert (place == "server_busy") == (len(held) == 3)
            if not isinstance(place, str):
                held.append(place)
        elif step == "end" and held:
            ended.append(held.pop())
            ended[-1].end()
        elif ended:
            ended[-1].end()


async def test_a_caller_refused_for_want_of_a_place_runs_no_session() -> None:
    places = OwnPlaces(Limits(caller_sessions=1), lambda: 0)
    assert await take(places, "key anna") == "server_busy"
    assert await take(places, "key anna") == "server_busy"


async def test_a_caller_with_enough_sessions_is_told_so_and_takes_no_place() -> None:
    places = OwnPlaces(Limits(caller_sessions=1), lambda: 2)
    first = await take(places, "key anna")
    assert await take(places, "key anna") == "rate_limit_exceeded"
    assert not isinstance(await take(places, "key bert"), str)
    assert not isinstance(first, str)
    with pytest.raises(ServiceError, match="all 2 places are taken"):
        await places.take(("key carl",))


async def test_a_newcomer_has_the_place_of_whoever_was_lost_first() -> None:
    places, gone = OwnPlaces(FREE, lambda: 3), list[str]()
    taken = {name: await places.take((name,)) for name in ("anna", "bert", "carl")}

    def lost(name: str) -> None:
        async def give_up() -> None:
            gone.append(name)
            taken[name].end()

        taken[name].offer(give_up)

    lost("bert")
    lost("anna")
    lost("carl")
    taken["carl"].keep()
    assert not isinstance(await take(places, "dora"), str)
    assert gone == ["bert"]
    assert not isinstance(await take(places, "emil"), str)
    assert gone == ["bert", "anna"]
    assert await take(places, "fritz") == "server_busy"


async def test_two_who_come_at_once_do_not_share_the_place_of_one_who_was_lost() -> None:
    places = OwnPlaces(FREE, lambda: 1)
    first = await places.take(("anna",))

    async def give_up() -> None:
        first.end()
        await asyncio.sleep(0)

    first.offer(give_up)
    came = await asyncio.gather(take(places, "bert"), take(places, "carl"))
    assert came.count("server_busy") == 1
