"""An HTTP endpoint that an operator named, and what may go wrong with it.

Every failure is told by the endpoint's status alone, to its operator with the host: the address may
hold a key, and what an endpoint says about a request may repeat it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.http_exceptions import HttpProcessingError

from engine.cascade.stages import StageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

_CONNECT = 5.0
"""Seconds until it must have accepted a connection."""

_CHECK = 2.0
"""Seconds to answer a check."""

_LONGEST_READ = 1 << 20
"""Bytes that are read at once, a line of a stream at most."""


class Endpoint:
    """An endpoint that streams its answers.

    Args:
        stage: that it serves, as :class:`StageError` names it.
        url: the address that paths are added to, such as ``https://api.openai.com/v1``.
        key: sent as a bearer token, unless empty.
        begin: seconds until its answer must have begun.
        idle: seconds that may pass between two pieces of it.
    """

    def __init__(self, stage: str, url: str, key: str, *, begin: float, idle: float) -> None:
        self._stage = stage
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._begin = begin
        self._idle = idle
        parts = urlsplit(url)
        self.host = f"{parts.hostname}:{parts.port}" if parts.port else f"{parts.hostname}"

    async def start(self) -> None:
        """Opens the pool of connections."""
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, connect=_CONNECT),
            read_bufsize=_LONGEST_READ,
        )

    async def stop(self) -> None:
        """Closes it."""
        await self._session.close()

    async def check(self) -> None:
        """Asks for the list of models, which costs nothing; who has none is well, too.

        Raises:
            StageError: nobody answers, the key is refused, or a proxy has nobody behind it.
        """
        try:
            async with (
                asyncio.timeout(_CHECK),
                self._session.get(self._url + "/models", allow_redirects=False) as response,
            ):
                if response.status in (401, 403) or response.status >= 500:
                    raise self.failure(f"answered {response.status}")
        except _FAILURES as error:
            raise self.failure(f"did not answer: {_why(error, _CHECK)}") from None

    def failure(self, message: str) -> StageError:
        """What is told where this endpoint failed."""
        return StageError(self._stage, message, self.host)

    async def post(
        self,
        path: str,
        body: dict[str, Any],
        read: Callable[[aiohttp.StreamReader], Awaitable[bytes]],
    ) -> AsyncGenerator[bytes, None]:
        """What comes back for ``body``, as ``read`` cuts it. Closing it ends the request.

        Raises:
            StageError: it cannot be reached, refuses, falls silent or breaks off.
        """
        state, patience = "did not answer", self._begin
        try:
            request = self._session.post(self._url + path, json=body, allow_redirects=False)
            response = await asyncio.wait_for(request, patience)
            async with response:
                if response.status != 200:
                    raise self.failure(f"answered {response.status}")
                state = "broke off after answering 200"
                while piece := await asyncio.wait_for(read(response.content), patience):
                    patience = self._idle
                    yield piece
        except _FAILURES as error:
            raise self.failure(f"{state}: {_why(error, patience)}") from None


_FAILURES = (aiohttp.ClientError, HttpProcessingError, OSError)


def _why(error: Exception, patience: float) -> str:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection for {_CONNECT:g} s"
    if isinstance(error, TimeoutError):
        return f"nothing for {patience:g} s"
    return type(error).__name__
