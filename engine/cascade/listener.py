"""The listening half of a session: sound in, turns and what they say out.

Every chunk goes through the detector, the echo guard and the turn machine at once, a millisecond
in all. What the machine then asks for runs beside it: partial readings that warm the language
model, and at a pause the whole reading, the weighing of its words, and then the draft of a reply,
with the end-of-turn model beside it where the words leave a doubt. If the caller goes on, all of it
is thrown away.

A turn that ended is announced when its words are known, and in the order that turns were spoken.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

from engine.cascade import sentence
from engine.cascade.reading import Reading
from engine.cascade.stages import StageError
from engine.contract import (
    Onset,
    OnsetDropped,
    Settings,
    SpeechStarted,
    SpeechStopped,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
    TurnDropped,
    TurnEnded,
)
from engine.turns import machine
from engine.turns.echo import EchoGuard
from engine.turns.machine import CHUNK, LONGEST_TURN, PAUSE, RATE, Chunk, TurnMachine
from engine.turns.sound import CallerSound

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.cascade.briefing import Said, SaidTurns
    from engine.cascade.chain import Chain
    from engine.contract import Event, Samples

_REMEMBERED = LONGEST_TURN + 4 * RATE
"""Samples kept: the longest turn and a pre-roll."""


class Anticipation(Protocol):
    """What is done ahead of a turn's end."""

    def hear(self, said: str) -> None:
        """The caller, still speaking, has said ``said``."""

    def expect(self, said: str, *, weighed: bool = False) -> None:
        """The caller fell silent after ``said``: this is what a reply would answer.

        ``weighed``: :meth:`ends` will be asked for.
        """

    async def ends(self) -> float | None:
        """How likely what is expected ends there, as its words tell; None where they do not."""

    def forget(self) -> None:
        """The caller goes on."""


