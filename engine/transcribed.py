"""A model that listens and speaks at once, and beside it an engine that says what callers said.

A full-duplex model keeps the words of its callers to itself. ``Transcribed(engine, recogniser)`` is
``engine`` with the turns and transcripts of ``recogniser``, an engine that is only listened with:
both hear everything, the engine's events are passed on as they are, and what the recogniser tells
of turns comes between them, at ticks, on the engine's own positions. Nobody is told of onsets: the
model hears for itself when to yield.

The two have processes and places of their own, and the recogniser's trouble is never the engine's.
Where it has no place, is lost or fails, the session goes on without transcripts and says so, once:
its open turns end, as dropped or as not transcribed, and a ``Fault`` of the code
``transcripts_shed`` follows, which no ``Closed`` follows. A recogniser that is slow drops sound; it
holds up nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

import structlog
from msgspec.structs import replace

from engine.audio.pcm import floats
from engine.audio.resample import Resampler
from engine.contract import (
    Applied,
    Clear,
    Close,
    Closed,
    Commit,
    Engine,
    EngineBusy,
    EngineError,
    EngineInfo,
    EngineSession,
    Event,
    Fault,
    Onset,
    OnsetDropped,
    Order,
    Refused,
    SessionEnded,
    Sound,
    SpeechStarted,
    SpeechStopped,
    State,
    TranscriptCompleted,
    TranscriptDelta,
    TranscriptFailed,
    TurnDropped,
    TurnEnded,
)
from engine.open_turns import OpenTurns

SHED = "transcripts_shed"
"""The code of the fault that says that a session has no transcripts from here on."""
_PATIENCE = 1.0
"""Seconds that a caller waits for a place with the recogniser."""
_OF_TURNS = (
    Onset
    | OnsetDropped
    | SpeechStarted
    | SpeechStopped
    | TurnEnded
    | TurnDropped
    | TranscriptDelta
    | TranscriptCompleted
    | TranscriptFailed
)

log = structlog.get_logger(__name__)


class Transcribed:
    """``engine``, with the transcripts of ``recogniser``.

    Args:
        engine: replies by itself at a clock's ticks, and gives no transcripts.
        recogniser: an engine that finds turns and transcribes them, and replies when told: never.
    """

    def __init__(self, engine: Engine, recogniser: Engine) -> None:
        self._engine = engine
        self._recogniser = recogniser
        self._hears = False
        self._shed = 0

    @property
    def info(self) -> EngineInfo:
        """See ``Engine``: the engine's facts, with transcripts where the recogniser has started."""
        info = self._engine.info
        if not self._hears:
            return info
        languages = self._recogniser.info.languages
        return replace(info, languages=languages, can=replace(info.can, transcripts=True))

    @property
    def state(self) -> State:
        """See ``Engine``; degraded while the recogniser cannot be had."""
        state = self._engine.state
        return "degraded" if state == "ready" and self._recogniser.state != "ready" else state

    async def start(self) -> None:
        """See ``Engine``. A recogniser that cannot start is no error: there are no transcripts."""
        await self._engine.start()
        info = self._engine.info
        if info.tick is None or info.can.transcripts:
            await self.stop()
            raise EngineError(
                f"transcriber: {info.name}: expected an engine with a clock and no transcripts"
            )
        try:
            await self._recogniser.start()
            _check(self._recogniser.info)
        except EngineError as error:
            log.error("no transcripts: the transcriber cannot be started", reason=str(error))
            await self._recogniser.stop()
        else:
            self._hears = True

    async def open(self) -> EngineSession:
        """See ``Engine``. A place with the recogniser is asked for, and may be refused."""
        session = await self._engine.open()
        if not self._hears:
            return session
        rates = self._engine.info.input_rate, self._recogniser.info.input_rate
        ear = _Ear(*rates, self._count_shed)
        try:
            async with asyncio.timeout(_PATIENCE):
                ear.begin(await self._recogniser.open())
        except EngineBusy:
            ear.lose("every place with the transcriber is taken")
        except TimeoutError:
            ear.lose(f"the transcriber gave no place within {_PATIENCE:g} s")
        except EngineError as error:
            ear.lose(str(error))
        except BaseException:
            with contextlib.suppress(SessionEnded):
                session.order(Close())
            raise
        return _TranscribedSession(session, ear)

    def figures(self) -> Mapping[str, float]:
        """See ``Engine``: the engine's, the recogniser's as ``transcriber_...``, and the sessions
        that had to do without transcripts, or lost them."""
        theirs = self._recogniser.figures()
        return {
            **self._engine.figures(),
            **{f"transcriber_{name}": value for name, value in theirs.items()},
            SHED: float(self._shed),
        }

    async def stop(self) -> None:
        """See ``Engine``."""
        await self._engine.stop()
        await self._recogniser.stop()

    def _count_shed(self) -> None:
        self._shed += 1


