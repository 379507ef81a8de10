"""What is read from a request, wherever a client may have put it."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from server.seen import client_address, forwarded, host_name, see, sender_of, shown_keys

PROXIES = (ip_network("10.0.0.0/8"),)
HEADERS = ("Authorization", "X-Api-Key", "api-key", "Sec-WebSocket-Protocol")


def shown(*headers: tuple[str, str], cookie: str | None = None) -> tuple[str, ...]:
    cookies = {} if cookie is None else {"parley_token": cookie}
    return shown_keys(CIMultiDictProxy(CIMultiDict(headers)), cookies)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Authorization", "Bearer K"),
        ("authorization", "bearer   K "),
        ("Authorization", "K"),
        ("X-Api-Key", "K"),
        ("api-key", " K"),
        ("Sec-WebSocket-Protocol", "realtime, openai-insecure-api-key.K"),
        ("Sec-WebSocket-Protocol", "openai-insecure-api-key.K,openai-organization.x,realtime"),
    ],
)
def test_a_key_is_read_from_every_place_a_client_can_put_it(header: str, value: str) -> None:
    assert shown((header, value)) == ("K",)


def test_the_pages_cookie_is_a_key_too() -> None:
    assert shown(cookie="K") == ("K",)


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Authorization", "Basic K"),
        ("Authorization", "Bearer"),
        ("Authorization", "Bearer "),
        ("Authorization", ""),
        ("X-Api-Key", " "),
        ("Sec-WebSocket-Protocol", "realtime, openai-organization.K, K"),
        ("X-Other", "K"),
    ],
)
def test_nothing_else_is_one(header: str, value: str) -> None:
    assert "K" not in shown((header, value))


def test_all_keys_of_a_request_are_read_once_each() -> None:
    protocols = ("Sec-WebSocket-Protocol", "openai-insecure-api-key.c")
    twice = ("Authorization", "Bearer d"), ("Authorization", "a")
    assert shown(*twice, ("api-key", "b"), protocols, cookie="a") == ("d", "a", "b", "c")


@given(st.lists(st.tuples(st.sampled_from(HEADERS), st.text())), st.none() | st.text())
def test_no_header_breaks_the_reader(headers: list[tuple[str, str]], cookie: str | None) -> None:
    for key in shown(*headers, cookie=cookie):
        assert key == key.strip() != ""


@pytest.mark.parametrize(
    ("host", "name"), [("A:1", "a"), ("[::1]:80", "[::1]"), ("[::1]", "[::1]"), ("b", "b")]
)
def test_a_host_is_its_name_without_the_port(host: str, name: str) -> None:
    assert host_name(host) == name


def test_the_last_forwarded_entry_is_the_proxys_own() -> None:
    assert forwarded("evil.example, voice.example") == "voice.example"
    assert forwarded("https") == "https"


@pytest.mark.parametrize(
    ("forwarded_for", "sender"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("198.51.100.1, 192.0.2.7", "192.0.2.7"),
        ("192.0.2.7, 10.0.0.2", "192.0.2.7"),
        ("192.0.2.7:4711", "192.0.2.7"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("192.0.2.7, nonsense", "10.0.0.1"),
        ("10.0.0.9", "10.0.0.1"),
        ("", "10.0.0.1"),
    ],
)
def test_the_sender_is_the_last_address_that_is_no_trusted_proxys(
    forwarded_for: str, sender: str
) -> None:
    assert sender_of("10.0.0.1", forwarded_for, PROXIES) == sender


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", True),
        ("2001:db8:0:1::1", "2001:db8:0:2::1", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1", "192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_an_ipv6_customers_network_is_one_address(one: str, other: str, same: bool) -> None:
    assert (client_address(one) == client_address(other)) is same


@given(st.text())
def test_no_sender_breaks_the_reader(sender: str) -> None:
    client_address(sender)
    sender_of(sender, sender, PROXIES)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_who_comes_through_a_proxy_is_not_taken_for_this_machine(header: str) -> None:
    class Here:
        def get_extra_info(self, name: str) -> object:
            return ("127.0.0.1", 4711) if name == "peername" else None

    direct = see(make_mocked_request("GET", "/", transport=Here()), ())
    assert (direct.address, direct.forwarded) == ("", False)
    through = make_mocked_request("GET", "/", headers={header: "127.0.0.1"}, transport=Here())
    assert (see(through, ()).address, see(through, ()).forwarded) == ("127.0.0.1", True)
    trusted = see(through, (ip_network("127.0.0.0/8"),))
    assert (trusted.address, trusted.forwarded) == ("127.0.0.1", False)
