"""Where words stand on a session's timeline: once, in order, and never before their sound."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from server.playout import RECENT
from server.protocol.live.timeline import PAUSE, InputTimeline, OutputTimeline, Words

RATE = 24_000


class Piece(NamedTuple):
    """A frame of a reply: ``lost`` samples and ``silent`` ones come before its ``samples``."""

    samples: int
    silent: int = 0
    lost: int = 0


gaps = st.integers(0, 3_000)
pieces = st.lists(st.builds(Piece, st.integers(1, 2_000), gaps, gaps), min_size=1, max_size=12)
starts = st.lists(st.integers(0, 12_000), max_size=12).map(sorted)


def ms(samples: int) -> int:
    return samples * 1000 // RATE


def speak(
    line: OutputTimeline, reply: str, cut: list[Piece], begins: list[int]
) -> list[tuple[int, Words]]:
    """Says a word from each of ``begins`` to the next; with each, the frame it was told with."""
    for number, (start, end) in enumerate(pairwise([*begins, 20_000])):
        line.say(reply, f"{reply}{number}", start, end)
    told, end = [], 0
    for number, piece in enumerate(cut):
        line.advance(piece.silent, None, 0)
        line.skip(piece.lost)
        end += piece.samples
        told += [(number, words) for words in line.advance(piece.samples, reply, end)]
    return told


@given(pieces, starts)
def test_words_come_once_in_order_with_the_frame_in_which_their_sound_begins(
    cut: list[Piece], begins: list[int]
) -> None:
    told = speak(OutputTimeline(RATE), "r", cut, begins)
    ends = [sum(piece.samples for piece in cut[: number + 1]) for number in range(len(cut))]
    expected = [
        (next(number for number, end in enumerate(ends) if start < end), f"r{word}")
        for word, start in enumerate(begins)
        if start < ends[-1]
    ]
    assert [(number, words.text) for number, words in told] == expected


@given(pieces, starts)
def test_a_word_stands_where_its_first_sample_left(cut: list[Piece], begins: list[int]) -> None:
    left: list[int] = []
    line, position = OutputTimeline(RATE), 0
    for piece in cut:
        position += piece.silent + piece.lost
        left += range(position, position + piece.samples)
        position += piece.samples
    told = speak(line, "r", cut, begins)
    assert [words.start_ms for _, words in told] == [
        ms(left[start]) for start in begins if start < len(left)
    ]
    assert line.ms == ms(position)


@given(st.integers(0, 5_000), st.lists(st.integers(1, 3_000), min_size=1), starts)
def test_positions_do_not_depend_on_how_sound_is_cut(
    before: int, sizes: list[int], begins: list[int]
) -> None:
    told = []
    for cut in (sizes, [sum(sizes)]):
        line = OutputTimeline(RATE)
        line.advance(before, None, 0)
        told.append([words for _, words in speak(line, "r", [*map(Piece, cut)], begins)])
    assert told[0] == told[1]
    for words, (start, end) in zip(told[0], pairwise([*begins, 20_000]), strict=False):
        assert words[1:] == (ms(before + start), ms(before + end))


@given(st.lists(st.tuples(pieces, starts, st.booleans()), max_size=4))
def test_times_never_go_back_and_what_was_cut_is_never_told(
    replies: list[tuple[list[Piece], list[int], bool]],
) -> None:
    line, told = OutputTimeline(RATE), []
    for number, (cut, begins, whole) in enumerate(replies):
        reply = f"{number}/"
        spoken = [words for _, words in speak(line, reply, cut, begins)]
        if whole:
            spoken += line.rest(reply)
            assert [words.text.lstrip() for words in spoken] == [
                f"{reply}{n}" for n in range(len(begins))
            ]
        else:
            line.forget(reply)
        assert line.rest(reply) == []
        told += spoken
    assert all(before.start_ms <= after.start_ms for before, after in pairwise(told))
    assert all(0 <= words.start_ms <= words.end_ms for words in told)
    assert len(set(told)) == len(told)


@given(gaps, gaps)
def test_silence_that_was_not_sent_in_time_moves_the_line_all_the_same(
    sent: int, lost: int
) -> None:
    line = OutputTimeline(RATE)
    line.advance(sent, None, 0)
    line.skip(lost)
    assert line.ms == ms(sent + lost)


def test_words_without_sound_come_at_the_end_of_their_reply() -> None:
    line = OutputTimeline(RATE)
    line.say("r", "Done.", 4_800, 4_800)
    assert line.advance(4_800, "r", 4_800) == []
    assert line.rest("r") == [Words("Done.", 200, 200)]


def test_what_was_to_be_said_in_replies_that_never_sound_does_not_pile_up() -> None:
    line = OutputTimeline(RATE)
    for number in range(RECENT + 1):
        line.say(str(number), "Well,", 0, 0)
    assert line.rest("0") == []
    assert len(line.rest("1")) == 1


steps = st.lists(
    st.tuples(st.sampled_from(["hear", "pause", "begin", "stop", "words"]), st.integers(0, 20_000)),
    max_size=40,
)


@given(steps)
def test_a_callers_words_lie_behind_the_last_ones_and_before_now(
    happened: list[tuple[str, int]],
) -> None:
    line, told, turn, heard, paused = InputTimeline(RATE), [], 0, 0, 0
    for what, size in happened:
        at = max(0, ms(heard) - size % 500)
        if what == "hear":
            heard += size
            line.hear(size, ms(heard) + paused)
        elif what == "pause":
            paused += size
        elif what == "begin":
            turn += 1
            line.begin(f"item_{turn}", at)
        elif what == "stop":
            line.stop(f"item_{turn}", at)
        else:
            told.append(line.words(f"item_{turn}", "so "))
        assert all(words.end_ms <= line.ms <= ms(heard) + paused for words in told)
    assert all(0 <= words.start_ms <= words.end_ms for words in told)
    assert all(before.end_ms <= after.start_ms for before, after in pairwise(told))


def test_words_of_a_turn_lie_within_it() -> None:
    line = InputTimeline(RATE)
    line.hear(2 * RATE, 2_000)
    line.begin("item_1", 500)
    assert line.words("item_1", "Hello ") == Words("Hello ", 500, 2_000)
    line.hear(2 * RATE, 4_000)
    line.stop("item_1", 3_000)
    assert line.words("item_1", "there.") == Words("there.", 2_000, 3_000)
    line.begin("item_2", 3_500)
    assert line.words("item_2", "And ") == Words(" And ", 3_500, 4_000)


def test_words_that_come_late_lie_within_their_own_turn() -> None:
    line = InputTimeline(RATE)
    line.hear(4 * RATE, 4_000)
    for turn, (start, end) in enumerate(((500, 1_500), (2_000, 3_000))):
        line.begin(f"item_{turn}", start)
        line.stop(f"item_{turn}", end)
    assert line.words("item_0", "Hello.") == Words("Hello.", 500, 1_500)
    assert line.words("item_1", "There?") == Words(" There?", 2_000, 3_000)


@given(st.integers(0, 60_000), st.integers(0, 60_000), st.integers(1, 2_000))
def test_sound_after_a_pause_stands_where_it_came(first: int, pause: int, length: int) -> None:
    line = InputTimeline(1_000)
    line.hear(length, first + length)
    assert line.ms == first + length
    line.hear(length, first + pause + 2 * length)
    assert line.ms == first + 2 * length + (pause if pause > PAUSE else 0)
    line.begin("item", 2 * length - 1)
    assert line.words("item", "Well").start_ms == line.ms - 1


@given(st.lists(st.integers(1, 400), min_size=1), st.integers(0, PAUSE))
def test_an_uneven_network_moves_nothing(pieces: list[int], late: int) -> None:
    line, now = InputTimeline(1_000), 0
    for number, piece in enumerate(pieces):
        now += piece
        line.hear(piece, now + late * (number % 2))
    assert line.ms == now
