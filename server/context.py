"""The engine's copy of the conversation: sent whole at each change, and at no other time. Pure."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from engine import contract
from server.conversation import Conversation
from server.requests import SessionSettings


class Shared:
    """What the engine was last told.

    Args:
        order: gives the engine an order.
        tools: whether the engine calls any; one that does not is told of none.
    """

    def __init__(self, order: Callable[[contract.Order], None], tools: bool) -> None:
        self._order = order
        self._tools = tools
        self._context = contract.Context(revision=0)

    @property
    def revision(self) -> int:
        """Of what the engine was last told."""
        return self._context.revision

    def share(self, conversation: Conversation, settings: SessionSettings) -> None:
        """Gives the engine the conversation, if it is not as it was."""
        context = contract.Context(
            revision=self.revision,
            messages=conversation.messages(),
            instructions=settings.instructions,
            tools=settings.tools if self._tools else (),
            voice=settings.voice,
        )
        if context != self._context:
            self._context = replace(context, revision=context.revision + 1)
            self._order(self._context)
