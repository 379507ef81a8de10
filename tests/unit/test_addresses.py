"""Which addresses calls may use, and what callers are told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.transport.addresses import (
    AddressProblem,
    Endpoint,
    check_chosen,
    endpoint,
    is_loopback,
    media_addresses,
    resolve,
)

MACHINE = [
    ("lo", "127.0.0.1"),
    ("eth0", "192.0.2.7"),
    ("docker0", "172.17.0.1"),
    ("eth0", "fe80::1"),
    ("eth0", "2001:db8::7"),
]
EVERYWHERE = ["127.0.0.1", "192.0.2.7", "2001:db8::7"]


@pytest.mark.parametrize(
    ("host", "chosen", "expected"),
    [
        ("127.0.0.1", (), EVERYWHERE),
        ("localhost", (), EVERYWHERE),
        ("0.0.0.0", (), EVERYWHERE),
        ("::", (), EVERYWHERE),
        ("voice.example.org", (), EVERYWHERE),
        ("192.0.2.7", (), ["192.0.2.7"]),
        ("0.0.0.0", ("198.51.100.1",), ["198.51.100.1"]),
        ("0.0.0.0", ("eth0",), ["192.0.2.7", "2001:db8::7"]),
        ("127.0.0.1", ("docker0", "192.0.2.7", "docker0"), ["172.17.0.1", "192.0.2.7"]),
        ("0.0.0.0", ("eth9",), []),
    ],
)
def test_media_goes_where_the_host_and_the_operator_say(
    host: str, chosen: tuple[str, ...], expected: list[str]
) -> None:
    assert media_addresses(host, chosen, MACHINE) == expected


def test_what_the_machine_does_not_have_is_told_with_what_it_has() -> None:
    check_chosen(("eth0", "127.0.0.2", "192.0.2.7"), MACHINE)
    for name in ("eth9", "198.51.100.1"):
        with pytest.raises(AddressProblem, match=rf"webrtc\.addresses.*{name}.*lo, eth0, docker0"):
            check_chosen(("eth0", name), MACHINE)


def test_loopback_is_told_from_the_rest() -> None:
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.0.2.7", "localhost.example", "")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("203.0.113.7", ("203.0.113.7", None)),
        ("203.0.113.7:9000", ("203.0.113.7", 9000)),
        ("voice.example.org", ("voice.example.org", None)),
        ("voice.example.org:9000", ("voice.example.org", 9000)),
        ("2001:db8::7", ("2001:db8::7", None)),
        ("[2001:db8::7]", ("2001:db8::7", None)),
        ("[2001:db8::7]:9000", ("2001:db8::7", 9000)),
    ],
)
def test_an_endpoint_is_an_address_or_a_name_and_perhaps_a_port(
    text: str, expected: Endpoint
) -> None:
    assert endpoint(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":9000",
        "http://host",
        "host:0",
        "host:99999",
        "host:x",
        "[::1",
        "me@host",
        "h/p",
        "1:2:x",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected an address or a name, perhaps with :PORT"):
        endpoint(text)


@given(st.text(max_size=30))
def test_reading_an_endpoint_fails_in_one_way_only(text: str) -> None:
    try:
        host, port = endpoint(text)
    except ValueError:
        return
    assert host and (port is None or 0 < port < 65_536)


async def test_names_are_resolved_and_addresses_stay() -> None:
    names = ("127.0.0.1:9000", "2001:db8::7")
    assert await resolve(names, "x") == [("127.0.0.1", 9000), ("2001:db8::7", None)]
    assert ("127.0.0.1", None) in await resolve(("localhost",), "x")
    with pytest.raises(AddressProblem, match=r"^webrtc\.public_addresses: .*no\.invalid"):
        await resolve(("no.invalid",), "webrtc.public_addresses")
