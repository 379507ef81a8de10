"""One UDP port for all calls: aiortc as the callers, our peers as the service."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

import pytest
from aioice import ice, stun
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import AudioStreamTrack

from server.transport.addresses import AddressProblem
from server.transport.webrtc import port as port_module
from server.transport.webrtc import stock
from server.transport.webrtc.peer import Peer
from server.transport.webrtc.port import MediaPort
from server.transport.webrtc.routes import ADDRESSES
from server.transport.webrtc.sdp import parse_offer
from server.transport.webrtc.stock.reach import ice_of
from server.webrtc_settings import Sound
from tests.network.nat import nat

LOOPBACK = ["127.0.0.1"]
WITHIN = 15.0


@dataclass
class Call:
    """Both ends, and what came over the channel to each."""

    peer: Peer
    caller: RTCPeerConnection
    answer: str
    at_peer: list[str] = field(default_factory=list)
    at_caller: list[str] = field(default_factory=list)

    async def passes(self, word: str) -> None:
        """Sound and an event each way, from now on."""
        heard = self.peer.stats()["packets_in"]
        self.peer.events.send(json.dumps({"type": word}).encode())
        began = time.monotonic()
        while word not in str(self.at_caller) or self.peer.stats()["packets_in"] < heard + 10:
            assert time.monotonic() - began < WITHIN, f"{word}: nothing passes"
            await asyncio.sleep(0.02)


@asynccontextmanager
async def call(port: MediaPort, own: Sequence[str] = LOOPBACK) -> AsyncIterator[Call]:
    """A connected call through ``port``, whose caller has the addresses ``own``."""
    caller = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    caller.addTrack(AudioStreamTrack())
    channel = caller.createDataChannel("oai-events")
    stock.bind(caller, own)
    await caller.setLocalDescription(await caller.createOffer())
    at_peer: list[str] = []
    offer = parse_offer(caller.localDescription.sdp)
    peer = Peer(offer, port, Sound(), 16_000, WITHIN, at_peer.append, print)
    try:
        now = Call(peer, caller, await peer.answer(), at_peer)
        channel.on("message", now.at_caller.append)
        await caller.setRemoteDescription(RTCSessionDescription(now.answer, "answer"))
        assert await peer.connected()
        yield now
    finally:
        await peer.close()
        await caller.close()


@contextmanager
def media_port(addresses: Sequence[str] = LOOPBACK) -> Iterator[MediaPort]:
    port = MediaPort(0)
    port.open(addresses)
    try:
        yield port
    finally:
        port.close()


def candidates(answer: str) -> set[tuple[str, int]]:
    lines = [line.split() for line in answer.splitlines() if line.startswith("a=candidate")]
    return {(words[4], int(words[5])) for words in lines}


def attribute(sdp: str, name: str) -> str:
    (first, *_) = (line for line in sdp.splitlines() if line.startswith(f"a={name}:"))
    return first.partition(":")[2]


async def ask(port: MediaPort, request: bytes, address: str = "127.0.0.1") -> bytes:
    """What the port answers a stranger; empty for nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as stranger:
        stranger.setblocking(False)
        stranger.connect((address, port.number))
        stranger.send(request)
        with suppress(TimeoutError):
            async with asyncio.timeout(0.2):
                return await asyncio.get_running_loop().sock_recv(stranger, 2048)
    return b""


async def test_several_calls_share_one_port_and_leave_nothing_on_it() -> None:
    with media_port() as port:
        async with call(port) as first:
            async with call(port) as second:
                assert candidates(first.answer) == candidates(second.answer)
                assert candidates(first.answer) == {("127.0.0.1", port.number)}
                await asyncio.gather(first.passes("one"), second.passes("two"))
                assert "two" not in str(first.at_caller) and "one" not in str(second.at_caller)
            await first.passes("three")
            assert not port.sockets[0].idle
        assert port.sockets[0].idle


async def test_every_address_has_the_port_ipv6_too() -> None:
    with media_port(["127.0.0.1", "::1", "127.0.0.2"]) as port:
        assert [shared.number for shared in port.sockets] == [port.number] * 3
        async with call(port, own=["::1"]) as now:
            assert candidates(now.answer) == {
                ("127.0.0.1", port.number),
                ("::1", port.number),
                ("127.0.0.2", port.number),
            }
            await now.passes("over IPv6")


