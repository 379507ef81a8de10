"""Handing tasks to the client: the model calls a tool, and the client learns of a delegation.

The call is answered at once, so that the model may talk on; what comes of the task is appended to
the session by the client, when it knows.
"""

from __future__ import annotations

from engine.contract import Tool
from server.conversation import Item
from server.replies import new_id

DELEGATE = Tool(
    name="delegate",
    description=(
        "Hands a task that you cannot do yourself (looking something up, acting on an account) to "
        "the application. Its result reaches you later. Say first, in a few words, that you see "
        "to it."
    ),
    parameters={
        "type": "object",
        "properties": {"task": {"type": "string", "description": "What is to be done."}},
        "required": ["task"],
    },
)
_MOST = 64
_TAKEN = "The application has the task; what comes of it will be told in this conversation."


class Delegations:
    """The newest tasks that a session's client was handed."""

    def __init__(self) -> None:
        self._open: dict[str, None] = {}

    def begin(self) -> str:
        """The id of a new one."""
        while len(self._open) >= _MOST:
            del self._open[next(iter(self._open))]
        delegation = new_id("dlg")
        self._open[delegation] = None
        return delegation

    def __contains__(self, delegation: str) -> bool:
        return delegation in self._open


def is_delegation(item: Item) -> bool:
    """Whether ``item`` is the call that hands over a task."""
    return item.kind == "function_call" and item.name == DELEGATE.name


def answer_to(call: Item) -> Item:
    """What the model is told of its call."""
    return Item(id=new_id("item"), kind="function_call_output", call_id=call.call_id, output=_TAKEN)
