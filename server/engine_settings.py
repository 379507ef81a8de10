"""Which speech engine answers, and where its stages run: settings that only the engine reads."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, SecretStr, field_validator

Options = Annotated[dict[str, Any], PlainSerializer(sorted, when_used="json")]
"""What only an engine understands, any of which may be secret: as JSON, for a log, their names."""


class Part(BaseModel):
    """A group of settings: what is not known is an error, and nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Stage(Part):
    """One stage of the engine: embedded where ``url`` is empty, else an endpoint."""

    url: str = Field(
        default="", description="Base URL of an OpenAI-compatible endpoint; empty: embedded."
    )
    key: SecretStr = Field(default=SecretStr(""), description="Key for that endpoint.")
    model: str = Field(default="", description="The model to use; empty: the engine's default.")
    extra_body: dict[str, Any] = Field(
        default={}, description="What else requests to the endpoint hold (JSON)."
    )
    timeout: float | None = Field(
        default=None, gt=0, description="Seconds the endpoint may take to begin, or to go on."
    )

    @field_validator("url")
    @classmethod
    def _http(cls, url: str) -> str:
        if url and not url.startswith(("http://", "https://")):
            raise ValueError("expected an address that begins with http:// or https://")
        return url

    def plain(self) -> dict[str, Any]:
        """What was set, the key in the clear."""
        set_ = self.model_dump() | {"key": self.key.get_secret_value()}
        return {name: value for name, value in set_.items() if value}


class VoiceStage(Stage):
    """The stage that speaks."""

    voice: str = Field(default="", description="The endpoint's voice where a client names none.")
    voices: tuple[str, ...] = Field(default=(), description="The endpoint's other voices.")


class Transcriber(Part):
    """The engine that says what callers said, beside a model that does not."""

    name: str = Field(
        default="",
        description="The engine that transcribes what callers say to one that does not (`cascade`);"
        " empty: none.",
    )
    options: Options = Field(default={}, description="What that engine is told (JSON).")


class EngineChoice(Part):
    """Which speech engine answers, and where its stages run."""

    name: str = Field(
        default="cascade", description="The engine's name; `parley models list` shows them."
    )
    llm: Stage = Field(default=Stage(), description="The language model.")
    tts: VoiceStage = Field(default=VoiceStage(), description="Text to speech.")
    options: Options = Field(
        default={}, description="What else the engine is told, as its own page describes (JSON)."
    )
    transcriber: Transcriber = Transcriber()

    def plain(self) -> dict[str, Any]:
        """The engine's options as it reads them: only what was set, secrets in the clear.

        What ``options`` say of a stage stands beside what was set of it here, which goes first.
        """
        plain = dict(self.options)
        if self.transcriber.name:
            plain["transcriber"] = self.transcriber.model_dump()
        for name, stage in (("llm", self.llm), ("tts", self.tts)):
            if told := stage.plain():
                other = plain.get(name)
                plain[name] = other | told if isinstance(other, dict) else told
        return plain
