"""A sound system of a test's own: PulseAudio with two sinks that lead nowhere.

``question`` is what the microphone hears, its monitor being the microphone; what the loudspeaker
plays goes into ``reply``, whose monitor is recorded.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from engine.contract import Samples

RATE = 24_000
"""Hz, of what is recorded."""
_SINKS = ("question", "reply")
_FLAGS = (
    "--daemonize=no",
    "--use-pid-file=no",
    "--exit-idle-time=-1",
    "--disable-shm=yes",
    "--log-target=stderr",
)


class Pulse:
    """A running sound system; a context manager that ends it.

    Args:
        folder: for its files; it touches none of the user's own.

    Attributes:
        environment: what its clients need.
    """

    def __init__(self, folder: Path) -> None:
        socket = folder / "native"
        self.environment = {
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "PULSE_SERVER": f"unix:{socket}",
            "PULSE_SOURCE": "question.monitor",
            "PULSE_SINK": "reply",
        }
        sinks = [f"--load=module-null-sink sink_name={name}" for name in _SINKS]
        door = f"--load=module-native-protocol-unix socket={socket} auth-anonymous=1"
        self._recording = folder / "reply.raw"
        self._log = (folder / "log").open("wb")
        self._process = subprocess.Popen(
            ["pulseaudio", "-n", *_FLAGS, *sinks, door],
            stderr=self._log,
            env=os.environ | self.environment,
        )
        self._started = [self._process]

    def __enter__(self) -> Self:
        deadline = time.monotonic() + 30
        while subprocess.run(
            ["pactl", "info"], capture_output=True, env=os.environ | self.environment
        ).returncode:
            assert time.monotonic() < deadline, "PulseAudio does not answer"
            time.sleep(0.1)
        self._record()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in reversed(self._started):
            process.terminate()
            process.wait(10)
        self._log.close()

    def play(self, path: Path) -> None:
        """Plays a file to the microphone; returns when it has been played."""
        self._run("paplay", "--device=question", str(path)).wait(60)

    def heard(self) -> Samples:
        """What the loudspeaker has played."""
        recorded = np.fromfile(self._recording, "<i2").astype(np.float32)
        return recorded / np.float32(32768)

    def _record(self) -> None:
        sound = ("--raw", "--format=s16le", f"--rate={RATE}", "--channels=1", "--latency-msec=50")
        self._run("parec", "--device=reply.monitor", *sound, str(self._recording))

    def _run(self, *command: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(command, env=os.environ | self.environment)
        self._started.append(process)
        return process
