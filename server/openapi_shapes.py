"""The shapes that the OpenAPI document is made of: operations, refusals, parameters, objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from server.resume import AFTER, HEADER, QUERY

Json = dict[str, Any]

TEXT = {"type": "string"}
REASONS = {
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
RETRY = {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}}
RESUMABLE = {HEADER: {"description": "Leads back to the session.", "schema": TEXT}}
"""Headers of an answer with which a session begins, or goes on."""


def operation(
    name: str, summary: str, done: Mapping[str, Json], *refused: int, **more: Any
) -> Json:
    """An operation; any may find the door closed, or the server failing."""
    refusals = {
        str(status): {"$ref": f"#/components/responses/{status}"}
        for status in sorted({401, 403, 500, *refused})
    }
    return {"operationId": name, "summary": summary, "responses": refusals | dict(done), **more}


def refusal(status: int) -> Json:
    headers = {"headers": RETRY} if status in (429, 503) else {}
    return json(REASONS[status], schema("Error")) | headers


def json(description: str, schema: Json) -> Json:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def object_(**properties: Any) -> Json:
    """An object that has all of ``properties``."""
    return {"type": "object", "required": list(properties), "properties": properties}


def schema(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def parameter(place: str, name: str, description: str, schema: Json) -> Json:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": description,
        "schema": schema,
    }


def resuming() -> list[Json]:
    """The parameters of a request that may begin a session or come back to one."""
    lost = "The token of a session whose connection broke: it goes on."
    return [
        parameter("header", HEADER, lost, TEXT),
        parameter("query", QUERY, f"The same as the header {HEADER}.", TEXT),
        parameter("query", AFTER, "The `event_id` of the last event that arrived.", TEXT),
    ]
