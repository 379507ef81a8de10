"""How calls over WebRTC carry sound, and by which addresses they are reached."""

from __future__ import annotations

import re
from typing import Literal, Self

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


class Sound(Part):
    """How sound is coded."""

    packet_ms: Literal[10, 20] = Field(
        default=20,
        description="Milliseconds of sound in a packet; 10 saves 10 ms and costs twice the work.",
    )
    mode: Literal["lowdelay", "voip"] = Field(
        default="lowdelay",
        description="How Opus codes: `voip` takes three times the work and 4 ms more, and sounds "
        "better below 24 kbit/s.",
    )
    bitrate: int = Field(
        default=32_000, ge=6_000, le=128_000, description="Bits per second that a reply takes."
    )
    complexity: int = Field(
        default=5, ge=0, le=10, description="How hard Opus tries: 0 is cheapest, 10 sounds best."
    )
    dtx: bool = Field(
        default=False,
        description="Sends next to nothing in a reply's pauses; libopus before 1.4 does it only in "
        "mode `voip`.",
    )
    fec: bool = Field(
        default=False,
        description="Repeats in each packet what may be lost of the one before, as far as the "
        "caller reports losses; in mode `voip` only.",
    )
    caller_bitrate: int = Field(
        default=32_000,
        ge=6_000,
        le=510_000,
        description="Bits per second that callers are asked to send at most.",
    )
    libopus: str = Field(
        default="",
        description="Path of the libopus to use; empty: the system's, or the one that came along.",
    )

    @model_validator(mode="after")
    def _fec(self) -> Self:
        if self.fec and self.mode != "voip":
            raise ValueError("fec: expected mode 'voip' with it")
        return self

    @field_validator("packet_ms", mode="before")
    @classmethod
    def _packet_ms(cls, given: object) -> object:
        """A command line and the environment give texts, which a literal does not take."""
        return int(given) if isinstance(given, str) and given.isdigit() else given


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
    sound: Sound = Sound()

    @property
    def told_ports(self) -> list[int]:
        """The ports that callers are told instead of the one that is bound."""
        return [port for _, port in map(endpoint, self.public_addresses) if port is not None]

    def moved(self, port: int, by: int) -> WebRtc:
        """The same, but for calls at ``port`` and where callers are told another, by that many."""
        public = tuple(_moved(address, by) for address in self.public_addresses)
        return self.model_copy(update={"port": port, "public_addresses": public})

    @field_validator("public_addresses")
    @classmethod
    def _endpoints(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            endpoint(address)
        return addresses


def _moved(address: str, by: int) -> str:
    host, port = endpoint(address)
    if port is None:
        return address
    return f"[{host}]:{port + by}" if ":" in host else f"{host}:{port + by}"
