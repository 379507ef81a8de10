"""The settings a client asked for that the engine has not answered yet. Pure."""

from __future__ import annotations

from collections.abc import Callable

from engine import contract
from server import happenings as happen
from server.happenings import Happening
from server.replies import new_id
from server.requests import SessionSettings

SETTLE = 500_000_000
"""Nanoseconds a client has to send its settings before the defaults hold."""


class Updates:
    """Each is asked of the engine once, and its answer told once.

    Args:
        order: gives the engine an order.
        tell: hears ``SettingsApplied`` and ``SettingsRefused``.
    """

    __slots__ = ("_order", "_tell", "answered", "asked")

    def __init__(
        self, order: Callable[[contract.Order], None], tell: Callable[[Happening], None]
    ) -> None:
        self._order = order
        self._tell = tell
        self.asked: dict[str, tuple[str | None, SessionSettings]] = {}
        """Those that an answer is waited for."""
        self.answered = False
        """Whether any settings, ours or a client's, have been answered."""

    def overdue(self, age: int) -> bool:
        """Whether a session of ``age`` ns has been asked for none, so that the defaults hold."""
        return not self.answered and not self.asked and age >= SETTLE

    def ask(self, ref: str | None, settings: SessionSettings) -> None:
        """Asks for ``settings``; nobody is told the answer of an update without a ``ref``."""
        order = contract.Settings(
            id=new_id("set"),
            voice=settings.voice,
            instructions=settings.instructions,
            turns=settings.turns,
            transcribe=settings.transcribe,
            language=settings.language,
            delay=settings.delay,
            replies=settings.replies,
            real_time=settings.real_time,
        )
        self.asked[order.id] = (ref, settings)
        self._order(order)

    def answer(
        self, event: contract.Applied | contract.Refused, apply: Callable[[SessionSettings], None]
    ) -> None:
        """The engine's answer; ``apply`` makes the settings hold before anybody is told."""
        ref, settings = self.asked.pop(event.id)
        self.answered = True
        if isinstance(event, contract.Applied):
            apply(settings)
            if ref is not None:
                self._tell(happen.SettingsApplied(ref=ref))
        elif ref is not None:
            refused = happen.SettingsRefused(ref=ref, param=event.param, message=event.message)
            self._tell(refused)
