"""Where settings come from, and what is said when they cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.settings import ServerSettings, SettingsProblem, load, local_name, shown
from server.webrtc_settings import WebRtc


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "parley.toml"
    path.write_text('port = 9000\nhost = "0.0.0.0"\n[engine.llm]\nurl = "http://file/v1"\n')
    return path


def test_the_command_line_goes_before_the_environment_before_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_PORT", "9001")
    monkeypatch.setenv("PARLEY_ENGINE__LLM__MODEL", "of the environment")
    settings = load(["--config", str(file), "--engine.llm.model", "of the command line"])
    assert settings.host == "0.0.0.0"
    assert settings.port == 9001
    assert settings.engine.llm.url == "http://file/v1"
    assert settings.engine.llm.model == "of the command line"


def test_the_file_may_be_named_in_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLEY_CONFIG", str(file))
    assert load([]).port == 9000


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("portt = 1", "portt"),
        ("[engine.llm]\nurll = 'x'", "engine.llm.urll"),
        ("port = 'x'", "port"),
        ("tls_cert = 'x'", "tls_cert, tls_key"),
        ("trusted_proxies = ['10.0.0.0/99']", "trusted_proxies"),
        ("allowed_origins = ['example.org']", "allowed_origins.*https"),
        ("allowed_hosts = ['http://example.org']", "allowed_hosts"),
        ("[webrtc]\npublic_addresses = ['http://x']", "webrtc.public_addresses"),
        ("media_workers = 8\n[webrtc]\nport = 65530", "webrtc.port: expected at most 65528"),
        ("media_workers = 2\nport = 65535", "^port: expected at most 65534"),
        (
            "media_workers = 3\n[webrtc]\npublic_addresses = ['a.example', 'b.example:65534']",
            "webrtc.public_addresses: expected at most 65533 .* got 65534",
        ),
        ("[webrtc.sound]\npacket_ms = 15", "webrtc.sound.packet_ms"),
        ("[webrtc.sound]\nbitrate = 100", "webrtc.sound.bitrate"),
        ("[webrtc.sound]\ncomplexity = 11", "webrtc.sound.complexity"),
        ("[webrtc.sound]\nmode = 'music'", "webrtc.sound.mode"),
        ("[webrtc.sound]\nfec = true", "webrtc.sound.*: .*fec: expected mode"),
        ("= 1", "not TOML"),
    ],
)
def test_a_key_at_fault_in_the_file_is_named(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "parley.toml"
    path.write_text(text)
    with pytest.raises(SettingsProblem, match=key):
        load([f"--config={path}"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PARLEY_PROT", "1"),
        ("PARLEY_PORT", "x"),
        ("PARLEY_ENGINE__LLM__URLL", "x"),
        ("PARLEY_LIMITS__SESION", "1"),
    ],
)
def test_a_variable_at_fault_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    last = name.rpartition("__")[2] if "__" in name else name.removeprefix("PARLEY_")
    with pytest.raises(SettingsProblem, match=f"(?i){last}"):
        load([])


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsProblem, match="cannot read"):
        load(["--config", str(tmp_path / "none.toml")])


def test_help_teaches_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as leaving:
        load(["--help"])
    assert leaving.value.code == 0
    told = capsys.readouterr().out
    for name in ServerSettings.model_fields:
        assert name.replace("_", "-") in told


def test_secrets_and_prompts_are_not_shown() -> None:
    told = {
        "--engine.llm.key": "sk-canary",
        "--token": "token-canary",
        "--greeting": "say canary",
        "--instructions": "be a canary",
        "--engine.options": '{"script": "canary"}',
        "--engine.transcriber.options": '{"key": "canary"}',
        "--engine.llm.url": "https://user:canary@127.0.0.1:8443/v1?key=canary",
        "--engine.llm.extra-body": '{"api_key": "canary"}',
        "--engine.tts.url": "https://canary@[",
    }
    settings = load([word for option in told.items() for word in option])
    assert settings.engine.llm.key.get_secret_value() == "sk-canary"
    assert "canary" not in str(shown(settings))
    assert shown(settings)["greeting"] == "10 characters"
    assert shown(settings)["engine"] == {
        "llm": {"key": "**********", "url": "https://127.0.0.1:8443", "extra_body": ["api_key"]},
        "tts": {"url": "(not a URL)"},
        "options": ["script"],
        "transcriber": {"options": ["key"]},
    }


def test_an_engine_is_told_what_was_set_and_nothing_else() -> None:
    settings = load(
        [
            "--engine.options",
            '{"tick": 160}',
            "--engine.llm.key",
            "k",
            "--engine.llm.url",
            "http://u",
        ]
    )
    assert settings.engine.plain() == {"tick": 160, "llm": {"key": "k", "url": "http://u"}}


def test_a_transcriber_is_told_to_the_engine_where_it_has_a_name() -> None:
    named = ["--engine.transcriber.name", "cascade"]
    told = ["--engine.transcriber.options", '{"capacity": 7}']
    assert load([*named, *told]).engine.plain() == {
        "transcriber": {"name": "cascade", "options": {"capacity": 7}}
    }
    assert load([]).engine.plain() == {}


def test_an_endpoint_that_is_no_address_is_refused() -> None:
    with pytest.raises(SettingsProblem, match=r"^engine\.llm\.url: expected an address"):
        load(["--engine.llm.url", "notaurl"])


def test_a_stage_keeps_what_the_options_say_of_it() -> None:
    settings = load(
        [
            "--engine.options",
            '{"llm": {"model": "other", "grammar": "g"}, "tts": {"speed": 1}}',
            "--engine.llm.model",
            "m",
        ]
    )
    assert settings.engine.plain() == {
        "llm": {"model": "m", "grammar": "g"},
        "tts": {"speed": 1},
    }


def test_stock_names_mean_the_default() -> None:
    names = ServerSettings().names
    assert local_name(names.models, "gpt-realtime-2.1-mini") == ""
    assert local_name(names.models, "gpt-4o-mini-realtime-preview") == ""
    assert local_name(names.models, "another") is None
    assert local_name({"a*": "pattern", "ab": "exact"}, "ab") == "exact"


def test_a_packet_length_is_told_by_the_command_line() -> None:
    assert load(["--webrtc.sound.packet-ms", "10"]).webrtc.sound.packet_ms == 10


def test_each_media_worker_has_and_tells_a_port_of_its_own() -> None:
    public = ["203.0.113.7:9000", "voice.example.org", "[2001:db8::1]:9001", "2001:db8::2"]
    settings = ServerSettings(
        port=8300, media_workers=3, webrtc=WebRtc(public_addresses=tuple(public))
    )
    last = settings.of_worker(2)
    assert last.media_port == 8302
    assert last.webrtc.public_addresses == (
        *("203.0.113.7:9002", "voice.example.org", "[2001:db8::1]:9003", "2001:db8::2"),
    )
    first = settings.of_worker(0)
    assert (first.media_port, first.webrtc.public_addresses) == (8300, tuple(public))
    assert ServerSettings(port=0, media_workers=3).of_worker(2).media_port == 0
