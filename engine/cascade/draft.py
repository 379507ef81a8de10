"""What is made ahead of being asked for.

While the caller speaks, the language model reads along; when the caller pauses, a draft of the
reply is made up to its first sound and held there. The draft becomes the reply if what is then
asked for is the very same (:class:`engine.cascade.reply.Brief`), and is thrown away otherwise.
Nobody hears of it before. Where each request is billed nothing is made ahead.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from engine.cascade.reply import Making
from engine.cascade.stages import StageError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from engine.cascade.briefing import Briefing
    from engine.cascade.chain import Chain
    from engine.cascade.reply import Brief

DRAFT_LIFE = 5.0
"""Seconds that a draft waits to be asked for."""


class Drafts:
    """What is made ahead for one caller (:class:`engine.cascade.listener.Anticipation`)."""

    def __init__(self, chain: Chain, briefing: Briefing) -> None:
        self._chain = chain
        self._briefing = briefing
        self._draft: Making | None = None
        self._ending: asyncio.Task[float | None] | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self._warming: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.wanted = True
        """Whether a reply may be asked for at all."""

    def hear(self, said: str) -> None:
        """Lets the model read what the caller has said so far, but for the last word."""
        if words := said.split()[:-1]:
            self._warm(" ".join(words))

    def rest(self) -> None:
        """Lets the model read the conversation while nothing else is to be done."""
        if self._briefing.caller_is_next and self._draft is None:
            self._warm("")

    def expect(self, said: str, *, weighed: bool = False) -> None:
        """Makes a draft of the reply to ``said``; ``weighed``: asks first whether it ends there."""
        self.forget()
        if said and self._free:
            self.stop_reading()
            brief = self._briefing.ahead(said)
            if weighed:
                self._ending = asyncio.create_task(self._weigh(brief))
            else:
                self._begin(brief)

    async def ends(self) -> float | None:
        """How likely what is expected ends there, as its words tell, or None."""
        ending = self._ending
        if ending is None:
            return None
        await asyncio.wait([ending])
        return None if ending.cancelled() else ending.result()

    def forget(self) -> None:
        """Throws the draft away."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if draft := self._take():
            self._behind(draft.close())

    def adopt(self, brief: Brief) -> Making | None:
        """The draft, if it was made to ``brief``; otherwise it is thrown away."""
        if self._draft is not None and self._draft.brief == brief:
            return self._take()
        self.forget()
        return None

    def stop_reading(self) -> None:
        """Leaves the model to those who need it at once."""
        if self._warming is not None:
            self._warming.cancel()

    async def close(self) -> None:
        """Ends everything that is made ahead."""
        self.forget()
        self.stop_reading()
        tasks = [*self._closing, *([self._warming] if self._warming else [])]
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, brief: Brief) -> None:
        self._draft = Making(self._chain, brief)
        self._expiry = asyncio.get_running_loop().call_later(DRAFT_LIFE, self.forget)

    async def _weigh(self, brief: Brief) -> float | None:
        """Asks, and then makes the draft: both need the model, which has read the words by then."""
        ends = None
        with suppress(StageError):  # The melody decides.
            ends = await self._chain.model.ends(brief.prompt)
        self._begin(brief)
        return ends

    def _take(self) -> Making | None:
        draft, self._draft = self._draft, None
        if self._expiry is not None:
            self._expiry.cancel()
        return draft

    @property
    def _free(self) -> bool:
        return self.wanted and self._chain.model.warms

    def _warm(self, said: str) -> None:
        if self._free:
            self.stop_reading()
            self._warming = asyncio.create_task(self._read(said))

    async def _read(self, said: str) -> None:
        with suppress(StageError):  # The reply itself will fail, and say so.
            await self._chain.model.warm(self._briefing.ahead(said).prompt)

    def _behind(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
