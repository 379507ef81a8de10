"""Who may have how much of the ring: pages, promised at admission and taken as a call grows.

A ring's memory is the ceiling of a duplex server, so a slot holds only the pages that it has
written. A call is admitted if its whole ring could still be had, up to the longest it may last;
nobody who was admitted can run out later. Pure: numbers only, the tensors are ``ring``'s.

Page 0 belongs to nobody: what is computed for a slot that does not run is written there.
"""

from __future__ import annotations

from collections.abc import Iterator


class Pages:
    """The pages of a pool.

    Args:
        total: pages that can be given out.
        size: positions of a page.
        ring: pages of a whole ring; after that many it begins again at its first.
    """

    def __init__(self, total: int, size: int, ring: int) -> None:
        if ring < 1 or size < 1 or total < ring:
            raise ValueError(f"pages: expected at least one ring of {ring}, got {total}")
        self._size = size
        self._ring = ring
        self._free = list(range(total, 0, -1))
        self._unpromised = total
        self._promised: dict[int, int] = {}
        self._held: dict[int, list[int]] = {}

    @property
    def free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    @property
    def unpromised(self) -> int:
        """Pages that a newcomer could still be promised."""
        return self._unpromised

    def needed(self, positions: int | None) -> int:
        """Pages of a call of at most so many positions; None: of any length."""
        if positions is None:
            return self._ring
        return min(self._ring, max(1, -(-positions // self._size)))

    def promise(self, slot: int, positions: int | None = None) -> bool:
        """Promises ``slot`` the pages of a call; False if they cannot be had."""
        if slot in self._promised:
            raise ValueError(f"slot: expected a free one, got {slot}")
        needed = self.needed(positions)
        if needed > self._unpromised:
            return False
        self._unpromised -= needed
        self._promised[slot] = needed
        self._held[slot] = []
        return True

    def grow(self, slot: int, position: int) -> Iterator[tuple[int, int]]:
        """Takes what ``slot`` needs to write ``position``: each new page's index in its ring.

        Raises:
            ValueError: the call is longer than it was promised.
        """
        held = self._held[slot]
        needed = min(self._ring, position // self._size + 1)
        if needed > self._promised[slot]:
            raise ValueError(f"position: expected a page promised to slot {slot}, got {position}")
        while len(held) < needed:
            held.append(self._free.pop())
            yield len(held) - 1, held[-1]

    def release(self, slot: int) -> None:
        """Takes back all that ``slot`` held or was promised."""
        self._unpromised += self._promised.pop(slot)
        self._free.extend(self._held.pop(slot))
