"""A voice behind any OpenAI-compatible speech endpoint (``/audio/speech``, streamed as raw PCM).

Such an endpoint does not say when it says which word. A clause's words are therefore spread over
its sound by their letters once all of it has come, which is long before most of it was played.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import numpy as np

from engine.audio.pcm import from_pcm16
from engine.cascade.endpoint import Endpoint
from engine.cascade.stages import Spoken
from engine.cascade.words import spread, written

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from engine.contract import Samples

RATE = 24_000
"""Hz, of ``response_format: pcm`` (OpenAI API reference, createSpeech)."""

AUDIBLE = 0.01
"""Amplitude from which a sample can be heard."""

_LEAD = RATE // 100
"""Samples kept before the first audible one."""

_READ = 1 << 16


class SpeechEndpoint:
    """The voice (:class:`engine.cascade.stages.Voice`).

    Args:
        url: such as ``https://api.openai.com/v1``.
        model: its name there.
        voices: their names there, the default first; the endpoint is not asked.
        key: sent as a bearer token, unless empty.
        extra_body: what else each request holds; it wins over what Parley would send.
        timeout: seconds until the first sound must have come, and between any two pieces.
    """

    rate = RATE

    def __init__(
        self,
        url: str,
        model: str,
        voices: Sequence[str],
        *,
        key: str = "",
        extra_body: Mapping[str, Any] | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._endpoint = Endpoint("tts", url, key, begin=timeout, idle=timeout)
        self._model = model
        self.voices = tuple(voices)
        self._extra = dict(extra_body or {})

    async def start(self) -> None:
        """Opens its connections; the endpoint is not asked for anything yet."""
        await self._endpoint.start()

    async def speak(self, text: str, voice: str) -> AsyncGenerator[Spoken, None]:
        """Speaks a clause; the last piece has its words.

        Raises:
            StageError: the endpoint failed.
        """
        body = {
            "model": self._model,
            "input": text,
            "voice": voice or self.voices[0],
            "response_format": "pcm",
            **self._extra,
        }
        sound = _Sound()
        pieces = self._endpoint.post("/audio/speech", body, lambda reader: reader.read(_READ))
        async with aclosing(pieces):
            async for piece in pieces:
                if len(pcm := sound.push(piece)):
                    yield Spoken(pcm)
        if not sound.heard:
            raise self._endpoint.failure("sent no sound")
        yield Spoken(np.zeros(0, np.float32), spread(written(text), 0, sound.heard))

    async def stop(self) -> None:
        """Closes its connections."""
        await self._endpoint.stop()


class _Sound:
    """Bytes as they come, made sound that begins just before it can be heard."""

    def __init__(self) -> None:
        self._half = b""
        self._quiet: Samples = np.zeros(0, np.float32)
        self._begun = False
        self._given = 0
        self.heard = 0
        """Samples up to the last audible one."""

    def push(self, data: bytes) -> Samples:
        """The sound that ``data`` completes."""
        data = self._half + data
        whole = len(data) // 2 * 2
        self._half = data[whole:]
        pcm = np.concatenate([self._quiet, from_pcm16(data[:whole])])
        audible = np.flatnonzero(np.abs(pcm) > AUDIBLE)
        if not self._begun and not len(audible):
            self._quiet = pcm[-_LEAD:]
            return pcm[:0]
        if not self._begun:
            self._begun, self._quiet = True, pcm[:0]
            cut = max(0, int(audible[0]) - _LEAD)
            pcm, audible = pcm[cut:], audible - cut
        if len(audible):
            self.heard = self._given + int(audible[-1]) + 1
        self._given += len(pcm)
        return pcm
