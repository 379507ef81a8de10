"""How long a caller has been silent after a reply. Pure."""

from __future__ import annotations


class IdleWatch:
    """Tells once, after each reply, that nothing was said for the set time."""

    def __init__(self) -> None:
        self._quiet: tuple[int, int] | None = None

    def busy(self, now: int, offered: int) -> None:
        """A reply is made or heard at ``now`` ns; ``offered`` samples were heard of the caller."""
        self._quiet = (now, offered)

    def speech(self) -> None:
        """The caller speaks."""
        self._quiet = None

    def poll(self, now: int, timeout_ms: int) -> int | None:
        """The sample at which the silence began, if it has lasted ``timeout_ms``; once."""
        if self._quiet is None or now - self._quiet[0] < timeout_ms * 1_000_000:
            return None
        since, self._quiet = self._quiet[1], None
        return since
