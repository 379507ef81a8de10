"""What is counted and logged of one session: how it went, never what was said in it."""

from __future__ import annotations

import time

import structlog

from engine import contract
from server import happenings as happen
from server.happenings import Happening
from server.observe import Metrics, Transport

log = structlog.get_logger(__name__)


class Record:
    """One session's entries in the log and the metrics.

    Args:
        metrics: counts.
        transport: how its caller is reached.
        session_id: stands in every line.
    """

    def __init__(self, metrics: Metrics, transport: Transport, session_id: str) -> None:
        self._metrics = metrics
        self._transport = transport
        self._log = log.bind(session=session_id)
        self._began = time.monotonic()

    def started(self, call_id: str) -> None:
        """It began; others reach it by ``call_id``."""
        self._metrics.session_started(self._transport)
        self._log.info("session started", transport=self._transport, call=call_id)

    def ended(self, reason: str) -> None:
        """It is over."""
        self._metrics.session_ended(self._transport, reason)
        seconds = round(time.monotonic() - self._began, 3)
        self._log.info("session ended", reason=reason, seconds=seconds)

    def lost(self) -> None:
        """Its caller is gone without a word."""
        self._metrics.caller_lost(self._transport)
        self._log.info("caller lost")

    def resumed(self) -> None:
        """Its caller came back, by another connection."""
        self._metrics.session_resumed(self._transport)
        self._log.info("session resumed")

    def failed(self, error: Exception) -> None:
        """Something of ours failed, and ends it."""
        self._log.error("session failed", exc_info=error)
        self._metrics.fault("internal_error")

    def dropped_event(self) -> None:
        """A client sent more than waits."""
        self._metrics.fault("client_event_dropped")

    def event(self, event: contract.Event) -> None:
        """Takes note of what the engine did."""
        match event:
            case contract.TurnEnded():
                self._metrics.turn_ended()
            case contract.ReplyEnded():
                self._metrics.reply_ended(event.reason, event.timings)
            case contract.Closed():
                self._metrics.dropped(event.dropped)

    def happening(self, happening: Happening) -> None:
        """Takes note of what happened; sound is too much to log each."""
        self._log.debug("happening", kind=type(happening).__name__)
        match happening:
            case happen.ReplyEnded(reason="turn_detected"):
                self._metrics.interrupted()
            case happen.ReplyEnded(status="failed", error_code=code, error_message=message):
                self._log.warning("reply failed", code=code, message=message)
            case happen.TranscriptFailed(message=message):
                self._log.warning("turn not understood", message=message)
            case happen.Faulted(code=code, message=message, fatal=fatal):
                self._metrics.fault(code)
                self._log.error("fault", code=code, message=message, fatal=fatal)
