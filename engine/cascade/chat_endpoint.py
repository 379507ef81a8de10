"""A language model behind any OpenAI-compatible chat endpoint (``/chat/completions``, streamed)."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec
import structlog

from engine.cascade.chat import Answer, Chunk, chat_messages, tool_fields
from engine.cascade.endpoint import Endpoint
from engine.cascade.stages import Piece, Prompt, StageError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

log = structlog.get_logger(__name__)

_decoder = msgspec.json.Decoder(Chunk)


class ChatEndpoint:
    """The language model (:class:`engine.cascade.stages.LanguageModel`).

    Args:
        url: such as ``https://api.openai.com/v1``.
        model: its name there.
        key: sent as a bearer token, unless empty.
        extra_body: what else each request holds; it wins over what Parley would send.
        timeout: seconds until the first words must have come, and between any two.
    """

    tools = True
    warms = False

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key: str = "",
        extra_body: Mapping[str, Any] | None = None,
        timeout: float = 10.0,
    ) -> None:
        self._endpoint = Endpoint("llm", url, key, begin=timeout, idle=timeout)
        self._model = model
        self._extra = dict(extra_body or {})

    async def start(self) -> None:
        """Opens its connections. Nothing billed is asked of the endpoint yet; that nobody answers
        is worth a warning, no more: it may come later, as its callers do.
        """
        await self._endpoint.start()
        try:
            await self._endpoint.check()
        except StageError as failure:
            log.warning(
                "the language model cannot be reached; replies fail until it can",
                reason=failure.for_operator,
                see="engine.llm.url, engine.llm.key",
            )

    async def warm(self, prompt: Prompt) -> None:
        """Does nothing: what an endpoint reads is billed."""

    async def ends(self, prompt: Prompt) -> None:
        """Nothing is asked, as above."""

    async def stream(self, prompt: Prompt) -> AsyncGenerator[Piece, None]:
        """The answer as it is made; ends with ``Ending``.

        Raises:
            StageError: the endpoint failed, before or amid the answer.
        """
        body = {
            "model": self._model,
            "messages": chat_messages(prompt),
            "stream": True,
            "stream_options": {"include_usage": True},
            **tool_fields(prompt),
            **({} if prompt.max_tokens is None else {"max_tokens": prompt.max_tokens}),
            **self._extra,
        }
        answer = Answer(self._endpoint.failure)
        lines = self._endpoint.post("/chat/completions", body, lambda reader: reader.readline())
        async with aclosing(lines):
            async for line in lines:
                if not line.startswith(b"data:"):
                    continue
                data = line[5:].strip()
                if data == b"[DONE]":
                    break
                for words in answer.take(self._chunk(data)):
                    yield words
        for piece in answer.end():
            yield piece

    async def stop(self) -> None:
        """Closes its connections."""
        await self._endpoint.stop()

    def _chunk(self, data: bytes) -> Chunk:
        try:
            return _decoder.decode(data)
        except msgspec.DecodeError:
            raise self._endpoint.failure("sent no chat.completion.chunk") from None
