"""Playout: what was made of a reply, what was handed out, and what was heard. Pure.

There are three kinds, chosen by how a caller is reached. :class:`Paced` is exact: it hands out one
frame at a time, each when it is due, so whatever was not handed out can still be held back, faded
or thrown away. :mod:`server.unpaced` has the others.

Samples are mono at the engine's output rate; times are nanoseconds on the caller's clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from engine.audio.pcm import floats
from engine.contract import Samples, Sound
from server.surplus import Surplus

FRAME = 0.02
"""Seconds per frame that a leg is sent."""
GRID = 5_000_000
"""Nanoseconds between the moments at which frames are due. A reply's phase starts at the latest of
them, so its first frame waits for nothing, and frames of many calls are due together: each moment
wakes the process once, however many are spoken to."""
FADE = 0.020
"""Seconds over which sound is faded when it is held or cut: no click, and inaudible as delay."""

SECOND = 1_000_000_000
RECENT = 16
"""Replies whose end is remembered."""
RECALLED = 8
"""Seconds of sound handed out that can be called back: so long a lost caller may go unnoticed."""


class Playout(Protocol):
    """What a session asks of each kind."""

    @property
    def paced(self) -> bool:
        """Whether sound leaves when it is due, so that what was heard is known exactly."""

    def push(self, reply: str, pcm: Sound, now: int) -> None:
        """Takes the next sound of ``reply``."""

    def finish(self, reply: str) -> None:
        """Says that no more sound of ``reply`` follows."""

    def hold(self) -> None:
        """Stops handing out, behind a fade, until released or cut."""

    def release(self) -> None:
        """Goes on where it was held."""

    def cut(self, now: int) -> dict[str, int]:
        """Throws away everything not yet heard.

        Returns the heard samples of each reply that was cut short.
        """

    def played(self, reply: str, now: int) -> int:
        """Samples of ``reply`` that have left for the caller's ear."""

    def playing(self, now: int) -> str | None:
        """The reply that is being heard, if any."""


class Taken(Struct, frozen=True):
    """A frame to be sent now, and the replies that began or ended with it.

    It ends at sample ``end`` of ``reply``, or belongs to none: then it is silence, but for the
    faded end of one that was cut. ``lost`` samples were not handed out in time before it.
    """

    pcm: Sound
    silent: bool = False
    reply: str | None = None
    end: int = 0
    lost: int = 0
    started: str | None = None
    stopped: tuple[str, ...] = ()


@dataclass(slots=True)
class _Sound:
    """A reply's sound that waits; ``read`` samples of it were handed out.

    ``came`` is when the last of those samples did (ns).
    """

    reply: str
    chunks: deque[tuple[int, Samples]] = field(default_factory=deque)
    waiting: int = 0
    read: int = 0
    came: int = 0
    finished: bool = False

    def push(self, pcm: Samples, now: int) -> None:
        self.chunks.append((now, pcm))
        self.waiting += len(pcm)

    def take(self, samples: int) -> Samples:
        """Up to ``samples`` of it, in order."""
        pieces: list[Samples] = []
        wanted = min(samples, self.waiting)
        self.waiting -= wanted
        self.read += wanted
        while wanted:
            self.came, chunk = self.chunks.popleft()
            if len(chunk) > wanted:
                self.chunks.appendleft((self.came, chunk[wanted:]))
                chunk = chunk[:wanted]
            wanted -= len(chunk)
            pieces.append(chunk)
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    def put_back(self, pcm: Samples) -> None:
        """Undoes the last ``take``."""
        self.chunks.appendleft((self.came, pcm))
        self.waiting += len(pcm)
        self.read -= len(pcm)


