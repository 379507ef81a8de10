"""The engine around a model that listens and speaks at once.

PyTorch is imported in the loop's thread, when the engine starts: whoever serves another engine
needs none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.contract import EngineError, EngineInfo, EngineUnavailable, State
from engine.duplex.loop import Batch, Loop
from engine.duplex.options import parse
from engine.duplex.session import AHEAD, DuplexSession

if TYPE_CHECKING:
    from engine.duplex.model import Facts


class Duplex:
    """An ``Engine`` as ``options`` (see :class:`engine.duplex.options.Options`) describe it.

    Raises:
        EngineError: an option is unknown or does not fit.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = parse(options)
        self._loop = Loop(self._make)
        self._facts: Facts | None = None
        self._sessions: dict[DuplexSession, None] = {}
        self._replies = self._heard = self._dropped = 0

    @property
    def info(self) -> EngineInfo:
        """See ``Engine``."""
        facts = self._facts
        if facts is None:
            raise EngineUnavailable("duplex: the engine has not started")
        return EngineInfo(
            name="duplex",
            input_rate=facts.rate,
            output_rate=facts.rate,
            replies="by_itself",
            tick=facts.frame,
            voices=tuple(facts.voices),
            models=(facts.name,),
            capacity=facts.capacity,
            longest_session=self._options.longest_session,
            ahead=AHEAD,
        )

    @property
    def state(self) -> State:
        """See ``Engine``."""
        return self._loop.state

    async def start(self) -> None:
        """See ``Engine``."""
        await self._loop.start()

    async def open(self) -> DuplexSession:
        """See ``Engine``."""
        if self._facts is None:
            raise EngineUnavailable(f"duplex: the engine is {self.state}")
        session = DuplexSession(self._facts, self._options, self._loop, self._left)
        self._sessions[session] = None
        try:
            await session.seat.take()
        except BaseException:
            self._sessions.pop(session, None)
            raise
        return session

    def figures(self) -> Mapping[str, float]:
        """See ``Engine``. Replies and sound are counted when their session ends."""
        return {
            **self._loop.figures(),
            "sessions": float(len(self._sessions)),
            "replies": float(self._replies),
            "heard_samples": float(self._heard),
            "dropped_samples": float(self._dropped),
        }

    async def stop(self) -> None:
        """See ``Engine``."""
        for session in list(self._sessions):
            session.end("closed")
        await self._loop.stop()

    def _left(self, session: DuplexSession) -> None:
        self._sessions.pop(session, None)
        offered, dropped = session.seat.counts()
        self._replies += session.segments.replies
        self._heard += offered
        self._dropped += dropped

    def _make(self) -> tuple[Batch, int]:
        try:
            from engine.duplex.model import load
        except ModuleNotFoundError as error:
            message = f"duplex: {error.name} is missing; install parley-voice[gpu]"
            raise EngineError(message) from error
        slots, facts = load(self._options)
        self._facts = facts
        tick_ms = self._options.tick_ms or 1000 * facts.frame / facts.rate
        return slots, round(tick_ms * 1e6)
