"""A caller behind a NAT, and a service behind published ports, each in a network of its own.

    caller 10.83.1.2 -- 10.83.1.1 router (NAT) 198.51.100.1 -- 198.51.100.2 service

The service's host has one address and hands what comes to it on to the containers of
``compose.yaml``, 172.30.83.2 (Parley) and .3 (coturn), which live in its namespace. Nothing leaves
the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.composed import ROOT, compose

PUBLIC = "198.51.100.2"
PARLEY, COTURN = "172.30.83.2", "172.30.83.3"
URL = f"https://{PUBLIC}:8300/?token=right"
SECRET = "shared between both"


class Network:
    """The namespaces, by what lives there."""

    def __init__(self) -> None:
        self._names = {
            role: f"parley-{os.getpid()}-{role}" for role in ("caller", "router", "host")
        }

    def within(self, role: str) -> list[str]:
        """What a command is put behind to run there."""
        return ["ip", "netns", "exec", self._names[role]]

    def run(self, role: str, line: str) -> None:
        subprocess.run([*self.within(role), *line.split()], check=True, capture_output=True)

    def answers(self, address: str, port: int) -> bool:
        """Whether ``address`` takes connections, seen from the host."""
        look = ["bash", "-c", f": </dev/tcp/{address}/{port}"]
        return subprocess.run([*self.within("host"), *look], capture_output=True).returncode == 0

    def make(self) -> None:
        for name in self._names.values():
            subprocess.run(["ip", "netns", "add", name], check=True)
        caller, router, host = self._names.values()
        for near, number in ((caller, 1), (host, 2)):
            pair = f"type veth peer name out{number} netns {router}"
            link = f"ip link add eth0 netns {near} {pair}"
            subprocess.run(link.split(), check=True)
        for role, line in (
            ("caller", "ip addr add 10.83.1.2/24 dev eth0"),
            ("router", "ip addr add 10.83.1.1/24 dev out1"),
            ("router", "ip addr add 198.51.100.1/24 dev out2"),
            ("host", f"ip addr add {PUBLIC}/24 dev eth0"),
            ("host", f"ip addr add {PARLEY}/32 dev lo"),
            ("host", f"ip addr add {COTURN}/32 dev lo"),
            *((role, "ip link set lo up") for role in self._names),
            ("caller", "ip link set eth0 up"),
            ("host", "ip link set eth0 up"),
            ("router", "ip link set out1 up"),
            ("router", "ip link set out2 up"),
            ("caller", "ip route add default via 10.83.1.1"),
            ("router", "sysctl -qw net.ipv4.ip_forward=1"),
            ("router", "iptables -t nat -A POSTROUTING -o out2 -j MASQUERADE"),
        ):
            self.run(role, line)
        for service, address in (("parley", PARLEY), ("coturn", COTURN)):
            for published in compose()["services"][service]["ports"]:
                self._publish(published, address)

    def close(self) -> None:
        for name in self._names.values():
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    @contextmanager
    def without_udp(self) -> Iterator[None]:
        """The router lets none through."""
        rule = "FORWARD -p udp -j DROP"
        self.run("router", f"iptables -I {rule}")
        try:
            yield
        finally:
            self.run("router", f"iptables -D {rule}")

    def _publish(self, port: str, address: str) -> None:
        outside, _, rest = port.partition(":")
        inside, _, protocol = rest.partition("/")
        found = f"-d {PUBLIC} -p {protocol} --dport {outside}"
        to = f"-j DNAT --to-destination {address}:{inside}"
        for chain in ("PREROUTING", "OUTPUT"):
            self.run("host", f"iptables -t nat -A {chain} {found} {to}")


@contextmanager
def network() -> Iterator[Network]:
    made = Network()
    try:
        made.make()
        yield made
    finally:
        made.close()


def deployed(folder: Path) -> tuple[dict[str, str], Path]:
    """What ``compose.yaml`` gives its containers here: Parley's environment and coturn's file.

    ``folder`` holds the certificate.
    """
    whole = compose(DOMAIN=PUBLIC, PUBLIC_ADDRESS=PUBLIC, TURN_SECRET=SECRET)
    environment = {
        name: value.replace("/certificates/", f"{folder}/")
        for name, value in whole["services"]["parley"]["environment"].items()
    }
    settings = whole["configs"]["turnserver"]["content"]
    file = folder / "turnserver.conf"
    file.write_text(settings.replace("/certificates/", f"{folder}/"))
    return environment | {"PARLEY_TOKEN": "right", "PARLEY_HOST": "0.0.0.0"}, file


@contextmanager
def coturn(network: Network, file: Path) -> Iterator[None]:
    """The TURN server that ``file`` describes."""
    own = ["--userdb", str(file.with_name("db")), "--pidfile", str(file.with_name("pid"))]
    log = file.with_name("turn.log")
    with log.open("wb") as told:
        command = [*network.within("host"), "turnserver", "-c", str(file), *own]
        process = subprocess.Popen(command, stdout=told, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + 15
        while not network.answers(COTURN, 3478):
            assert time.monotonic() < until and process.poll() is None, log.read_text()
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(10)


def firefox(network: Network, url: str) -> subprocess.Popen[str]:
    """Calls ``url`` from where the caller is; :func:`seen` waits for what came of it."""
    python = shutil.which("python") or "python"
    command = [*network.within("caller"), python, "-m", "tests.network.firefox", url]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def seen(process: subprocess.Popen[str]) -> dict[str, Any]:
    """What that page saw of its call."""
    told, _ = process.communicate(timeout=150)
    saw: dict[str, Any] = json.loads(told)
    return saw


def chromium(network: Network, folder: Path) -> Path:
    """A command that starts Chromium where the caller is."""
    command = folder / "chromium"
    inside: Sequence[str] = network.within("caller")
    command.write_text(f'#!/bin/sh\nexec {" ".join(inside)} /usr/bin/chromium "$@"\n')
    command.chmod(0o755)
    return command
