"""A caller's connectivity checks (RFC 8445): controlling, one pair, nominated at once. Pure."""

from __future__ import annotations

import secrets

from aioice.stun import Class, Message, Method, parse_message

from server.bench.webrtc.sdp import Credentials

_PRIORITY = 1_862_270_975
"""Of the peer-reflexive candidate that a check may reveal (RFC 8445 section 5.1.2)."""


class Checks:
    """Both sides' checks of one call; ``ours`` and ``theirs`` are from the offer and its answer."""

    def __init__(self, ours: Credentials, theirs: Credentials) -> None:
        self._ours, self._theirs = ours, theirs
        self._tie_breaker = secrets.randbits(64)
        self.passed = False
        """Whether a check of ours was answered."""

    def request(self) -> bytes:
        """A check of ours, which nominates the pair."""
        message = Message(Method.BINDING, Class.REQUEST)
        message.attributes = {
            "USERNAME": f"{self._theirs.ufrag}:{self._ours.ufrag}",
            "PRIORITY": _PRIORITY,
            "ICE-CONTROLLING": self._tie_breaker,
            "USE-CANDIDATE": None,
        }
        message.add_message_integrity(self._theirs.password.encode())
        return bytes(message)

    def take(self, datagram: bytes, address: tuple[str, int]) -> bytes | None:
        """Takes what came from ``address``; returns what is to be answered to it.

        Raises:
            ValueError: it is no STUN.
        """
        message = parse_message(datagram)
        if message.message_class == Class.RESPONSE:
            self.passed = True
        if message.message_class != Class.REQUEST:
            return None
        answer = Message(Method.BINDING, Class.RESPONSE, message.transaction_id)
        answer.attributes["XOR-MAPPED-ADDRESS"] = address
        answer.add_message_integrity(self._ours.password.encode())
        return bytes(answer)
