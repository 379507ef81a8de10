"""Speech for the tests, with its words: recorded people, and two machines that speak.

The recordings come from Debian's ``pocketsphinx-testdata`` (BSD-2-Clause) and are read where that
package puts them, so a test that calls :func:`librivox` and its like is marked ``recordings``, and
one that calls :func:`flite` is marked ``flite``. :func:`hibari` needs nothing but the lock.
"""

from __future__ import annotations

import re
import subprocess
import wave
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np

if TYPE_CHECKING:
    from engine.contract import Samples

RECORDINGS = Path("/usr/share/pocketsphinx/test/data")
RECORDED_RATE = 16_000
HIBARI_RATE = 24_000

SENTENCES = (
    "What time does the library open on Saturday?",
    "I would like a table for four at seven tonight.",
    "Could you tell me how to get to the station?",
    "Please remind me to call my sister after lunch.",
    "My order has not arrived, and I am getting worried.",
    "How do you make a good cup of coffee?",
    "I want to cancel the meeting on Thursday.",
    "Tell me something interesting about the moon.",
)
"""Things that people say to a voice service, for a machine to speak."""


@dataclass(frozen=True, slots=True)
class Clip:
    """Mono speech in -1..1 at ``rate`` Hz, and what it says in lower case."""

    name: str
    text: str
    pcm: Samples
    rate: int

    @property
    def seconds(self) -> float:
        return len(self.pcm) / self.rate


def librivox(rate: int = RECORDED_RATE) -> tuple[Clip, ...]:
    """Five sentences that one reader reads fluently, 3.0 to 7.1 s each."""
    return _transcribed("librivox", "transcription", rate)


def cards(rate: int = RECORDED_RATE) -> tuple[Clip, ...]:
    """Five hands of cards, called out with an accent, 1.1 to 3.5 s each."""
    return _transcribed("cards", "cards.transcription", rate)


def commands(rate: int = RECORDED_RATE) -> tuple[Clip, ...]:
    """Two commands and a number, by three speakers, 2.4 to 3.0 s each."""
    texts = {
        "goforward.raw": "go forward ten meters",
        "something.raw": "go somewhere and do something",
        "tidigits/dhd.2934z.raw": "two nine three four zero",
    }
    return tuple(
        Clip(
            name, text, resampled(_pcm((RECORDINGS / name).read_bytes()), RECORDED_RATE, rate), rate
        )
        for name, text in texts.items()
    )


def hibari(text: str, rate: int = HIBARI_RATE) -> Samples:
    """``text`` as the default voice speaks it, the same samples at every call."""
    spoken: Samples = _hibari()(text, seed=0)
    return resampled(spoken, HIBARI_RATE, rate)


def flite(text: str, rate: int = RECORDED_RATE) -> Samples:
    """``text`` as flite's voice ``slt`` speaks it: plainly a machine, and not our own."""
    command = ["flite", "-voice", "slt", "-t", text, "-o", "/dev/stdout"]
    return read_wav(BytesIO(subprocess.run(command, check=True, capture_output=True).stdout), rate)


def read_wav(source: Path | BytesIO, rate: int) -> Samples:
    """The sound of a 16-bit mono WAV file at ``rate`` Hz."""
    with wave.open(str(source) if isinstance(source, Path) else source) as file:
        return resampled(_pcm(file.readframes(file.getnframes())), file.getframerate(), rate)


def write_wav(path: Path, pcm: Samples, rate: int) -> None:
    """Writes ``pcm`` as a 16-bit mono file (Chromium's fake microphone reads such files)."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(pcm, -1, 1) * 32767).round().astype("<i2").tobytes())


def resampled(pcm: Samples, rate: int, wanted: int) -> Samples:
    """``pcm`` at ``wanted`` Hz, by FFmpeg's resampler: nothing of ours judges itself."""
    if rate == wanted:
        return pcm
    frame = av.AudioFrame.from_ndarray(pcm[np.newaxis], format="flt", layout="mono")
    frame.sample_rate = rate
    resampler = av.AudioResampler(format="flt", layout="mono", rate=wanted)
    pieces = [*resampler.resample(frame), *resampler.resample(None)]
    return np.concatenate([piece.to_ndarray()[0] for piece in pieces])


def error_rate(said: str, heard: str) -> float:
    """Word error rate: words to substitute, insert or delete per word said, 0 for a perfect match.

    Case and punctuation do not count, nor does whether a small number is written in figures.
    """
    wanted, got = words(said), words(heard)
    row = list(range(len(got) + 1))
    for i, word in enumerate(wanted, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(got, 1):
            diagonal, row[j] = (
                row[j],
                min(diagonal + (word != other), row[j] + 1, row[j - 1] + 1),
            )
    return row[-1] / len(wanted)


def words(text: str) -> list[str]:
    """The words of ``text`` as they are compared: lower case, figures spelt out."""
    spelt = []
    for word in re.findall(r"[a-z']+|\d+", text.lower().replace("mr.", "mister")):
        spelt += [_FIGURES.get(figure, figure) for figure in _figures(word)]
    return spelt


_FIGURES = {"0": "zero", "1": "one", "2": "two", "3": "three", "4": "four", "5": "five"}
_FIGURES |= {"6": "six", "7": "seven", "8": "eight", "9": "nine", "10": "ten"}


def _figures(word: str) -> list[str]:
    """Longer numbers in the tests' speech are telephone-like: said figure by figure."""
    return list(word) if word.isdigit() and word not in _FIGURES else [word]


def _transcribed(folder: str, transcription: str, rate: int) -> tuple[Clip, ...]:
    lines = (RECORDINGS / folder / transcription).read_text().splitlines()
    found = [re.fullmatch(r"<s> (.*?) *</s> \((.*)\)", line) for line in lines if line]
    return tuple(
        Clip(name, text, read_wav(RECORDINGS / folder / f"{name}.wav", rate), rate)
        for text, name in (match.groups() for match in found if match)
    )


def _pcm(raw: bytes) -> Samples:
    return np.frombuffer(raw, "<i2").astype(np.float32) / np.float32(32768)


@cache
def _hibari() -> Any:
    from hibari import Hibari

    return Hibari()


def opus_packets(pcm: Samples) -> list[bytes]:
    """``pcm``, of 24 kHz, as Opus packets of 20 ms that help to recover the ones before them."""
    encoder: Any = av.CodecContext.create("libopus", "w")
    encoder.sample_rate, encoder.layout, encoder.format = 24_000, "mono", "flt"
    encoder.options = {"application": "voip", "fec": "1", "packet_loss": "10"}
    packets: list[bytes] = []
    for start in range(0, len(pcm) - 479, 480):
        frame = av.AudioFrame(format="flt", layout="mono", samples=480)
        frame.planes[0].update(pcm[start : start + 480].astype(np.float32).tobytes())
        frame.sample_rate = 24_000
        packets += [bytes(packet) for packet in encoder.encode(frame)]
    return packets
