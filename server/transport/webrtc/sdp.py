"""Offers, checked and cleaned before a WebRTC stack sees them, and its answers made whole. Pure.

Two kinds of lines are taken out. A ``.local`` candidate hides an address behind multicast DNS,
which costs a second and fails across any router; it is not needed, because the caller's checks
reveal its address to us (peer-reflexive candidates, RFC 8445 section 7.3.1.3).
``end-of-candidates`` would then tell the stack that none will ever come, and it would give up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_OFFER = 64 * 1024
"""Bytes; browsers send 2 to 8 KiB."""

_DEFAULT_MAX_MESSAGE = 64 * 1024
"""Where an offer does not say (RFC 8841 section 6.1)."""

_SECTIONS = 16
"""A browser offers two. The stack makes each a transceiver."""
_CANDIDATES = 32
"""More are left out: each costs the stack more than the one before, and none is needed."""
_DIGITS = 20
_MDNS = re.compile(r"a=candidate:\S+ \d+ \S+ \d+ \S+\.local \d+ ", re.IGNORECASE)

_OPUS = re.compile(r"a=rtpmap:(\d+) opus/48000", re.IGNORECASE)


class OfferError(ValueError):
    """An offer that cannot be answered; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An offer that is worth answering.

    ``channel``: it asks for data channels. ``max_message``: the longest message, in bytes, that the
    caller takes over one; 0 for any length.
    """

    sdp: str
    channel: bool
    max_message: int


def parse_offer(text: str) -> Offer:
    """Checks and cleans an offer.

    Raises:
        OfferError: it is no SDP, has too many sections, or has no sound, no ICE credentials or no
            DTLS fingerprint.
    """
    lines = [line for line in text.splitlines() if line]
    if not lines or lines[0] != "v=0":
        raise OfferError("expected an SDP offer that begins with v=0")
    kinds = [line[2:].split(" ", 1)[0] for line in lines if line.startswith("m=")]
    if len(kinds) > _SECTIONS:
        raise OfferError(f"expected at most {_SECTIONS} m= sections, got {len(kinds)}")
    if "audio" not in kinds:
        raise OfferError("expected an m=audio section")
    for attribute in ("ice-ufrag", "ice-pwd", "fingerprint"):
        if not any(line.startswith(f"a={attribute}:") for line in lines):
            raise OfferError(f"expected an a={attribute} line")
    return Offer(
        sdp="\r\n".join(_kept(lines)) + "\r\n",
        channel="application" in kinds,
        max_message=_max_message(lines),
    )


def _kept(lines: list[str]) -> Iterator[str]:
    candidates = 0
    for line in lines:
        if _MDNS.match(line) or line == "a=end-of-candidates":
            continue
        candidates += line.startswith("a=candidate:")
        if candidates <= _CANDIDATES or not line.startswith("a=candidate:"):
            yield line


def with_opus(answer: str, bitrate: int) -> str:
    """``answer``, saying how we want Opus sent (RFC 7587 section 6.1): at ``bitrate`` bit/s at
    most, with what it needs to recover from losses, and not at all while the caller is silent.
    """
    wanted = f"minptime=10;useinbandfec=1;usedtx=1;maxaveragebitrate={bitrate}"
    lines = answer.splitlines()
    for number, line in enumerate(lines):
        if found := _OPUS.match(line):
            lines.insert(number + 1, f"a=fmtp:{found[1]} {wanted}")
            break
    return "\r\n".join(lines) + "\r\n"


def _max_message(lines: list[str]) -> int:
    for line in lines:
        if line.startswith("a=max-message-size:"):
            size = line.partition(":")[2]
            if not (size.isascii() and size.isdigit() and len(size) <= _DIGITS):
                raise OfferError("a=max-message-size: expected a whole number")
            return int(size)
    return _DEFAULT_MAX_MESSAGE
