"""Everything an operator can set, in one typed object.

A value comes from the command line, else from the environment (``PARLEY_PORT``, nested names with
two underscores: ``PARLEY_ENGINE__LLM__URL``), else from the TOML file named by ``--config``, else
from its default here. The descriptions below are the help text of ``parley serve --help``. A key
that is not known is an error that names it: a misspelt setting must not be a silent one.
"""

from __future__ import annotations

import ipaddress
import os
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    CliApp,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from server.engine_settings import EngineChoice, Part
from server.webrtc_settings import WebRtc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PREFIX = "PARLEY_"
_PROMPTS = ("greeting", "instructions")
"""What the service is told to say is content: its length is shown, never its words."""


_LAST_PORT = 65_535
_NOT_SETTINGS = ("cache", "key")
"""What else is read from ``PARLEY_*``: where weights are kept, before there are settings, and what
``parley talk`` shows."""


class SettingsProblem(Exception):
    """The settings cannot be used; the message names each key at fault, and shows no secret."""


class Limits(Part):
    """How long things may take, in seconds, and how much callers may use.

    A caller is an API key, and an address too; programs on this machine itself count by their key
    only.
    """

    setup: float = Field(default=10.0, gt=0, description="From the answer to a connected call.")
    idle: float = Field(
        default=300.0, gt=0, description="Without speech or a client event; then it ends."
    )
    grace: float = Field(
        default=20.0,
        ge=0,
        description="That a session waits for a caller who was lost to come back; 0: it ends.",
    )
    session: float = Field(default=3600.0, gt=0, description="Longest session.")
    drain: float = Field(
        default=30.0, ge=0, description="For running sessions to end after SIGTERM."
    )
    load: float = Field(
        default=0.85,
        gt=0,
        le=1,
        description="Share of a core that a process may use and still take new sessions, so that "
        "all stay in time; 1: whatever it uses.",
    )
    caller_sessions: int = Field(
        default=20, ge=1, description="Sessions at once, per API key and per address."
    )
    caller_starts: float = Field(
        default=120.0,
        gt=0,
        description="Session starts per minute, per API key and per address; coming back is one.",
    )
    caller_audio: float = Field(
        default=1200.0,
        gt=0,
        description="Seconds of sound per minute, per API key and per address; more is slowed.",
    )


class Names(Part):
    """Names that stock clients send, and the local ones they mean; ``*`` matches anything.

    An empty local name is the engine's default. Clients get their own spelling back.
    """

    models: dict[str, str] = Field(
        default={
            "parley": "",
            "gpt-realtime": "",
            "gpt-realtime*": "",
            "gpt-4o*-realtime*": "",
            "gpt-live*": "",
        },
        description="Models, as asked for by `model=`.",
    )
    voices: dict[str, str] = Field(
        default=dict.fromkeys(
            (
                *("alloy", "ash", "ballad", "cedar", "coral", "echo", "marin", "sage", "verse"),
                *("beacon", "bossa", "cinder", "delta", "gleam", "meridian", "quartz", "ripple"),
                *("shida", "shimmer", "stone", "tempo", "vesper", "willow"),
            ),
            "",
        ),
        description="Voices.",
    )
    transcription: dict[str, str] = Field(
        default={"whisper-1": "", "gpt-*transcribe*": "", "gpt-realtime-whisper*": ""},
        description="Transcription models.",
    )


def local_name(table: Mapping[str, str], name: str) -> str | None:
    """The local name that ``name`` means by ``table``, or None where it is not in it."""
    if name in table:
        return table[name]
    return next((local for known, local in table.items() if fnmatchcase(name, known)), None)


