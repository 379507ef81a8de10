"""``GET /openapi.json``: every HTTP route of the API, with each status that it answers.

Written by hand, because what matters stands in no handler's signature: which refusals a caller has
to expect, and what they look like. The sessions' shapes come from the types that hold them. A test
lets a fuzzer compare every word with what a running server does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from server.protocol.realtime.session_object import RealtimeSession, TranscriptionSession
from server.transport.webrtc.calls import LAST_CHANNEL
from server.transport.webrtc.sdp import MAX_OFFER

Json = dict[str, Any]

_REASONS = {
    400: "The request is no good; `param` names the field.",
    401: "A key is needed, and none that is known was shown.",
    403: "The host, the origin or this use of the key is not allowed.",
    404: "There is no such thing.",
    408: "The request did not come whole within the set-up time.",
    413: "The request is too large.",
    415: "The content type is another than expected.",
    426: "Expected a WebSocket upgrade (RFC 6455).",
    429: "The caller's limits are used up; `Retry-After` says when to ask again.",
    500: "The server failed; its log says why.",
    501: "A part of the API that this server does not do.",
    503: "Not now: no place is free, or the engine is not ready; `Retry-After` may say when.",
}
_RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}}
_TEXT = {"type": "string"}
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
            "responses": {str(status): _refusal(status) for status in _REASONS},
            "schemas": _schemas(),
        },
    }


def _operation(
    name: str, summary: str, done: Mapping[str, Json], *refused: int, **more: Any
) -> Json:
    """An operation; any may find the door closed, or the server failing."""
    refusals = {
        str(status): {"$ref": f"#/components/responses/{status}"}
        for status in sorted({401, 403, 500, *refused})
    }
    return {"operationId": name, "summary": summary, "responses": refusals | dict(done), **more}


def _health() -> Json:
    done = {"200": _json("It does.", _object(status={"const": "ok"}))}
    return _operation("health", "Whether the process answers; no key needed.", done)


def _ready() -> Json:
    states = ["starting", "ready", "degraded", "failed", "draining"]
    state = _object(status={"enum": states})
    done = {"200": _json("Yes.", state), "503": _json("No, because of this state.", state)}
    return _operation("ready", "Whether callers are taken; no key needed.", done)


def _metrics() -> Json:
    text = {"text/plain; version=0.0.4; charset=utf-8": {"schema": _TEXT}}
    done = {"200": {"description": "Prometheus' text format 0.0.4.", "content": text}}
    summary = "Figures; programs on the server's own machine need no key."
    return _operation("metrics", summary, done)


def _own() -> Json:
    done = {"200": _json("The document.", {"type": "object"})}
    return _operation("openapi", "This document; no key needed.", done)


def _models() -> Json:
    listed = _object(object={"const": "list"}, data={"type": "array", "items": _schema("Model")})
    done = {"200": _json("All of them.", listed)}
    return _operation("listModels", "The names that may be asked for.", done, 503)


def _model() -> Json:
    done = {"200": _json("It.", _schema("Model"))}
    parameters = [_parameter("path", "model", "Its name.", _TEXT)]
    return _operation("getModel", "One model.", done, 404, 503, parameters=parameters)


def _ice_servers() -> Json:
    server = _object(urls={"type": "array", "items": _TEXT})
    server["properties"] |= {"username": _TEXT, "credential": _TEXT}
    configuration = _object(
        iceServers={"type": "array", "items": server},
        ttl={"type": "integer", "description": "Seconds that the logins hold."},
    )
    done = {"200": _json("An `RTCConfiguration` (W3C); empty where there are none.", configuration)}
    return _operation("iceServers", "STUN and TURN servers for calls over WebRTC.", done)


def _socket() -> Json:
    return _operation(
        "connect",
        "A session, or the sideband of a call, over a WebSocket.",
        {"101": {"description": "The socket is open; `session.created` is the first event."}},
        *(400, 404, 426, 503),
        description=(
            "The handshake of RFC 6455; of the subprotocols offered, `realtime` is chosen. Events "
            "travel as text frames, one JSON object each. Once the socket is open a refusal comes "
            "as an `error` event before the close: 1013 means call again later, 1008 do not."
        ),
        parameters=[
            _parameter("query", "model", "Of a session that talks; empty: the default.", _TEXT),
            _parameter(
                "query",
                "intent",
                "`transcription`: a session that only listens; `model` is the recogniser's then.",
                _TEXT,
            ),
            _parameter("query", "call_id", "Joins that call instead of making a session.", _TEXT),
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
    session = {"anyOf": [_schema("SessionRequest"), {"type": "null"}]}
    wanted = {"type": "object", "properties": {"expires_after": expiry, "session": session}}
    example = {"expires_after": {"anchor": "created_at", "seconds": 60}}
    secret = _object(
        value={"type": "string", "pattern": "^ek_"},
        expires_at={"type": "integer", "description": "Unix seconds."},
        session=_schema("Session"),
    )
    return _operation(
        "createClientSecret",
        "A short-lived key that starts sessions with these defaults, for a browser.",
        {"200": _json("The secret, and the session that it starts.", secret)},
        *(400, 404, 408, 413, 429, 503),
        requestBody={
            "required": False,
            "content": {"application/json": {"schema": wanted, "example": example}},
        },
    )


def _calls() -> Json:
    parts = {"sdp": _schema("Offer"), "session": _schema("SessionRequest")}
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
        "headers": {"Location": location},
        "content": {"application/sdp": {"schema": _TEXT}},
    }
    return _operation(
        "createCall",
        "A call over WebRTC: an SDP offer for an answer that holds every candidate.",
        {"201": answer},
        *(400, 404, 408, 413, 415, 429, 503),
        parameters=[
            _parameter("query", "model", "Where the session names none.", _TEXT),
            _parameter("query", "dcid", "Id of a data channel negotiated beforehand.", _CHANNEL),
        ],
        requestBody={
            "required": True,
            "content": {
                "application/sdp": {"schema": _schema("Offer")},
                "multipart/form-data": {"schema": form, "encoding": encoding},
            },
        },
    )


def _hang_up(name: str, id: str = "call_id", what: str = "call") -> Json:
    done = {"200": {"description": "It has ended."}}
    parameters = [_parameter("path", id, f"From the answer that made the {what}.", _TEXT)]
    return _operation(name, f"Ends a {what}.", done, 404, parameters=parameters)


def _live_socket() -> Json:
    opened = "The socket is open; the client's `session.start` is the first event."
    return _operation(
        "startSession",
        "A GPT-Live session over a WebSocket.",
        {"101": {"description": opened}},
        *(400, 426),
        description=(
            "The handshake of RFC 6455. Events travel as text frames, one JSON object each. A "
            "start that cannot be had is answered by an `error` event; another may follow it."
        ),
    )


def _live_call() -> Json:
    kind = {"const": "webrtc"}
    offered = _object(type=kind, sdp=_schema("Offer"))
    offered["properties"]["dcid"] = {"anyOf": [_CHANNEL, {"type": "null"}]}
    wanted = _object(session=_schema("LiveSessionRequest"), transport=offered)
    made = _object(session=_object(id=_TEXT), transport=_object(type=kind, sdp=_TEXT))
    return _operation(
        "createSession",
        "A GPT-Live session over WebRTC: an SDP offer for an answer that holds every candidate.",
        {"201": _json("The session has started, and can be found from now on.", made)},
        *(400, 404, 408, 413, 429, 503),
        requestBody={"required": True, "content": {"application/json": {"schema": wanted}}},
    )


def _attach() -> Json:
    return _operation(
        "attach",
        "Watches and steers a GPT-Live session over a WebSocket.",
        {"101": {"description": "The socket is open; what happens from now on is told."}},
        *(400, 404, 426, 429),
        parameters=[_parameter("path", "session_id", "As its events tell it.", _TEXT)],
    )


def _not_done(name: str) -> Json:
    parameters = [_parameter("path", "session_id", "Of any session.", _TEXT)]
    return _operation(name, "Refused by name.", {}, 501, parameters=parameters)


def _schemas() -> Json:
    sessions = (RealtimeSession, TranscriptionSession)
    references, shapes = msgspec.json.schema_components(
        sessions, ref_template="#/components/schemas/{name}"
    )
    error = _object(
        message=_TEXT,
        type={"enum": ["invalid_request_error", "server_error"]},
        code=_TEXT,
        param={"type": ["string", "null"], "description": "The field at fault, dotted."},
    )
    model = _object(
        id=_TEXT, object={"const": "model"}, created={"type": "integer"}, owned_by=_TEXT
    )
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
        "Error": _object(error=error),
        "LiveSessionRequest": live,
        "Model": model,
        "Offer": offer,
        "Session": {"oneOf": list(references)},
        "SessionRequest": request,
    }


def _refusal(status: int) -> Json:
    headers = {"headers": _RETRY} if status in (429, 503) else {}
    return _json(_REASONS[status], _schema("Error")) | headers


def _json(description: str, schema: Json) -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _object(**properties: Any) -> Json:
    """An object that has all of ``properties``."""
    return {"type": "object", "required": list(properties), "properties": properties}


def _schema(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _parameter(place: str, name: str, description: str, schema: Json) -> Json:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": schema,
    }
