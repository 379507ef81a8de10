"""How calls over WebRTC carry sound, and by which addresses they are reached."""

from __future__ import annotations

import ipaddress

from pydantic import Field, field_validator

from server.engine_settings import Part


class WebRtc(Part):
    """What concerns calls only."""

    addresses: tuple[str, ...] = Field(
        default=(),
        description="Addresses that calls may use for media; by default what `host` stands for.",
    )

    @field_validator("addresses")
    @classmethod
    def _addresses(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            ipaddress.ip_address(address)
        return addresses
