"""``GET /openapi.json``: every HTTP route of the API, with each status that it answers.

Written by hand, because what matters stands in no handler's signature: which refusals a caller has
to expect, and what they look like. The sessions' shapes come from the types that hold them. A test
lets a fuzzer compare every word with what a running server does.
"""

from __future__ import annotations

import msgspec

from server.openapi_shapes import (
    REASONS,
    RESUMABLE,
    TEXT,
    Json,
    json,
    object_,
    operation,
    parameter,
    refusal,
    resuming,
    schema,
)
from server.protocol.realtime.session_object import RealtimeSession, TranscriptionSession
from server.transport.webrtc.calls import LAST_CHANNEL
from server.transport.webrtc.sdp import MAX_OFFER

_LIVE = "/v1/live/sessions/{session_id}"
_CHANNEL = {"type": "integer", "minimum": 0, "maximum": LAST_CHANNEL}


def document(version: str) -> Json:
    """The OpenAPI 3.1 document of this server at ``version``."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Parley",
            "version": version,
            "summary": "OpenAI Realtime (GA) and GPT-Live on a server of one's own.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": (
                "Besides these routes the server has a page for people at `/` with its files under "
                "`/static/`. Where a key is needed it may also come bare in `Authorization`, or on "
                "a WebSocket as the subprotocol `openai-insecure-api-key.KEY` beside `realtime`."
            ),
        },
        "security": [{}, {"bearer": []}, {"key": []}],
        "paths": {
            "/health": {"get": _health()},
            "/ready": {"get": _ready()},
            "/metrics": {"get": _metrics()},
            "/openapi.json": {"get": _own()},
            "/v1/models": {"get": _models()},
            "/v1/models/{model}": {"get": _model()},
            "/v1/ice-servers": {"get": _ice_servers()},
            "/v1/realtime": {"get": _socket()},
            "/v1/realtime/client_secrets": {"post": _client_secrets()},
            "/v1/realtime/calls": {"post": _calls()},
            "/v1/realtime/calls/{call_id}/hangup": {"post": _hang_up("hangUp")},
            "/v1/realtime/calls/{call_id}": {"delete": _hang_up("deleteCall")},
            "/v1/live/sessions": {"get": _live_socket(), "post": _live_call()},
            f"{_LIVE}/attach": {"get": _attach()},
            f"{_LIVE}/hangup": {"post": _hang_up("hangUpSession", "session_id", "session")},
            f"{_LIVE}/fork": {"get": _not_done("joinFork"), "post": _not_done("fork")},
            f"{_LIVE}/accept": {"post": _not_done("accept")},
            f"{_LIVE}/reject": {"post": _not_done("reject")},
            f"{_LIVE}/refer": {"post": _not_done("refer")},
            f"{_LIVE}/content": {"get": _not_done("content")},
        },
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
            "responses": {str(status): refusal(status) for status in REASONS},
            "schemas": _schemas(),
        },
    }


def _health() -> Json:
    worker = object_(worker={"type": "integer"}, sessions={"type": "integer"}, busy=TEXT)
    told = object_(status={"const": "ok"}, busy=TEXT)
    told["properties"]["workers"] = {"type": "array", "items": worker}
    why = "It does; why new callers are refused, if they are; its media workers, if there are any."
    done = {"200": json(why, told)}
    return operation("health", "Whether the process answers; no key needed.", done)


def _ready() -> Json:
    states = ["starting", "ready", "degraded", "failed", "draining"]
    state = object_(status={"enum": states})
    done = {"200": json("Yes.", state), "503": json("No, because of this state.", state)}
    return operation("ready", "Whether callers are taken; no key needed.", done)


def _metrics() -> Json:
    text = {"text/plain; version=0.0.4; charset=utf-8": {"schema": TEXT}}
    done = {"200": {"description": "Prometheus' text format 0.0.4.", "content": text}}
    summary = "Figures; programs on the server's own machine need no key."
    return operation("metrics", summary, done)


def _own() -> Json:
    done = {"200": json("The document.", {"type": "object"})}
    return operation("openapi", "This document; no key needed.", done)


def _models() -> Json:
    listed = object_(object={"const": "list"}, data={"type": "array", "items": schema("Model")})
    done = {"200": json("All of them.", listed)}
    return operation("listModels", "The names that may be asked for.", done, 503)


def _model() -> Json:
    done = {"200": json("It.", schema("Model"))}
    parameters = [parameter("path", "model", "Its name.", TEXT)]
    return operation("getModel", "One model.", done, 404, 503, parameters=parameters)


def _ice_servers() -> Json:
    server = object_(urls={"type": "array", "items": TEXT})
    server["properties"] |= {"username": TEXT, "credential": TEXT}
    configuration = object_(
        iceServers={"type": "array", "items": server},
        ttl={"type": "integer", "description": "Seconds that the logins hold."},
    )
    done = {"200": json("An `RTCConfiguration` (W3C); empty where there are none.", configuration)}
    return operation("iceServers", "STUN and TURN servers for calls over WebRTC.", done)


def _socket() -> Json:
    opened = "The socket is open; `session.created` is the first event. A sideband has no token."
    return operation(
        "connect",
        "A session, or the sideband of a call, over a WebSocket.",
        {"101": {"description": opened, "headers": RESUMABLE}},
        *(400, 404, 426, 503),
        description=(
            "The handshake of RFC 6455; of the subprotocols offered, `realtime` is chosen. Events "
            "travel as text frames, one JSON object each. Once the socket is open a refusal comes "
            "as an `error` event before the close: 1013 means call again later, 1008 do not."
        ),
        parameters=[
            parameter("query", "model", "Of a session that talks; empty: the default.", TEXT),
            parameter(
                "query",
                "intent",
                "`transcription`: a session that only listens; `model` is the recogniser's then.",
                TEXT,
            ),
            parameter("query", "call_id", "Joins that call instead of making a session.", TEXT),
            *resuming(),
        ],
    )


def _client_secrets() -> Json:
    expiry = {
        "type": ["object", "null"],
        "properties": {
            "anchor": {"const": "created_at"},
            "seconds": {"type": "integer", "minimum": 10, "maximum": 7200, "default": 600},
        },
    }
    session = {"anyOf": [schema("SessionRequest"), {"type": "null"}]}
    wanted = {"type": "object", "properties": {"expires_after": expiry, "session": session}}
    example = {"expires_after": {"anchor": "created_at", "seconds": 60}}
    secret = object_(
        value={"type": "string", "pattern": "^ek_"},
        expires_at={"type": "integer", "description": "Unix seconds."},
        session=schema("Session"),
    )
    return operation(
        "createClientSecret",
        "A short-lived key that starts sessions with these defaults, for a browser.",
        {"200": json("The secret, and the session that it starts.", secret)},
        *(400, 404, 408, 413, 429, 503),
        requestBody={
            "required": False,
            "content": {"application/json": {"schema": wanted, "example": example}},
        },
    )


def _calls() -> Json:
    parts = {"sdp": schema("Offer"), "session": schema("SessionRequest")}
    form = {"type": "object", "required": ["sdp"], "properties": parts}
    encoding = {
        "sdp": {"contentType": "application/sdp"},
        "session": {"contentType": "application/json"},
    }
    location = {
        "description": "Of the call; its last segment is the call's id.",
        "required": True,
        "schema": {"type": "string", "pattern": "^/v1/realtime/calls/rtc_"},
    }
    answer = {
        "description": "The call can be found from now on.",
        "headers": {"Location": location, **RESUMABLE},
        "content": {"application/sdp": {"schema": TEXT}},
    }
    return operation(
        "createCall",
        "A call over WebRTC: an SDP offer for an answer that holds every candidate.",
        {"201": answer},
        *(400, 404, 408, 413, 415, 429, 503),
        parameters=[
            parameter("query", "model", "Where the session names none.", TEXT),
            parameter("query", "dcid", "Id of a data channel negotiated beforehand.", _CHANNEL),
            *resuming(),
        ],
        requestBody={
            "required": True,
            "content": {
                "application/sdp": {"schema": schema("Offer")},
                "multipart/form-data": {"schema": form, "encoding": encoding},
            },
        },
    )


def _hang_up(name: str, id: str = "call_id", what: str = "call") -> Json:
    done = {"200": {"description": "It has ended."}}
    parameters = [parameter("path", id, f"From the answer that made the {what}.", TEXT)]
    return operation(name, f"Ends a {what}.", done, 404, parameters=parameters)


def _live_socket() -> Json:
    opened = "The socket is open; the client's `session.start` is the first event."
    return operation(
        "startSession",
        "A GPT-Live session over a WebSocket.",
        {"101": {"description": opened, "headers": RESUMABLE}},
        *(400, 426),
        parameters=resuming(),
        description=(
            "The handshake of RFC 6455. Events travel as text frames, one JSON object each. A "
            "start that cannot be had is answered by an `error` event; another may follow it."
        ),
    )


def _live_call() -> Json:
    started = "The session has started, and can be found from now on."
    kind = {"const": "webrtc"}
    offered = object_(type=kind, sdp=schema("Offer"))
    offered["properties"]["dcid"] = {"anyOf": [_CHANNEL, {"type": "null"}]}
    wanted = object_(session=schema("LiveSessionRequest"), transport=offered)
    made = object_(session=object_(id=TEXT), transport=object_(type=kind, sdp=TEXT))
    return operation(
        "createSession",
        "A GPT-Live session over WebRTC: an SDP offer for an answer that holds every candidate.",
        {"201": json(started, made) | {"headers": RESUMABLE}},
        *(400, 404, 408, 413, 429, 503),
        parameters=resuming(),
        requestBody={"required": True, "content": {"application/json": {"schema": wanted}}},
    )


def _attach() -> Json:
    return operation(
        "attach",
        "Watches and steers a GPT-Live session over a WebSocket.",
        {"101": {"description": "The socket is open; what happens from now on is told."}},
        *(400, 404, 426, 429),
        parameters=[parameter("path", "session_id", "As its events tell it.", TEXT)],
    )


def _not_done(name: str) -> Json:
    parameters = [parameter("path", "session_id", "Of any session.", TEXT)]
    return operation(name, "Refused by name.", {}, 501, parameters=parameters)


def _schemas() -> Json:
    sessions = (RealtimeSession, TranscriptionSession)
    references, shapes = msgspec.json.schema_components(
        sessions, ref_template="#/components/schemas/{name}"
    )
    error = object_(
        message=TEXT,
        type={"enum": ["invalid_request_error", "server_error"]},
        code=TEXT,
        param={"type": ["string", "null"], "description": "The field at fault, dotted."},
    )
    model = object_(id=TEXT, object={"const": "model"}, created={"type": "integer"}, owned_by=TEXT)
    request = {
        "type": "object",
        "description": "As sparse as in `session.update`; what is left out has its default.",
        "required": ["type"],
        "properties": {"type": {"enum": ["realtime", "transcription"]}},
    }
    live = {
        "type": "object",
        "description": "`SessionConfig` of `openai.types.live`; what is left out has its default.",
        "required": ["model"],
        "properties": {"model": {"type": "string", "minLength": 1, "maxLength": 128}},
    }
    offer = {"type": "string", "maxLength": MAX_OFFER, "description": "SDP (RFC 8866)."}
    return shapes | {
        "Error": object_(error=error),
        "LiveSessionRequest": live,
        "Model": model,
        "Offer": offer,
        "Session": {"oneOf": list(references)},
        "SessionRequest": request,
    }
