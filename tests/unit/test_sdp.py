"""What an offer must have, and what is taken out of it."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.transport.webrtc.sdp import OfferError, parse_offer, with_opus

HEAD = ("v=0", "o=- 1 2 IN IP4 127.0.0.1", "s=-", "t=0 0", "a=group:BUNDLE 0 1")
AUDIO = (
    "m=audio 9 UDP/TLS/RTP/SAVPF 111",
    "c=IN IP4 0.0.0.0",
    "a=ice-ufrag:abcd",
    "a=ice-pwd:0123456789012345678901",
    "a=fingerprint:sha-256 AA:BB",
    "a=mid:0",
    "a=rtpmap:111 opus/48000/2",
)
CHANNEL = ("m=application 9 UDP/DTLS/SCTP webrtc-datachannel", "a=mid:1", "a=sctp-port:5000")
HOST = "a=candidate:1 1 udp 2122260223 192.0.2.7 50000 typ host generation 0"
HIDDEN = (
    "a=candidate:2 1 udp 2122260223 6b5c9f1e-2a55-4a2f-9b0c-1d2e3f405162.local 50001 typ host",
    "a=candidate:0 1 UDP 2122252543 6b5c9f1e-2a55-4a2f-9b0c-1d2e3f405162.LOCAL 50002 typ host",
)


def text(*lines: str, ending: str = "\r\n") -> str:
    return ending.join(lines) + ending


def test_hidden_candidates_and_the_end_mark_are_taken_out_and_nothing_else() -> None:
    offer = parse_offer(text(*HEAD, *AUDIO, HOST, *HIDDEN, "a=end-of-candidates", *CHANNEL))
    assert offer.sdp == text(*HEAD, *AUDIO, HOST, *CHANNEL)


def test_of_many_candidates_the_first_are_kept() -> None:
    hosts = [HOST.replace("50000", str(50_000 + number)) for number in range(1_000)]
    offer = parse_offer(text(*HEAD, *AUDIO, *hosts, *CHANNEL))
    assert offer.sdp == text(*HEAD, *AUDIO, *hosts[:32], *CHANNEL)


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_any_line_ending_is_read_and_the_standard_one_written(ending: str) -> None:
    assert parse_offer(text(*HEAD, *AUDIO, ending=ending)).sdp == text(*HEAD, *AUDIO)


def test_the_longest_message_is_the_callers_or_the_standards() -> None:
    said = parse_offer(text(*HEAD, *AUDIO, *CHANNEL, "a=max-message-size:262144"))
    assert (said.channel, said.max_message) == (True, 262_144)
    unsaid = parse_offer(text(*HEAD, *AUDIO))
    assert (unsaid.channel, unsaid.max_message) == (False, 65_536)


@pytest.mark.parametrize(
    ("lines", "missing"),
    [
        ((), "v=0"),
        (("hello",), "v=0"),
        ((*HEAD, *CHANNEL), "m=audio"),
        ((*HEAD, *(line for line in AUDIO if "ufrag" not in line)), "ice-ufrag"),
        ((*HEAD, *(line for line in AUDIO if "pwd" not in line)), "ice-pwd"),
        ((*HEAD, *(line for line in AUDIO if "fingerprint" not in line)), "fingerprint"),
        ((*HEAD, *AUDIO, *CHANNEL * 16), "at most 16 m= sections, got 17"),
        ((*HEAD, *AUDIO, "a=max-message-size:-1"), "max-message-size"),
        ((*HEAD, *AUDIO, "a=max-message-size:²"), "max-message-size"),
        ((*HEAD, *AUDIO, "a=max-message-size:" + "9" * 5_000), "max-message-size"),
    ],
)
def test_what_an_offer_lacks_is_named(lines: tuple[str, ...], missing: str) -> None:
    with pytest.raises(OfferError, match=missing):
        parse_offer(text(*lines))


@given(st.text())
def test_no_text_raises_anything_but_an_offer_error(garbage: str) -> None:
    with suppress(OfferError):
        parse_offer(garbage)


@given(st.lists(st.sampled_from([*HEAD, *AUDIO, HOST, *HIDDEN, "a=end-of-candidates", *CHANNEL])))
def test_cleaning_twice_is_cleaning_once(lines: list[str]) -> None:
    once = parse_offer(text(*HEAD, *AUDIO, *lines))
    assert parse_offer(once.sdp) == once


def test_an_answer_says_how_opus_is_to_be_sent() -> None:
    answer = "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\na=rtpmap:111 opus/48000/2\r\na=mid:0\r\n"
    said = with_opus(answer, 24_000)
    wanted = "minptime=10;useinbandfec=1;usedtx=1;maxaveragebitrate=24000"
    assert said.splitlines()[3] == f"a=fmtp:111 {wanted}"
    assert [line for line in said.splitlines() if "fmtp" not in line] == answer.splitlines()
