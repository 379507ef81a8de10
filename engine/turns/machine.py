"""When the caller has the floor: the turn machine.

It is fed one verdict of the voice activity detector per chunk of sound and says what follows: an
onset (hold the reply), a turn that began, a pause worth preparing an answer in, a turn that ended.
It knows neither sound nor clock: everything is counted in input samples at 16 kHz, so the same
sound gives the same actions however it arrived and however late the models answered.

The two steps of a start have different prices. An *onset* costs nothing to take back, so one chunk
is enough. A *start* cuts the reply, so it needs confirmed speech, and more of it while a reply
sounds: a cough or an echo is to be dropped, "yes" is not.

A pause is announced early (32 ms) so that the answer can be prepared while the machine still waits
to see whether the caller goes on. Silence is counted as Silero's own iterator does: it begins below
``threshold - 0.15`` and is over at ``threshold``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from engine.contract import TurnDetection

RATE = 16_000
CHUNK = 512
"""Samples of one verdict, 32 ms; Silero's own step."""

PAUSE = CHUNK
"""Silence after which an answer is prepared: two chunks met no fewer pauses that were none, in 29
clips read and spoken, because Silero looks back further than one chunk itself."""
MINIMUM_SILENCE = 7 * CHUNK
"""Silence before the end-of-turn model is believed (224 ms: shorter cuts people at commas)."""
LONGEST_TURN = 60 * RATE
"""A turn is ended here: what recognises it must read it whole."""
PARTIAL = RATE * 4 // 5
"""Speech between two partial transcripts (0.8 s); of a long turn a tenth, as reading it costs."""
_HYSTERESIS = 0.15
_REPLY_BAR = 0.4
"""While a reply sounds an onset needs this share of the way from the threshold to certainty."""
_DROP_AFTER = 5 * CHUNK
"""Silence that drops an onset: longer than a syllable's gap."""
_ONSET_WINDOW = 14 * CHUNK
"""An onset not confirmed by then (448 ms) is dropped."""
_CONFIRM = 3
"""Chunks of speech that confirm an onset; twice as many while a reply sounds."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Milliseconds of silence at which the end-of-turn model is asked, and that end any turn."""

    asked: tuple[int, ...]
    fallback: int


PATIENCE = {
    "auto": Patience((128, 448), 800),
    "high": Patience((128, 448), 2000),
    "medium": Patience((128, 448, 1500), 4000),
    "low": Patience((128, 1500, 4000), 8000),
}
"""By eagerness. Smart Turn was trained on 200 ms of silence; Silero hears the first 128 ms of it.

Of 37 sentences it thought 29 complete there and 34 in half a second of silence; the second asking
saves the others the fallback. People's own gaps between turns are about 200 ms, within turns seldom
above 1 s: so it is with ``auto``. Who names an eagerness gets the longest waits that OpenAI states
for it, so that a caller who thinks aloud is not cut short by a model that heard no end.
"""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What is known of one chunk of sound.

    ``at`` is its first sample, ``probability`` that of speech (0..1); ``passed`` is false where the
    sound may be the reply's echo, ``speaking`` true while a reply is being heard.
    """

    at: int
    probability: float
    passed: bool = True
    speaking: bool = False


@dataclass(frozen=True, slots=True)
class Onset:
    """Something that may be speech begins at ``at``."""

    at: int


@dataclass(frozen=True, slots=True)
class OnsetDropped:
    """It was none."""


@dataclass(frozen=True, slots=True)
class Started:
    """The onset is confirmed: a turn begins at ``at``, its pre-roll included."""

    at: int


@dataclass(frozen=True, slots=True)
class Partial:
    """Time for a partial transcript of the turn, up to ``at``."""

    at: int


@dataclass(frozen=True, slots=True)
class Pause:
    """The caller fell silent: what was said is complete at ``at`` unless ``Resumed`` follows."""

    pause: int
    at: int


@dataclass(frozen=True, slots=True)
class Judge:
    """Time to ask the end-of-turn model about the turn up to ``at``, in pause ``pause``."""

    pause: int
    at: int


@dataclass(frozen=True, slots=True)
class Resumed:
    """The caller goes on; what was prepared for the pause is void."""


Cause: TypeAlias = Literal["silence", "too_long", "no_sound", "reset"]


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn from ``start`` to ``at`` is over. ``pause`` is the pause it ended in, if it was
    told.
    """

    start: int
    at: int
    pause: int | None
    cause: Cause


Action: TypeAlias = Onset | OnsetDropped | Started | Partial | Pause | Judge | Resumed | Ended


@dataclass(slots=True)
class _Candidate:
    """An onset not confirmed yet."""

    at: int
    needed: int
    voiced: int = 1
    voiced_end: int = 0


@dataclass(slots=True)
class _Turn:
    """A turn under way; ``quiet`` is where its present silence began."""

    start: int
    partial_at: int
    quiet: int | None = None
    pause: int | None = None
    asked: int = 0
    probability: float = 0.0


