"""A server with API keys: stock clients with a key, without one, and with a client secret."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urljoin

import pytest
from aiohttp import ClientSession, CookieJar
from openai import AuthenticationError, NotFoundError, PermissionDeniedError
from openai.types.realtime import ClientSecretCreateResponse
from websockets.exceptions import InvalidStatus

from server import keys
from tests.callers import Post, call, socket
from tests.conformance.openai_python import connected, openai
from tests.network.simulated import simulated
from tests.serving import Server

INSTRUCTIONS = "You are the voice of a bakery."


@dataclass
class Guarded:
    """A server and, of the one key it has, the id and the secret; all that was shown is kept."""

    server: Server
    path: Path
    id: str
    key: str
    shown: list[str]

    @property
    def url(self) -> str:
        return self.server.url


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    path = folder / "keys.json"
    key, secret = keys.create(path, "first", 0)
    flags = ("--keys-file", str(path), "--log-level", "debug")
    with simulated(folder / "log", *flags) as server:
        yield Guarded(server, path, key.id, secret, [secret])


async def secret_of(guarded: Guarded, *, seconds: int = 600) -> ClientSecretCreateResponse:
    """What the stock client gets for a session with instructions."""
    async with openai(guarded.url, guarded.key) as client:
        made = await client.realtime.client_secrets.create(
            expires_after={"anchor": "created_at", "seconds": seconds},
            session={
                "type": "realtime",
                "model": "gpt-realtime",
                "instructions": INSTRUCTIONS,
                "audio": {"input": {"turn_detection": None}},
            },
        )
    guarded.shown.append(made.value)
    return made


async def status_without_upgrade(url: str, key: str) -> int:
    """What the stock client's socket is refused with."""
    with pytest.raises(InvalidStatus) as refused:
        async with connected(url, key=key):
            pass
    return refused.value.response.status_code


def posting(key: str) -> Post:
    async def post(url: str, offer: str) -> tuple[str, str]:
        async with openai(url, key) as client:
            made = await client.realtime.calls.create(sdp=offer)
            return made.text, made.response.headers["Location"]

    return post


async def test_the_stock_client_is_let_in_with_a_key_and_only_with_one(guarded: Guarded) -> None:
    async with openai(guarded.url, guarded.key) as client:
        assert "parley" in {model.id for model in (await client.models.list()).data}
    async with connected(guarded.url, key=guarded.key) as caller:
        await caller.write("Hello.")
        await caller.send("response.create")
        assert (await caller.done())["status"] == "completed"
    async with openai(guarded.url, "wrong") as client:
        with pytest.raises(AuthenticationError):
            await client.models.list()
    assert await status_without_upgrade(guarded.url, "wrong") == 401


async def test_the_stock_client_makes_a_secret_and_starts_sessions_with_it(
    guarded: Guarded,
) -> None:
    made = await secret_of(guarded)
    assert made.value.startswith("ek_")
    assert made.session.type == "realtime"
    assert made.session.object == "realtime.session"
    assert made.session.instructions == INSTRUCTIONS
    for _ in range(2):
        async with connected(guarded.url, key=made.value) as caller:
            session = caller.strict.events[0]["session"]
            assert session["instructions"] == INSTRUCTIONS
            assert session["audio"]["input"]["turn_detection"] is None
            assert session["id"] != made.session.id
    async with openai(guarded.url, made.value) as client:
        with pytest.raises(PermissionDeniedError, match="client secret"):
            await client.realtime.client_secrets.create()


async def test_a_secret_for_transcription_starts_a_session_that_only_listens(
    guarded: Guarded,
) -> None:
    async with openai(guarded.url, guarded.key) as client:
        made = await client.realtime.client_secrets.create(
            session={
                "type": "transcription",
                "audio": {"input": {"transcription": {"model": "whisper-1"}}},
            }
        )
    assert made.session.type == "transcription"
    async with connected(guarded.url, key=made.value) as caller:
        session = caller.strict.events[0]["session"]
        assert session["type"] == "transcription"
        assert session["audio"]["input"]["transcription"]["model"] == "whisper-1"


