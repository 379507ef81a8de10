"""How calls over WebRTC carry sound, and by which addresses they are reached."""

from __future__ import annotations

import re

from pydantic import Field, SecretStr, field_validator, model_validator

from server.engine_settings import Part
from server.transport.addresses import endpoint

_STUN = re.compile(r"stuns?:[^\s?/@]+")
_TURN = re.compile(r"turns?:[^\s?/@]+(\?transport=(udp|tcp))?")


class IceServer(Part):
    """A STUN or TURN server for callers, as ``RTCIceServer`` has it, or what its login is made of.

    A TURN server that shares a ``secret`` with us (coturn's ``use-auth-secret``) takes logins that
    hold for a while, made for each caller who asks.
    """

    urls: tuple[str, ...] = Field(
        min_length=1, description="`stun:`, `turn:` and `turns:` URLs of one server."
    )
    username: str = Field(default="", description="Login that all callers are given.")
    credential: SecretStr = Field(default=SecretStr(""), description="Its password.")
    secret: SecretStr = Field(
        default=SecretStr(""), description="Shared with the server; logins are made with it."
    )
    lifetime: int = Field(default=3600, ge=60, description="Seconds that such a login holds.")

    @field_validator("urls")
    @classmethod
    def _urls(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            if not (_STUN.fullmatch(url) or _TURN.fullmatch(url)):
                raise ValueError(f"expected stun:HOST:PORT or turn:HOST:PORT?transport=tcp: {url}")
        return urls

    @model_validator(mode="after")
    def _login(self) -> IceServer:
        login = bool(self.username), bool(self.credential.get_secret_value())
        secret = bool(self.secret.get_secret_value())
        if login[0] != login[1] or (secret and login[0]):
            raise ValueError("expected username and credential, or secret, or none of them")
        if not (secret or login[0]) and any(url.startswith("turn") for url in self.urls):
            raise ValueError("expected a secret, or a username and a credential, with a turn URL")
        return self


class WebRtc(Part):
    """What concerns calls only."""

    port: int | None = Field(
        default=None,
        ge=0,
        le=65535,
        description="UDP port of all calls; by default the number of `port`; 0 picks a free one.",
    )
    addresses: tuple[str, ...] = Field(
        default=(),
        description="Addresses or interfaces (eth0) that calls may use for media; by default what"
        " `host` stands for.",
    )
    public_addresses: tuple[str, ...] = Field(
        default=(),
        description="What callers are told instead, where a NAT or container is in between: an"
        " address or name, with :PORT if it is another.",
    )
    ice_servers: tuple[IceServer, ...] = Field(
        default=(), description="STUN and TURN servers for callers (JSON); best in the file."
    )

    @field_validator("public_addresses")
    @classmethod
    def _endpoints(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            endpoint(address)
        return addresses
