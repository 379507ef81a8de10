"""A caller who uses the page: speaks into its microphone, hears its replies, reads its captions."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from playwright.sync_api import Page, Route

from engine.contract import Samples
from tests.browser.recording import RATE, Recording, Stretch, joined

HERE = Path(__file__).parent
NOTHING = np.zeros(0, np.float32)

_EVENTS = """([kind, since]) => parley.events
    .filter(({ at, from, event }) => from === "server" && at >= since && event.type === kind)
    .map(({ event }) => event)"""

_IDLE = "!parley.state.hearing && parley.state.activity === 'listening'"


@dataclass(frozen=True, slots=True)
class Caption:
    """A line of the page's captions, as :mod:`web/static/captions.js` describes it."""

    id: str
    role: Literal["user", "assistant"]
    state: Literal["live", "final", "interrupted", "failed"]
    heard: str
    unheard: str


class Caller:
    """One page. :meth:`open` goes to it, with a microphone that :meth:`say` speaks into.

    Args:
        page: a fresh one, whose policy lets tests' scripts in.

    Attributes:
        errors: what failed in the page and was not caught.
    """

    def __init__(self, page: Page) -> None:
        self.page = page
        self.errors: list[str] = []
        self._recording = Recording(0, NOTHING, NOTHING)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.add_init_script(path=HERE / "harness.js")
        page.route("**/static/harness-recorder.js", _serve_recorder)

    def open(self, url: str) -> None:
        """Opens the page; what was recorded before is forgotten."""
        self._recording = Recording(0, NOTHING, NOTHING)
        self.page.goto(url)

    def talk(self, *, within: float = 10.0) -> None:
        """Presses Talk and waits for the call."""
        self.page.click("#talk")
        self.wait("parley.state.phase === 'live'", within)

    def hang_up(self) -> None:
        """Presses End."""
        self.page.click("#end")

    def say(self, sound: Samples) -> Stretch:
        """Begins to speak ``sound`` (at ``RATE``) into the microphone; returns when it is heard."""
        pcm = (np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes()
        first, end = self.page.evaluate(
            "(sound) => harness.say(sound)", base64.b64encode(pcm).decode()
        )
        return Stretch(first, end)

    def loudspeaker(self, seconds: float, gain: float) -> None:
        """From now on the microphone hears the reply, so much later and quieter."""
        self.page.evaluate("([s, g]) => harness.loudspeaker(s, g)", [seconds, gain])

    def wait(self, what: str, within: float) -> None:
        """Waits for an expression of the page's to be true, ``within`` seconds."""
        self.page.wait_for_function(f"() => {what}", timeout=within * 1000, polling=50)

    def wait_for_frame(self, frame: int) -> None:
        """Waits for a moment of the recording's clock."""
        self.wait(f"harness.context.currentTime * {RATE} >= {frame}", 120)

    def pause(self, seconds: float) -> None:
        """Does nothing for so long."""
        self.page.wait_for_timeout(seconds * 1000)

    def now(self) -> float:
        """The page's clock, in milliseconds."""
        return float(self.page.evaluate("performance.now()"))

    def events(self, kind: str, since: float = 0) -> list[dict[str, Any]]:
        """The server's events of that type from ``since`` (the page's clock) on."""
        found: list[dict[str, Any]] = self.page.evaluate(_EVENTS, [kind, since])
        return found

    def wait_for_event(self, kind: str, since: float, within: float = 30.0) -> dict[str, Any]:
        """The first of the server's events of that type from ``since`` on."""
        self.wait(f"({_EVENTS})(['{kind}', {since}]).length", within)
        return self.events(kind, since)[0]

    def wait_for_turn(self, within: float = 30.0) -> None:
        """Waits until everything said has its caption."""
        self.wait(
            "!parley.state.hearing && parley.captions.some(({role}) => role === 'user') && "
            "parley.captions.every(({role, state}) => role !== 'user' || state !== 'live')",
            within,
        )

    def stop_reply(self) -> None:
        """Does what the button does while a reply is heard, and waits until all is quiet."""
        self.page.evaluate("parley.interrupt()")
        self.wait(_IDLE, 10)
        self.pause(0.5)

    def ask(self, sound: Samples, listening: float = 60.0) -> tuple[Stretch, list[Caption]]:
        """Says ``sound`` and listens to the reply, for so many seconds at most. Returns when it was
        said and the captions that came of it.
        """
        known = {caption.id for caption in self.captions()}
        since = self.now()
        said = self.say(sound)
        self.wait_for_event("output_audio_buffer.started", since)
        until = self.now() + listening * 1000
        self.wait(f"({_IDLE}) || performance.now() > {until}", 2 * listening)
        self.stop_reply()
        return said, [caption for caption in self.captions() if caption.id not in known]

    def state(self) -> dict[str, Any]:
        """The call's state, as :mod:`web/static/parley.js` describes it."""
        state: dict[str, Any] = self.page.evaluate("parley.state")
        return state

    def captions(self) -> list[Caption]:
        """The page's captions, both sides', in their order."""
        return [Caption(**caption) for caption in self.page.evaluate("parley.captions")]

    def troubles(self) -> dict[str, str]:
        """What the page says is wrong, by its code."""
        lines = self.page.locator("#troubles .trouble")
        return {
            str(line.get_attribute("data-code")): line.locator("p").inner_text()
            for line in lines.all()
        }

    def recording(self) -> Recording:
        """Everything since the page was opened, up to some 0.2 s ago."""
        first, *sides = self.page.evaluate("harness.recording()")
        local, remote = (
            np.frombuffer(base64.b64decode(side), "<i2").astype(np.float32) / np.float32(32768)
            for side in sides
        )
        new = Recording(first, local, remote)
        self._recording = joined(self._recording, new) if len(self._recording.local) else new
        return self._recording


def _serve_recorder(route: Route) -> None:
    route.fulfill(path=HERE / "recorder-worklet.js", content_type="text/javascript")
