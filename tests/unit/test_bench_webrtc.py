"""The bench's callers over WebRTC: they agree on keys and know their own sound."""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
import pytest
from aioice.stun import Class, Message, Method, parse_message
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from server.bench.webrtc.command import gather
from server.bench.webrtc.crowd import Refused
from server.bench.webrtc.dtls import Dtls, Identity
from server.bench.webrtc.found import STRETCH, Came, Found, Said, found
from server.bench.webrtc.ice import Checks
from server.bench.webrtc.level import Level, Took, Verdict, level
from server.bench.webrtc.sdp import Credentials, offer, parse_answer
from server.bench.webrtc.speech import FRAME, RATE, SECONDS, Speech, speech
from server.transport.webrtc.sdp import parse_offer
from tests.sounds import hibari, resampled

SAID = resampled(hibari("One, two, three, four, five, six, seven, eight.", 24_000), 24_000, RATE)
SCRIPT = speech(SAID, 1.0)
MS = 1_000_000
OURS, THEIRS = Credentials("ours", "secret-of-ours"), Credentials("theirs", "secret-of-theirs")


def said(script: Speech, first: int = 0) -> list[Said]:
    """The script once, from frame ``first`` on, in real time."""
    numbers = range(first, len(script.packets))
    return [
        Said(round(at * SECONDS * 1e9), number)
        for at, number in enumerate(numbers)
        if script.packets[number] is not None
    ]


def echoed(script: Speech, sent: list[Said], delay: int) -> list[Came]:
    """Each of those packets as it comes back, ``delay`` ns later."""
    return [
        Came(each.at + delay, each.number * FRAME, script.packets[each.number] or b"")
        for each in sent
    ]


def test_an_offer_is_one_that_the_server_takes_and_an_answer_is_read() -> None:
    told = offer(OURS, "AA:BB", ("127.0.0.1", 4000), 7)
    assert not parse_offer(told).channel
    answer = told.replace("a=setup:actpass", "a=setup:passive")
    read = parse_answer(answer)
    assert (read.ice, read.address, read.waits) == (OURS, ("127.0.0.1", 4000), True)


@pytest.mark.parametrize("line", ["candidate", "ice-ufrag", "ice-pwd", "setup"])
def test_what_an_answer_lacks_is_named(line: str) -> None:
    told = offer(OURS, "AA:BB", ("127.0.0.1", 4000), 7)
    with pytest.raises(ValueError, match=line):
        parse_answer(re.sub(rf"a={line}:.*\r\n", "", told))


def test_a_check_is_signed_with_the_secret_of_whom_it_goes_to_and_an_answer_passes_it() -> None:
    checks = Checks(OURS, THEIRS)
    request = parse_message(checks.request())
    assert request.check_message_integrity(THEIRS.password.encode())
    assert request.attributes["USERNAME"] == "theirs:ours"
    assert "USE-CANDIDATE" in request.attributes
    assert not checks.passed
    answer = bytes(Message(Method.BINDING, Class.RESPONSE, request.transaction_id))
    assert checks.take(answer, ("127.0.0.1", 1)) is None
    assert checks.passed


def test_a_check_of_the_other_side_is_answered() -> None:
    checks = Checks(OURS, THEIRS)
    request = Message(Method.BINDING, Class.REQUEST)
    request.add_message_integrity(OURS.password.encode())
    answer = checks.take(bytes(request), ("127.0.0.1", 4000))
    assert answer is not None
    told = parse_message(answer)
    assert told.check_message_integrity(OURS.password.encode())
    assert told.transaction_id == request.transaction_id
    assert told.attributes["XOR-MAPPED-ADDRESS"] == ("127.0.0.1", 4000)


def test_two_sides_agree_on_keys_and_part() -> None:
    identity = Identity()
    caller, server = Dtls(identity, begins=True), Dtls(identity, begins=False)
    flight = caller.take()
    for _ in range(4):
        flight = caller.take(server.take(flight))
    assert caller.keys is not None
    assert server.keys is not None
    packet = b"\x80\x6f\0\1\0\0\0\0\0\0\0\7 some sound"
    assert server.keys.come.unprotect(caller.keys.out.protect(packet)) == packet
    assert caller.keys.come.unprotect(server.keys.out.protect(packet)) == packet
    assert caller.goodbye()


@given(delay=st.integers(1, 150), first=st.integers(0, 40))
def test_what_comes_back_is_found_with_its_delay(delay: int, first: int) -> None:
    sent = said(SCRIPT, first)
    told = found(SCRIPT, sent, echoed(SCRIPT, sent, delay * MS), 0.3)
    assert told.stretches == told.alike > 0
    assert len(told.delays) == STRETCH * told.alike
    assert np.allclose(told.delays, delay / 1000)
    assert np.allclose(told.jitter, 0)