class TurnMachine:
    """Finds turns in a stream of chunks.

    Args:
        minimum_silence: samples of silence before the end-of-turn model is believed.
    """

    def __init__(self, minimum_silence: int = MINIMUM_SILENCE) -> None:
        self._minimum_silence = minimum_silence
        self._detection = TurnDetection()
        self._now = 0
        self._floor = 0
        self._pauses = 0
        self._candidate: _Candidate | None = None
        self._turn: _Turn | None = None

    @property
    def open(self) -> bool:
        """Whether an onset or a turn is under way."""
        return self._candidate is not None or self._turn is not None

    @property
    def detection(self) -> TurnDetection:
        """How turns are found."""
        return self._detection

    def configure(self, detection: TurnDetection) -> list[Action]:
        """Finds turns by ``detection`` from here on; detection switched off ends what is open."""
        self._detection = detection
        return self.reset(self._now) if detection.kind == "none" else []

    def step(self, chunk: Chunk) -> list[Action]:
        """Takes the next chunk; chunks come in order and do not overlap."""
        self._now = chunk.at + CHUNK
        if self._detection.kind == "none":
            return []
        if self._turn is not None:
            return self._on(self._turn, chunk)
        if self._candidate is not None:
            return self._weigh(self._candidate, chunk)
        if not chunk.passed or chunk.probability < self._bar(chunk.speaking):
            return []
        needed = 2 * _CONFIRM if chunk.speaking else _CONFIRM
        self._candidate = _Candidate(at=chunk.at, needed=needed, voiced_end=self._now)
        return [Onset(chunk.at)]

    def judge(self, pause: int, probability: float) -> list[Action]:
        """Takes the end-of-turn model's verdict on ``pause``; one on a pause that is over is
        void.
        """
        if self._turn is None or self._turn.pause != pause:
            return []
        self._turn.probability = probability
        return self._end("silence") if self._over(self._turn) else []

    def expire(self) -> list[Action]:
        """No sound comes any more (a muted or vanished microphone): ends what is open."""
        return self._close("no_sound")

    def reset(self, at: int) -> list[Action]:
        """Forgets what is open; the next turn begins at ``at`` or later."""
        actions = self._close("reset")
        self._floor = self._now = max(at, self._now)
        return actions

    def _bar(self, speaking: bool) -> float:
        threshold = self._detection.threshold
        return threshold + (1 - threshold) * _REPLY_BAR if speaking else threshold

    def _weigh(self, candidate: _Candidate, chunk: Chunk) -> list[Action]:
        if chunk.passed and chunk.probability >= self._detection.threshold:
            candidate.voiced += 1
            candidate.voiced_end = self._now
        if candidate.voiced >= candidate.needed:
            prefix = self._detection.prefix_ms * RATE // 1000
            start = max(self._floor, candidate.at - prefix)
            self._candidate = None
            self._turn = _Turn(start=start, partial_at=candidate.at)
            return [Started(start)]
        quiet = self._now - candidate.voiced_end
        if quiet >= _DROP_AFTER or self._now - candidate.at >= _ONSET_WINDOW:
            return self._close("silence")
        return []

    def _on(self, turn: _Turn, chunk: Chunk) -> list[Action]:
        threshold = self._detection.threshold
        probability = chunk.probability if chunk.passed else 0.0
        actions: list[Action] = []
        if probability >= threshold:
            if turn.pause is not None:
                actions.append(Resumed())
            turn.quiet, turn.pause, turn.asked, turn.probability = None, None, 0, 0.0
            if self._now - turn.partial_at >= max(PARTIAL, (self._now - turn.start) // 10):
                turn.partial_at = self._now
                actions.append(Partial(self._now))
        elif turn.quiet is None and probability < threshold - _HYSTERESIS:
            turn.quiet = chunk.at
        if turn.quiet is not None:
            actions += self._wait(turn, self._now - turn.quiet)
        if self._over(turn):
            actions += self._end("silence")
        elif self._now - turn.start >= LONGEST_TURN:
            actions += self._end("too_long")
        return actions

    def _wait(self, turn: _Turn, silence: int) -> list[Action]:
        actions: list[Action] = []
        if turn.pause is None and silence >= PAUSE:
            self._pauses += 1
            turn.pause = self._pauses
            actions.append(Pause(turn.pause, self._now))
        if turn.pause is None or self._detection.kind != "semantic":
            return actions
        for asked in PATIENCE[self._detection.eagerness].asked[turn.asked :]:
            if silence >= asked * RATE // 1000:
                turn.asked += 1
                actions.append(Judge(turn.pause, self._now))
        return actions

    def _over(self, turn: _Turn) -> bool:
        if turn.quiet is None:
            return False
        silence = self._now - turn.quiet
        if self._detection.kind == "server":
            return silence >= self._detection.silence_ms * RATE // 1000
        if turn.probability > 0.5 and silence >= self._minimum_silence:
            return True
        return silence >= PATIENCE[self._detection.eagerness].fallback * RATE // 1000

    def _close(self, cause: Cause) -> list[Action]:
        if self._candidate is not None:
            self._candidate = None
            return [OnsetDropped()]
        return self._end(cause)

    def _end(self, cause: Cause) -> list[Action]:
        turn, self._turn = self._turn, None
        if turn is None:
            return []
        self._floor = self._now
        return [Ended(turn.start, self._now, turn.pause, cause)]
