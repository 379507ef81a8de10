"""A network between a client and a server that breaks a connection in the middle."""

from __future__ import annotations

import select
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

RESETS = struct.pack("ii", 1, 0)
"""Has a connection break when it is closed, without a goodbye (``socket(7)``)."""


class _Cutting(socketserver.ThreadingTCPServer):
    """A network in front of a server, that breaks one connection after it carried ``sign``."""

    daemon_threads = True

    def __init__(self, server: str, sign: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Cut)
        self.behind = urlsplit(server)
        self.sign = sign
        self.cuts = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Cut(socketserver.BaseRequestHandler):
    server: _Cutting

    def handle(self) -> None:
        behind = self.server.behind
        with socket.create_connection((behind.hostname, behind.port)) as upstream:
            ways = {self.request: upstream, upstream: self.request}
            while True:
                for end in select.select(list(ways), [], [])[0]:
                    data = end.recv(65_536)
                    if not data:
                        return
                    ways[end].sendall(data)
                    if self.server.sign in data and not self.server.cuts:
                        self.server.cuts += 1
                        for each in ways:  # no goodbye: closing resets it
                            each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESETS)
                        return


@contextmanager
def cutting(server: str, sign: bytes) -> Iterator[_Cutting]:
    """A network in front of ``server``."""
    with _Cutting(server, sign) as network:
        threading.Thread(target=network.serve_forever, name="cutting").start()
        try:
            yield network
        finally:
            network.shutdown()
