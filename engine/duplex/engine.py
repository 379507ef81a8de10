"""The engine around a model that listens and speaks at once.

PyTorch is imported in the loop's thread, when such a model is loaded: whoever serves another engine
needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from engine.contract import EngineError, EngineInfo, EngineUnavailable, State
from engine.duplex.facts import Facts
from engine.duplex.loop import Batch, Loop
from engine.duplex.options import Options, parse
from engine.duplex.session import DuplexSession


def create(options: Mapping[str, Any]) -> Duplex:
    """The engine ``duplex``, as ``options`` (see :class:`engine.duplex.options.Options`) say.

    Raises:
        EngineError: an option is unknown or does not fit.
    """
    return Duplex(partial(_load, parse(options)))


class Duplex:
    """An ``Engine``; ``load`` builds its model, in the loop's thread."""

    def __init__(self, load: Callable[[], tuple[Batch, Facts]]) -> None:
        self._load = load
        self._loop = Loop(self._make)
        self._facts: Facts | None = None
        self._sessions: dict[DuplexSession, None] = {}
        self._replies = self._heard = self._dropped = 0

    @property
    def info(self) -> EngineInfo:
        """See ``Engine``."""
        if self._facts is None:
            raise EngineUnavailable("the engine has not started")
        return self._facts.info

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
            raise EngineUnavailable(f"the engine is {self.state}")
        session = DuplexSession(self._facts, self._loop, self._left)
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
        batch, self._facts = self._load()
        return batch, self._facts.period


def _load(options: Options) -> tuple[Batch, Facts]:
    try:
        from engine.duplex.model import load
    except ModuleNotFoundError as error:
        message = f"duplex: {error.name} is missing; install parley-voice[gpu]"
        raise EngineError(message) from error
    return load(options)
