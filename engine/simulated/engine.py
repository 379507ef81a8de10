"""The simulated engine that runs on no clock: its places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.contract import EngineBusy, EngineInfo, EngineUnavailable, State
from engine.simulated.options import parse
from engine.simulated.session import Shared, SimulatedSession


class Simulated:
    """An ``Engine`` as ``options`` (see :class:`engine.simulated.options.Options`) describe it.

    Raises:
        EngineError: an option is unknown or does not fit.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = parse(options)
        self._info = self._options.info()
        self._shared = Shared(self._options)
        self._sessions: dict[SimulatedSession, None] = {}
        self._state: State = "starting"

    @property
    def info(self) -> EngineInfo:
        """See ``Engine``."""
        return self._info

    @property
    def state(self) -> State:
        """See ``Engine``."""
        return self._state

    async def start(self) -> None:
        """See ``Engine``."""
        self._state = "ready"

    async def open(self) -> SimulatedSession:
        """See ``Engine``."""
        if self._state != "ready":
            raise EngineUnavailable(f"simulated: the engine is {self._state}")
        if len(self._sessions) >= self._options.capacity:
            raise EngineBusy(1.0)
        session = SimulatedSession(self._shared, self._left)
        self._sessions[session] = None
        return session

    def figures(self) -> Mapping[str, float]:
        """See ``Engine``. Sound is counted when its session ends."""
        return {
            "sessions": float(len(self._sessions)),
            "replies": float(self._shared.replies),
            "heard_samples": float(self._shared.heard),
            "dropped_samples": float(self._shared.dropped),
        }

    async def stop(self) -> None:
        """See ``Engine``."""
        self._state = "starting"
        for session in list(self._sessions):
            session.end("closed")

    def _left(self, session: SimulatedSession) -> None:
        del self._sessions[session]