def test_what_another_caller_said_is_not_found() -> None:
    sent = said(SCRIPT)
    other = echoed(SCRIPT, said(SCRIPT, 25), 10 * MS)
    told = found(SCRIPT, sent, other, 0.3)
    assert told.alike <= told.stretches / 10


def test_what_is_lost_or_late_is_not_found_and_all_that_stays_away_counts() -> None:
    sent = said(SCRIPT)
    came = echoed(SCRIPT, sent, 10 * MS)
    whole = found(SCRIPT, sent, came, 0.3)
    assert found(SCRIPT, sent, came[: len(came) // 2], 0.3).alike < whole.alike
    assert found(SCRIPT, sent, echoed(SCRIPT, sent, 500 * MS), 0.3).alike == 0
    assert found(SCRIPT, sent, [], 0.3) == Found(whole.stretches, 0, [], [])


def test_a_gap_within_speech_is_jitter_and_a_pause_is_none() -> None:
    payload = SCRIPT.packets[20]
    assert payload is not None
    stamps = [(0, 0), (20, 960), (47, 1920), (547, 1920 + 24_000)]
    came = [Came(at * MS, stamp, payload) for at, stamp in stamps]
    assert found(SCRIPT, said(SCRIPT), came, 0.3).jitter == pytest.approx([0, 0.007])


def test_who_pauses_sends_few_packets_meanwhile() -> None:
    script = speech(np.tile(SAID, 2), 0.4)
    cycle = script.packets[:250]
    assert all(cycle[:110])
    sent = [packet for packet in cycle[110:] if packet is not None]
    assert [len(packet) for packet in sent].count(1) == 7
    assert len(sent) / (140 * SECONDS) <= 6


TOOK = Took(
    front=0.5, engine=0.1, own=0.1, memory=1, threads=5, lag_p99=0.001, stolen=0.0, load=1.0
)


def measured(
    server: str, callers: int, *, jitter: float = 0.0, late: float = 0.0, refused: int = 0
) -> Level:
    heard = [Found(10, 10, [0.005], [jitter])] * callers
    return level(server, heard, [late], TOOK, refused)


def test_a_run_keeps_its_budgets_or_names_those_it_misses() -> None:
    kept = Verdict.of([measured("parley", callers) for callers in (1, 25, 50)], 1.0)
    assert (kept.status, kept.missed, len(kept.kept)) == (0, [], 2)
    missed = Verdict.of([measured("parley", 10), measured("parley", 25, jitter=0.02)], 1.0)
    assert missed.status == 1
    assert "10 sessions are clean" in missed.missed[0]


def test_callers_who_were_refused_are_told_and_count_as_callers_too_many() -> None:
    few = measured("parley", 30, refused=20)
    assert "30 callers (20 more refused)" in few.line()
    verdict = Verdict.of([measured("parley", 25), few], 1.0)
    assert (verdict.clean, verdict.status) == (30, 1)
    assert "30 sessions are clean" in verdict.missed[0]
    assert "0 callers (5 more refused)" in measured("parley", 0, refused=5).line()


def test_a_run_of_late_callers_or_on_a_strange_machine_is_void() -> None:
    assert Verdict.of([measured("parley", 1, late=0.02)], 1.0).void
    assert not Verdict.of([measured("parley", 1), measured("stock", 10)], 1.0).void
    cheap = level("stock", [Found(1, 1, [0.1], [0.0])] * 10, [0.0], replace(TOOK, front=0.2))
    assert Verdict.of([measured("parley", 1), cheap], 1.0).void


class Door:
    """Lets so many callers in at first, and so many more each time they call again."""

    def __init__(self, *lets_in: int) -> None:
        self._lets_in = list(lets_in)
        self.inside = 0

    def call(self) -> None:
        if not self._lets_in or not self._lets_in[0]:
            raise Refused("the server has too much to do")
        self._lets_in[0] -= 1
        self.inside += 1

    def run(self, until: float) -> None:
        del self._lets_in[0]


@pytest.mark.parametrize(
    ("door", "inside"), [((9,), 9), ((4, 3, 2), 9), ((4, 3, 0, 2), 7), ((), 0)]
)
def test_who_is_refused_calls_again_while_anybody_is_let_in(
    door: tuple[int, ...], inside: int, capsys: pytest.CaptureFixture[str]
) -> None:
    crowd = Door(*door)
    assert gather(cast("Any", crowd), "parley", 9) == 9 - inside == 9 - crowd.inside
    assert ("too much to do" in capsys.readouterr().out) == (door != (9,))
