"""``compose.yaml``: its two services agree with each other, and with what they are."""

from __future__ import annotations

import re

import pytest

from server.settings import ServerSettings, load
from tests.composed import ROOT, compose

VARIABLES = {"DOMAIN": "voice.example", "PUBLIC_ADDRESS": "203.0.113.7", "TURN_SECRET": "shared"}
WHOLE = compose(**VARIABLES)
PARLEY, COTURN = WHOLE["services"]["parley"], WHOLE["services"]["coturn"]
TURN = WHOLE["configs"]["turnserver"]["content"].splitlines()


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> ServerSettings:
    for name, value in PARLEY["environment"].items():
        monkeypatch.setenv(name, re.sub(r"\$\{\w+:-(.*)\}", r"\1", value))
    return load([])


def test_parley_takes_its_settings_and_publishes_its_port(settings: ServerSettings) -> None:
    assert PARLEY["ports"] == [f"{settings.port}:{settings.port}/{kind}" for kind in ("tcp", "udp")]
    exposed = re.search(r"EXPOSE (.*)", (ROOT / "Dockerfile").read_text())
    assert exposed and exposed[1] == f"{settings.port}/tcp {settings.port}/udp"
    compile(PARLEY["healthcheck"]["test"][-1], "healthcheck", "exec")


def test_callers_are_told_the_host_and_coturn_finds_parley_inside(
    settings: ServerSettings,
) -> None:
    inside = PARLEY["networks"]["voice"]["ipv4_address"]
    assert settings.webrtc.public_addresses == (VARIABLES["PUBLIC_ADDRESS"], inside)
    assert [line for line in TURN if line.startswith("allowed-peer-ip")] == [
        f"allowed-peer-ip={inside}"
    ]


def test_both_share_one_secret_and_the_ports_that_are_published(settings: ServerSettings) -> None:
    (server,) = settings.webrtc.ice_servers
    assert server.secret.get_secret_value() == VARIABLES["TURN_SECRET"]
    assert f"static-auth-secret={VARIABLES['TURN_SECRET']}" in TURN
    for url in server.urls:
        scheme, host, port, kind = re.split(r":|\?transport=", url)
        assert host == VARIABLES["DOMAIN"]
        assert f"{'tls-' if scheme == 'turns' else ''}listening-port={port}" in TURN
        assert f"{port}:{port}/{kind}" in COTURN["ports"]
    assert len(server.urls) == len(COTURN["ports"])
    own = COTURN["networks"]["voice"]["ipv4_address"]
    assert {f"listening-ip={own}", f"relay-ip={own}"} <= set(TURN)


def test_both_have_the_same_certificate(settings: ServerSettings) -> None:
    assert PARLEY["volumes"] == COTURN["volumes"]
    assert {f"cert={settings.tls_cert}", f"pkey={settings.tls_key}"} <= set(TURN)