def _check(info: EngineInfo) -> None:
    if info.replies == "by_itself" or not info.can.transcripts:
        raise EngineError(f"{info.name}: expected an engine that transcribes and replies when told")


class _TranscribedSession:
    """An ``EngineSession``: the engine's, with what the ear tells between its events."""

    def __init__(self, session: EngineSession, ear: _Ear) -> None:
        self._session = session
        self._ear = ear
        self._answered = False

    @property
    def room(self) -> int:
        """See ``EngineSession``."""
        return self._session.room

    def hear(self, pcm: Sound) -> int:
        """See ``EngineSession``."""
        room = self._session.hear(pcm)
        self._ear.hear(pcm)
        return room

    def order(self, order: Order) -> None:
        """See ``EngineSession``."""
        self._session.order(order)
        if isinstance(order, Commit | Clear | Close):
            self._ear.order(order)

    def listen(self, told: Callable[[Event], None]) -> None:
        """See ``EngineSession``. The ear is heard from once the first settings are answered."""
        self._session.listen(partial(self._pass_on, told))

    def _pass_on(self, told: Callable[[Event], None], event: Event) -> None:
        if isinstance(event, _OF_TURNS):
            return
        if isinstance(event, Closed):
            self._ear.end()
            self._answered = True
        while self._answered and self._ear.told:
            told(self._ear.told.popleft())
        told(event)
        if isinstance(event, Applied):
            self._ear.order(replace(event.effective, voice="", instructions="", replies=False))
        self._answered = self._answered or isinstance(event, Applied | Refused)


class _Ear:
    """One caller's place with the recogniser, seen from the engine's side.

    Args:
        ours: Hz, of the sound it is given.
        theirs: Hz, of the sound that the recogniser takes.
        lost: is called once, if there is no place, or it is lost.
    """

    def __init__(self, ours: int, theirs: int, lost: Callable[[], None]) -> None:
        self.told: deque[Event] = deque()
        """What is to be passed on."""
        self._ours, self._theirs = ours, theirs
        self._resampler = Resampler(ours, theirs)
        self._lost = lost
        self._turns = OpenTurns()
        self._place: EngineSession | None = None

    def begin(self, place: EngineSession) -> None:
        """Listens with ``place``."""
        self._place = place
        place.listen(self._take)

    def lose(self, why: str) -> None:
        """Listens no more, and says so."""
        self._settle("the transcriber was lost")
        self.told.append(
            Fault(code=SHED, message=f"this session has no transcripts from here on: {why}")
        )
        self._lost()

    def end(self) -> None:
        """The session is over; safe to call twice."""
        self._give(Close())
        self._settle("the session ended")

    def hear(self, pcm: Sound) -> None:
        """Passes sound on."""
        if self._place is not None:
            with contextlib.suppress(SessionEnded):
                self._place.hear(self._resampler.push(floats(pcm)))

    def order(self, order: Order) -> None:
        """Passes an order on; a turn that is committed ends, come what may."""
        if isinstance(order, Commit):
            self._turns.commit(order.turn)
        self._give(order)
        if self._place is None:
            self.told += self._turns.settle("")

    def _give(self, order: Order) -> None:
        if self._place is not None:
            with contextlib.suppress(SessionEnded):
                self._place.order(order)

    def _take(self, event: Event) -> None:
        """The recogniser's next event; what it tells of a session that has ended is not heard."""
        if self._place is None:
            return
        self._turns.take(event)
        if isinstance(event, Closed):
            self._place = None
            if event.reason == "closed":
                self._settle("the session ended")
            else:
                self.lose(event.message or event.reason)
        elif isinstance(event, _OF_TURNS) and not isinstance(event, Onset | OnsetDropped):
            self.told.append(self._placed(event))

    def _settle(self, message: str) -> None:
        self._place = None
        self.told += self._turns.settle(message)

    def _placed(self, event: Event) -> Event:
        """``event`` on the engine's positions; sound is heard as late as the resampler makes it."""
        match event:
            case SpeechStarted() | SpeechStopped():
                return replace(event, at=self._at(event.at))
            case TurnEnded():
                return replace(event, start=self._at(event.start), end=self._at(event.end))
            case _:
                return event

    def _at(self, position: int) -> int:
        return max(position * self._ours // self._theirs - self._resampler.delay, 0)
