"""Where a server answers and by which key, read from what an operator has at hand. Pure.

The URL that ``parley serve`` prints works as it stands, token and all; so do the base URL of a
client library and the address of the WebSocket itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from yarl import URL

_TOKEN = "token"
_ENDPOINT = "realtime"


class AddressProblem(Exception):
    """The URL cannot be used; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class Address:
    """Of a Realtime server.

    ``url`` is the WebSocket's, without a secret; ``origin`` is what people are shown of it; ``key``
    goes into the ``Authorization`` header, None sends none.
    """

    url: URL
    origin: str
    key: str | None = field(repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """What authorizes the request."""
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}


def read(text: str, given: str | None, kept: str | None) -> Address:
    """The address that ``text`` means.

    Args:
        text: an ``http``, ``https``, ``ws`` or ``wss`` URL: a page's, an API's or the endpoint's.
        given: the key of the command line, which goes first; the URL's own token goes second.
        kept: the key of the environment.

    Raises:
        AddressProblem: it is no such URL.
    """
    try:
        url = URL(text)
        usable = url.scheme in ("http", "https", "ws", "wss") and bool(url.host)
    except ValueError:
        usable = False
    if not usable:
        raise AddressProblem(
            "--url: expected an address that begins with http://, https://, ws:// or wss://"
        )
    endpoint = url.without_query_params(_TOKEN).with_fragment(None).with_user(None)
    parts = [part for part in url.parts if part not in ("", "/")]
    if parts[-1:] != [_ENDPOINT]:
        parts += [_ENDPOINT] if parts[-1:] == ["v1"] else ["v1", _ENDPOINT]
        endpoint = endpoint.with_path("/" + "/".join(parts), keep_query=True)
    key = given or url.query.get(_TOKEN) or kept
    return Address(url=endpoint, origin=str(endpoint.origin()), key=key)
