"""How calls over WebRTC carry sound, and by which addresses they are reached."""

from __future__ import annotations

from pydantic import Field, field_validator

from server.engine_settings import Part
from server.transport.addresses import endpoint


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

    @field_validator("public_addresses")
    @classmethod
    def _endpoints(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            endpoint(address)
        return addresses
