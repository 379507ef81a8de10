"""Firefox as a caller, driven over WebDriver BiDi: ``python -m tests.network.firefox URL``.

Its microphone is its own fake one, a steady tone, which it mutes to end its turn. Prints what the
page saw of the call, as JSON. A process of its own, so that it can run where the browser is.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse

PREFERENCES = {
    "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True,
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
    "privacy.reduceTimerPrecision": False,
    "app.update.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "media.gmp-manager.updateEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
    "toolkit.telemetry.enabled": False,
}
WITHIN = 60.0

WATCH = """() => {
  const { RTCPeerConnection } = window;
  window.peers = [];
  window.RTCPeerConnection = class extends RTCPeerConnection {
    constructor(...options) { super(...options); peers.push(this); }
  };
}"""

CALL = """
(async () => {
  const until = async (what, seconds) => {
    for (let left = seconds * 20; !what() && left > 0; left--)
      await new Promise((next) => setTimeout(next, 50));
    return what();
  };
  document.querySelector("#talk").click();
  const began = performance.now();
  await until(() => window.parley?.state.phase === "live", 20);
  const connected = (performance.now() - began) / 1000;
  await until(() => window.parley?.state.hearing, 10);
  parley.setMuted(true);
  const told = (type) => parley.events.some(({ event }) => event.type === type);
  await until(() => told("output_audio_buffer.started") && told("response.done"), 15);
  await new Promise((next) => setTimeout(next, 1000));
  const figures = await parley.stats();
  const stats = [...(await peers.at(-1).getStats()).values()];
  const inbound = stats.find(({ type }) => type === "inbound-rtp");
  const troubles = [...document.querySelectorAll("#troubles .trouble")];
  const seen = {
    connected,
    transport: parley.state.transport,
    path: figures.path,
    received: figures.received,
    energy: inbound?.totalAudioEnergy,
    events: [...new Set(parley.events.map(({ event }) => event.type))],
    troubles: troubles.map((trouble) => trouble.dataset.code),
  };
  await parley.end();
  return JSON.stringify(seen);
})()
"""


async def main(url: str) -> None:
    lines = (f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in PREFERENCES.items())
    with tempfile.TemporaryDirectory(prefix="parley-firefox-") as profile:
        (Path(profile) / "user.js").write_text("\n".join(lines))
        async with (
            asyncio.timeout(2 * WITHIN),
            _firefox(profile) as door,
            ClientSession() as web,
            web.ws_connect(f"{door}/session", max_msg_size=0) as ws,
        ):
            print(await _call(Driver(ws), url))


async def _call(driver: Driver, url: str) -> str:
    """Makes a call from a page; what it saw, as JSON."""
    await driver.do("session.new", capabilities={"alwaysMatch": {"acceptInsecureCerts": True}})
    page = (await driver.do("browsingContext.getTree"))["contexts"][0]["context"]
    await driver.do("script.addPreloadScript", functionDeclaration=WATCH)
    await driver.do("browsingContext.navigate", context=page, url=url, wait="complete")
    done = await driver.do(
        "script.evaluate",
        expression=CALL,
        target={"context": page},
        awaitPromise=True,
        userActivation=True,
    )
    return str(done["result"]["value"])


class Driver:
    """One BiDi session."""

    def __init__(self, ws: ClientWebSocketResponse) -> None:
        self._ws = ws
        self._ids = count(1)

    async def do(self, method: str, **params: Any) -> dict[str, Any]:
        """Runs a command; returns its result."""
        number = next(self._ids)
        await self._ws.send_json({"id": number, "method": method, "params": params})
        while True:
            answer = await self._ws.receive_json(timeout=WITHIN)
            if answer.get("id") == number:
                if answer["type"] == "error":
                    raise RuntimeError(f"{method}: {answer['message']}")
                return dict(answer["result"])


@asynccontextmanager
async def _firefox(profile: str) -> AsyncIterator[str]:
    """A browser; yields where it takes drivers."""
    process = await asyncio.create_subprocess_exec(
        *("firefox-esr", "--headless", "--no-remote", "--profile", profile),
        *("--remote-debugging-port", "0", "about:blank"),
        env=os.environ | {"HOME": profile, "MOZ_HEADLESS": "1"},
        stdout=DEVNULL,
        stderr=PIPE,
    )
    try:
        door = await _door(process)
        reading = asyncio.create_task(_read_on(process))
        yield door
        reading.cancel()
    finally:
        process.terminate()
        await process.wait()


async def _door(process: Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        if found := re.search(r"WebDriver BiDi listening on (ws://\S+)", line.decode()):
            return found[1]
    raise RuntimeError("Firefox ended")


async def _read_on(process: Process) -> None:
    """Lets it write on: a full pipe would hold it up."""
    assert process.stderr is not None
    async for _ in process.stderr:
        pass


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