async def test_a_caller_whose_nat_gives_it_another_port_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ice, "CONSENT_INTERVAL", 0.5)  # a caller that asks often, as browsers do
    with media_port() as port:
        async with nat(("127.0.0.1", port.number)) as between:
            port._public = [between.inside]
            async with call(port) as now:
                assert candidates(now.answer) == {between.inside}
                await now.passes("before")
                await between.rebind()
                await now.passes("after")
                await between.rebind()
                await now.passes("and again")


async def test_a_published_port_is_told_in_place_of_ours() -> None:
    """A container's: bound inside, known outside by another address and number."""
    with media_port(["127.0.0.2"]) as inner:
        async with nat(("127.0.0.2", inner.number)) as between:
            inner.close()
            port = MediaPort(inner.number, [between.inside])
            port.open(["127.0.0.2"])
            async with call(port) as now:
                assert candidates(now.answer) == {between.inside}
                await now.passes("through")
            port.close()


async def test_strangers_and_broken_packets_disturb_nobody() -> None:
    with media_port() as port:
        async with call(port) as now:
            check = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
            check.attributes["USERNAME"] = "none:none"
            forged = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
            forged.attributes["USERNAME"] = f"{attribute(now.answer, 'ice-ufrag')}:none"
            forged.add_message_integrity(b"a guess")
            short = b"\x00\x01\x00\x08" + bytes(16) + b"\x00\x24\x00\x02\x00\x00\x00\x00"
            garbage = [secrets.token_bytes(size) for size in (1, 20, 200, 1400)]
            for datagram in (b"", short, bytes(check), bytes(forged), *garbage):
                assert await ask(port, datagram) == b""
            await now.passes("still here")


async def test_a_caller_who_moves_on_and_on_is_known_by_so_many_addresses_and_still_heard() -> None:
    with media_port() as port:
        async with call(port) as now:
            own = now.caller.localDescription.sdp
            users = (attribute(sdp, "ice-ufrag") for sdp in (now.answer, own))
            check = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
            check.attributes |= {"USERNAME": ":".join(users), "PRIORITY": 1, "ICE-CONTROLLING": 1}
            check.add_message_integrity(attribute(now.answer, "ice-pwd").encode())
            for _ in range(200):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as elsewhere:
                    elsewhere.sendto(bytes(check), ("127.0.0.1", port.number))
                    await asyncio.sleep(0)
            await now.passes("still here")
            known = ice_of(now.peer._connection)
            assert len(known._remote_candidates) <= 64
            assert len(known._check_list) <= 64
            assert len(port.sockets[0]._routes._by_address) <= ADDRESSES


async def test_what_the_stack_cannot_stand_ends_no_other_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with media_port() as port:
        async with call(port) as first, call(port) as second:
            receiver = next(iter(port.sockets[0]._routes._by_ufrag.values()))._receiver

            def broken(data: bytes, addr: tuple[str, int]) -> None:
                raise KeyError("PRIORITY")

            monkeypatch.setattr(receiver, "datagram_received", broken)
            await second.passes("unharmed")
            assert first.peer.stats()["packets_in"] < second.peer.stats()["packets_in"]


async def test_who_asks_for_its_own_address_is_told_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(port_module, "_REFLECTIONS", 3.0)
    with media_port(["127.0.0.1", "::1"]) as port:
        request = bytes(stun.Message(stun.Method.BINDING, stun.Class.REQUEST))
        for address in ("127.0.0.1", "::1"):
            told = stun.parse_message(await ask(port, request, address)).attributes
            assert told["XOR-MAPPED-ADDRESS"][0] == address
        answers = [await ask(port, request) for _ in range(4)]
        assert [bool(answer) for answer in answers] == [True, True, False, False]


async def test_a_taken_port_is_told_with_its_setting() -> None:
    with (
        media_port() as taken,
        pytest.raises(AddressProblem, match=r"webrtc\.port: .*127\.0\.0\.1"),
    ):
        MediaPort(taken.number).open(LOOPBACK)


async def test_a_free_port_is_free_on_every_address() -> None:
    with ExitStack() as held:
        ports = [held.enter_context(media_port(["127.0.0.1", "127.0.0.2"])) for _ in range(20)]
        assert len({port.number for port in ports}) == 20


async def test_addresses_that_come_and_go_are_followed_and_calls_keep_theirs() -> None:
    with media_port() as port:
        async with call(port) as now:
            port.follow(["127.0.0.2", "198.51.100.9"])
            assert [shared.address for shared in port.sockets] == ["127.0.0.1", "127.0.0.2"]
            await now.passes("on the address that is gone")
        port.follow(["127.0.0.2"])
        assert port.told == [("127.0.0.2", port.number)]
