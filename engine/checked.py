"""Every engine's sound is checked as it leaves the engine: what is not a number reaches no caller.

A broken model or kernel makes NaN; a codec makes noise at full scale of it. The reply that holds
one ends as failed, with a ``Fault`` of code ``engine_nan``, and what the engine still makes of it
is swallowed. A clocked engine's frames keep coming, as silence.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from engine.audio.pcm import whole
from engine.contract import (
    Cancel,
    Engine,
    EngineInfo,
    EngineSession,
    Event,
    Fault,
    ReplyAudio,
    ReplyEnded,
    SessionEnded,
    State,
)


class Checked:
    """The engine ``engine``, whose sound is checked."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def info(self) -> EngineInfo:
        """See ``Engine``."""
        return self._engine.info

    @property
    def state(self) -> State:
        """See ``Engine``."""
        return self._engine.state

    async def start(self) -> None:
        """See ``Engine``."""
        await self._engine.start()

    async def open(self) -> CheckedSession:
        """See ``Engine``."""
        return CheckedSession(await self._engine.open(), clocked=self.info.tick is not None)

    def figures(self) -> Mapping[str, float]:
        """See ``Engine``."""
        return self._engine.figures()

    async def stop(self) -> None:
        """See ``Engine``."""
        await self._engine.stop()


class CheckedSession:
    """A session whose sound is checked."""

    def __init__(self, session: EngineSession, *, clocked: bool) -> None:
        self._session = session
        self._clocked = clocked
        self._failed: set[str] = set()
        self.hear = session.hear
        self.order = session.order

    @property
    def room(self) -> int:
        """See ``EngineSession``."""
        return self._session.room

    def listen(self, told: Callable[[Event], None]) -> None:
        """See ``EngineSession``."""
        self._session.listen(partial(self._check, told))

    def _check(self, told: Callable[[Event], None], event: Event) -> None:
        if isinstance(event, ReplyAudio):
            if event.reply not in self._failed:
                if whole(event.pcm) or math.isfinite(np.dot(event.pcm, event.pcm)):
                    told(event)
                    return
                self._fail(event.reply, told)
            if self._clocked:
                told(ReplyAudio(reply="", pcm=np.zeros_like(event.pcm)))
        elif getattr(event, "reply", None) not in self._failed:
            told(event)
        elif isinstance(event, ReplyEnded):
            self._failed.discard(event.reply)

    def _fail(self, reply: str, told: Callable[[Event], None]) -> None:
        """Ends ``reply``; silence between replies ("") has nothing to end."""
        message = "the engine made sound that is not a number"
        if reply:
            self._failed.add(reply)
            with contextlib.suppress(SessionEnded):
                self._session.order(Cancel(reply=reply))
        told(Fault(code="engine_nan", message=message))
        if reply:
            told(ReplyEnded(reply=reply, reason="failed", message=message))
