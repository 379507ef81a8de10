"""The UDP port of this process: one number, on every address that calls are offered, for all calls.

So one port is all that a firewall has to let through. A call has a :class:`Lane` on each address,
which is to the ICE agent what a socket of its own would be; :mod:`server.transport.webrtc.routes`
says whose a datagram is. Addresses come and go while the server runs, so they are looked at again
for each call. What nobody's is costs a look into a table; whoever asks for nothing but its own
address is told it, as by any STUN server, so that the port can be tried from outside.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import structlog

from server.buckets import Buckets
from server.transport.addresses import AddressProblem, Endpoint
from server.transport.webrtc.binding import Address, reflection
from server.transport.webrtc.routes import Routes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LONGEST = 2048
"""Bytes of a datagram; WebRTC's stay below an Ethernet frame's."""
_BATCH = 32
"""Datagrams that are taken before others have their turn: about two milliseconds."""
RECEIVE_BUFFER = 4 * 1024 * 1024
"""Bytes asked of the kernel: what 100 callers send in half a second that the loop stands still."""
_TRIES = 16
"""Free ports that are tried, where the first is not free on every address."""
_STRANGERS = "strangers"
_REFLECTIONS = 1200.0
"""Strangers told their address per minute, all together, on each address of ours."""

log = structlog.get_logger(__name__)


class Receiver(Protocol):
    """The end of a lane that is given its datagrams, as :class:`asyncio.DatagramProtocol`."""

    def datagram_received(self, data: bytes, addr: Address, /) -> None: ...

    def connection_lost(self, exc: Exception | None, /) -> None: ...


class MediaPort:
    """The port.

    Args:
        number: of the port; 0 for a free one.
        public: what callers are told instead of our addresses, where a NAT is in between; the port
            is ours where none stands with it.
    """

    def __init__(self, number: int, public: Sequence[Endpoint] = ()) -> None:
        self.number = number
        self._public = public
        self._sockets: dict[str, SharedSocket] = {}

    @property
    def sockets(self) -> list[SharedSocket]:
        """Those that are open, in the order of the addresses."""
        return list(self._sockets.values())

    @property
    def told(self) -> list[Address]:
        """Where callers are told to send."""
        if self._public:
            return [(host, port or self.number) for host, port in self._public]
        return [(address, self.number) for address in self._sockets]

    def open(self, addresses: Sequence[str]) -> None:
        """Listens on ``addresses``; one that is not ready yet is left to :meth:`follow`.

        Raises:
            AddressProblem: the port is not free on one of them.
        """
        for attempt in range(_TRIES):
            number = self.number
            try:
                for address in addresses:
                    self._listen(address, number)
                    number = next(iter(self._sockets.values())).number if self._sockets else number
            except OSError as problem:
                self.close()
                if self.number or attempt == _TRIES - 1:
                    where = f"{address}:{number} (UDP)"
                    message = f"webrtc.port: cannot listen on {where}: {problem.strerror}"
                    raise AddressProblem(message) from None
            else:
                self.number = number
                return

    def follow(self, addresses: Sequence[str]) -> None:
        """Listens on those of ``addresses`` that came since; lets go of those that went."""
        for gone in [address for address in self._sockets if address not in addresses]:
            if self._sockets[gone].idle:
                self._sockets.pop(gone).close()
        for address in addresses:
            if address not in self._sockets:
                try:
                    self._listen(address, self.number)
                except OSError as problem:
                    log.warning("address not offered", address=address, reason=problem.strerror)

    def _listen(self, address: str, number: int) -> None:
        try:
            self._sockets[address] = SharedSocket(address, number)
        except OSError as problem:
            if problem.errno != errno.EADDRNOTAVAIL:
                raise

    def close(self) -> None:
        """Lets go of all; lanes that are still open end."""
        for shared in self._sockets.values():
            shared.close()
        self._sockets.clear()


class SharedSocket:
    """The port on one address.

    Raises:
        OSError: it cannot be had there.
    """

    def __init__(self, address: str, number: int) -> None:
        self.address = address
        ipv6 = ipaddress.ip_address(address).version == 6
        self._socket = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            self._socket.bind((address, number))
        except BaseException:
            self._socket.close()
            raise
        self.number = int(self._socket.getsockname()[1])
        self._routes: Routes[Lane] = Routes()
        self._reflected = Buckets(_REFLECTIONS, 1)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._read)

    @property
    def idle(self) -> bool:
        """Whether no call uses it."""
        return not len(self._routes)

    def lane(self, ufrag: str, proves: Callable[[bytes], bool], receiver: Receiver) -> Lane:
        """A call's share: checks for ``ufrag`` that it ``proves`` to be its caller's lead here."""
        lane = Lane(self, self._routes, ufrag, proves, receiver)
        self._routes.add(ufrag, lane)
        return lane

    def send(self, datagram: bytes, to: Address) -> None:
        """Sends now or never: what the network does not take is lost, as on any other link."""
        with suppress(OSError):
            self._socket.sendto(datagram, to)

    def close(self) -> None:
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        for _ in range(_BATCH):
            try:
                datagram, source = self._socket.recvfrom(_LONGEST)
            except BlockingIOError:
                return
            except OSError:
                continue
            address = source[:2]  # IPv6 has four parts
            lane = self._routes.find(datagram, address)
            if lane is not None:
                lane.take(datagram, address)
            elif (answer := reflection(datagram, address)) is not None:
                self._answer_stranger(answer, address)

    def _answer_stranger(self, answer: bytes, stranger: Address) -> None:
        now = time.monotonic_ns()
        if self._reflected.wait(_STRANGERS, 1, now) == 0:
            self._reflected.take(_STRANGERS, 1, now)
            self.send(answer, stranger)


class Lane:
    """One call's share of a socket: a :class:`asyncio.DatagramTransport`, as far as ICE uses it."""

    def __init__(
        self,
        shared: SharedSocket,
        routes: Routes[Lane],
        ufrag: str,
        proves: Callable[[bytes], bool],
        receiver: Receiver,
    ) -> None:
        self.proves = proves
        self._shared = shared
        self._routes = routes
        self._ufrag = ufrag
        self._receiver = receiver
        self._open = True
        self._failed = False

    def take(self, datagram: bytes, source: Address) -> None:
        """Gives the call a datagram. What it cannot stand is its own trouble, and told once."""
        try:
            self._receiver.datagram_received(datagram, source)
        except Exception as problem:
            if not self._failed:
                self._failed = True
                log.warning("a datagram was not understood", problem=type(problem).__name__)

    def sendto(self, data: bytes, addr: Address) -> None:
        """Sends from the shared port; what comes back from there is this call's."""
        if self._open:
            self._routes.claim(addr, self)
            self._shared.send(data, addr)

    def get_extra_info(self, name: str, default: object = None) -> object:
        return (self._shared.address, self._shared.number) if name == "sockname" else default

    def is_closing(self) -> bool:
        return not self._open

    def close(self) -> None:
        """Lets go of the call's routes; safe to call twice."""
        if self._open:
            self._open = False
            self._routes.remove(self._ufrag)
            asyncio.get_running_loop().call_soon(self._receiver.connection_lost, None)
