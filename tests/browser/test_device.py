"""Chromium's own microphone, and nothing of the tests' in the page."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.browser.conftest import GRANTED, Chromium
from tests.browser.recording import RATE
from tests.browser.voices import spoken
from tests.serving import Server
from tests.sounds import write_wav

pytestmark = [pytest.mark.browser, pytest.mark.weights, pytest.mark.flite]


def test_a_question_is_captioned_and_answered(
    chromium: Chromium, server: Server, tmp_path: Path
) -> None:
    second = np.zeros(RATE, np.float32)
    question = spoken("What is the capital of France?")
    heard = tmp_path / "microphone.wav"
    write_wav(heard, np.concatenate([second, second, question, second, second]), RATE)
    with chromium(GRANTED, f"--use-file-for-fake-audio-capture={heard}%noloop") as browser:
        page = browser.new_page()
        page.goto(server.url)
        page.click("#talk")
        asked = page.locator(".caption.user.final .words")
        asked.wait_for()
        assert "capital of france" in asked.inner_text().lower()
        answer = page.locator(".caption.assistant.final .words")
        answer.wait_for()
        assert "paris" in answer.inner_text().lower()
        page.locator("body[data-activity=listening]").wait_for()
        assert page.evaluate("parley.stats().then(({ turns }) => turns.length)") == 1
        page.click("#end")
        assert page.locator(".trouble").count() == 0
