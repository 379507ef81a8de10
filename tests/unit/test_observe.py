"""Figures, and logs that cannot tell what people said."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

from server.observe import Metrics
from server.overload import Overload
from server.watch import watch_loop

SPEAKER = """
import asyncio, gc, logging
import structlog
from server import logs

CANARY = "the quick canary"
logs.configure("debug", "json")
ours = structlog.get_logger("server.test")
structlog.contextvars.bind_contextvars(session="sess_1")
ours.info("turn ended", samples=480)

def fail():
    raise ValueError(CANARY)

try:
    try:
        fail()
    except ValueError as error:
        raise RuntimeError(CANARY) from error
except RuntimeError:
    ours.exception("reply failed")
    logging.getLogger("foreign").exception("it said %s", CANARY)
    logging.getLogger("foreign").error(f"it said {CANARY}")
    logging.getLogger("aiohttp.server").error("Error handling %s", CANARY, exc_info=True)
    logging.getLogger("asyncio").error(f"task failed: {CANARY}")
    structlog.get_logger("library").error(CANARY, said=CANARY)

async def main():
    logs.report_loop_errors(asyncio.get_running_loop())
    async def lost():
        fail()
    task = asyncio.create_task(lost(), name=CANARY)
    await asyncio.sleep(0)
    del task
    gc.collect()

asyncio.run(main())
"""


def test_no_line_of_any_code_holds_what_was_said() -> None:
    told = subprocess.run([sys.executable, "-c", SPEAKER], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert "canary" not in told.stderr + told.stdout
    lines = [json.loads(line) for line in told.stderr.splitlines()]
    assert len(lines) == 8
    assert lines[0].items() >= {"event": "turn ended", "samples": 480, "session": "sess_1"}.items()
    assert lines[1]["error"] == "RuntimeError < ValueError"
    assert lines[1]["at"]
    assert lines[6]["logger"] == "library"
    assert lines[7]["error"] == "ValueError"


def test_sessions_are_counted_by_transport_and_reason() -> None:
    metrics = Metrics()
    metrics.session_started("webrtc")
    metrics.session_started("webrtc")
    metrics.session_ended("webrtc", "hangup")
    assert metrics.value("parley_sessions_active", transport="webrtc") == 1
    assert metrics.value("parley_sessions_total", transport="webrtc", reason="hangup") == 1


def test_a_replys_stages_are_observed_by_their_names() -> None:
    metrics = Metrics()
    metrics.reply_ended("completed", {"llm": 0.25, "tts": 0.1})
    assert metrics.value("parley_stage_seconds_sum", stage="llm") == 0.25
    assert b'parley_stage_seconds_bucket{le="0.3",stage="llm"} 1.0' in metrics.render()


def test_only_figures_with_known_names_are_shown_of_an_engine() -> None:
    metrics = Metrics()
    metrics.engine({"losses": 2.0, "of its own making": 1.0})
    assert metrics.value("parley_engine", figure="losses") == 2
    assert b"making" not in metrics.render()


async def test_a_blocked_loop_shows() -> None:
    metrics = Metrics()
    watching = asyncio.create_task(watch_loop(metrics, Overload(1.0)))
    await asyncio.sleep(0.01)
    deadline = asyncio.get_running_loop().time() + 0.25
    while asyncio.get_running_loop().time() < deadline:
        pass
    await asyncio.sleep(0.01)
    watching.cancel()
    assert metrics.value("parley_loop_lag_seconds_sum") > 0.1
