"""What a recogniser leaves open when it is lost is settled: each turn once, and its words once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.contract import (
    Applied,
    Event,
    Settings,
    SpeechStarted,
    SpeechStopped,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
    TurnDropped,
    TurnEnded,
)
from engine.open_turns import OpenTurns


def history(turn: str, found: bool, steps: int, noise: bool) -> list[Event]:
    """The first events of a turn; one of noise is dropped, one that was not found is committed."""
    events: list[Event] = [
        SpeechStarted(turn=turn, at=0),
        SpeechStopped(turn=turn, at=1),
        TurnDropped(turn=turn) if noise else TurnEnded(turn=turn, start=0, end=1),
        TranscriptDelta(turn=turn, text="a"),
        TranscriptCompleted(turn=turn, text="a", seconds=1.0),
    ]
    told = events[: 3 if noise else 5][:steps]
    return told if found else [e for e in told if not isinstance(e, SpeechStarted)]


histories = st.lists(
    st.tuples(st.booleans(), st.integers(0, 5), st.booleans()), min_size=1, max_size=6
)


@given(histories, st.booleans())
def test_every_turn_ends_once_and_every_turn_that_stands_has_words_once(
    told_of: list[tuple[bool, int, bool]], transcribes: bool
) -> None:
    turns = OpenTurns()
    told: list[Event] = []
    turns.take(Applied(id="s", effective=Settings(id="s", transcribe=transcribes)))
    begun = set()
    for number, (found, steps, noise) in enumerate(told_of):
        turn = f"turn_{number}"
        if not found:
            turns.commit(turn)
        if steps or not found:
            begun.add(turn)
        for event in history(turn, found, steps, noise):
            if transcribes or not isinstance(event, TranscriptDelta | TranscriptCompleted):
                turns.take(event)
                told.append(event)
    told += turns.settle("lost")
    ends = [e.turn for e in told if isinstance(e, TurnEnded | TurnDropped)]
    words = [e.turn for e in told if isinstance(e, TranscriptCompleted | TranscriptFailed)]
    assert sorted(ends) == sorted(begun)
    stands = [e.turn for e in told if isinstance(e, TurnEnded)]
    assert sorted(words) == sorted(stands if transcribes else [])
    assert turns.settle("again") == []


def test_of_a_turn_that_was_found_a_commit_asks_nothing_new() -> None:
    turns = OpenTurns()
    for event in history("turn_1", True, 5, noise=False):
        turns.take(event)
    turns.commit("turn_1")
    assert turns.settle("lost") == []


def test_where_transcription_was_turned_off_no_words_are_owed_any_more() -> None:
    turns = OpenTurns()
    for event in history("turn_1", True, 3, noise=False):
        turns.take(event)
    turns.take(Applied(id="s", effective=Settings(id="s", transcribe=False)))
    assert turns.settle("lost") == []
