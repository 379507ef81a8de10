"""Whose datagram it is, on a socket that serves every call."""

from __future__ import annotations

from dataclasses import dataclass

from aioice import stun
from hypothesis import given
from hypothesis import strategies as st

from server.transport.webrtc.binding import Address, reflection, ufrag_of
from server.transport.webrtc.routes import ADDRESSES, Routes

FIRST: Address = ("192.0.2.1", 5000)
SECOND: Address = ("192.0.2.1", 5001)
SOUND = b"\x80sound"
ufrags = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=20)
addresses = st.one_of(
    st.tuples(st.ip_addresses(v=4).map(str), st.integers(1, 65_535)),
    st.tuples(st.ip_addresses(v=6).map(str), st.integers(1, 65_535)),
)


@dataclass(frozen=True)
class Call:
    """Its checks hold its name, and its password if they are its caller's."""

    name: str

    def proves(self, check: bytes) -> bool:
        return check.endswith(f"password of {self.name}".encode())


def check(ufrag: str, password_of: str = "") -> bytes:
    """A binding request for ``ufrag``; what is behind its end stands for its integrity."""
    request = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
    request.attributes["PRIORITY"] = 1
    request.attributes["USERNAME"] = f"{ufrag}:of the caller"
    return bytes(request) + f"password of {password_of}".encode()


def routes(*names: str) -> tuple[Routes[Call], list[Call]]:
    made: Routes[Call] = Routes()
    calls = [Call(name) for name in names]
    for call in calls:
        made.add(call.name, call)
    return made, calls


@given(ufrags)
def test_a_check_is_for_whom_its_user_name_says(ufrag: str) -> None:
    assert ufrag_of(check(ufrag)) == ufrag


@given(st.binary(max_size=200))
def test_no_datagram_is_too_odd_to_look_at(datagram: bytes) -> None:
    made, _ = routes("a")
    for start in (b"", b"\x00\x01", b"\x00\x01\x00\x08" + bytes(16)):
        assert made.find(start + datagram, FIRST) is None
        assert ufrag_of(start + datagram) is not None
        reflection(start + datagram, FIRST)


def test_nothing_is_known_of_an_address_until_a_check_proves_itself() -> None:
    made, (a, _) = routes("a", "b")
    assert made.find(SOUND, FIRST) is None
    assert made.find(check("a", password_of="b"), FIRST) is None
    assert made.find(check("none", password_of="a"), FIRST) is None
    assert made.find(SOUND, FIRST) is None
    assert made.find(check("a", password_of="a"), FIRST) is a
    assert made.find(SOUND, FIRST) is a
    assert made.find(SOUND, SECOND) is None


def test_a_call_is_known_from_each_address_that_it_came_from() -> None:
    made, (a,) = routes("a")
    for address in (FIRST, SECOND):
        made.find(check("a", password_of="a"), address)
    assert made.find(SOUND, FIRST) is made.find(SOUND, SECOND) is a


def test_an_address_that_another_call_got_is_its_own_and_nobody_else_can_take_it() -> None:
    made, (a, b) = routes("a", "b")
    made.find(check("a", password_of="a"), FIRST)
    assert made.find(check("b", password_of="a"), FIRST) is None
    made.claim(FIRST, b)
    assert made.find(SOUND, FIRST) is a
    assert made.find(check("b", password_of="b"), FIRST) is b
    assert made.find(SOUND, FIRST) is b


def test_who_was_written_to_is_answered_for_but_yields_to_a_proof() -> None:
    made, (a, b) = routes("a", "b")
    made.claim(FIRST, a)
    assert made.find(SOUND, FIRST) is a
    assert made.find(check("b", password_of="b"), FIRST) is b


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 99), st.booleans()), max_size=300))
def test_whatever_happens_what_is_known_is_bounded_and_goes_with_its_call(
    happened: list[tuple[str, int, bool]],
) -> None:
    made, calls = routes("a", "b", "c")
    last: dict[str, Address] = {}
    for name, port, proven in happened:
        address = ("192.0.2.1", port)
        if proven:
            made.find(check(name, password_of=name), address)
            last = {other: at for other, at in last.items() if at != address} | {name: address}
        else:
            made.claim(address, Call(name))
    for name, address in last.items():
        assert made.find(SOUND, address) in (Call(name), None)
    assert len(made._by_address) <= len(calls) * ADDRESSES
    for call in calls:
        made.remove(call.name)
        made.remove(call.name)
    assert len(made) == len(made._by_address) == len(made._by_ufrag) == 0


def test_the_address_a_caller_uses_outlives_those_that_it_left() -> None:
    made, (a,) = routes("a")
    for port in range(3 * ADDRESSES):
        made.find(check("a", password_of="a"), FIRST)
        made.find(check("a", password_of="a"), ("192.0.2.1", port))
    assert made.find(SOUND, FIRST) is a
    assert made.find(SOUND, ("192.0.2.1", 0)) is None


@given(addresses)
def test_a_stranger_learns_its_address_as_from_any_stun_server(source: Address) -> None:
    request = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
    answer = stun.parse_message(reflection(bytes(request), source) or b"")
    assert answer.message_class == stun.Class.RESPONSE
    assert answer.transaction_id == request.transaction_id
    assert answer.attributes == {"XOR-MAPPED-ADDRESS": source}


def test_a_check_for_a_call_that_is_not_there_is_not_answered() -> None:
    assert reflection(check("none"), FIRST) is None
