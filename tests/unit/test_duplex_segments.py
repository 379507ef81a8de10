"""Replies out of a stream: a frame for every tick, and every reply ends once."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import Event, ReplyAudio, ReplyEnded, ReplyStarted, ReplyText
from engine.duplex.segments import Segments

FRAME, PATIENCE = 4, 3
LOUD = np.full(FRAME, 0.1, np.float32)
QUIET = np.full(FRAME, 0.001, np.float32)
TICKS = st.lists(
    st.tuples(st.sampled_from([None, LOUD, QUIET]), st.sampled_from(["", " a", " word", "\u00e9"])),
    max_size=40,
)


def segments(ahead: int = 10**6) -> Segments:
    return Segments(frame=FRAME, audible=0.01, patience=PATIENCE, ahead=ahead)


def push(by: Segments, pcm: np.ndarray | None, text: str) -> list[Event]:
    return by.push(pcm, 0.0 if pcm is None else float(pcm[0]), text)


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


@given(TICKS, st.sets(st.integers(0, 40)))
def test_each_tick_is_one_frame_and_each_reply_starts_and_ends_once(
    ticks: list[tuple[np.ndarray | None, str]], cancels: set[int]
) -> None:
    by = segments()
    events: list[Event] = []
    for number, (pcm, text) in enumerate(ticks):
        if number in cancels:
            events += by.cancel(f"reply_{by.replies}")
        before = len(events)
        events += push(by, pcm, text)
        frames = [event for event in events[before:] if isinstance(event, ReplyAudio)]
        assert len(frames) == 1 and len(frames[0].pcm) == FRAME
        assert frames[0].reply or not frames[0].pcm.any()
    for _ in range(PATIENCE):
        events += push(by, None, "")
    named: dict[str, list[Event]] = {}
    for event in events:
        if reply := getattr(event, "reply", ""):
            named.setdefault(reply, []).append(event)
    assert len(named) == by.replies
    for parts in named.values():
        names = kinds(parts)
        assert names[0] == "ReplyStarted" and names[-1] == "ReplyEnded"
        assert names.count("ReplyStarted") == names.count("ReplyEnded") == 1
        sent = 0
        for part in parts:
            if isinstance(part, ReplyText):
                assert (part.start, part.end) == (sent, sent + FRAME)
            elif isinstance(part, ReplyAudio):
                sent += FRAME


def test_a_reply_spans_from_the_first_word_or_sound_to_the_silence_after_the_last() -> None:
    by = segments()
    frames = [(QUIET, ""), (QUIET, " Hello"), (LOUD, " you"), *[(QUIET, "")] * PATIENCE, (LOUD, "")]
    events = [event for pcm, text in frames for event in push(by, pcm, text)]
    assert kinds(events) == [
        "ReplyAudio",
        *("ReplyStarted", "ReplyText", "ReplyAudio"),
        *("ReplyText", "ReplyAudio"),
        *["ReplyAudio"] * PATIENCE,
        "ReplyEnded",
        *("ReplyStarted", "ReplyAudio"),
    ]
    said = [event for event in events if isinstance(event, ReplyText)]
    assert [event.text for event in said] == ["Hello", " you"]
    assert [event.reply for event in events if isinstance(event, ReplyStarted)] == [
        "reply_1",
        "reply_2",
    ]


def test_a_cancelled_reply_ends_at_once_and_the_rest_of_it_is_not_heard() -> None:
    by = segments()
    push(by, LOUD, "")
    assert by.cancel("another") == []
    assert by.cancel("reply_1") == [ReplyEnded(reply="reply_1", reason="cancelled")]
    assert by.cancel("reply_1") == []
    assert kinds(push(by, LOUD, " more")) == ["ReplyAudio"]
    for _ in range(PATIENCE):
        assert push(by, QUIET, "") == [by.silence()]
    assert kinds(push(by, LOUD, "")) == ["ReplyStarted", "ReplyAudio"]


def test_a_reply_runs_no_further_ahead_of_its_playout_than_stated() -> None:
    by = segments(ahead=2 * FRAME)
    replies = []
    for tick in range(6):
        if tick == 4:
            by.played("reply_1", FRAME)
        replies += [e.reply for e in push(by, LOUD, "") if isinstance(e, ReplyAudio)]
    assert replies == ["reply_1", "reply_1", "", "", "reply_1", ""]
