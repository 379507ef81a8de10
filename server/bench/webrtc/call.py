"""One caller: a socket, the checks, the handshake, and then packets of sound both ways."""

from __future__ import annotations

import secrets
import socket
import struct
import time

from server.bench.webrtc.dtls import Dtls, Identity, Keys
from server.bench.webrtc.found import Came, Said
from server.bench.webrtc.ice import Checks
from server.bench.webrtc.sdp import PAYLOAD_TYPE, Credentials, offer, parse_answer
from server.bench.webrtc.speech import FRAME, Speech
from server.transport.webrtc.rtp import Packet, is_rtp, parse, serialize

_HOST = "127.0.0.1"
_SO_TIMESTAMPNS = 35
"""Linux: has the kernel tell when each datagram came (socket(7)); Python has no name for it."""
_STAMP = struct.Struct("@qq")
_AGAIN = 0.05
"""Seconds until a check, or a flight of the handshake, is sent again."""


class Call:
    """A call whose caller says ``script`` from frame ``first`` on.

    Attributes:
        said: packets that left, since :meth:`count`.
        came: packets of sound that came, since then.
    """

    def __init__(self, script: Speech, first: int, identity: Identity) -> None:
        self._packets = script.packets
        self._frame = first
        self._identity = identity
        self._ours = Credentials(secrets.token_hex(4), secrets.token_hex(16))
        self._ssrc = secrets.randbits(32)
        self._sequence, self._timestamp = secrets.randbits(16), secrets.randbits(32)
        self._checks: Checks | None = None
        self._dtls: Dtls | None = None
        self._keys: Keys | None = None
        self._again = 0.0
        self.said: list[Said] = []
        self.came: list[Came] = []
        self.counts = False
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.socket.bind((_HOST, 0))

    @property
    def connected(self) -> bool:
        """Whether sound can pass."""
        return self._keys is not None

    def offer(self) -> str:
        """The SDP offer."""
        address = self.socket.getsockname()
        return offer(self._ours, self._identity.fingerprint, address, self._ssrc)

    def answered(self, sdp: str) -> None:
        """Begins to connect to who answered.

        Raises:
            ValueError: the answer is none.
        """
        answer = parse_answer(sdp)
        self.socket.connect(answer.address)
        self._checks = Checks(self._ours, answer.ice)
        self._dtls = Dtls(self._identity, begins=answer.waits)

    def urge(self, now: float) -> None:
        """Sends what has to be sent, again where nothing came of it; until it is connected."""
        if self._checks is None or self._dtls is None or now < self._again or self.connected:
            return
        self._again = now + _AGAIN
        if not self._checks.passed:
            self._send(self._checks.request())
        else:
            self._send(self._dtls.again() or self._dtls.take())

    def say(self) -> None:
        """Sends the next frame of the script, if it has a packet there."""
        number, packet = self._frame, self._packets[self._frame]
        self._frame = (number + 1) % len(self._packets)
        self._timestamp = (self._timestamp + FRAME) & 0xFFFF_FFFF
        if packet is None or self._keys is None:
            return
        self._sequence = (self._sequence + 1) & 0xFFFF
        made = Packet(self._sequence, self._timestamp, packet, PAYLOAD_TYPE, self._ssrc)
        if self.counts:
            self.said.append(Said(time.time_ns(), number))
        self._send(self._keys.out.protect(serialize(made)))

    def receive(self) -> None:
        """Takes all that has come."""
        while True:
            try:
                datagram, told, _, _ = self.socket.recvmsg(2048, 64)
            except OSError:
                return
            if 128 <= datagram[0] < 192:
                self._take_media(datagram, told[0][2])
            elif 20 <= datagram[0] < 64:
                self._take_dtls(datagram)
            else:
                self._take_stun(datagram)

    def end(self, *, goodbye: bool) -> None:
        """Leaves, with or without a word."""
        if goodbye and self._dtls is not None and self.connected:
            self._send(self._dtls.goodbye())
        self.socket.close()

    def _take_media(self, datagram: bytes, stamp: bytes) -> None:
        if self._keys is None or not self.counts or not is_rtp(datagram):
            return
        packet = parse(self._keys.come.unprotect(datagram))
        seconds, nanoseconds = _STAMP.unpack(stamp)
        at = seconds * 1_000_000_000 + nanoseconds
        self.came.append(Came(at, packet.timestamp, packet.payload))

    def _take_dtls(self, datagram: bytes) -> None:
        if self._dtls is not None:
            self._send(self._dtls.take(datagram))
            self._keys = self._dtls.keys

    def _take_stun(self, datagram: bytes) -> None:
        if self._checks is not None:
            answer = self._checks.take(datagram, self.socket.getsockname())
            self._send(answer or b"")

    def _send(self, datagram: bytes) -> None:
        if datagram:
            try:
                self.socket.send(datagram)
            except OSError:
                return  # what has gone hears nothing
