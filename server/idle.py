"""How long nobody has spoken. Pure."""

from __future__ import annotations


class IdleWatch:
    """Tells, once after each time that somebody spoke, that nothing was said for the set time."""

    def __init__(self) -> None:
        self._quiet: tuple[int, int] | None = None

    def busy(self, now: int, offered: int) -> None:
        """Somebody speaks at ``now`` ns; ``offered`` samples were heard of the caller so far."""
        self._quiet = (now, offered)

    def poll(self, now: int, timeout_ms: int | None) -> int | None:
        """The sample at which the silence began, if it has lasted ``timeout_ms``; once."""
        if self._quiet is None or timeout_ms is None:
            return None
        if now - self._quiet[0] < timeout_ms * 1_000_000:
            return None
        since, self._quiet = self._quiet[1], None
        return since
