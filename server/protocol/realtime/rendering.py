"""The happenings that render without memory: each is one event, or none."""

from __future__ import annotations

from server import happenings as happen
from server.errors import ErrorType
from server.happenings import Happening
from server.protocol.event import ServerEvent
from server.protocol.realtime import events
from server.protocol.realtime.items import to_wire

_FAREWELLS: dict[str, tuple[ErrorType, str, str]] = {
    "session_expired": (
        "invalid_request_error",
        "session_expired",
        "The session reached its longest duration.",
    ),
    "idle_timeout": (
        "invalid_request_error",
        "idle_timeout",
        "Nothing was said or asked for too long.",
    ),
    "drain": ("server_error", "server_draining", "The server is going down."),
    "server_stopped": ("server_error", "server_draining", "The server was stopped."),
    "internal_error": ("server_error", "internal_error", "The server failed."),
}
"""What a client is told of an end that it did not bring about, by the end's reason."""


def render(happening: Happening) -> ServerEvent | None:
    """The event of ``happening``; None where the API has none for it."""
    return _of_input(happening) or _of_items(happening) or _of_session(happening)


def _of_input(happening: Happening) -> ServerEvent | None:
    match happening:
        case happen.SpeechStarted():
            return events.SpeechStarted(item_id=happening.item, audio_start_ms=happening.at_ms)
        case happen.SpeechStopped():
            return events.SpeechStopped(item_id=happening.item, audio_end_ms=happening.at_ms)
        case happen.InputCommitted():
            return events.InputCommitted(
                item_id=happening.item, previous_item_id=happening.previous
            )
        case happen.InputCleared():
            return events.InputCleared()
        case happen.KeyPressed():
            return events.DtmfReceived(event=happening.key, received_at=happening.at)
        case happen.IdleTimedOut():
            return events.TimeoutTriggered(
                item_id=happening.item,
                audio_start_ms=happening.start_ms,
                audio_end_ms=happening.end_ms,
            )
    return None


def _of_items(happening: Happening) -> ServerEvent | None:
    """What a caller said is announced without its transcript, which has its own events."""
    match happening:
        case happen.ItemAdded():
            return events.ItemAdded(
                item=to_wire(happening.item, transcripts=False),
                previous_item_id=happening.previous,
            )
        case happen.ItemDone():
            return events.ItemDone(
                item=to_wire(happening.item, transcripts=False),
                previous_item_id=happening.previous,
            )
        case happen.ItemDeleted():
            return events.ItemDeleted(item_id=happening.item)
        case happen.ItemTruncated():
            return events.ItemTruncated(item_id=happening.item, audio_end_ms=happening.audio_end_ms)
    return None


def _of_session(happening: Happening) -> ServerEvent | None:
    match happening:
        case happen.PlayoutStarted():
            return events.OutputBufferStarted(response_id=happening.reply)
        case happen.PlayoutStopped():
            return events.OutputBufferStopped(response_id=happening.reply)
        case happen.PlayoutCleared():
            return events.OutputBufferCleared(response_id=happening.reply)
        case happen.Faulted():
            return events.Error(
                error=events.ErrorBody(
                    type="server_error", code=happening.code, message=happening.message
                )
            )
        case happen.Ended(reason=reason) if reason in _FAREWELLS:
            kind, code, message = _FAREWELLS[reason]
            return events.Error(error=events.ErrorBody(type=kind, code=code, message=message))
    return None


def transcription(
    happening: happen.TranscriptDelta | happen.TranscriptCompleted | happen.TranscriptFailed,
) -> ServerEvent:
    """What is told of a turn's transcript, where a client asked for one."""
    match happening:
        case happen.TranscriptDelta():
            return events.TranscriptionDelta(item_id=happening.item, delta=happening.text)
        case happen.TranscriptCompleted():
            return events.TranscriptionCompleted(
                item_id=happening.item,
                transcript=happening.text,
                usage=events.TranscriptionUsage(happening.seconds),
            )
        case happen.TranscriptFailed():
            error = events.TranscriptionError(message=happening.message)
            return events.TranscriptionFailed(item_id=happening.item, error=error)