async def test_a_page_calls_with_a_secret_and_a_form_beside_it_goes_first(
    guarded: Guarded,
) -> None:
    made = await secret_of(guarded)
    async with call(guarded.url, posting(made.value)) as caller:
        assert caller.strict.events[0]["session"]["instructions"] == INSTRUCTIONS

    async def post(url: str, offer: str) -> tuple[str, str]:
        async with openai(url, made.value) as client:
            called = await client.realtime.calls.create(
                sdp=offer, session={"type": "realtime", "instructions": "Be brief."}
            )
            return called.text, called.response.headers["Location"]

    async with call(guarded.url, post) as caller:
        session = caller.strict.events[0]["session"]
        assert session["instructions"] == "Be brief."
        assert session["audio"]["input"]["turn_detection"] is None


async def test_a_call_is_reached_with_the_key_that_started_it_only(guarded: Guarded) -> None:
    made, other_secret = await secret_of(guarded), await secret_of(guarded)
    stranger, key = keys.create(guarded.path, "stranger", 0)
    guarded.shown.append(key)
    async with call(guarded.url, posting(made.value)) as caller:
        call_id = caller.location.rpartition("/")[2]
        for shown in (key, other_secret.value):
            async with openai(guarded.url, shown) as client:
                with pytest.raises(NotFoundError):
                    await client.realtime.calls.hangup(call_id)
            with pytest.raises(InvalidStatus) as refused:
                async with connected(guarded.url, call_id=call_id, key=shown):
                    pass
            assert refused.value.response.status_code == 404
        async with connected(guarded.url, call_id=call_id, key=guarded.key):
            pass
        async with openai(guarded.url, made.value) as client:
            await client.realtime.calls.hangup(call_id)
    keys.revoke(guarded.path, stranger.id)


async def test_a_revoked_key_starts_nothing_more_nor_do_its_secrets(guarded: Guarded) -> None:
    key, shown = keys.create(guarded.path, "second", 0)
    guarded.shown.append(shown)
    async with openai(guarded.url, shown) as client:
        made = await client.realtime.client_secrets.create()
    async with connected(guarded.url, key=shown) as running:
        keys.revoke(guarded.path, key.id)
        for refused in (shown, made.value):
            assert await status_without_upgrade(guarded.url, refused) == 401
        await running.update(instructions="Go on.")


async def test_the_page_works_by_its_link(guarded: Guarded) -> None:
    assert "?token=" in guarded.url
    jar = CookieJar(unsafe=True)  # keeps what an address sets, as browsers do
    async with ClientSession(cookie_jar=jar) as web:
        assert (await web.get(urljoin(guarded.url, "/"))).status == 401
        assert (await web.get(guarded.url)).status == 200
        async with web.ws_connect(urljoin(guarded.url, "v1/realtime")) as ws:
            assert (await ws.receive_json())["type"] == "session.created"


async def test_keys_and_secrets_are_in_no_log_line(guarded: Guarded) -> None:
    told = guarded.server.log.read_text()
    assert "session started" in told
    token = guarded.url.partition("token=")[2]
    assert not [each for each in (*guarded.shown, token) if each in told]


async def test_a_server_without_keys_makes_secrets_too(tmp_path: Path) -> None:
    with simulated(tmp_path / "log") as server:
        async with openai(server.url) as client:
            made = await client.realtime.client_secrets.create(
                session={"type": "realtime", "instructions": INSTRUCTIONS}
            )
        async with connected(server.url, key=made.value) as caller:
            assert caller.strict.events[0]["session"]["instructions"] == INSTRUCTIONS
        async with socket(server.url) as caller:
            assert caller.strict.events[0]["session"]["instructions"] != INSTRUCTIONS
