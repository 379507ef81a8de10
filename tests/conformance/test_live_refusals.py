"""What GPT-Live refuses: always by name, and who asked may go on."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any, get_args

import pytest
from aiohttp import WSServerHandshakeError
from openai.types.live import BuiltInVoice, ClientEvent, SessionConfig
from openai.types.live.media_session_config_param import MediaSessionConfigParam

from server.audience import SUBSCRIBERS
from server.transport import live_sockets
from tests.callers import call
from tests.conformance.live_callers import SESSIONS, live, unstarted, watching
from tests.network.simulated import until
from tests.service import Service, service

CLOCKED = {"replies": "by_itself", "tick": 1280}
LIVE = {"model": "gpt-live-1"}
SDP = "v=0\r\nm=audio 9 X\r\na=ice-ufrag:abcd\r\na=ice-pwd:x\r\na=fingerprint:sha-256 AA\r\n"
TEXT = [{"role": "user", "content": [{"type": "input_text", "text": "Hello."}]}]


def at(now: Service) -> str:
    """Where it answers."""
    return str(now.caller.make_url("/"))


# What is refused ----------------------------------------------------------------------------------

EVENTS: dict[str, dict[str, Any]] = {
    "session.output_audio.fixture.play": {"audio": ""},
    "response.create": {},
    "response.item.create": {
        "item": {"type": "function_call_output", "call_id": "a", "output": ""}
    },
    "decision.create": {"input": "Is it late?"},
    "decision.item.create": {"item": {"type": "message", "role": "user", "content": []}},
    "decision.item.delete": {"item_id": "item_1"},
    "transport.dtmf.send": {"event": "1"},
}
UNKNOWN: tuple[Any, ...] = ("session.pause", "input_audio_buffer.append", "", None, 7, ["x"])
SERVED = {
    "session.start",
    "session.update",
    "session.close",
    "session.input_audio.append",
    "session.input_audio.mute",
    "session.input_audio.unmute",
    "session.instructions.append",
    "session.thinking.append",
    "session.commentary.append",
}
CONFIGS: dict[str, tuple[Any, str, str]] = {
    "instruction": ("Be brief.", "unknown_parameter", "instruction"),
    "audio": ({"output": {"speed": 2}}, "unknown_parameter", "audio.output.speed"),
    "audio.format": (
        {"format": {"type": "audio/opus"}},
        "invalid_value",
        "audio.format.type",
    ),
    "audio.rate": (
        {"format": {"type": "audio/pcm", "rate": 48_000}},
        "invalid_value",
        "audio.format.rate",
    ),
    "audio.voice": ({"output": {"voice": "nova"}}, "invalid_value", "audio.output.voice"),
    "client": ({"data_channel": {}}, "unsupported", "client"),
    "delegation": (
        {"type": "responses", "responses": {"model": "gpt-5"}},
        "unsupported",
        "delegation.type",
    ),
    "delegation.decisions": (
        {"type": "decisions", "decisions": {}},
        "unsupported",
        "delegation.type",
    ),
    "idle_timeout_s": (30, "unsupported", "idle_timeout_s"),
    "model": ("gpt-unheard-of", "model_not_found", "model"),
    "store": (True, "unsupported", "store"),
    "triggers": ([{"type": "input_transcript"}], "unsupported", "triggers"),
    "wake_policy": ({"type": "speech"}, "unsupported", "wake_policy"),
    "input": ([{"role": "system", "content": []}], "invalid_value", "input[0].role"),
}


def test_every_event_and_field_of_the_package_is_served_or_refused_here() -> None:
    union, *_ = get_args(ClientEvent)
    sent = {get_args(kind.model_fields["type"].annotation)[0] for kind in get_args(union)}
    assert sent | {"transport.dtmf.send"} == SERVED | EVENTS.keys()
    fields = SessionConfig.model_fields.keys() | MediaSessionConfigParam.__annotations__.keys()
    taken = {"instructions", "safety_identifier"}
    assert fields <= CONFIGS.keys() | taken


async def test_a_start_that_cannot_be_had_names_its_field_and_the_next_one_may_do() -> None:
    """P37."""
    async with service() as now, unstarted(at(now)) as caller:
        error = await caller.refused("session.input_audio.mute")
        assert error["code"] == "session_not_started"
        for name, (value, code, param) in CONFIGS.items():
            session = LIVE | {name.partition(".")[0]: value}
            error = await caller.refused("session.start", session=session)
            assert (error["code"], error["param"]) == (code, f"session.{param}"), name
            assert error["type"] == "invalid_request_error"
        error = await caller.refused("session.start", session={})
        assert (error["code"], error["param"]) == ("missing_required_parameter", "session.model")
        assert not now.manager.sessions
        await caller.start(instructions="Be brief.")
        await caller.close()
        caller.strict.finish()


@pytest.mark.parametrize("engine", [{}, CLOCKED], ids=["told", "clocked"])
async def test_what_is_not_served_is_refused_by_name_and_the_session_goes_on(
    engine: dict[str, Any],
) -> None:
    """P37."""
    async with service(simulated=engine) as now, live(at(now)) as caller:
        for kind, fields in EVENTS.items():
            error = await caller.refused(kind, **fields)
            assert (error["code"], error["param"]) == ("unsupported", "type"), kind
            assert kind in error["message"]
        unknown: tuple[Any, ...] = (
            "session.pause",
            "input_audio_buffer.append",
            "",
            None,
            7,
            ["x"],
        )
        for kind in unknown:
            error = await caller.refused(kind)
            assert (error["code"], error["param"]) == ("invalid_event", "type"), kind
        error = await caller.refused("session.input_audio.mute", loud=True)
        assert (error["code"], error["param"]) == ("unknown_parameter", "loud")
        error = await caller.refused("session.input_audio.append", audio="AA==")
        assert (error["code"], error["param"]) == ("invalid_audio", "audio")
        error = await caller.refused("session.thinking.append", content="So.")
        assert error["param"] == "delegation_id"
        error = await caller.refused("session.update", session={"instructions": "Be rude."})
        assert error["code"] == "immutable_field_update"
        assert error["param"] == "session.instructions"
        given = {"delegation": {"type": "responses"}}
        error = await caller.refused("session.update", session=given)
        assert (error["code"], error["param"]) == (
            "immutable_field_update",
            "session.delegation.type",
        )
        error = await caller.refused("session.start", session=LIVE)
        assert error["code"] == "session_already_started"


async def test_a_binary_frame_is_refused_before_the_start_and_behind_it() -> None:
    async with service() as now, now.caller.ws_connect(f"/{SESSIONS}") as ws:
        await ws.send_bytes(b'{"type":"session.close"}')
        assert (await ws.receive_json())["error"]["code"] == "invalid_event"
        await ws.send_json({"type": "session.start", "session": LIVE})
        assert (await ws.receive_json())["type"] == "session.started"
        await ws.send_bytes(b'{"type":"session.close"}')
        while (event := await ws.receive_json())["type"] != "error":
            assert event["type"] == "session.output_audio.delta"
        assert event["error"]["code"] == "invalid_event"


async def test_every_voice_of_the_api_is_taken_and_another_refused_with_those_there_are() -> None:
    """P38."""
    async with service() as now, unstarted(at(now)) as caller:
        audio = {"output": {"voice": "nova"}}
        error = await caller.refused("session.start", session=LIVE | {"audio": audio})
        for voice in get_args(BuiltInVoice):
            assert f" {voice}" in error["message"]
            async with live(at(now), audio={"output": {"voice": voice}}) as other:
                shown = other.strict.events[0]["session"]["audio"]["output"]
                assert shown == {"voice": voice}


async def test_an_engine_that_takes_no_text_refuses_it_by_name() -> None:
    async with service(simulated=CLOCKED) as now, unstarted(at(now)) as caller:
        error = await caller.refused("session.start", session=LIVE | {"input": TEXT})
        assert (error["code"], error["param"]) == ("unsupported", "session.input")
        await caller.start()
        for kind in ("instructions", "thinking", "commentary"):
            append = f"session.{kind}.append"
            error = await caller.refused(append, content="A word.", delegation_id=None)
            assert error["code"] == "unsupported"
        await caller.close()
        caller.strict.finish()


async def test_a_task_that_nobody_was_handed_cannot_be_answered() -> None:
    async with service() as now, live(at(now)) as caller:
        append: dict[str, Any] = {"content": "It rains.", "delegation_id": "dlg_1"}
        error = await caller.refused("session.commentary.append", **append)
        assert (error["code"], error["param"]) == ("invalid_value", "delegation_id")
        for text in ("", "x" * 5_000):
            append = {"content": text, "delegation_id": None}
            error = await caller.refused("session.commentary.append", **append)
            assert error["param"] == "content"
        for number in range(32):
            append = {"content": f"Text {number}.", "delegation_id": None}
            await caller.send("session.commentary.append", **append)
        assert (await caller.event("error"))["error"]["code"] == "too_many_appends"


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"audio": {"format": {"type": "audio/pcm", "rate": 24_000}}}, "session.audio.format"),
        ({"idle_timeout_s": 30}, "session.idle_timeout_s"),
        ({"wake_policy": {"type": "speech"}}, "session.wake_policy"),
        ({"client": {"data_channels": {}}}, "session.client.data_channels"),
        ({"voice": "marin"}, "session.voice"),
    ],
)
async def test_a_call_that_cannot_be_had_is_refused_before_its_answer(
    session: dict[str, Any], param: str
) -> None:
    async with service() as now:
        transport = {"type": "webrtc", "sdp": "v=0"}
        body = {"session": LIVE | session, "transport": transport}
        async with now.caller.post(f"/{SESSIONS}", json=body) as answer:
            assert answer.status == 400
            error = (await answer.json())["error"]
        assert error["param"] == param
        assert not now.manager.sessions


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "fork"),
        ("POST", "fork"),
        ("POST", "accept"),
        ("POST", "reject"),
        ("POST", "refer"),
        ("GET", "content"),
    ],
)
async def test_what_the_api_does_with_sessions_besides_is_refused_by_name(
    method: str, path: str
) -> None:
    async with (
        service() as now,
        now.caller.request(method, f"/{SESSIONS}/live_1/{path}") as answer,
    ):
        assert answer.status == 501
        error = (await answer.json())["error"]
        assert error["code"] == "unsupported"
        assert path in error["message"]


# Who gets in --------------------------------------------------------------------------------------


async def test_a_server_without_a_free_place_leaves_the_socket_as_it_was() -> None:
    async with service(capacity=1) as now, unstarted(at(now)) as second:
        async with live(at(now)):
            error = await second.refused("session.start", session=LIVE)
            assert (error["type"], error["code"]) == ("server_error", "server_busy")
            body = {"session": LIVE, "transport": {"type": "webrtc", "sdp": SDP}}
            async with now.caller.post(f"/{SESSIONS}", json=body) as answer:
                assert answer.status == 503
                assert int(answer.headers["Retry-After"]) >= 1
                assert (await answer.json())["error"]["code"] == "server_busy"
        await until(lambda: not now.manager.sessions, 15)
        await second.start()
        await second.close()
        second.strict.finish()


async def test_a_client_that_never_starts_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_sockets, "START", 0.1)
    async with service() as now:
        async with unstarted(at(now)) as caller:
            assert (await caller.event("error"))["error"]["code"] == "session_not_started"
            assert await asyncio.wait_for(caller.closed, 15) == 1008
        monkeypatch.undo()
        async with unstarted(at(now)) as caller:
            for _ in range(live_sockets.STARTS):
                await caller.refused("session.start", session={})
            assert await asyncio.wait_for(caller.closed, 15) == 1008


async def test_only_a_key_starts_a_session_and_watches_it() -> None:
    key = {"Authorization": "Bearer right"}
    async with service(token="right") as now:
        for headers, status in (({}, 401), ({"Authorization": "Bearer wrong"}, 401)):
            assert await refusal(now, SESSIONS, headers) == status
        made = await now.caller.post("/v1/realtime/client_secrets", headers=key, json={})
        secret = {"Authorization": f"Bearer {(await made.json())['value']}"}
        assert await refusal(now, SESSIONS, secret) == 403
        body = {"session": LIVE, "transport": {"type": "webrtc", "sdp": "v=0"}}
        async with now.caller.post(f"/{SESSIONS}", headers=secret, json=body) as answer:
            assert answer.status == 403
            assert (await answer.json())["error"]["code"] == "permission_denied"
        async with unstarted(at(now), **key) as caller:
            await caller.start()
            attach = f"{SESSIONS}/{caller.id}/attach"
            assert await refusal(now, attach, {}) == 401
            assert await refusal(now, attach, secret) == 404
            assert await refusal(now, f"{SESSIONS}/live_0/attach", key) == 404
            await caller.close()


async def test_a_session_is_watched_by_few_and_in_its_own_protocol() -> None:
    async with service() as now, live(at(now)) as caller, AsyncExitStack() as watchers:
        for _ in range(SUBSCRIBERS - 1):
            await watchers.enter_async_context(watching(at(now), caller.id))
        assert await refusal(now, f"{SESSIONS}/{caller.id}/attach", {}) == 429
        assert await refusal(now, f"v1/realtime?call_id={caller.id}", {}) == 404
        async with now.caller.post(f"/v1/realtime/calls/{caller.id}/hangup") as answer:
            assert answer.status == 404
        async with call(at(now)) as other:
            call_id = other.location.rpartition("/")[2]
            assert await refusal(now, f"{SESSIONS}/{call_id}/attach", {}) == 404
            async with now.caller.post(f"/{SESSIONS}/{call_id}/hangup") as answer:
                assert answer.status == 404


async def refusal(now: Service, path: str, headers: dict[str, str]) -> int:
    """The status that a socket is refused with."""
    with pytest.raises(WSServerHandshakeError) as refused:
        async with unstarted(at(now), path, **headers):
            pass
    return refused.value.status
