"""The log of an engine's process: its lines go to the server, which writes them among its own.

So there is one stream in one form, under one operator's settings, and a session's lines carry its
id on both sides: the context of whoever opens a session travels with it. An exception's message or
a library's line may quote what a caller said. Of an exception only its type and the places it
passed leave this process, and of a foreign line only where it came from.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import traceback
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, NoReturn

import structlog
from structlog.typing import EventDict, WrappedLogger

from engine.remote import wire

_OURS = "engine"
_PLACES = 12

Leave = Callable[[wire.Logged], None]


def forward(send: Leave, *, debug: bool) -> None:
    """Has every line of this process sent, from any thread; ``debug``: also those of that level."""
    loop, here = asyncio.get_running_loop(), threading.get_ident()

    def leave(line: wire.Logged) -> None:
        if threading.get_ident() == here:
            send(line)
            return
        with contextlib.suppress(RuntimeError):  # the loop is closed, and with it the link
            loop.call_soon_threadsafe(send, line)

    def last(logger: WrappedLogger, method: str, line: EventDict) -> NoReturn:
        level = logging.getLevelNamesMapping()[method.upper()]
        if logger.name.split(".")[0] == _OURS:
            leave(wire.Logged(level, logger.name, line.pop("event"), dict(line)))
        else:
            leave(_withheld(level, logger.name))
        raise structlog.DropEvent

    least = logging.DEBUG if debug else logging.INFO
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, _places_only, last],
        wrapper_class=structlog.make_filtering_bound_logger(least),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.handlers[:] = [_Foreign(leave)]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    log = structlog.get_logger(__name__)
    loop.set_exception_handler(
        lambda loop, told: log.error("unhandled in event loop", exc_info=told.get("exception"))
    )
    threading.excepthook = lambda told: log.error("thread failed", exc_info=told.exc_value)


def wants_debug() -> bool:
    """Whether the server's log takes an engine's lines of that level."""
    return logging.getLogger("engine").isEnabledFor(logging.DEBUG)


def write(line: wire.Logged) -> None:
    """Writes a line that came from an engine's process to the server's log.

    Libraries have levels of their own; such a line has the next lower one that everybody knows.
    """
    level = min(max(line.level // 10 * 10, logging.DEBUG), logging.CRITICAL)
    structlog.get_logger(line.logger).bind(**line.fields).log(level, line.event)


class _Foreign(logging.Handler):
    """Takes the lines of libraries."""

    def __init__(self, leave: Leave) -> None:
        super().__init__()
        self._leave = leave

    def emit(self, record: logging.LogRecord) -> None:
        at = [_place(record.pathname, record.lineno, record.funcName)]
        self._leave(_withheld(record.levelno, record.name, at=at))


def _withheld(level: int, library: str, **fields: Any) -> wire.Logged:
    """A library's line, as one of ours."""
    return wire.Logged(level, __name__, "message withheld", {"library": library, **fields})


def _places_only(logger: WrappedLogger, method: str, line: EventDict) -> EventDict:
    error = line.pop("exc_info", None)
    if isinstance(error, BaseException):
        line["error"] = type(error).__qualname__
        passed = traceback.extract_tb(error.__traceback__)[-_PLACES:]
        line["at"] = [_place(frame.filename, frame.lineno, frame.name) for frame in passed]
    return line


def _place(filename: str, line: Any, function: str | None) -> str:
    return f"{'/'.join(PurePath(filename).parts[-2:])}:{line} {function}"
