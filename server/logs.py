"""Logging that cannot tell what people said.

Our own lines are constant events with counts, times and codes beside them. What other code wants
to log is the danger: an exception's message, a task's ``repr`` or a library's line may quote a
prompt or a transcript. So of an exception only its type and the places it passed are written, and
of a foreign line only its unformatted first line, and only where the library is known never to hold
content. A session's lines carry its id: whoever runs for a session binds it once in its context.
"""

from __future__ import annotations

import logging
import sys
import traceback
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal

import structlog

if TYPE_CHECKING:
    import asyncio
    from types import TracebackType

    from structlog.typing import EventDict, WrappedLogger

_OURS = ("server", "engine", "web")
_WITHOUT_CONTENT = ("aiohttp", "aioice", "aiortc")
"""Libraries that see addresses and packets at most; their lines are kept, without arguments."""
_WITHHELD = "message withheld"
_PLACES = 12


def configure(level: str = "info", format: Literal["auto", "json", "console"] = "auto") -> None:
    """Sends every line of this process, ours and foreign, to standard error in one form."""
    console = format == "console" or (format == "auto" and sys.stderr.isatty())
    last: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
        if console
        else structlog.processors.JSONRenderer()
    )
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        places_only,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(_number_of(level)),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
        )
    )
    handler.addFilter(_withhold)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for ours in _OURS:
        logging.getLogger(ours).setLevel(_number_of(level))


def _number_of(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def places_only(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """A structlog processor: an exception becomes its types and the places it passed.

    ``error`` names the exception and what caused it, outermost first; ``at`` lists
    ``file:line function``, the innermost last.
    """
    info = event.pop("exc_info", None)
    error = info[1] if isinstance(info, tuple) else info
    if error is True:
        error = sys.exc_info()[1]
    if isinstance(error, BaseException):
        event["error"] = " < ".join(_types(error))
        event["at"] = _places(error.__traceback__)
    return event


def report_loop_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Has the loop report what nobody awaited through our log instead of asyncio's own lines."""
    log = structlog.get_logger("server.loop")

    def report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        log.error("unhandled in event loop", exc_info=context.get("exception"))

    loop.set_exception_handler(report)


def _types(error: BaseException) -> list[str]:
    names: list[str] = []
    step: BaseException | None = error
    while step is not None and len(names) < _PLACES:
        names.append(type(step).__qualname__)
        step = step.__cause__ or (None if step.__suppress_context__ else step.__context__)
    return names


def _places(passed: TracebackType | None) -> list[str]:
    frames = traceback.StackSummary.extract(traceback.walk_tb(passed), lookup_lines=False)
    return [f"{_short(f.filename)}:{f.lineno} {f.name}" for f in frames[-_PLACES:]]


def _short(filename: str) -> str:
    return "/".join(PurePath(filename).parts[-2:])


def _withhold(record: logging.LogRecord) -> bool:
    """Cuts a foreign record to what cannot hold content."""
    library = record.name.split(".")[0]
    if library not in _OURS:
        known = library in _WITHOUT_CONTENT
        line = str(record.msg).split("\n", 1)[0] if known else _WITHHELD
        record.msg = f"{line} ({_short(record.pathname)}:{record.lineno})"
        record.args = None
        record.__dict__.pop("_logger", None)  # it was structlog's line, and is a plain one now
        record.stack_info = None
    return True