class ServerSettings(BaseSettings):
    """Serve voice sessions to browsers (WebRTC) and programs (WebSocket)."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        cli_kebab_case=True,
        cli_implicit_flags=True,
        cli_hide_none_type=True,
        cli_avoid_json=True,
        cli_prog_name="parley serve",
        cli_exit_on_error=False,
    )

    config: Path | None = Field(default=None, description="TOML file with any of these settings.")
    host: str = Field(
        default="127.0.0.1",
        description="Address to listen on. Anything but loopback asks callers for a key.",
    )
    port: int = Field(
        default=8300, ge=0, le=65535, description="Port to listen on; 0 picks a free one."
    )
    engine: EngineChoice = EngineChoice()
    capacity: int | None = Field(
        default=None, ge=1, description="Sessions at once; by default what the engine can carry."
    )
    greeting: str = Field(
        default="", description="Said to every caller first; empty: the caller begins."
    )
    instructions: str = Field(
        default="You are a friendly voice assistant. Answer briefly, in plain spoken words.",
        description="The role of the assistant, where a client sets none.",
    )
    names: Names = Names()
    limits: Limits = Limits()
    token: SecretStr | None = Field(
        default=None,
        description="Token in the page's link; by default made at start where keys are needed.",
    )
    keys_file: Path | None = Field(
        default=None,
        description="File that `parley keys` keeps API keys in; by default with the state.",
    )
    allowed_origins: tuple[Annotated[str, Field(pattern=r"^https?://[^/]+/?$")], ...] = Field(
        default=(),
        description="Web origins besides our own whose pages may call (https://example.org).",
    )
    allowed_hosts: tuple[Annotated[str, Field(pattern=r"^([^/:]+|\[[^/]+\])$")], ...] = Field(
        default=(),
        description="Host names besides our address that we answer to (voice.example.org).",
    )
    trusted_proxies: tuple[str, ...] = Field(
        default=(),
        description="Networks of proxies whose X-Forwarded headers are believed (10.0.0.0/8).",
    )
    tls: Literal["off", "self-signed"] = Field(
        default="off", description="Serve https with a self-signed certificate, made once."
    )
    tls_cert: Path | None = Field(
        default=None, description="Serve https with this certificate chain, PEM."
    )
    tls_key: Path | None = Field(default=None, description="The certificate's private key, PEM.")
    webrtc: WebRtc = WebRtc()
    page: bool = Field(default=True, description="Serve the web page at /.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe lines to log."
    )
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto", description="Lines for machines or people; auto: people on a terminal."
    )
    media_workers: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Processes that have the sessions; 0: the one that answers requests has them.",
    )
    single_process: bool = Field(
        default=False, description="Run the engine inside the server's process (for debugging)."
    )

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        for network in networks:
            ipaddress.ip_network(network)
        return networks

    @property
    def media_port(self) -> int:
        """The UDP port of all calls; 0: a free one."""
        return self.port if self.webrtc.port is None else self.webrtc.port

    def of_worker(self, index: int) -> ServerSettings:
        """The settings of media worker ``index``: its calls have ports of their own, in and out,
        each one's first plus ``index``.
        """
        port = self.media_port + index if self.media_port else 0
        return self.model_copy(update={"webrtc": self.webrtc.moved(port, index)})

    @model_validator(mode="after")
    def _certificate(self) -> ServerSettings:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert, tls_key: expected both or neither")
        return self

    @model_validator(mode="after")
    def _processes(self) -> ServerSettings:
        if self.single_process and self.media_workers:
            raise ValueError("single_process, media_workers: expected at most one of them")
        return self

    @model_validator(mode="after")
    def _ports(self) -> ServerSettings:
        most = _LAST_PORT - max(0, self.media_workers - 1)
        for key, port in (
            ("port" if self.webrtc.port is None else "webrtc.port", self.media_port),
            *(("webrtc.public_addresses", told) for told in self.webrtc.told_ports),
        ):
            if port > most:
                workers = f"{self.media_workers} media workers, which count up from it"
                raise ValueError(f"{key}: expected at most {most} with {workers}, got {port}")
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment goes before the file, which :func:`load` passes as arguments."""
        return env_settings, init_settings


def load(arguments: Sequence[str]) -> ServerSettings:
    """The settings that the command line, the environment and the file make together.

    Raises:
        SettingsProblem: one of them is not known, or holds something that cannot be used.
        SystemExit: ``--help`` was asked for.
    """
    _check_environment()
    try:
        return CliApp.run(
            ServerSettings, cli_args=list(arguments), **_file(_config_path(arguments))
        )
    except ValidationError as problem:
        raise SettingsProblem("\n".join(map(_explain, problem.errors()))) from None
    except SettingsError as problem:
        raise SettingsProblem(str(problem).removeprefix("error parsing CLI: ")) from None


def shown(settings: ServerSettings) -> dict[str, Any]:
    """What differs from the defaults, fit for a log: no secret, prompt or engine's option.

    A URL may hold a password or a key, and what an endpoint or engine is told anything at all.
    """
    plain = settings.model_dump(mode="json", exclude_defaults=True)
    for name in _PROMPTS:
        if name in plain:
            plain[name] = f"{len(plain[name])} characters"
    engine = plain.get("engine", {})
    for stage in (engine[name] for name in ("llm", "tts") if name in engine):
        if "extra_body" in stage:
            stage["extra_body"] = sorted(stage["extra_body"])
        if "url" in stage:
            stage["url"] = _origin(stage["url"])
    return plain


def _origin(url: str) -> str:
    """The scheme, host and port of ``url``."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        host = ""
    return f"{parts.scheme}://{host}" if host else "(not a URL)"


def _config_path(arguments: Sequence[str]) -> str | None:
    for position, argument in enumerate(arguments):
        if argument.startswith("--config="):
            return argument.removeprefix("--config=")
        if argument == "--config" and position + 1 < len(arguments):
            return arguments[position + 1]
    return os.environ.get(f"{_PREFIX}CONFIG")


def _file(path: str | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise SettingsProblem(f"--config: cannot read {path}: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise SettingsProblem(f"--config: {path} is not TOML: {problem}") from None


def _check_environment() -> None:
    for name in os.environ:
        if name.upper().startswith(_PREFIX):
            field = name.upper().removeprefix(_PREFIX).split("__")[0].lower()
            if field not in (*ServerSettings.model_fields, *_NOT_SETTINGS):
                raise SettingsProblem(f"{name}: no such setting (environment)")


def _explain(problem: Mapping[str, Any]) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{key}: no such setting"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{key}: {message}" if key else message
