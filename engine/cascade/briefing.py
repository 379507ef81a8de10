"""What a session knows when a reply is to be made: the conversation, and what its turns say."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from msgspec.structs import replace

from engine.cascade.prompt import prompt_ahead, prompt_for, turns_of
from engine.cascade.reply import Brief
from engine.contract import Context, Respond, Settings

_KEPT = 8
"""Turns whose words are kept although no message holds them (yet)."""


@dataclass(slots=True)
class Said:
    """A turn that ended."""

    text: asyncio.Future[str]
    """Its words, once they are known; a :class:`StageError` where they never will be."""
    spoken_at: float
    """``time.monotonic()`` of its last speech."""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds by stage."""


class SaidTurns:
    """The turns that ended, and their words."""

    def __init__(self) -> None:
        self._turns: dict[str, Said] = {}

    def end(self, turn: str, spoken_at: float) -> Said:
        """Turn ``turn`` ended; its words are to be set on the result."""
        said = Said(asyncio.get_running_loop().create_future(), spoken_at)
        said.text.add_done_callback(lambda text: text.cancelled() or text.exception())
        self._turns[turn] = said
        return said

    def get(self, turn: str | None) -> Said | None:
        """Turn ``turn``, if it is known."""
        return None if turn is None else self._turns.get(turn)

    def keep(self, turns: set[str]) -> None:
        """Forgets the turns that are neither among ``turns`` nor of the newest."""
        for turn in list(self._turns)[:-_KEPT]:
            if turn not in turns:
                del self._turns[turn]

    def texts(self) -> dict[str, str]:
        """What is known, by turn."""
        return {
            turn: said.text.result()
            for turn, said in self._turns.items()
            if said.text.done() and not said.text.cancelled() and said.text.exception() is None
        }


class Briefing:
    """Says what a reply is to be made from.

    Args:
        voices: the voices there are, the default first; empty where any name may be one.
    """

    def __init__(
        self, turns: SaidTurns, voices: tuple[str, ...], caller: str, history: int
    ) -> None:
        self._turns = turns
        self._voices = voices
        self._caller = caller
        self._history = history
        self._settings = Settings(id="")
        self._context = Context(revision=0)
        self._like = Respond(reply="", revision=0)

    @property
    def caller_is_next(self) -> bool:
        """Whether nothing in the conversation waits for a reply."""
        messages = self._context.messages
        return not messages or messages[-1].role == "assistant"

    def configure(self, settings: Settings) -> None:
        """Takes the voice and the role that hold where a context names none."""
        self._settings = settings

    def learn(self, context: Context) -> None:
        """Takes the conversation as it stands now."""
        instructions = context.instructions or self._settings.instructions
        self._context = replace(context, instructions=instructions)
        self._turns.keep(turns_of(context.messages))

    async def of(self, respond: Respond) -> Brief:
        """The brief of the reply that is asked for, once the words of its turns are known.

        Raises:
            StageError: the turn it answers could not be recognised.
        """
        if respond.verbatim is None:
            await self._words_of(respond)
            if respond.messages is None:
                self._like = respond
        return Brief(
            prompt=prompt_for(
                self._context,
                respond,
                self._turns.texts(),
                caller=self._caller,
                history=self._history,
            ),
            voice=self._voice(respond.voice),
            modality=respond.modality,
            verbatim=respond.verbatim,
        )

    def ahead(self, said: str) -> Brief:
        """The brief of the reply to come if the caller's turn ends with ``said``."""
        prompt = prompt_ahead(
            self._context,
            said,
            self._turns.texts(),
            caller=self._caller,
            like=self._like,
            history=self._history,
        )
        return Brief(prompt=prompt, voice=self._voice(None), modality=self._like.modality)

    def apology(self, respond: Respond) -> Brief:
        """The brief of a reply that can only say what went wrong."""
        empty = prompt_for(Context(revision=0), respond, {}, caller=self._caller)
        return Brief(empty, self._voice(respond.voice), respond.modality)

    async def _words_of(self, respond: Respond) -> None:
        messages = self._context.messages if respond.messages is None else respond.messages
        for turn in turns_of(messages) | ({respond.turn} if respond.turn else set()):
            if (said := self._turns.get(turn)) is not None:
                await asyncio.wait([said.text])
                if turn == respond.turn and (error := said.text.exception()) is not None:
                    raise error

    def _voice(self, wanted: str | None) -> str:
        voice = wanted or self._context.voice or self._settings.voice
        if not self._voices or voice in self._voices:
            return voice
        return self._voices[0]
