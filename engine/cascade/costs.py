"""What each stage costs when it runs alone: the floor under every turn.

The stages are measured one after another over sentences in the engine's own voice, so that a
bench can show beside a turn's times what of them is the models' and what is waiting.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Mapping
from contextlib import aclosing
from typing import Any

import numpy as np

from engine.audio.resample import Resampler
from engine.cascade.chain import Chain
from engine.cascade.engine import chain_of
from engine.cascade.options import options_from
from engine.cascade.stages import Prompt, Recognition
from engine.contract import Message, Samples, Text
from engine.turns.machine import CHUNK, RATE

_SENTENCES = (
    "What is the capital of France, and how large is it?",
    "Could you recommend something quiet to read this evening?",
    "My flight was cancelled because of the storm last night.",
    "Please remind me to call my mother when I get home.",
    "How many planets are there in the solar system?",
)
_CLAUSE = "The capital of France is"


async def costs(options: Mapping[str, Any]) -> dict[str, list[float]]:
    """Seconds by stage: ``detector`` (a chunk of 32 ms), ``stt`` (a whole turn), ``stt_after``
    (the same after a partial reading), ``judge``, ``llm_first`` (first words, the prompt warm but
    for its last words), ``tts_first`` (a first clause).

    Raises:
        EngineError: the models cannot be had.
        StageError: one of them failed.
    """
    chain = chain_of(options_from(options))
    await chain.start()
    took: dict[str, list[float]] = {}

    async def measure(stage: str, work: Awaitable[Any]) -> Any:
        began = time.perf_counter()
        result = await work
        took.setdefault(stage, []).append(time.perf_counter() - began)
        return result

    try:
        for sentence in _SENTENCES:
            sound = await _said(chain, sentence)
            await measure("detector", _detect(chain, sound))
            partial: Recognition = await chain.recogniser.transcribe(sound[: len(sound) * 4 // 5])
            await measure("stt", chain.recogniser.transcribe(sound))
            await measure("stt_after", chain.recogniser.transcribe(sound, before=partial))
            await measure("judge", chain.judge.judge(sound))
            if chain.model.warms:
                await chain.model.warm(_prompt(" ".join(sentence.split()[:-2])))
            await measure("llm_first", _first_words(chain, _prompt(sentence)))
            await measure("tts_first", _first_sound(chain))
    finally:
        await chain.stop()
    return {stage: times[1:] for stage, times in took.items()}


async def _said(chain: Chain, sentence: str) -> Samples:
    pieces = [part.pcm async for part in chain.voice.speak(sentence, chain.voice.voices[0])]
    return Resampler(chain.voice.rate, RATE).push(np.concatenate(pieces))


async def _detect(chain: Chain, sound: Samples) -> None:
    chain.detector.stream().judge(sound[:CHUNK])


async def _first_words(chain: Chain, prompt: Prompt) -> None:
    async with aclosing(chain.model.stream(prompt)) as words:
        await anext(words)


async def _first_sound(chain: Chain) -> None:
    async with aclosing(chain.voice.speak(_CLAUSE, chain.voice.voices[0])) as sound:
        await anext(sound)


def _prompt(said: str) -> Prompt:
    return Prompt(
        caller="costs",
        instructions="You are a friendly voice assistant. Answer in one or two short sentences.",
        messages=(Message(role="user", parts=(Text(text=said),)),),
    )
