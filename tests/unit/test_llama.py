"""The embedded language model: what it is shown, and that it stops when told."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from engine.cascade.llama import Llama, Slots, asked, suffix
from engine.cascade.stages import Ending, Piece, Prompt, StageError
from engine.contract import Message, Role, Text
from engine.weights import Paths

texts = st.lists(st.text(min_size=1, max_size=40), max_size=40)


def dialogue(texts: list[str]) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)]


def content(messages: list[dict[str, str]]) -> str:
    return "".join(message["content"] for message in messages)


@given(texts, st.integers(0, 500))
def test_what_is_kept_is_the_end_and_fits(texts: list[str], budget: int) -> None:
    kept = suffix(dialogue(texts), budget)
    assert content(dialogue(texts)).endswith(content(kept))
    assert len(content(kept).encode()) <= budget


@given(texts)
def test_what_fits_is_kept_whole(texts: list[str]) -> None:
    assert suffix(dialogue(texts), 10**6) == dialogue(texts)


def test_messages_are_dropped_several_at_once() -> None:
    lengths = [len(suffix(dialogue(["x"] * count), 8)) for count in range(6, 20)]
    assert lengths == [6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7]


def test_there_is_always_something_to_answer() -> None:
    said = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello!"}]
    assert asked([])[-1]["role"] == asked(said)[-1]["role"] == "user"
    assert asked(said[:1]) == said[:1]


def test_a_caller_keeps_a_slot_until_newer_ones_need_it() -> None:
    slots = Slots(2)
    assert [slots.of(caller) for caller in "abab"] == [0, 1, 0, 1]
    assert slots.of("c") == 0
    assert [slots.of(caller) for caller in "bcb"] == [1, 0, 1]
    assert slots.of("a") == 0


def ask(*texts: str, caller: str = "caller", **settings: int) -> Prompt:
    roles: tuple[Role, Role] = ("user", "assistant")
    return Prompt(
        caller,
        "",
        tuple(Message(role=roles[at % 2], parts=(Text(text=t),)) for at, t in enumerate(texts)),
        max_tokens=settings.get("max_tokens"),
    )


async def answered(model: Llama, prompt: Prompt) -> tuple[str, Ending]:
    pieces: list[Piece] = [piece async for piece in model.stream(prompt)]
    assert isinstance(pieces[-1], Ending)
    return "".join(piece for piece in pieces if isinstance(piece, str)), pieces[-1]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def model(weights: Paths) -> AsyncIterator[Llama]:
    model = Llama(weights.smollm2)
    await model.start()
    yield model
    await model.stop()


@pytest.mark.weights
@pytest.mark.asyncio(loop_scope="module")
class TestSmolLM2:
    async def test_it_answers(self, model: Llama) -> None:
        text, ending = await answered(model, ask("What is the capital of France?"))
        assert "Paris" in text
        assert ending.reason == "stop"
        assert ending.usage.output_tokens > 3

    async def test_a_warmed_prompt_is_not_read_again(self, model: Llama) -> None:
        said = "Could you please tell me something about the history of the city of"
        await model.warm(ask(said))
        _, ending = await answered(model, ask(f"{said} Rome?", max_tokens=1))
        assert ending.usage.input_tokens - ending.usage.cached_tokens < 12

    async def test_callers_do_not_displace_each_other(self, model: Llama) -> None:
        prompts = [
            ask(f"Tell me all you know about {topic}.", caller=topic, max_tokens=2)
            for topic in ("elephants", "mountaineering")
        ]
        for _ in range(2):
            endings = [
                ending for _, ending in await asyncio.gather(*(answered(model, p) for p in prompts))
            ]
        assert all(e.usage.cached_tokens == e.usage.input_tokens - 1 for e in endings)

    async def test_the_length_is_kept_and_told(self, model: Llama) -> None:
        _, ending = await answered(model, ask("Tell me a long story.", max_tokens=4))
        assert ending.reason == "length"
        assert ending.usage.output_tokens == 4

    async def test_closing_the_stream_stops_the_model(self, model: Llama) -> None:
        prompt = ask("Tell me a very long story about a dragon and a princess.")
        loop = asyncio.get_running_loop()
        async with aclosing(model.stream(prompt)) as pieces:
            await anext(pieces)
            started = loop.time()
            await anext(pieces)
            token = loop.time() - started
        started = loop.time()
        await answered(model, ask("Tell me a very long story", max_tokens=1))
        assert loop.time() - started < 40 * max(token, 0.02)  # the story would take 150 more

    async def test_it_prints_nothing_and_listens_on_no_port(
        self, model: Llama, capfd: pytest.CaptureFixture[str]
    ) -> None:
        await answered(model, ask("A secret.", max_tokens=1))
        sys.stdout.flush()
        assert capfd.readouterr() == ("", "")
        assert "0A" not in [line.split()[3] for line in own_tcp_sockets()]


@pytest.mark.weights
async def test_a_prompt_that_is_too_long_is_answered_by_its_end(weights: Paths) -> None:
    model = Llama(weights.smollm2, callers=1, context=512)
    await model.start()
    dense = "💡漢字" * 3000
    _, ending = await answered(model, ask(dense, dense, dense, max_tokens=1))
    assert ending.usage.input_tokens <= 512
    await model.stop()


def own_tcp_sockets() -> list[str]:
    """The lines of this process's TCP sockets in the kernel's table; state 0A listens."""
    own = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            own.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
        except FileNotFoundError:
            continue
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    lines = [line for table in tables for line in table.read_text().splitlines()[1:]]
    return [line for line in lines if line.split()[9] in own]


def test_the_listening_sockets_of_this_process_are_found() -> None:
    with socket.create_server(("127.0.0.1", 0)):
        assert "0A" in [line.split()[3] for line in own_tcp_sockets()]


async def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"nothing")
    model = Llama(tmp_path / "broken.gguf")
    with pytest.raises(StageError, match=r"broken\.gguf: llama\.cpp cannot load it"):
        await model.start()
    await model.stop()
