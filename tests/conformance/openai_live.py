"""GPT-Live by OpenAI's own Python client, its events seen by the strictest one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast

from openai.types.live import ClientEventParam, ConnectClientEventParam
from websockets.exceptions import ConnectionClosed

from tests.callers import stopped
from tests.conformance.live_callers import PCM, LiveCaller, ended
from tests.conformance.openai_python import openai


class _Connection(Protocol):
    async def recv_bytes(self) -> bytes: ...


@asynccontextmanager
async def connected(url: str, **session: Any) -> AsyncIterator[LiveCaller]:
    """A session over a WebSocket."""
    async with openai(url) as client, client.live.connect() as connection:

        async def send(event: dict[str, Any]) -> None:
            await connection.send(cast("ClientEventParam", event))

        caller = LiveCaller(send, "socket", PCM["rate"])
        async with _heard(connection, caller):
            await caller.start(**session)
            yield caller
            await ended(caller)


@asynccontextmanager
async def attached(url: str, session_id: str) -> AsyncIterator[LiveCaller]:
    """A sideband of a session."""
    async with (
        openai(url) as client,
        client.live.sideband.connect(session_id=session_id, graceful_close=True) as connection,
    ):

        async def send(event: dict[str, Any]) -> None:
            await connection.send(cast("ConnectClientEventParam", event))

        caller = LiveCaller(send, "sideband", PCM["rate"])
        async with _heard(connection, caller):
            await caller.shown(0.0)
            yield caller
            caller.verdict()


async def created(url: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Asks for a call."""
    async with openai(url) as client:
        return (await client.live.create(**body)).model_dump()


async def hung_up(url: str, session_id: str) -> None:
    """Ends a session by its id."""
    async with openai(url) as client:
        await client.live.sessions.hangup(session_id)


@asynccontextmanager
async def _heard(connection: _Connection, caller: LiveCaller) -> AsyncIterator[None]:
    reading = asyncio.create_task(_read(connection, caller))
    try:
        yield
    finally:
        await stopped([reading])


async def _read(connection: _Connection, caller: LiveCaller) -> None:
    try:
        while True:
            caller.came((await connection.recv_bytes()).decode())
    except ConnectionClosed as end:
        caller.ended(end.rcvd.code if end.rcvd else None)
