"""A caller's offer and what counts of its answer (RFC 8829): one stream of Opus each way. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

PAYLOAD_TYPE = 111
"""Of Opus, as offered; the answer may not choose another (RFC 3264 section 6.1)."""

_OFFER = """\
v=0
o=- 1 1 IN IP4 {address}
s=-
t=0 0
a=group:BUNDLE 0
m=audio {port} UDP/TLS/RTP/SAVPF {payload_type}
c=IN IP4 {address}
a=mid:0
a=sendrecv
a=rtcp-mux
a=rtpmap:{payload_type} opus/48000/2
a=fmtp:{payload_type} minptime=10;useinbandfec=1;usedtx=1
a=ice-ufrag:{ice.ufrag}
a=ice-pwd:{ice.password}
a=candidate:1 1 udp 2130706431 {address} {port} typ host
a=fingerprint:sha-256 {fingerprint}
a=setup:actpass
a=ssrc:{ssrc} cname:caller
"""
_CANDIDATE = re.compile(r"a=candidate:\S+ 1 udp \d+ (\d+\.\d+\.\d+\.\d+) (\d+) typ ", re.IGNORECASE)


class Credentials(NamedTuple):
    """What one side's connectivity checks are known by (RFC 8839 section 5.4)."""

    ufrag: str
    password: str


@dataclass(frozen=True, slots=True)
class Answer:
    """Where the server is; ``waits``: it waits for the caller to begin the DTLS handshake."""

    ice: Credentials
    address: tuple[str, int]
    waits: bool


def offer(ice: Credentials, fingerprint: str, address: tuple[str, int], ssrc: int) -> str:
    """The offer of a caller at ``address``, who sends ``ssrc``."""
    host, port = address
    lines = _OFFER.format(
        ice=ice,
        fingerprint=fingerprint,
        address=host,
        port=port,
        ssrc=ssrc,
        payload_type=PAYLOAD_TYPE,
    )
    return lines.replace("\n", "\r\n")


def parse_answer(text: str) -> Answer:
    """Reads an answer.

    Raises:
        ValueError: it has no IPv4 candidate, no ICE credentials or no DTLS role.
    """
    candidate = _CANDIDATE.search(text)
    if candidate is None:
        raise ValueError("the answer has no IPv4 candidate")
    return Answer(
        ice=Credentials(_value(text, "ice-ufrag"), _value(text, "ice-pwd")),
        address=(candidate[1], int(candidate[2])),
        waits=_value(text, "setup") == "passive",
    )


def _value(text: str, attribute: str) -> str:
    found = re.search(rf"^a={attribute}:(\S+)", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"the answer has no a={attribute}")
    return found[1]
