"""The ``openai`` package for Node as it is; its sockets want TLS, so the server has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiortc import RTCConfiguration, RTCPeerConnection

from tests.callers import SOCKET_RATE
from tests.conformance import javascript
from tests.conformance.strict import StrictClient
from tests.serving import Server
from tests.sounds import hibari


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps the certificate that it makes itself."""
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def server(state: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("server") / "log"
    environment = {"XDG_STATE_HOME": str(state)}
    engine = ("--engine.name", "simulated")
    with Server(*engine, "--tls", "self-signed", log=log, environment=environment) as running:
        yield running


async def offer() -> str:
    """One of a caller who sends sound and has a channel."""
    connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    connection.createDataChannel("oai-events")
    connection.addTransceiver("audio")
    try:
        return str((await connection.createOffer()).sdp)
    finally:
        await connection.close()


async def test_it_speaks_writes_makes_mistakes_and_calls_and_its_events_are_valid(
    server: Server, state: Path, tmp_path: Path
) -> None:
    (tmp_path / "offer.sdp").write_text(await offer())
    pcm = (hibari("One two three.", SOCKET_RATE) * 32767).round().astype("<i2")
    (tmp_path / "speech.pcm").write_bytes(pcm.tobytes())
    run = await javascript.run(
        "openai.mjs",
        server.url,
        tmp_path / "offer.sdp",
        tmp_path / "speech.pcm",
        NODE_EXTRA_CA_CERTS=state / "parley" / "tls" / "certificate.pem",
    )
    for strict in run.sources.values():
        strict.finish()
    check_turn(run.result, run.sources["turn"])
    check_call(run.result, run.sources["sideband"])
    assert run.result["secret"]["value"].startswith("ek_")
    assert run.sources["bound"].events[0]["session"]["instructions"] == "Be kind."


def check_turn(result: dict[str, Any], strict: StrictClient) -> None:
    assert "gpt-realtime" in result["models"]
    (spoken,) = result["spoken"]["output"]
    assert spoken["content"][0]["transcript"] == "turn 1"
    assert strict.sound[spoken["id"]]
    error = result["error"]
    assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "mine")
    assert result["written"]["output"][0]["content"][0]["text"] == "one two three"
    assert result["closed"] == 1000


def check_call(result: dict[str, Any], strict: StrictClient) -> None:
    made = result["call"]
    assert (made["status"], made["type"]) == (201, "application/sdp")
    assert made["answer"].startswith("v=0")
    sessions = [event["session"] for event in strict.events if "session" in event]
    assert sessions[-1]["instructions"] == "Be brief."
    assert result["led"]["output"][0]["content"][0]["text"] == "one two three"
    assert result["hungUp"] == 1000
