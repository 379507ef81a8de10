"""What the playouts promise, over every way that sound can come and be cut."""

from itertools import zip_longest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.playout import GRID, SECOND, Paced, Taken
from server.unpaced import HandedOver

RATE, FRAME = 24000, 480
PERIOD = FRAME * SECOND // RATE
FADE = 480

pieces = st.lists(st.integers(1, 2000), min_size=1, max_size=12)


def ramp(samples: int, start: int = 0) -> np.ndarray:
    """Samples that tell their own position: never zero, never equal within a test."""
    return (np.arange(start, start + samples, dtype=np.float32) + 1) / 100_000


def speak(playout: Paced, reply: str, lengths: list[int]) -> int:
    done = 0
    for length in lengths:
        playout.push(reply, ramp(length, done), 0)
        done += length
    return done


def drain(playout: Paced, now: int, until: int = 100) -> list[Taken]:
    taken = []
    for _ in range(until):
        due = playout.wake(now)
        if due is None:
            break
        now = max(now, due)
        if (frame := playout.take(now)) is not None:
            taken.append(frame)
    return taken


@given(pieces)
def test_every_sample_is_handed_out_once_in_whole_frames(lengths: list[int]) -> None:
    playout = Paced(RATE, FRAME)
    total = speak(playout, "r", lengths)
    playout.finish("r")
    frames = drain(playout, 0)
    sound = np.concatenate([frame.pcm for frame in frames])
    assert all(len(frame.pcm) == FRAME for frame in frames)
    assert np.array_equal(sound[:total], ramp(total))
    assert not sound[total:].any()
    assert [f.started for f in frames if f.started] == ["r"]
    assert [s for f in frames for s in f.stopped] == ["r"]
    assert playout.played("r", 0) == total


@given(pieces, st.integers(0, 30))
def test_a_false_alarm_loses_nothing(lengths: list[int], before: int) -> None:
    playout = Paced(RATE, FRAME)
    total = speak(playout, "r", lengths)
    playout.finish("r")
    first = drain(playout, 0, until=before)
    playout.hold()
    faded = drain(playout, 10 * SECOND)
    assert len(faded) <= 1
    playout.release()
    rest = drain(playout, 20 * SECOND)
    sound = np.concatenate([f.pcm for f in first + rest] or [np.zeros(0, np.float32)])
    assert len(sound) >= total
    if first and rest:
        resumed = len(first) * FRAME
        assert sound[resumed] == 0, "it comes back from silence, without a click"
        after = np.arange(len(sound)) >= resumed + FADE
        assert np.array_equal(sound[:total][after[:total]], ramp(total)[after[:total]])


@given(pieces, st.integers(0, 30), st.booleans())
def test_a_cut_leaves_only_what_was_heard(lengths: list[int], before: int, held: bool) -> None:
    playout = Paced(RATE, FRAME, allowance=0.05)
    total = speak(playout, "r", lengths)
    frames = drain(playout, 0, until=before)
    handed = min(total, len(frames) * FRAME)
    if held:
        playout.hold()
        drain(playout, 10 * SECOND)
    cut = playout.cut(10 * SECOND)
    assert cut == {"r": handed if held else max(0, handed - 1200)}
    tail = drain(playout, 20 * SECOND)
    assert len(tail) <= 1, "nothing but the fade follows"
    if tail:
        assert tail[0].pcm[-1] == pytest.approx(0, abs=1e-6)
    assert playout.playing(0) is None


def test_a_stall_is_not_followed_by_a_burst() -> None:
    playout = Paced(RATE, FRAME)
    speak(playout, "r", [FRAME * 10])
    assert playout.wake(0) == 0
    assert playout.take(0)
    late = 7 * PERIOD + 3
    assert playout.take(late)
    assert playout.take(late + 1) is None
    assert playout.wake(late) == late - late % GRID + PERIOD


def test_the_phase_starts_with_the_reply_on_the_grid_and_is_kept() -> None:
    playout = Paced(RATE, FRAME)
    assert playout.wake(5) is None
    speak(playout, "r", [FRAME * 3])
    start = 123_456_789
    dues = []
    while (due := playout.wake(start)) is not None and playout.take(due):
        dues.append(due)
    first = start - start % GRID
    assert dues == [first, first + PERIOD, first + 2 * PERIOD]


