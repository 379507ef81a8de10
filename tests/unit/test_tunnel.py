"""What passes to a client through the front: where a frame ends, however the bytes are cut."""

from __future__ import annotations

import asyncio
import socket

from hypothesis import given
from hypothesis import strategies as st

from server.workers.tunnel import Frames, _FromClient, goodbye
from tests.network.bare import reset

frames = st.lists(
    st.tuples(
        st.sampled_from([0x81, 0x82, 0x89, 0x8A]),
        st.one_of(st.integers(0, 300), st.sampled_from([125, 126, 127, 65_535, 65_536, 70_000])),
    ),
    max_size=6,
)


def frame(first: int, size: int) -> bytes:
    """An unmasked frame (RFC 6455 section 5.2)."""
    if size < 126:
        head = bytes((first, size))
    elif size < 1 << 16:
        head = bytes((first, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((first, 127)) + size.to_bytes(8, "big")
    return head + b"\x88" * size


@given(frames, st.lists(st.integers(0, 100_000), max_size=8))
def test_the_end_of_a_frame_is_known_however_the_bytes_are_cut(
    sent: list[tuple[int, int]], cuts: list[int]
) -> None:
    whole, ends = b"", {0}
    for first, size in sent:
        whole += frame(first, size)
        ends.add(len(whole))
    followed = Frames()
    at = 0
    for cut in [*sorted(min(cut, len(whole)) for cut in cuts), len(whole)]:
        followed.push(whole[at:cut])
        at = cut
        assert followed.between == (at in ends)
        assert not followed.closed


@given(frames)
def test_a_close_frame_is_seen(sent: list[tuple[int, int]]) -> None:
    followed = Frames()
    followed.push(b"".join(frame(*each) for each in sent))
    followed.push(goodbye(1011, b"worker_lost"))
    assert followed.closed
    assert followed.between


class Passed(asyncio.Protocol):
    """A client's connection that is passed on."""

    def __init__(self, worker: asyncio.StreamWriter) -> None:
        self._worker = worker
        self.made: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.passing = _FromClient(transport, self._worker)
        self.made.set_result(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.passing.feed_eof()


async def test_what_a_client_said_last_reaches_the_worker_though_the_connection_is_reset() -> None:
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    _, worker = await asyncio.open_connection(sock=ours)
    connection = Passed(worker)
    async with await loop.create_server(lambda: connection, "127.0.0.1", 0) as server:
        client = socket.create_connection(server.sockets[0].getsockname())
        transport = await connection.made
        client.send(b"goodbye")
        reset(client)
        transport.write(b"an event")
        async with asyncio.timeout(15):
            assert await loop.sock_recv(theirs, 64) == b"goodbye"
    theirs.close()
    worker.close()
