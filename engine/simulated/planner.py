"""What a simulated engine is going to say: a function of its options, the context and the order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

import msgspec

from engine.audio.resample import Resampler
from engine.contract import Context, Message, Respond, Samples, Text, ToolCall, Turn, Usage
from engine.simulated.options import Line, Options
from engine.simulated.reply import Plan
from engine.simulated.speech import Word, laid_over, spoken, words


@dataclass(frozen=True, slots=True)
class Said:
    """A turn: what it says ("" where that is not known) and how it sounds."""

    text: str
    pcm: Samples


@dataclass(frozen=True, slots=True)
class Draft:
    """What was prepared ahead: the reply to ``turn`` over ``revision``, since time ``since``."""

    revision: int
    turn: str
    since: float

    def fits(self, order: Respond) -> bool:
        """Whether ``order`` asks for just this."""
        asked = (order.revision, order.turn, order.messages)
        return asked == (self.revision, self.turn, None)


class Planner:
    """Plans replies; the n-th that asks for the script gets its n-th line."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._lines = 0

    def plan(
        self, order: Respond, context: Context, turns: Mapping[str, Said], voice: str, wait: float
    ) -> Plan:
        """Plans the reply that ``order`` asks for."""
        if order.revision != context.revision:
            expected = f"expected {context.revision}, got {order.revision}"
            return Plan(reason="failed", message=f"revision: {expected}")
        if voice not in self._options.voices:
            return Plan(reason="failed", message=unknown_voice(self._options, voice))
        messages = context.messages if order.messages is None else order.messages
        line, sound = self._line(order, messages, turns)
        whole = len(words(line.text))
        count = whole if order.max_tokens is None else min(whole, order.max_tokens)
        calls = () if order.tool_choice == "none" else line.calls
        return Plan(
            words=islice(self._words(line.text, sound, voice), order.max_tokens),
            calls=tuple(
                ToolCall(
                    reply=order.reply,
                    call_id=f"call_{order.reply}_{index}",
                    name=call.name,
                    arguments=msgspec.json.encode(call.arguments).decode(),
                )
                for index, call in enumerate(calls)
            ),
            reason="completed" if count == whole else "length",
            usage=Usage(input_tokens=_tokens(context, messages), output_tokens=count),
            wait=wait,
        )

    def _line(
        self, order: Respond, messages: tuple[Message, ...], turns: Mapping[str, Said]
    ) -> tuple[Line, Samples | None]:
        """The text to say and, where it is an echo of a turn, the sound to say it with."""
        if order.verbatim is not None:
            return Line(text=order.verbatim), None
        if self._options.mode == "scripted":
            self._lines += 1
            return self._options.script[(self._lines - 1) % len(self._options.script)], None
        said = turns.get(order.turn or "")
        if order.messages is None and said is not None:
            return Line(text=said.text), said.pcm
        return Line(text=_last_words(messages, turns)), None

    def _words(self, text: str, sound: Samples | None, voice: str) -> Iterable[Word]:
        rate = self._options.output_rate
        if sound is None:
            return spoken(text, rate, 1.0 + 0.5 * self._options.voices.index(voice))
        resampler = Resampler(self._options.input_rate, rate)
        return laid_over(text, resampler.push(sound))


def unknown_voice(options: Options, voice: str) -> str:
    """How a voice is refused."""
    return f"voice: expected one of {', '.join(options.voices)}, got {voice}"


def drafted(context: Context, now: float) -> Draft | None:
    """The reply worth preparing: to the turn that the context ends with."""
    last = context.messages[-1] if context.messages else None
    if last is not None and last.role == "user" and last.parts:
        part = last.parts[-1]
        if isinstance(part, Turn):
            return Draft(context.revision, part.turn, now)
    return None


def _last_words(messages: tuple[Message, ...], turns: Mapping[str, Said]) -> str:
    """What the last user message says."""
    for message in reversed(messages):
        if message.role == "user":
            parts = (
                part.text if isinstance(part, Text) else turns[part.turn].text
                for part in message.parts
                if isinstance(part, Text) or part.turn in turns
            )
            return " ".join(parts)
    return ""


def _tokens(context: Context, messages: tuple[Message, ...]) -> int:
    """A word of text, or a turn, is a token."""
    parts = [part for message in messages for part in message.parts]
    texts = [part.text for part in parts if isinstance(part, Text)]
    written = len(words(" ".join([context.instructions, *texts])))
    return written + sum(isinstance(part, Turn) for part in parts)
