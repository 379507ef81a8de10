"""The OpenAPI document is true: a fuzzer compares what it says with what a server answers."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urljoin

import pytest
import schemathesis
from aiortc import RTCConfiguration, RTCPeerConnection

from tests.network import openapi_bodies
from tests.network.simulated import simulated
from tests.service import service
from tests.serving import Server

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
FUZZER = str(Path(sys.executable).with_name("schemathesis"))
ROOT = Path(__file__).parents[2]
Paths: TypeAlias = Any
"""The document, as the fuzzer reads it."""
FOR_PEOPLE = {"/", "/static"}
NOT_DONE = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "4xx", "501"]
"""
"""What of the API is not done is said to be so, which is no failure of the server's."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with simulated(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


async def test_it_has_every_route_and_no_other() -> None:
    async with service() as now:
        told = await (await now.caller.get("/openapi.json")).json()
        served = {
            (resource.canonical, route.method.lower())
            for resource in now.caller.app.router.resources()
            for route in resource
            if resource.canonical not in FOR_PEOPLE and route.method != "HEAD"
        }
    assert {(path, method) for path, methods in told["paths"].items() for method in methods} == (
        served
    )


def test_a_fuzzer_finds_no_answer_that_it_does_not_tell(server: Server, tmp_path: Path) -> None:
    (tmp_path / "schemathesis.toml").write_text(NOT_DONE)
    command = [FUZZER, "run", urljoin(server.url, "openapi.json"), "--checks", ",".join(CHECKS)]
    bounds = ["--phases", "examples,coverage,fuzzing", "--max-examples", "8"]
    repeatable = ["--seed", "1", "--generation-deterministic", "--no-color"]
    ran = subprocess.run(
        [*command, *bounds, *repeatable],
        cwd=tmp_path,
        env=os.environ | {"SCHEMATHESIS_HOOKS": openapi_bodies.__name__, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    (passed,) = re.findall(r"(\d+) generated, \1 passed", ran.stdout)
    assert int(passed) > 150
    assert not [line for line in server.log_lines() if line["event"] == "request failed"]


async def offered(server: Server, make: Callable[[str, Paths], list[int]]) -> list[int]:
    """What ``make`` is answered for an offer, by what the document tells."""
    paths = schemathesis.openapi.from_url(urljoin(server.url, "openapi.json"))
    peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    peer.createDataChannel("oai-events")
    peer.addTransceiver("audio")
    await peer.setLocalDescription(await peer.createOffer())
    try:
        return await asyncio.to_thread(make, peer.localDescription.sdp, paths)
    finally:
        await peer.close()


async def test_a_call_is_made_and_ended_as_it_tells(server: Server) -> None:
    def call(offer: str, paths: Paths) -> list[int]:
        create = paths["/v1/realtime/calls"]["POST"]
        made = create.Case(body=offer, media_type="application/sdp").call_and_validate()
        of_call = {"call_id": made.headers["location"][0].rpartition("/")[2]}
        hang_up = paths["/v1/realtime/calls/{call_id}/hangup"]["POST"]
        delete = paths["/v1/realtime/calls/{call_id}"]["DELETE"]
        ends = [end.Case(path_parameters=of_call).call_and_validate() for end in (hang_up, delete)]
        return [made.status_code, *(end.status_code for end in ends)]

    assert await offered(server, call) == [201, 200, 404]


async def test_a_live_session_is_made_and_ended_as_it_tells(server: Server) -> None:
    def session(offer: str, paths: Paths) -> list[int]:
        transport = {"type": "webrtc", "sdp": offer}
        body = {"session": {"model": "gpt-live-1"}, "transport": transport}
        create = paths["/v1/live/sessions"]["POST"]
        made = create.Case(body=body, media_type="application/json").call_and_validate()
        ours = {"session_id": made.json()["session"]["id"]}
        hang_up = paths["/v1/live/sessions/{session_id}/hangup"]["POST"]
        ends = [hang_up.Case(path_parameters=ours).call_and_validate() for _ in range(2)]
        return [made.status_code, *(end.status_code for end in ends)]

    assert await offered(server, session) == [201, 200, 404]
