"""A NAT between a caller and a service on this machine: it forgets its mapping when told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

Address = tuple[str, int]
Take = Callable[[bytes, Address], None]


class Nat:
    """What is sent to :attr:`inside` leaves for ``service`` from a port of the NAT's choice, and
    what comes back there goes to who sent last.
    """

    inside: Address

    def __init__(self, service: Address) -> None:
        self._service = service
        self._caller: Address | None = None
        self._sides: list[_Side] = []

    async def open(self) -> None:
        inner = await self._bind(self._outwards)
        self.inside = inner.address
        await self.rebind()

    async def rebind(self) -> Address:
        """Sends from another port from now on; nothing comes through the one before."""
        self._outer = await self._bind(self._inwards)
        for old in self._sides[1:-1]:
            old.close()
        return self._outer.address

    def close(self) -> None:
        for side in self._sides:
            side.close()

    def _outwards(self, data: bytes, sender: Address) -> None:
        self._caller = sender
        self._outer.send(data, self._service)

    def _inwards(self, data: bytes, sender: Address) -> None:
        if self._caller is not None and sender == self._service:
            self._sides[0].send(data, self._caller)

    async def _bind(self, take: Take) -> _Side:
        loop = asyncio.get_running_loop()
        _, side = await loop.create_datagram_endpoint(
            lambda: _Side(take), local_addr=("127.0.0.1", 0)
        )
        self._sides.append(side)
        return side


class _Side(asyncio.DatagramProtocol):
    """One of its sockets."""

    def __init__(self, take: Take) -> None:
        self._take = take

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self.address: Address = transport.get_extra_info("sockname")

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._take(data, addr)

    def send(self, data: bytes, to: Address) -> None:
        self._transport.sendto(data, to)

    def close(self) -> None:
        self._transport.close()


@asynccontextmanager
async def nat(service: Address) -> AsyncIterator[Nat]:
    """One in front of ``service``."""
    made = Nat(service)
    await made.open()
    try:
        yield made
    finally:
        made.close()