def test_half_a_frame_waits_for_the_other_half() -> None:
    playout = Paced(RATE, FRAME)
    playout.push("r", ramp(FRAME // 2), 0)
    assert playout.wake(0) is None
    playout.push("r", ramp(FRAME // 2), 0)
    assert playout.wake(SECOND) == SECOND


def test_a_second_reply_follows_the_first() -> None:
    playout = Paced(RATE, FRAME)
    speak(playout, "a", [FRAME])
    playout.finish("a")
    speak(playout, "b", [FRAME])
    playout.finish("b")
    frames = drain(playout, 0)
    assert [f.started for f in frames] == ["a", "b"]
    assert [f.stopped for f in frames] == [("a",), ("b",)]


@given(pieces)
def test_replies_made_at_the_same_time_sound_one_after_the_other(lengths: list[int]) -> None:
    playout = Paced(RATE, FRAME)
    for number, length in enumerate(lengths):
        playout.push("ab"[number % 2], ramp(length), 0)
    playout.finish("a")
    playout.finish("b")
    frames = drain(playout, 0)
    started = [frame.started for frame in frames if frame.started]
    assert started == ["a", "b"][: len(lengths)]
    for reply, parts in (("a", lengths[::2]), ("b", lengths[1::2])):
        assert playout.played(reply, 0) == sum(parts)


@given(st.lists(st.tuples(st.integers(1, 48000), st.integers(0, SECOND)), max_size=20))
def test_what_was_handed_over_is_heard_at_the_pace_of_sound(
    steps: list[tuple[int, int]],
) -> None:
    playout = HandedOver(RATE)
    now = total = 0
    for samples, passed in steps:
        before = playout.played("r", now)
        playout.push("r", np.zeros(samples, np.float32), now)
        total += samples
        now += passed
        heard = playout.played("r", now)
        assert heard <= total
        assert heard - before <= passed * RATE // SECOND + 2
    assert playout.played("r", now + 100 * SECOND) == total
    assert playout.playing(now + 100 * SECOND) is None


def test_a_cut_of_what_was_handed_over_stops_the_count() -> None:
    playout = HandedOver(RATE)
    playout.push("r", np.zeros(RATE, np.float32), 0)
    assert playout.cut(SECOND // 4) == {"r": RATE // 4}
    assert playout.played("r", 10 * SECOND) == RATE // 4
    playout.push("s", np.zeros(RATE, np.float32), SECOND // 4)
    assert playout.playing(SECOND // 2) == "s"


# Where silence fills the gaps -------------------------------------------------------------------

moments = st.lists(st.integers(1, 5 * PERIOD), min_size=1, max_size=40)


@given(st.integers(0, SECOND), moments, st.lists(st.integers(0, 3_000), max_size=40))
def test_a_stream_never_stops_and_counts_every_sample_of_its_time(
    start: int, waits: list[int], lengths: list[int]
) -> None:
    playout = Paced(RATE, FRAME, fill=True)
    first = start - start % GRID
    assert playout.wake(start) == first
    now, counted, pushed, sounded = start, 0, 0, []
    for wait, length in zip_longest(waits, lengths, fillvalue=0):
        if length:
            playout.push("r", ramp(length, pushed), now)
            pushed += length
        taken = playout.take(now)
        assert (taken is None) == (counted > FRAME * ((now - first) // PERIOD))
        if taken is not None:
            assert len(taken.pcm) == FRAME
            counted += FRAME + taken.lost
            assert counted == FRAME * ((now - first) // PERIOD + 1)
            assert playout.take(now) is None, "a late frame never makes a burst"
            assert taken.silent == (taken.reply is None)
            assert not (taken.silent and taken.pcm.any())
            sounded += [taken.pcm] if taken.reply else []
        due = playout.wake(now)
        assert due is not None
        assert due > now
        assert (due - first) % PERIOD == 0, "the phase is that of its first frame"
        now += wait
    said = np.concatenate([*sounded, np.zeros(0, np.float32)])
    assert np.array_equal(said, ramp(len(said)))
    assert playout.played("r", now) == len(said)


deeds = st.lists(
    st.tuples(
        st.sampled_from(["push", "push", "finish", "next", "hold", "release", "cut", "none"]),
        st.integers(1, 1_500),
    ),
    max_size=60,
)


@given(deeds)
def test_what_sounds_amid_the_silence_is_what_sounds_without_it(
    steps: list[tuple[str, int]],
) -> None:
    filled, plain = Paced(RATE, FRAME, fill=True), Paced(RATE, FRAME)
    reply = 0
    for number, (deed, samples) in enumerate(steps):
        now = number * PERIOD
        reply += deed == "next"
        told = [act(playout, deed, str(reply), samples, now) for playout in (filled, plain)]
        assert told[0] == told[1]
        assert filled.playing(now) == plain.playing(now)
        assert filled.played(str(reply), now) == plain.played(str(reply), now)


def act(playout: Paced, deed: str, reply: str, samples: int, now: int) -> tuple[object, ...]:
    """Does something at ``now``; returns what came of it, and what sounds then."""
    cut: object = None
    match deed:
        case "push":
            playout.push(reply, ramp(samples), now)
        case "finish":
            playout.finish(reply)
        case "hold":
            playout.hold()
        case "release":
            playout.release()
        case "cut":
            cut = playout.cut(now)
    playout.wake(now)
    taken = playout.take(now)
    if taken is None or taken.silent:
        return (cut,)
    return cut, taken.pcm.tobytes(), taken.reply, taken.end, taken.started, taken.stopped


@given(pieces, pieces, st.integers(0, 40), st.integers(0, 40))
def test_what_nobody_heard_is_handed_out_again_and_nothing_else(
    first: list[int], second: list[int], before: int, unheard: int
) -> None:
    playout = Paced(RATE, FRAME)
    lengths = {"a": speak(playout, "a", first), "b": speak(playout, "b", second)}
    playout.finish("a")
    playout.finish("b")
    frames = drain(playout, 0, until=before)
    heard = frames[: max(0, len(frames) - unheard)]
    playout.rewind(len(heard) * PERIOD)
    again = drain(playout, 10 * SECOND)
    for reply, total in lengths.items():
        ends = [frame.end for frame in heard if frame.reply == reply]
        begun = ends[-1] if ends else 0
        ends = [frame.end for frame in again if frame.reply == reply]
        assert ends == sorted(ends)
        assert len(ends) == -(-(total - begun) // FRAME)
        assert playout.played(reply, 0) == total
    assert [reply for frame in again for reply in frame.stopped][-1:] in ([], ["b"])


def test_sound_that_was_cut_does_not_come_back() -> None:
    playout = Paced(RATE, FRAME)
    speak(playout, "a", [10 * FRAME])
    drain(playout, 0, until=5)
    playout.cut(0)
    playout.rewind(0)
    assert [frame.reply for frame in drain(playout, SECOND)] == [None]
