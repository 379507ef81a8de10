"""Sound sent all at once: a simulated engine hears as fast as it is sent, so no test waits."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin

import numpy as np
from aiohttp import ClientSession

from tests.callers import SOCKET_RATE, Caller, read, stopped

COMPLETED = "conversation.item.input_audio_transcription.completed"


def tone(seconds: float, rate: int = SOCKET_RATE) -> bytes:
    """PCM16 that the simulated engine takes for speech."""
    at = np.arange(round(seconds * rate))
    return (8000 * np.sin(2 * np.pi * 440 * at / rate)).astype("<i2").tobytes()


def silence(seconds: float, rate: int = SOCKET_RATE) -> bytes:
    """PCM16 of nothing."""
    return bytes(2 * round(seconds * rate))


async def append(caller: Caller, sound: bytes) -> None:
    """Sends sound, half a second of PCM16 an event."""
    for at in range(0, len(sound), SOCKET_RATE):
        audio = base64.b64encode(sound[at : at + SOCKET_RATE]).decode()
        await caller.send("input_audio_buffer.append", audio=audio)


async def say(caller: Caller, seconds: float = 0.6) -> None:
    """Says a turn, from its first sound to the silence that ends it."""
    await append(caller, tone(seconds) + silence(0.7))


async def listen_by_hand(caller: Caller) -> None:
    """Turns the detection of turns off."""
    await caller.update(audio={"input": {"turn_detection": None}})


@asynccontextmanager
async def eager(url: str, query: str = "") -> AsyncIterator[Caller]:
    """A client that does not wait to be greeted: the upgrade is done, and nothing was read yet."""
    target = urljoin(url, "v1/realtime") + query
    async with ClientSession() as web, web.ws_connect(target) as ws:
        caller = Caller(ws.send_json, paced=False, rate=SOCKET_RATE)
        reading = asyncio.create_task(read(ws, caller))
        try:
            yield caller
        finally:
            await stopped([reading])
