"""OpenAI's own Python client, its events seen by the strictest one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import urljoin

from openai import AsyncOpenAI, omit
from openai.resources.realtime.realtime import AsyncRealtimeConnection
from openai.types.realtime import RealtimeClientEventParam, RealtimeSessionCreateRequestParam
from websockets.exceptions import ConnectionClosed

from tests.callers import SOCKET_RATE, Caller, attended, call


def openai(url: str, key: str = "none") -> AsyncOpenAI:
    """The client, pointed at a server."""
    return AsyncOpenAI(base_url=urljoin(url, "v1"), api_key=key)


@asynccontextmanager
async def connected(
    url: str, *, talks: bool = False, call_id: str = "", key: str = "none"
) -> AsyncIterator[Caller]:
    """A session over a WebSocket, or the sideband of a call; ``talks``: its microphone is on."""
    async with (
        openai(url, key) as client,
        client.realtime.connect(
            call_id=call_id or omit, model=omit if call_id else "gpt-realtime"
        ) as connection,
    ):

        async def send(event: dict[str, Any]) -> None:
            await connection.send(cast("RealtimeClientEventParam", event))

        caller = Caller(send, paced=bool(call_id), rate=SOCKET_RATE)
        async with attended(caller, _read(connection, caller), talks=talks):
            try:
                yield caller
            finally:  # while it is still read: what is on the way may be more than it holds
                await connection.close()


@asynccontextmanager
async def called(
    url: str, session: RealtimeSessionCreateRequestParam | None = None
) -> AsyncIterator[Caller]:
    """A call whose offer the client posted: beside ``session``, or raw where there is none."""

    async def post(url: str, offer: str) -> tuple[str, str]:
        async with openai(url) as client:
            calls = client.realtime.calls
            made = await (
                calls.create(sdp=offer, session=session) if session else calls.create(sdp=offer)
            )
            assert made.response.status_code == 201
            return made.text, made.response.headers["Location"]

    async with call(url, post) as caller:
        yield caller


async def _read(connection: AsyncRealtimeConnection, caller: Caller) -> None:
    try:
        while True:
            caller.came((await connection.recv_bytes()).decode())
    except ConnectionClosed as end:
        caller.ended(end.rcvd.code if end.rcvd else None)
