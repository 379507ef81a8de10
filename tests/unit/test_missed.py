"""What a client that comes back is told: each event it missed once, in order, and not too many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.missed import Missed
from server.protocol.event import ServerEvent


class Word(ServerEvent, kw_only=True):
    pass


class Sound(ServerEvent, kw_only=True):
    carries_sound = True


def send(missed: Missed, event: ServerEvent) -> bytes:
    if missed.sound or not event.carries_sound:
        missed.keep(event.event_id, event.event_id.encode())
    return event.event_id.encode()


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 30))
def test_whoever_names_its_last_event_is_told_all_behind_it_once(
    arrived: int, lost: int, away: int
) -> None:
    missed = Missed(sound=False)
    before = [send(missed, Word()) for _ in range(arrived + lost)]
    missed.leave()
    after = [send(missed, Word()) for _ in range(away)]
    last = before[arrived - 1].decode() if arrived else Word().event_id[:-8] + 8 * "0"
    assert missed.tell(last) == before[arrived:] + after
    missed.leave()
    assert missed.tell("") == []


@given(st.integers(0, 10), st.integers(0, 10), st.sampled_from(["", "event_1", "x" * 22]))
def test_whoever_names_none_of_ours_is_told_all_since_it_was_missed(
    sent: int, away: int, last: str
) -> None:
    missed = Missed(sound=False)
    for _ in range(sent):
        send(missed, Word())
    missed.leave()
    told = [send(missed, Word()) for _ in range(away)]
    assert missed.tell(last) == told


def test_a_client_that_was_not_missed_and_names_nothing_is_told_nothing_twice() -> None:
    missed = Missed(sound=False)
    send(missed, Word())
    assert missed.tell("") == []


def test_sound_waits_only_for_a_client_that_plays_it_itself() -> None:
    for sound in (True, False):
        missed = Missed(sound=sound)
        missed.leave()
        heard = send(missed, Sound())
        assert missed.tell("") == ([heard] if sound else [])


def test_however_long_it_is_away_what_is_kept_is_bounded_and_the_newest() -> None:
    missed = Missed(sound=True)
    missed.leave()
    names = [send(missed, Word()) for _ in range(5_000)]
    told = missed.tell("")
    assert 1_000 < len(told) < 5_000
    assert told == names[-len(told) :]
    missed.leave()
    for _ in range(20):
        event = Sound()
        missed.keep(event.event_id, 2**20 * b"x")
    assert len(missed.tell("")) == 8
