"""Who gets in, where other servers let everybody in, or the wrong ones (docs/pitfalls.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urljoin

import pytest
from aiohttp import ClientSession, WSServerHandshakeError

from tests.network.simulated import simulated
from tests.serving import Server

TOKEN = "let-me-in-if-you-please"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
SUBPROTOCOL = "openai-insecure-api-key."
EVIL = {"Origin": "https://evil.example"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with simulated(tmp_path_factory.mktemp("server") / "log", "--token", TOKEN) as running:
        yield running


async def opened(
    server: Server,
    headers: Mapping[str, str],
    protocols: Sequence[str] = (),
    query: str = "",
) -> str | None:
    """Opens a socket; returns the subprotocol that was selected."""
    address = urljoin(server.url, "v1/realtime") + query
    async with (
        ClientSession() as web,
        web.ws_connect(address, headers=headers, protocols=protocols) as ws,
    ):
        assert (await ws.receive_json(timeout=15))["type"] == "session.created"
        return ws.protocol


async def refused(server: Server, headers: Mapping[str, str], *shown: str, query: str = "") -> int:
    """The status by which a socket is refused, before any upgrade."""
    with pytest.raises(WSServerHandshakeError) as refusal:
        await opened(server, headers, shown, query)
    return refusal.value.status


@pytest.mark.parametrize(
    "headers",
    [BEARER, {"Authorization": TOKEN}, {"X-Api-Key": TOKEN}],
    ids=["bearer", "bare", "x-api-key"],
)
async def test_a_program_may_show_its_key_in_any_form(
    server: Server, headers: dict[str, str]
) -> None:
    """The bearer that was the only form."""
    assert await opened(server, headers) is None


async def test_a_page_shows_its_key_as_a_subprotocol_and_another_one_is_selected(
    server: Server,
) -> None:
    """P27: a browser gives up where a list was offered and nothing selected."""
    for offered in (
        ("realtime", SUBPROTOCOL + TOKEN),
        (SUBPROTOCOL + TOKEN, "openai-project.one", "realtime"),
    ):
        assert await opened(server, {}, offered) == "realtime"


@pytest.mark.parametrize("query", ["", "?intent=transcription", "?call_id=rtc_none"])
async def test_no_socket_is_opened_without_a_key(server: Server, query: str) -> None:
    """P27: the unauthenticated socket, behind a lock that was for other requests only."""
    assert await refused(server, {}, query=query) == 401
    assert await refused(server, {"Authorization": "Bearer wrong"}, query=query) == 401
    assert await refused(server, {}, "realtime", f"{SUBPROTOCOL}wrong", query=query) == 401
    assert await refused(server, {}, SUBPROTOCOL, query=query) == 401


async def test_a_key_in_the_address_opens_nothing(server: Server) -> None:
    """Addresses are logged by everybody on the way."""
    for name in ("token", "api_key", "key"):
        assert await refused(server, {}, query=f"?{name}={TOKEN}") == 401


async def test_a_page_from_elsewhere_opens_neither_a_socket_nor_a_call(server: Server) -> None:
    """The missing origin check: CORS covers neither."""
    assert await refused(server, BEARER | EVIL) == 403
    assert await refused(server, EVIL, "realtime", SUBPROTOCOL + TOKEN) == 403
    async with ClientSession(urljoin(server.url, "/")) as web:
        headers = BEARER | EVIL | {"Content-Type": "application/sdp"}
        async with web.post("/v1/realtime/calls", data="v=0", headers=headers) as answer:
            assert answer.status == 403


async def test_an_offer_is_not_even_read_without_a_key(server: Server) -> None:
    """P27: the same lock for every route."""
    async with ClientSession(urljoin(server.url, "/")) as web:
        for headers, status in (({}, 401), (BEARER, 400)):
            headers = headers | {"Content-Type": "application/sdp"}
            async with web.post("/v1/realtime/calls", data="v=0", headers=headers) as answer:
                assert answer.status == status