class Paced:
    """Exact playout, a frame at a time, with a phase that starts at a reply's first sample.

    Args:
        rate: Hz.
        frame: samples per frame.
        allowance: seconds between handing out and hearing (network, the client's buffers).
        fill: whether silence is handed out between replies: one stream that never stops, in one
            phase from its first frame.
        real_time: whether replies are made as they sound. Then what lateness has left waiting is
            let go of; of replies made ahead, never a sample.
    """

    paced = True

    def __init__(
        self,
        rate: int,
        frame: int,
        allowance: float = 0.05,
        *,
        fill: bool = False,
        real_time: bool = False,
    ) -> None:
        self._rate = rate
        self._frame = frame
        self._period = frame * SECOND // rate
        self._allowance = round(allowance * rate)
        self._fade = round(FADE * rate)
        self._fill = np.zeros(frame, np.float32) if fill else None
        self._surplus = Surplus(self._period, GRID) if real_time else None
        self._queue: deque[_Sound] = deque()
        self._played: dict[str, int] = {}
        self._due: int | None = None
        self._held = False
        self._fading: list[Samples] = []
        self._rising = 0
        self._tail: Samples | None = None
        self._handed: deque[tuple[int, str, Samples]] = deque(maxlen=RECALLED * rate // frame)

    def push(self, reply: str, pcm: Sound, now: int) -> None:
        sound = next((sound for sound in self._queue if sound.reply == reply), None)
        if sound is None:
            sound = _Sound(reply)
            self._queue.append(sound)
        sound.push(floats(pcm), now)

    def finish(self, reply: str) -> None:
        for sound in self._queue:
            if sound.reply == reply:
                sound.finished = True

    def hold(self) -> None:
        if not self._held:
            self._held = True
            self._fading = []

    def release(self) -> None:
        if self._held:
            self._held = False
            self._rewind()
            self._rising = self._fade

    def cut(self, now: int) -> dict[str, int]:
        allowance = 0 if self._held else self._allowance
        if self._held:
            self._rewind()
        cut = {sound.reply: max(0, sound.read - allowance) for sound in self._queue}
        if self._queue and not self._held and self._queue[0].read:
            tail = self._queue[0].take(self._fade)
            self._tail = tail * _ramp(len(tail))
        self._played.update(cut)
        forget_oldest(self._played)
        self._queue.clear()
        self._held = False
        self._rising = 0
        self._handed.clear()
        return cut

    def rewind(self, since: int) -> None:
        """Calls back what was handed out from ``since`` on: nobody heard it."""
        self.release()
        while self._handed and self._handed[-1][0] >= since:
            _, reply, pcm = self._handed.pop()
            if not self._queue or self._queue[0].reply != reply:
                read = self._played.get(reply, len(pcm))
                self._queue.appendleft(_Sound(reply, read=read, finished=True))
            self._queue[0].put_back(pcm)
            self._rising = self._fade
        self._handed.clear()

    def played(self, reply: str, now: int) -> int:
        return next((s.read for s in self._queue if s.reply == reply), self._played.get(reply, 0))

    def playing(self, now: int) -> str | None:
        return self._queue[0].reply if self._queue and self._queue[0].read else None

    def take(self, now: int) -> Taken | None:
        """The frame that is due at ``now``, if one is ready. A late frame never makes a burst."""
        if self._due is None or now < self._due:
            return None
        taken = self._tail_frame() or self._next_frame(now)
        if self._fill is not None:
            missed = (now - self._due) // self._period
            taken = taken or Taken(self._fill, silent=True)
            if missed:
                taken = replace(taken, lost=missed * self._frame)
                self._due += missed * self._period
        if taken is None:
            self._due = None
            return None
        self._due += self._period
        if self._surplus and self._fill is None:
            self._due -= self._surplus.sooner()
        if self._due <= now:
            self._due = now - now % GRID + self._period
        return taken

    def wake(self, now: int) -> int | None:
        """When the next frame is due, the phase starting anew at ``now`` if it had stopped."""
        speaks = self._fill is not None or self._tail is not None or self._ready()
        if self._due is None and speaks:
            self._due = now - now % GRID
        return self._due

    def _tail_frame(self) -> Taken | None:
        if self._tail is None:
            return None
        pcm, self._tail = self._tail[: self._frame], self._tail[self._frame :]
        if not len(self._tail):
            self._tail = None
        return Taken(_padded(pcm, self._frame))

    def _next_frame(self, now: int) -> Taken | None:
        if not self._ready():
            return None
        sound = self._queue[0]
        started = sound.reply if sound.read == 0 else None
        sounding = sound.take(self._frame * self._frames(sound))
        if self._surplus and self._due is not None:
            self._surplus.add(max(0, self._due - sound.came))
        if not self._held and self._fill is None:
            self._handed.append((now, sound.reply, sounding))
        pcm = _padded(self._shaped(_laid_over(sounding, self._frame)), self._frame)
        return Taken(
            pcm, reply=sound.reply, end=sound.read, started=started, stopped=self._retire()
        )

    def _ready(self) -> bool:
        """Whether a frame can be handed out: a whole one, or a finished reply's last."""
        if not self._queue:
            return False
        sound = self._queue[0]
        if self._held and not (sound.read and sound.waiting and self._faded() < self._fade):
            return False
        return sound.waiting >= self._frame or sound.finished

    def _frames(self, sound: _Sound) -> int:
        """Of how many of ``sound`` the next frame is made: two, laid over each other, catch up."""
        whole = not self._held and sound.waiting >= 2 * self._frame
        return self._surplus.frames() if self._surplus and whole else 1

    def _retire(self) -> tuple[str, ...]:
        """Drops sounds handed out whole; while held, the fade may call the last one back."""
        stopped: list[str] = []
        while (
            not self._held
            and self._queue
            and self._queue[0].finished
            and not self._queue[0].waiting
        ):
            done = self._queue.popleft()
            self._played[done.reply] = done.read
            forget_oldest(self._played)
            stopped.append(done.reply)
        return tuple(stopped)

    def _shaped(self, pcm: Samples) -> Samples:
        if self._held:
            done = self._faded()
            self._fading.append(pcm)
            gain = _ramp(self._fade)[done : done + len(pcm)]
            return pcm * np.pad(gain, (0, len(pcm) - len(gain)))
        if self._rising:
            rise = 1 - _ramp(self._fade)[self._fade - self._rising :][: len(pcm)]
            self._rising = max(0, self._rising - len(pcm))
            return np.concatenate((pcm[: len(rise)] * rise, pcm[len(rise) :])).astype(np.float32)
        return pcm

    def _faded(self) -> int:
        return sum(map(len, self._fading))

    def _rewind(self) -> None:
        """What was faded out was not really heard: it is played again, or counts as unheard."""
        for pcm in reversed(self._fading):
            self._queue[0].put_back(pcm)
        self._fading = []


def forget_oldest(by_reply: dict[str, Any]) -> None:
    """Keeps the entries of the ``RECENT`` newest replies."""
    while len(by_reply) > RECENT:
        del by_reply[next(iter(by_reply))]


def _ramp(samples: int) -> Samples:
    """From 1 to 0 over ``samples``."""
    return np.linspace(1, 0, samples, dtype=np.float32)


def _laid_over(pcm: Samples, samples: int) -> Samples:
    """Twice as many ``samples``, the first ones turning into the others; fewer as they are."""
    if len(pcm) <= samples:
        return pcm
    falling = _ramp(samples)
    return pcm[:samples] * falling + pcm[samples:] * (1 - falling)


def _padded(pcm: Samples, samples: int) -> Samples:
    return pcm if len(pcm) == samples else np.pad(pcm, (0, samples - len(pcm)))
