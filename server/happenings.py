"""What a session tells its protocol adapters, in order, independent of any protocol.

An adapter renders happenings into its protocol's events and adds nothing of its own: order, ids
and exactly-once are the session's. Times are whole milliseconds of the caller's sound (samples
offered); ``Item`` and its states are :mod:`server.conversation`'s. Errors that answer a request
are not here: the request raises :class:`server.requests.RequestError`, and its sender alone hears.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from engine.contract import Modality, Sound, Usage
from server.conversation import Item

Activity = Literal["listening", "thinking", "speaking"]
Status = Literal["completed", "cancelled", "incomplete", "failed"]
Reason = Literal["turn_detected", "client_cancelled", "max_output_tokens", "session_ended"]


class _Happening(Struct, frozen=True):
    """Base of all happenings."""


class SettingsApplied(_Happening, frozen=True):
    """The update asked for with ``ref`` holds from here on."""

    ref: str


class SettingsRefused(_Happening, frozen=True):
    """The engine refused the update; what held before still holds."""

    ref: str
    param: str
    message: str


class SpeechStarted(_Happening, frozen=True):
    """The caller speaks; what is said will be item ``item``."""

    item: str
    at_ms: int


class SpeechStopped(_Happening, frozen=True):
    item: str
    at_ms: int


class InputCommitted(_Happening, frozen=True):
    """What the caller said is item ``item``; its ``ItemAdded`` and ``ItemDone`` follow at once."""

    item: str
    previous: str | None


class InputCleared(_Happening, frozen=True):
    """Sound not yet committed was forgotten: asked for, or because nothing was said in it."""


class Heard(_Happening, frozen=True):
    """The next of the caller's sound, at the engine's input rate (live sessions only)."""

    pcm: Sound


class KeyPressed(_Happening, frozen=True):
    """The caller pressed ``key`` (0-9, A-D, * or #) of a telephone, at unix second ``at``."""

    key: str
    at: int


class IdleTimedOut(_Happening, frozen=True):
    """Nothing was said for the set time; ``InputCommitted`` of ``item`` and a reply follow."""

    item: str
    start_ms: int
    end_ms: int


class ItemAdded(_Happening, frozen=True):
    item: Item
    previous: str | None


class ItemDone(_Happening, frozen=True):
    item: Item
    previous: str | None


class ItemDeleted(_Happening, frozen=True):
    item: str


class ItemTruncated(_Happening, frozen=True):
    """Reply item ``item`` now ends at what was heard: ``audio_end_ms`` of its sound."""

    item: str
    audio_end_ms: int


class TranscriptDelta(_Happening, frozen=True):
    item: str
    text: str


class TranscriptCompleted(_Happening, frozen=True):
    item: str
    text: str
    seconds: float


class TranscriptFailed(_Happening, frozen=True):
    item: str
    message: str


class _OfReply(_Happening, frozen=True, kw_only=True):
    """What is known of a reply from its beginning to its end."""

    reply: str
    modality: Modality
    voice: str
    max_tokens: int | None = None
    out_of_band: bool = False
    metadata: dict[str, str] | None = None


class ReplyStarted(_OfReply, frozen=True):
    """Reply ``reply`` begins; exactly one ``ReplyEnded`` ends it."""


class ReplyItemStarted(_Happening, frozen=True):
    """Output ``index`` of the reply begins: a message (empty so far) or a function call.

    Unless the reply is out of band the item is in the conversation, behind ``previous``.
    """

    reply: str
    index: int
    item: Item
    previous: str | None


class ReplyText(_Happening, frozen=True):
    """More of what a message says (an audio reply: its transcript)."""

    reply: str
    index: int
    item: str
    text: str
    start: int = 0
    end: int = 0
    """The reply's samples that speak it."""


class ReplyAudio(_Happening, frozen=True):
    """More of how a message sounds, mono at the engine's output rate; not told in live sessions."""

    reply: str
    index: int
    item: str
    pcm: Sound


class ReplyItemEnded(_Happening, frozen=True):
    """Output ``index`` is whole: ``item`` as it stands (``completed`` or ``incomplete``)."""

    reply: str
    index: int
    item: Item
    previous: str | None


class ReplyEnded(_OfReply, frozen=True, kw_only=True):
    """Nothing more is made of the reply (its sound may still be playing)."""

    status: Status
    reason: Reason | None
    error_code: str | None
    error_message: str | None
    output: tuple[Item, ...]
    usage: Usage
    heard_ms: int
    """Caller's sound that the reply answers, for usage."""
    spoken_ms: int
    """Sound made for it."""


class Sounded(_Happening, frozen=True):
    """The next sound has left for the caller, at the engine's output rate (live sessions only).

    It ends at sample ``end`` of reply ``reply``, or is silence of none; ``lost`` samples of silence
    belong before it.
    """

    pcm: Sound
    reply: str | None
    end: int
    lost: int = 0


class PlayoutStarted(_Happening, frozen=True):
    """The reply's first sound leaves for the caller (paced playout only)."""

    reply: str


class PlayoutStopped(_Happening, frozen=True):
    """All of the reply's sound has left (paced playout only)."""

    reply: str


class PlayoutCleared(_Happening, frozen=True):
    """What was left of the reply's sound was thrown away (paced playout only)."""

    reply: str


class ActivityChanged(_Happening, frozen=True):
    """What a person at the other end should see the service doing."""

    activity: Activity


class Faulted(_Happening, frozen=True):
    """Something failed on our side; ``fatal`` ends the session."""

    code: str
    message: str
    fatal: bool


class Ended(_Happening, frozen=True):
    """The session's last happening: why it ended."""

    reason: str


Happening: TypeAlias = (
    SettingsApplied
    | SettingsRefused
    | SpeechStarted
    | SpeechStopped
    | InputCommitted
    | InputCleared
    | Heard
    | KeyPressed
    | IdleTimedOut
    | ItemAdded
    | ItemDone
    | ItemDeleted
    | ItemTruncated
    | TranscriptDelta
    | TranscriptCompleted
    | TranscriptFailed
    | ReplyStarted
    | ReplyItemStarted
    | ReplyText
    | ReplyAudio
    | ReplyItemEnded
    | ReplyEnded
    | Sounded
    | PlayoutStarted
    | PlayoutStopped
    | PlayoutCleared
    | ActivityChanged
    | Faulted
    | Ended
)
