"""Whatever passes the process border comes out as it went in, however the bytes are cut."""

from __future__ import annotations

from itertools import pairwise
from typing import get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import contract as c
from engine.audio.pcm import floats
from engine.remote import wire

ORDERS: list[c.Order] = [
    c.Settings(id="one", voice="low", turns=c.TurnDetection(kind="semantic", eagerness="high")),
    c.Context(
        revision=2**40,
        messages=(
            c.Message(role="user", parts=(c.Text(text="é"), c.Turn(turn="t"))),
            c.Message(
                role="assistant", tool_calls=(c.ToolUse(call_id="c", name="f", arguments=""),)
            ),
            c.Message(role="tool", call_id="c"),
        ),
        tools=(c.Tool(name="f", parameters={"type": "object", "required": []}),),
    ),
    c.Respond(reply="r", revision=1, messages=(), tools=None, max_tokens=0, verbatim=""),
    c.Cancel(reply="r"),
    c.Played(reply="r", samples=480),
    c.Commit(turn="t"),
    c.Clear(),
    c.Close(),
]

EVENTS: list[c.Event] = [
    c.Applied(id="one", effective=c.Settings(id="one")),
    c.Refused(id="one", param="voice", message="no"),
    c.Onset(at=0),
    c.OnsetDropped(),
    c.SpeechStarted(turn="t", at=1),
    c.SpeechStopped(turn="t", at=2),
    c.TurnEnded(turn="t", start=1, end=2),
    c.TurnDropped(turn="t"),
    c.TranscriptDelta(turn="t", text="a "),
    c.TranscriptCompleted(turn="t", text="a b", seconds=0.5),
    c.TranscriptFailed(turn="t", message="no"),
    c.ReplyStarted(reply="r"),
    c.ReplyText(reply="r", text="a", start=0, end=480),
    c.ToolCall(reply="r", call_id="c", name="f", arguments="{}"),
    c.ReplyEnded(reply="r", reason="length", usage=c.Usage(output_tokens=3), timings={"llm": 0.1}),
    c.Fault(code="engine_lost", message="gone"),
    c.Closed(reason="engine_lost", heard=3, dropped=1),
]

MESSAGES: list[wire.Audio | wire.FromHost] = [
    wire.Ready(c.EngineInfo(name="n", input_rate=16000, output_rate=24000)),
    wire.Failed("no"),
    wire.Opened(1, 32000),
    wire.Busy(2, 1.5),
    wire.Unavailable(3, "no"),
    wire.Alive("ready", {1: 320, 70000: 2**40}),
    wire.Figures({"sessions": 1.0}),
    wire.Logged(10, "engine.cascade", "turn ended", {"session": "sess_1", "at": ["a.py:1 f"]}),
    *(wire.Told(1, event) for event in EVENTS),
    wire.Audio(1, np.arange(480, dtype=np.int16), "répondre"),
    wire.Audio(2, np.zeros(0, np.int16)),
]
STREAM = b"".join(wire.pack(message) for message in MESSAGES)


def plain(thing: object) -> object:
    """Something that can be compared, samples and all."""
    return msgspec.to_builtins(thing, enc_hook=lambda pcm: pcm.tolist())


def test_every_order_and_event_is_tried() -> None:
    assert {type(order) for order in ORDERS} == set(get_args(c.Order))
    assert {type(event) for event in EVENTS} == set(get_args(c.Event)) - {c.ReplyAudio}


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: type(order).__name__)
def test_an_order_passes(order: c.Order) -> None:
    (got,) = wire.Unpacker(wire.ToHost).push(wire.pack(wire.Give(7, order)))
    assert (got.session, got.order) == (7, order)


def test_sound_of_either_form_arrives_as_16_bit_samples() -> None:
    whole = np.array([-32768, -1, 0, 1, 32767], np.int16)
    for sound in (whole, floats(whole)):
        (got,) = wire.Unpacker(wire.ToHost).push(wire.pack(wire.Audio(7, sound)))
        assert got.pcm.dtype == np.int16
        assert (got.pcm == whole).all()


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_any_split_of_the_bytes_gives_the_same_messages(cuts: list[int]) -> None:
    unpacker = wire.Unpacker(wire.FromHost)
    edges = [0, *sorted(cuts), len(STREAM)]
    got = [
        message for start, end in pairwise(edges) for message in unpacker.push(STREAM[start:end])
    ]
    assert [plain(message) for message in got] == [plain(message) for message in MESSAGES]


@given(st.lists(st.integers(-32768, 32767), max_size=100))
def test_every_16_bit_sample_passes_unchanged(samples: list[int]) -> None:
    pcm = np.array(samples, np.int16)
    (got,) = wire.Unpacker(wire.ToHost).push(wire.pack(wire.Audio(1, pcm)))
    assert got.pcm.tolist() == samples


def test_sound_that_is_not_contiguous_passes() -> None:
    pcm = np.arange(10, dtype=np.int16)[::3]
    (got,) = wire.Unpacker(wire.ToHost).push(wire.pack(wire.Audio(1, pcm)))
    assert got.pcm.tolist() == [0, 3, 6, 9]


def test_a_reply_whose_name_is_too_long_is_not_sent() -> None:
    with pytest.raises(wire.Unsendable, match="reply: expected at most 65535 bytes, got 65536"):
        wire.pack(wire.Audio(1, np.zeros(1, np.int16), "r" * 65536))


def test_a_message_beyond_the_bound_is_neither_sent_nor_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frame = wire.pack(wire.Audio(1, np.zeros(100, np.float32)))
    monkeypatch.setattr(wire, "MAX_FRAME", 100)
    with pytest.raises(wire.FrameTooLong, match="expected at most 100 bytes, got 200"):
        wire.pack(wire.Audio(1, np.zeros(100, np.float32)))
    with pytest.raises(wire.FrameTooLong):
        list(wire.Unpacker(wire.ToHost).push(frame[:10]))