class Listener:
    """Hears one caller.

    Args:
        emit: takes the session's events.
        guard: knows what the caller may be hearing.
        turns: is told of turns that end, and of their words.
        minimum_silence: samples of silence before the end-of-turn model is believed.
    """

    def __init__(
        self,
        chain: Chain,
        emit: Callable[[Event], None],
        guard: EchoGuard,
        turns: SaidTurns,
        anticipation: Anticipation,
        minimum_silence: int,
    ) -> None:
        self._chain = chain
        self._emit = emit
        self._guard = guard
        self._turns = turns
        self._ahead = anticipation
        self._machine = TurnMachine(minimum_silence)
        self._ear = chain.detector.stream()
        self._sound = CallerSound(_REMEMBERED, CHUNK)
        self._settings = Settings(id="")
        self._reading: Reading | None = None
        self._found = ""
        self._start_at = 0
        self._taken = 0
        self._spoken_at = 0.0
        self._judged: float | None = None
        self._judging: asyncio.Task[None] | None = None
        self._announcing: list[asyncio.Task[None]] = []
        self._ending: dict[str, bool] = {}

    @property
    def position(self) -> int:
        """Input samples heard."""
        return self._sound.end

    @property
    def waits_for_sound(self) -> bool:
        """Whether an onset or a turn is open, which must not stay so when no sound comes."""
        return self._machine.open

    def configure(self, settings: Settings) -> None:
        """Listens as ``settings`` say; their ``turns`` are set."""
        self._settings = settings
        if settings.turns is not None:
            self._act(self._machine.configure(settings.turns))

    def hear(self, pcm: Samples) -> None:
        """Takes the next samples, at most a few chunks at a time."""
        self._sound.append(pcm)
        for at, chunk in self._sound.chunks():
            passed, speaking = self._guard.passes(chunk, at), self._guard.speaking(at)
            if self._machine.detection.kind != "none":
                heard = Chunk(at, self._ear.judge(chunk), passed, speaking)
                self._act(self._machine.step(heard))

    def skip(self, samples: int) -> None:
        """``samples`` of the caller's sound were lost."""
        self._sound.skip(samples)

    def expire(self) -> None:
        """No sound comes any more."""
        self._act(self._machine.expire())

    def commit(self, turn: str) -> None:
        """Everything since the last turn is turn ``turn``, ended now; of nothing: dropped.

        A turn found here that is not open any more has its end already.
        """
        start, open_turn = self._taken, self._reading
        if turn == self._found and open_turn is None:
            return
        reading = self._new_reading(turn)
        if open_turn is not None and open_turn.turn == turn:
            self._reading, reading = None, open_turn  # which has given out some of its words
            self._emit(SpeechStopped(turn=turn, at=self.position))
        self._reset()
        self._ahead.forget()
        if start == self.position:
            self._emit(TurnDropped(turn=turn))
            return
        reading.read_whole(self._sound.take(start, self.position))
        self._spoken_at = time.monotonic()
        self._finish(reading, start, self.position, asked=True)

    def clear(self) -> None:
        """Forgets what was heard since the last turn."""
        self._reset()
        self._ahead.forget()

    async def close(self) -> None:
        """Ends every turn: as dropped, or as not transcribed where it was announced."""
        if self._reading is not None:
            self._drop(self._reading)
        tasks = [task for task in (self._judging, *self._announcing) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for turn, announced in self._ending.items():
            if not announced:
                self._emit(TurnDropped(turn=turn))
            else:
                self._transcribed(TranscriptFailed(turn=turn, message="the session ended"))

    def _reset(self) -> None:
        self._stop_judging()
        self._act(self._machine.reset(self.position))
        self._ear.reset()
        self._taken = self.position

    def _act(self, actions: list[machine.Action]) -> None:
        for action in actions:
            match action:
                case machine.Onset(at):
                    self._emit(Onset(at=at))
                case machine.OnsetDropped():
                    self._emit(OnsetDropped())
                case machine.Started(at):
                    self._start(at)
                case machine.Partial(at):
                    self._read_part(at)
                case machine.Pause(at=at):
                    self._pause(at)
                case machine.Judge(pause, at):
                    self._ask(pause, at)
                case machine.Resumed():
                    self._resume()
                case machine.Ended():
                    self._end(action)

    def _new_reading(self, turn: str) -> Reading:
        def emit(event: Event) -> None:
            if self._settings.transcribe or not isinstance(event, TranscriptDelta):
                self._emit(event)

        return Reading(turn, self._chain.recogniser, self._settings, emit)

    def _start(self, at: int) -> None:
        self._ahead.forget()
        self._start_at = at
        self._found = f"turn_{uuid4().hex}"
        self._reading = self._new_reading(self._found)
        self._emit(SpeechStarted(turn=self._found, at=at))

    def _read_part(self, at: int) -> None:
        assert self._reading is not None
        self._reading.read_part(self._sound.take(self._start_at, at), self._ahead.hear)

    def _pause(self, at: int) -> None:
        assert self._reading is not None
        self._spoken_at = time.monotonic() - PAUSE / RATE
        take = self._sound.take(self._start_at, at)
        self._judged = None
        self._reading.read_whole(take, self._expect)

    def _expect(self, said: str) -> None:
        self._ahead.expect(said, weighed=self._machine.detection.kind == "semantic")

    def _ask(self, pause: int, at: int) -> None:
        assert self._reading is not None
        self._stop_judging()
        take = self._sound.take(self._start_at, at)
        self._judging = asyncio.create_task(self._judge(self._reading, pause, take))

    def _stop_judging(self) -> None:
        if self._judging is not None:
            self._judging.cancel()

    def _resume(self) -> None:
        assert self._reading is not None
        self._reading.void()
        self._stop_judging()
        self._ahead.forget()

    async def _judge(self, reading: Reading, pause: int, take: Samples) -> None:
        """Judges a pause by the words, and by the melody where they leave a doubt.

        Both need what was read: reading and the melody at once would share the cores and delay it.
        The verdict is there before the draft's first sound all the same.
        """
        await reading.read()
        began = time.monotonic()
        try:
            said = await reading.text()
            probability = sentence.verdict(said, await self._ahead.ends())
            if probability is None:
                probability = await self._chain.judge.judge(take)
        except StageError:
            return  # The longer silence decides.
        self._judged = time.monotonic() - began
        self._act(self._machine.judge(pause, probability))

    def _end(self, ended: machine.Ended) -> None:
        reading, self._reading = self._reading, None
        if reading is None:
            return
        self._emit(SpeechStopped(turn=reading.turn, at=ended.at))
        if ended.cause == "reset":
            self._drop(reading)
            return
        self._taken = ended.at
        if not reading.is_read:
            self._spoken_at = time.monotonic()
            take = self._sound.take(ended.start, ended.at)
            reading.read_whole(take, self._ahead.expect)
        self._finish(reading, ended.start, ended.at, asked=False)

    def _drop(self, reading: Reading) -> None:
        reading.void()
        self._stop_judging()
        self._ahead.forget()
        self._emit(TurnDropped(turn=reading.turn))

    def _finish(self, reading: Reading, start: int, end: int, *, asked: bool) -> None:
        said = self._turns.end(reading.turn, self._spoken_at)
        if self._judged is not None:
            said.timings["judge"] = self._judged
        self._ending[reading.turn] = False
        ended = TurnEnded(turn=reading.turn, start=start, end=end)
        self._announcing = [task for task in self._announcing if not task.done()]
        announcing = self._announce(reading, said, ended, asked, self._announcing[-1:])
        self._announcing.append(asyncio.create_task(announcing))

    async def _announce(
        self,
        reading: Reading,
        said: Said,
        ended: TurnEnded,
        asked: bool,
        previous: list[asyncio.Task[None]],
    ) -> None:
        turn, failure, text = reading.turn, "", ""
        if previous:
            await asyncio.wait(previous)
        if asked:
            self._ending[turn] = True
            self._emit(ended)
        try:
            text = await reading.text()
            said.timings["stt"] = reading.seconds
            said.text.set_result(text)
        except StageError as error:
            failure = str(error)
            said.text.set_exception(error)
        del self._ending[turn]
        if not asked and not text and not failure:
            self._emit(TurnDropped(turn=turn))
            return
        said.timings["turn"] = time.monotonic() - said.spoken_at
        if not asked:
            self._emit(ended)
        if failure:
            self._transcribed(TranscriptFailed(turn=turn, message=failure))
            return
        reading.finish(text)
        seconds = min(ended.end - ended.start, _REMEMBERED) / RATE
        self._transcribed(TranscriptCompleted(turn=turn, text=text, seconds=seconds))

    def _transcribed(self, event: Event) -> None:
        if self._settings.transcribe:
            self._emit(event)
