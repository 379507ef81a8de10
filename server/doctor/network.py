"""What a browser needs of the network: ports that are free or answer, and TURN servers that relay.

Nothing is taken for granted: a port is asked with a packet, as any STUN server would be, and a TURN
server has to hand such a packet on to this server.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from aiohttp import ClientError, ClientSession, ClientTimeout
from aioice import stun
from aioice.turn import create_turn_endpoint
from aiortc.rtcicetransport import parse_stun_turn_uri

from server.doctor.finding import Finding
from server.transport.addresses import (
    AddressProblem,
    is_loopback,
    machine_addresses,
    media_addresses,
    resolve,
)
from server.transport.ice_servers import rtc_ice_servers
from server.transport.webrtc.calls import media_port
from server.transport.webrtc.port import RECEIVE_BUFFER

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from server.settings import ServerSettings
    from server.transport.webrtc.binding import Address
    from server.transport.webrtc.port import MediaPort

_PATIENCE = 3.0
"""Seconds for one exchange with a server."""
_AGAIN = 0.5
"""Seconds after which a packet may have been lost."""
_UDP, _TURN, _PUBLIC = "UDP port", "TURN server", "public address"


@dataclass(frozen=True, slots=True)
class Media:
    """Where sound goes: ``bound`` to, and ``told`` to callers; or the ``problem`` with that."""

    bound: Sequence[Address] = ()
    told: Sequence[Address] = ()
    problem: str = ""


async def is_running(settings: ServerSettings) -> bool:
    """Whether a Parley answers where these settings would have one."""
    return await status(settings, "/health") == "ok"


async def status(settings: ServerSettings, path: str) -> str:
    """The status that a Parley there tells at ``path``; empty where none answers."""
    scheme = "http" if settings.tls == "off" and settings.tls_cert is None else "https"
    host = "127.0.0.1" if settings.host in ("", "0.0.0.0", "::") else settings.host
    host = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{host}:{settings.port}{path}"
    async with ClientSession(timeout=ClientTimeout(total=_PATIENCE)) as web:
        try:
            async with web.get(url, ssl=False) as answer:
                told = await answer.json()
                return str(told.get("status", "")) if isinstance(told, dict) else ""
        except (ClientError, OSError, TimeoutError, ValueError):
            return ""


async def http_port(settings: ServerSettings, running: bool) -> Finding:
    """Whether the port can be listened on, or Parley does already."""
    where = f"{settings.host}:{settings.port} (TCP)"
    if running:
        return Finding("ok", "HTTP port", f"a Parley answers on {where}")
    try:
        server = await asyncio.start_server(lambda *_: None, settings.host, settings.port)
    except OSError as problem:
        text = f"{where} cannot be had: {problem.strerror}; see --host and --port"
        return Finding("problem", "HTTP port", text)
    server.close()
    await server.wait_closed()
    return Finding("ok", "HTTP port", f"{where} is free")


@asynccontextmanager
async def media(settings: ServerSettings, running: bool) -> AsyncIterator[list[Media]]:
    """The server's UDP port, or each media worker's: those that run, or some for as long as this
    lasts.
    """
    async with AsyncExitStack() as stack:
        found: list[Media] = []
        for index in range(max(1, settings.media_workers)):
            opened = _media(settings.of_worker(index), running)
            found.append(await stack.enter_async_context(opened))
            if found[-1].problem:
                break
        yield found


@asynccontextmanager
async def _media(settings: ServerSettings, running: bool) -> AsyncIterator[Media]:
    port: MediaPort | None = None
    try:
        async with asyncio.timeout(_PATIENCE):
            if running:
                media = await _expected(settings)
            else:
                port = await media_port(settings)
                bound = [(shared.address, shared.number) for shared in port.sockets]
                media = Media(bound, port.told)
    except AddressProblem as problem:
        media = Media(problem=str(problem))
    except TimeoutError:
        media = Media(problem="webrtc.public_addresses: no name server answers")
    try:
        yield media
    finally:
        if port is not None:
            port.close()


async def _expected(settings: ServerSettings) -> Media:
    """Where a server that runs has it."""
    webrtc, number = settings.webrtc, settings.media_port
    addresses = media_addresses(settings.host, webrtc.addresses, machine_addresses())
    public = await resolve(webrtc.public_addresses, "webrtc.public_addresses")
    bound = [(address, number) for address in addresses]
    return Media(bound, [(host, port or number) for host, port in public] or bound)


async def udp_ports(settings: ServerSettings, all_media: Sequence[Media]) -> list[Finding]:
    """Whether packets reach each port on each address, and those that callers are told."""
    asked = await asyncio.gather(*(_reached(settings, media) for media in all_media))
    found = [finding for each in asked for finding in each]
    found += _private(settings, all_media[0])
    granted = _granted()
    if granted < RECEIVE_BUFFER:
        text = f"the kernel grants {granted} bytes of buffer, {RECEIVE_BUFFER} are wanted for many"
        text += f" callers: sysctl -w net.core.rmem_max={RECEIVE_BUFFER}"
        found.append(Finding("warning", _UDP, text))
    return found


async def _reached(settings: ServerSettings, media: Media) -> list[Finding]:
    if media.problem:
        return [Finding("problem", _UDP, media.problem)]
    found = []
    for where, seen in zip(media.bound, await _asked(media.bound), strict=True):
        text = f"{_shown(where)} answers"
        if seen is None:
            text = f"{_shown(where)} does not answer; a firewall on this machine may drop UDP"
        found.append(Finding("problem" if seen is None else "ok", _UDP, text))
    return found + (await _public(media) if settings.webrtc.public_addresses else [])


async def ice_servers(settings: ServerSettings, media: Media) -> list[Finding]:
    """Whether each STUN server answers, and each TURN server relays to this server."""
    servers = rtc_ice_servers(settings.webrtc.ice_servers, time.time())
    if not servers:
        text = "none set: callers whose network lets no UDP through talk over WebSocket"
        return [Finding("ok", _TURN, text)]
    checks = [_ice_server(url, server, media) for server in servers for url in server["urls"]]
    return list(await asyncio.gather(*checks))


def _private(settings: ServerSettings, media: Media) -> list[Finding]:
    """A warning where callers from elsewhere are told no address that they reach."""
    local = [ipaddress.ip_address(address).is_private for address, _ in media.told]
    if settings.webrtc.public_addresses or is_loopback(settings.host) or not (local and all(local)):
        return []
    text = "all addresses are private: callers from elsewhere need --webrtc.public-addresses"
    return [Finding("warning", _PUBLIC, text)]


async def _public(media: Media) -> list[Finding]:
    found = []
    for where, seen in zip(media.told, await _asked(media.told), strict=True):
        if seen is None:
            text = f"{_shown(where)} does not answer from here. Some routers let nobody inside in"
            text += f" that way; from outside it must: have it forwarded as UDP {media.bound[0][1]}"
            found.append(Finding("warning", _PUBLIC, text))
        else:
            found.append(Finding("ok", _PUBLIC, f"{_shown(where)} answers"))
    return found


async def _ice_server(url: str, server: dict[str, Any], media: Media) -> Finding:
    parsed = parse_stun_turn_uri(url)
    where = (str(parsed["host"]), int(parsed["port"]))
    if parsed["scheme"].startswith("stun"):
        (seen,) = await _asked([where])
        if seen is None:
            return Finding("problem", "STUN server", f"{url} does not answer")
        return Finding("ok", "STUN server", f"{url} sees this machine as {_shown(seen)}")
    try:
        async with asyncio.timeout(2 * _PATIENCE):
            transport, asking = await create_turn_endpoint(
                _Asking,
                where,
                username=server["username"],
                password=server["credential"],
                ssl=parsed["scheme"] == "turns" or None,
                transport=parsed["transport"],
            )
            try:
                relayed = [await asking.ask(told) for told in media.told[:2]]
            finally:
                transport.close()
            await asking.closed.wait()
    except stun.TransactionFailed as refused:
        text = f"{url} refuses the login ({refused}); do both have one secret, and the right time?"
        return Finding("problem", _TURN, text)
    except (OSError, TimeoutError, stun.TransactionError) as problem:
        text = f"{url} cannot be used: {_why(problem)}; does it run, and does a firewall let this"
        return Finding("problem", _TURN, f"{text} machine and callers reach it?")
    if not any(relayed):
        places = " or ".join(map(_shown, media.told))
        text = f"{url} takes callers, but what it relays to {places} does not arrive; may it relay"
        return Finding("problem", _TURN, f"{text} there (coturn: allowed-peer-ip), and reach it?")
    return Finding("ok", _TURN, f"{url} relays to this server")


def _why(problem: OSError | stun.TransactionError) -> str:
    """What an operator can use of ``problem``; asyncio tells a refusal by number and address."""
    if isinstance(problem, ConnectionError) and problem.errno:
        return os.strerror(problem.errno)
    return str(problem) or "no answer in time"


class _Asking(asyncio.DatagramProtocol):
    """Asks who answers binding requests for the address that it is seen as."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._answers: dict[bytes, asyncio.Future[Address]] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()

    def datagram_received(self, data: bytes, addr: Address) -> None:
        with suppress(ValueError):
            message = stun.parse_message(data)
            answer = self._answers.get(message.transaction_id)
            seen = message.attributes.get("XOR-MAPPED-ADDRESS")
            if answer is not None and not answer.done() and seen is not None:
                answer.set_result(seen)

    async def ask(self, where: Address) -> Address | None:
        """What ``where`` sees us as; None where it does not answer in time."""
        request = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
        answer: asyncio.Future[Address] = asyncio.get_running_loop().create_future()
        self._answers[request.transaction_id] = answer
        for _ in range(round(_PATIENCE / _AGAIN) // 2):
            self._transport.sendto(bytes(request), where)
            await asyncio.wait([answer], timeout=_AGAIN)
            if answer.done():
                return answer.result()
        return None


async def _asked(places: Sequence[Address]) -> list[Address | None]:
    """What each of ``places`` sees us as."""
    return list(await asyncio.gather(*map(_ask, places)))


async def _ask(where: Address) -> Address | None:
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_PATIENCE):
            infos = await loop.getaddrinfo(*where, type=socket.SOCK_DGRAM)
        family, *_, address = infos[0]
        transport, asking = await loop.create_datagram_endpoint(_Asking, family=family)
    except OSError:
        return None
    try:
        return await asking.ask((str(address[0]), int(address[1])))
    finally:
        transport.close()


def _granted() -> int:
    """Bytes of receive buffer that a socket gets of those that it asks for."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        granted = tried.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    return granted // 2 if sys.platform == "linux" else granted  # it doubles them: socket(7)


def _shown(where: Address) -> str:
    host, port = where
    return f"[{host}]:{port} (UDP)" if ":" in host else f"{host}:{port} (UDP)"
