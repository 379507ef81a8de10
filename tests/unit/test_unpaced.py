"""A stream that keeps its own time is passed on as it comes, and replies are found in it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from server.playout import RECENT
from server.unpaced import Streamed

segments = st.lists(
    st.tuples(
        st.sampled_from(["silence", "new", "finished"]),
        st.lists(st.integers(1, 2_000), min_size=1, max_size=4),
    ),
    max_size=12,
)


@given(segments)
def test_every_frame_is_passed_on_and_each_reply_begins_and_ends_once(
    parts: list[tuple[str, list[int]]],
) -> None:
    playout = Streamed()
    started: list[str] = []
    stopped: list[str] = []
    spoken: dict[str, int] = {}
    for number, (kind, sizes) in enumerate(parts):
        reply = "" if kind == "silence" else f"r{number}"
        for size in sizes:
            pcm = np.full(size, number, np.float32)
            playout.push(reply, pcm, 0)
            taken = playout.pass_on(reply, pcm)
            assert taken.pcm is pcm
            assert (taken.reply or "", taken.silent, taken.lost) == (reply, not reply, 0)
            if reply:
                spoken[reply] = spoken.get(reply, 0) + size
                assert taken.end == spoken[reply] == playout.played(reply, 0)
                started += [taken.started] if taken.started else []
            stopped += taken.stopped
            assert playout.playing(0) == (reply or None)
        if kind == "finished":
            playout.finish(reply)
    stopped += playout.pass_on("", np.zeros(1, np.float32)).stopped
    assert started == stopped == [*spoken]
    assert playout.playing(0) is None


def test_such_a_stream_is_neither_held_nor_cut() -> None:
    playout, pcm = Streamed(), np.ones(480, np.float32)
    playout.pass_on("r", pcm)
    playout.hold()
    assert playout.cut(0) == {}
    playout.release()
    assert playout.pass_on("r", pcm).end == 960


def test_a_reply_that_is_made_whole_sounds_until_another_frame_comes() -> None:
    playout, pcm = Streamed(), np.ones(480, np.float32)
    playout.pass_on("a", pcm)
    playout.finish("b")
    playout.finish("a")
    assert playout.playing(0) == "a"
    taken = playout.pass_on("b", pcm)
    assert (taken.started, taken.stopped) == ("b", ("a",))


def test_of_those_that_have_stopped_only_the_newest_replies_are_remembered() -> None:
    playout, pcm = Streamed(), np.ones(480, np.float32)
    for number in range(RECENT + 2):
        playout.pass_on(str(number), pcm)
    assert (playout.played("0", 0), playout.played("1", 0)) == (0, 480)
