"""A client that finds the turns itself, on both ways in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager

import pytest

from tests.callers import Caller, call, socket
from tests.network.simulated import simulated, tone
from tests.serving import Server

Connect = Callable[[str], AbstractAsyncContextManager[Caller]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with simulated(tmp_path_factory.mktemp("server") / "log", mode="scripted") as running:
        yield running


def talking(url: str) -> AbstractAsyncContextManager[Caller]:
    return socket(url, talks=True)


@pytest.mark.parametrize("connect", [talking, call])
async def test_who_pushes_to_talk_is_answered_when_asked_for(
    connect: Connect, server: Server
) -> None:
    async with connect(server.url) as caller:
        session = await caller.update(audio={"input": {"turn_detection": None}})
        assert session["audio"]["input"]["turn_detection"] is None
        await caller.send("input_audio_buffer.clear")
        await caller.event("input_audio_buffer.cleared")
        caller.microphone.say(tone(caller))
        await caller.microphone.spoken()
        await caller.send("input_audio_buffer.commit")
        committed = await caller.event("input_audio_buffer.committed")
        done = await caller.event("conversation.item.done")
        assert done["item"]["id"] == committed["item_id"]
        assert "response.created" not in caller.strict.types
        await caller.send("response.create")
        assert (await caller.done())["status"] == "completed"
        assert not [kind for kind in caller.strict.types if "buffer.speech_" in kind]
