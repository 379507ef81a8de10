"""Sound files in and out of the terminal client, and how its screen looks."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract import Samples
from server.talk.captions import Captions, Line
from server.talk.dialogue import RATE
from server.talk.events import Event
from server.talk.files import FileHandset, Recording
from server.talk.handset import FRAME, HandsetProblem
from server.talk.levels import FLOOR, bar, decibels
from server.talk.screen import Screen
from tests.sounds import read_wav

CODECS = ("pcm_u8", "pcm_s16le", "pcm_s24le", "pcm_s32le", "pcm_f32le", "pcm_f64le", "pcm_mulaw")


def tone(rate: int, seconds: float = 0.5) -> Samples:
    at = np.arange(round(seconds * rate)) / rate
    return np.asarray(0.5 * np.sin(2 * np.pi * 440 * at), np.float32)


def write(path: Path, codec: str, rate: int, channels: int) -> None:
    """A tone in all channels, written by FFmpeg."""
    with av.open(str(path), "w", format="wav") as file:
        layout = {1: "mono", 2: "stereo", 6: "5.1"}[channels]
        stream = file.add_stream(codec, rate=rate, layout=layout)
        assert isinstance(stream, av.AudioStream)
        frame = av.AudioFrame.from_ndarray(
            np.repeat(tone(rate)[np.newaxis], channels, 0), format="fltp", layout=layout
        )
        frame.sample_rate = rate
        resampler = av.AudioResampler(format=stream.format, layout=layout, rate=rate)
        for piece in resampler.resample(frame):
            file.mux(stream.encode(piece))
        file.mux(stream.encode(None))


def spoken(path: Path) -> Samples:
    """Everything that a handset says of a file, frame by frame."""
    handset, frames = FileHandset(path), []
    while not handset.ended:
        frames.append(handset.heard())
    frames.append(handset.heard())
    handset.close()
    assert {len(frame) for frame in frames} == {FRAME}
    return np.concatenate(frames)


def likeness(sound: Samples) -> float:
    """How much of ``sound`` the tone is, 0..1, whatever its phase and loudness."""
    wave_ = np.exp(2j * np.pi * 440 * np.arange(len(sound)) / RATE)
    return float(abs(np.vdot(wave_, sound)) ** 2 * 2 / len(sound) / np.vdot(sound, sound).real)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("rate", "channels"), [(8_000, 1), (44_100, 2), (48_000, 6)])
def test_a_file_of_any_rate_width_and_channels_is_said(
    codec: str, rate: int, channels: int, tmp_path: Path
) -> None:
    write(tmp_path / "question.wav", codec, rate, channels)
    said = spoken(tmp_path / "question.wav")
    assert abs(len(said) - RATE // 2) <= 2 * FRAME
    middle = said[RATE // 8 : 3 * RATE // 8]
    assert likeness(middle) > 0.99
    assert 0.2 < abs(middle).max() <= 1.0


def test_a_file_that_has_been_said_is_followed_by_silence(tmp_path: Path) -> None:
    write(tmp_path / "question.wav", "pcm_s16le", RATE, 1)
    handset = FileHandset(tmp_path / "question.wav")
    while not handset.ended:
        handset.heard()
    handset.heard()
    assert len(handset.heard()) == FRAME and not handset.heard().any()


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HandsetProblem, match=r"none\.wav: cannot read: No such file"):
        FileHandset(tmp_path / "none.wav")


@pytest.mark.parametrize("content", [b"", b"RIFF", b"What is the capital of France?\n" * 9])
def test_a_file_without_sound_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "text.wav"
    path.write_bytes(content)
    with pytest.raises(
        HandsetProblem, match=r"text.wav: expected (a sound file|sound, found none)"
    ):
        FileHandset(path)


def test_an_empty_recording_is_no_question(tmp_path: Path) -> None:
    Recording(tmp_path / "empty.wav").close()
    with pytest.raises(HandsetProblem, match="expected sound, found none"):
        FileHandset(tmp_path / "empty.wav")


def test_what_is_played_is_kept(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "reply.wav")
    for part in np.array_split(tone(RATE), 7):
        recording.write(part)
    recording.close()
    with wave.open(str(tmp_path / "reply.wav")) as file:
        assert file.getparams()[:3] == (1, 2, RATE)
    kept = read_wav(tmp_path / "reply.wav", RATE)
    assert abs(kept - tone(RATE)).max() < 1e-4


def test_a_recording_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(HandsetProblem, match=r"reply\.wav: cannot write: No such file"):
        Recording(tmp_path / "no" / "reply.wav")


@given(st.floats(0, 1), st.integers(1, 40))
def test_a_bar_fills_with_the_level(peak: float, width: int) -> None:
    assert len(bar(decibels(peak), width)) == width
    assert bar(FLOOR, width) == " " * width and bar(0.0, width) == "█" * width


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(out: io.StringIO) -> str:
    """What a screen writes in two steps of conversation."""
    captions = Captions()
    screen = Screen(out, captions)
    screen.you.see(np.full(FRAME, 1.0, np.float32))
    captions.see(Event("response.output_audio_transcript.delta", delta="It is "))
    for _ in range(5):
        screen.step()
    screen.line(Line("parley", "It is noon."))
    screen.close()
    return out.getvalue()


def test_a_pipe_gets_plain_lines() -> None:
    assert shown(io.StringIO()) == "parley: It is noon.\n(loudest: you 0 dB, parley -60 dB)\n"


def test_a_terminal_gets_levels_and_what_is_being_said_below_the_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    rows = shown(Terminal()).split("\r\x1b[K")
    assert rows[1] == f"you {'█' * 10}  parley {' ' * 10}  parley: It is"
    assert rows[2] == "parley: It is noon.\n"
