"""The microphone and the loudspeaker, through PortAudio (the library ``sounddevice``).

Each device runs at its own rate, and in a thread of its own, which only moves bytes: between it and
the conversation lie two short buffers. The optional extra ``talk`` brings the library.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

from engine.audio.resample import Resampler
from engine.contract import Samples
from server.talk.dialogue import RATE
from server.talk.handset import HandsetProblem

_AHEAD = 0.08
"""Seconds of sound that wait for the loudspeaker: what a step may come late."""
_BEHIND = 1.0
"""Seconds of sound from the microphone that wait to be sent; older sound is dropped."""


class DeviceHandset:
    """A microphone and a loudspeaker.

    Args:
        microphone: a device's number, or part of its name; None is the system's choice.
        loudspeaker: likewise.

    Raises:
        HandsetProblem: the library or the device is missing, or the device cannot be used.
    """

    ended = False

    def __init__(self, microphone: str | None, loudspeaker: str | None) -> None:
        portaudio = _library()
        try:
            self._ear = _Ear(portaudio, _device(loudspeaker))
            self._mouth = _Mouth(portaudio, _device(microphone))
        except (portaudio.PortAudioError, ValueError) as problem:
            raise HandsetProblem(f"sound devices: {problem}; see --list-devices") from None

    @property
    def room(self) -> int:
        """Samples that keep the loudspeaker supplied."""
        return self._ear.room

    def heard(self) -> Samples:
        """What the microphone took up."""
        return self._mouth.take()

    def play(self, pcm: Samples) -> None:
        """Sends sound to the loudspeaker."""
        self._ear.play(pcm)

    def silence(self) -> int:
        """Silences the loudspeaker, but for what the device holds: that counts as dropped too."""
        return self._ear.silence()

    def close(self) -> None:
        """Closes both devices."""
        self._mouth.close()
        self._ear.close()


def listed() -> str:
    """The devices there are, as a table; ``<`` and ``>`` mark the system's choice.

    Raises:
        HandsetProblem: the library is missing.
    """
    return str(_library().query_devices())


class _Mouth:
    """The microphone."""

    def __init__(self, portaudio: Any, device: int | str | None) -> None:
        rate = round(portaudio.query_devices(device, "input")["default_samplerate"])
        self._most = 4 * round(_BEHIND * rate)
        self._lock = threading.Lock()
        self._sound = bytearray()
        self._resampler = Resampler(rate, RATE)
        self._stream = portaudio.RawInputStream(
            rate, device=device, channels=1, dtype="float32", callback=self._came
        )
        self._stream.start()

    def take(self) -> Samples:
        """What came since the last time."""
        if not self._stream.active:
            raise HandsetProblem("the microphone is gone")
        with self._lock:
            sound = bytes(self._sound)
            self._sound.clear()
        return self._resampler.push(np.frombuffer(sound, np.float32))

    def close(self) -> None:
        self._stream.close()

    def _came(self, data: Any, frames: int, time: Any, status: Any) -> None:
        with self._lock:
            self._sound += bytes(data)
            del self._sound[: max(0, len(self._sound) - self._most)]


class _Ear:
    """The loudspeaker."""

    def __init__(self, portaudio: Any, device: int | str | None) -> None:
        self._rate: int = round(portaudio.query_devices(device, "output")["default_samplerate"])
        self._lock = threading.Lock()
        self._sound = bytearray()
        self._resampler = Resampler(RATE, self._rate)
        self._stream = portaudio.RawOutputStream(
            self._rate, device=device, channels=1, dtype="float32", callback=self._wanted
        )
        self._stream.start()

    @property
    def room(self) -> int:
        """Samples at ``RATE`` that may follow."""
        return max(0, round((_AHEAD - self._waiting()) * RATE))

    def play(self, pcm: Samples) -> None:
        """Adds sound at ``RATE``."""
        sound = self._resampler.push(pcm).tobytes()
        with self._lock:
            self._sound += sound

    def silence(self) -> int:
        """Drops what is here; counts it, and what the device holds."""
        with self._lock:
            held: float = self._stream.latency
            unheard = self._waiting() + held
            self._sound.clear()
        return round(unheard * RATE)

    def close(self) -> None:
        self._stream.close()

    def _waiting(self) -> float:
        """Seconds of sound that are here."""
        return len(self._sound) / (4 * self._rate)

    def _wanted(self, data: Any, frames: int, time: Any, status: Any) -> None:
        with self._lock:
            sound = self._sound[: len(data)]
            del self._sound[: len(data)]
        data[:] = bytes(sound.ljust(len(data), b"\0"))


def _library() -> Any:
    try:
        import sounddevice
    except ImportError:
        raise HandsetProblem(
            "a microphone needs the package sounddevice: "
            f"{sys.executable} -m pip install sounddevice"
        ) from None
    except OSError:
        raise HandsetProblem(
            "sounddevice needs the library PortAudio (on Debian: apt install libportaudio2)"
        ) from None
    return sounddevice


def _device(name: str | None) -> int | str | None:
    """A device as the library has it: a number, or part of a name."""
    return int(name) if name is not None and name.isdecimal() else name
