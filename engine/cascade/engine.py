"""The cascade: speech to text, a language model, text to speech; by default all of it embedded.

Beside a model that does not say what it heard, it only listens: it has the first of the three.

Starting loads the models and leads one spoken turn through them, with the engine's own voice as the
caller, so that the first real caller is served at full speed.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from engine.audio.resample import Resampler
from engine.cascade.chain import Chain, EmbeddedJudge
from engine.cascade.chat_endpoint import ChatEndpoint
from engine.cascade.hibari import Hibari
from engine.cascade.listening import NoModel, NoVoice
from engine.cascade.llama import Llama
from engine.cascade.moonshine import Moonshine
from engine.cascade.options import ModelStage, Options, VoiceStage, options_from
from engine.cascade.session import CascadeSession
from engine.cascade.speech_endpoint import SpeechEndpoint
from engine.cascade.stages import StageError
from engine.contract import (
    Abilities,
    Close,
    Context,
    EngineBusy,
    EngineError,
    EngineInfo,
    EngineUnavailable,
    Message,
    Played,
    ReplyAudio,
    ReplyEnded,
    Respond,
    Settings,
    State,
    Turn,
    TurnDetection,
    TurnDropped,
    TurnEnded,
)
from engine.reading import read
from engine.turns.machine import CHUNK, RATE
from engine.turns.silero import SileroDetector
from engine.turns.smart_turn import SmartTurn
from engine.weights import paths

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engine.cascade.stages import LanguageModel, Voice

_REHEARSAL = "Hello, how are you today?"
_REHEARSAL_LIMIT = 60.0
"""Seconds; it takes three or four."""
_RETRY = 10.0
"""Seconds after which a caller who found no place may ask again: calls last minutes."""


class CascadeEngine:
    """The engine (:class:`engine.contract.Engine`).

    Args:
        options: see :class:`engine.cascade.options.Options`.

    Raises:
        EngineError: an option is not understood.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options_from(options)
        self._state: State = "starting"
        self._chain: Chain | None = None
        self._sessions: set[CascadeSession] = set()

    @property
    def info(self) -> EngineInfo:
        """Its facts; whole once ``start`` has returned."""
        chain, options = self._chain, self._options
        return EngineInfo(
            name="cascade",
            input_rate=RATE,
            output_rate=chain.voice.rate if chain else 24_000,
            voices=chain.voice.voices if chain else (),
            models=("cascade",),
            languages=chain.recogniser.languages if chain else (),
            capacity=options.capacity,
            ahead=options.ahead,
            can=Abilities(
                text=not options.listens_only,
                tools=chain is not None and chain.model.tools,
                transcripts=True,
                instructions=not options.listens_only,
                drafts=chain is not None and chain.model.warms,
            ),
        )

    @property
    def state(self) -> State:
        """Whether it can take callers."""
        return self._state

    async def start(self) -> None:
        """Loads the models and leads one spoken turn through them, where it speaks.

        Raises:
            EngineError: a model cannot be had or does not work; the message says what to do.
        """
        try:
            chain = await asyncio.to_thread(chain_of, self._options)
            await chain.start()
            self._chain = chain
            async with asyncio.timeout(_REHEARSAL_LIMIT):
                await self._rehearse(chain)
        except StageError as error:
            await self.stop()
            raise EngineError(error.for_operator) from error
        except (EngineError, TimeoutError) as error:
            await self.stop()
            raise EngineError(str(error) or "the rehearsal of a turn did not end") from error
        self._state = "ready"

    async def open(self) -> CascadeSession:
        """Takes a place for one caller.

        Raises:
            EngineBusy: every place is taken.
            EngineUnavailable: it is not ready.
        """
        if self._chain is None or self._state != "ready":
            raise EngineUnavailable(f"the engine is {self._state}")
        if len(self._sessions) >= self._options.capacity:
            raise EngineBusy(_RETRY)
        return self._open(self._chain)

    def figures(self) -> Mapping[str, float]:
        """How many callers it has."""
        return {"sessions": float(len(self._sessions))}

    async def stop(self) -> None:
        """Closes every session and frees what it holds; safe to call twice."""
        for session in list(self._sessions):
            await session.close()
        if self._chain is not None:
            await self._chain.stop()
            self._chain = None
        self._state = "failed"

    def _open(self, chain: Chain) -> CascadeSession:
        session = CascadeSession(
            chain,
            uuid4().hex,
            minimum_silence=self._options.minimum_silence_ms * RATE // 1000,
            history=self._options.messages,
            ahead=self._options.ahead,
            closed=self._sessions.discard,
        )
        self._sessions.add(session)
        return session

    async def _rehearse(self, chain: Chain) -> None:
        """One spoken turn, as a caller would have it; where requests are billed, only heard.

        Without a voice to speak it, what listens runs once.
        """
        if self._options.listens_only:
            chain.detector.stream().judge(np.zeros(CHUNK, np.float32))
            await chain.judge.judge(np.zeros(RATE, np.float32))
            return
        spoken = [part.pcm async for part in chain.voice.speak(_REHEARSAL, "")]
        sound = Resampler(chain.voice.rate, RATE).push(np.concatenate(spoken))
        session = self._open(chain)
        session.order(Settings(id="", turns=TurnDetection(kind="semantic")))
        for part in (sound, np.zeros(2 * RATE, np.float32)):
            session.hear(part)
        failure, played = "", 0
        async for event in read(session):
            if isinstance(event, TurnEnded) and chain.model.warms:
                heard = Message(role="user", parts=(Turn(turn=event.turn),))
                session.order(Context(revision=1, messages=(heard,)))
                session.order(Respond(reply="rehearsal", revision=1, turn=event.turn))
            elif isinstance(event, ReplyAudio):
                played += len(event.pcm)
                session.order(Played(reply=event.reply, samples=played))
            elif isinstance(event, TurnEnded | TurnDropped | ReplyEnded):
                session.order(Close())
            if isinstance(event, ReplyEnded) and event.reason == "failed":
                failure = event.message
        if failure:
            raise EngineError(failure)


def chain_of(options: Options) -> Chain:
    """The chain that ``options`` describe, its detectors loaded. Blocks."""
    weights = paths()
    return Chain(
        SileroDetector(weights.silero),
        EmbeddedJudge(SmartTurn(weights.smart_turn)),
        Moonshine(weights.moonshine, options.threads),
        NoModel()
        if options.listens_only
        else _model(options.llm, weights.smollm2, options.capacity),
        NoVoice() if options.listens_only else _voice(options.tts),
    )


def _model(stage: ModelStage, embedded: Path, callers: int) -> LanguageModel:
    if not stage.url:
        own = Path(stage.model) if stage.model else None
        return Llama(own or embedded, callers=callers, chatml=own is None)
    return ChatEndpoint(
        stage.url,
        stage.model,
        key=stage.key,
        extra_body=stage.extra_body,
        timeout=stage.timeout,
    )


def _voice(stage: VoiceStage) -> Voice:
    if not stage.url:
        return Hibari()
    return SpeechEndpoint(
        stage.url,
        stage.model,
        (stage.voice, *stage.voices),
        key=stage.key,
        extra_body=stage.extra_body,
        timeout=stage.timeout,
    )
