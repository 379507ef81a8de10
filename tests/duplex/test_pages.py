"""Pages are promised before they are needed, and come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.duplex.pages import Pages


@given(
    total=st.integers(4, 40),
    size=st.integers(1, 8),
    calls=st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(1, 60)), max_size=80),
)
def test_whoever_was_admitted_never_runs_out_and_no_page_has_two_owners(
    total: int, size: int, calls: list[tuple[bool, int, int]]
) -> None:
    pages = Pages(total, size, ring=4)
    table: dict[int, dict[int, int]] = {}
    for joins, slot, positions in calls:
        if joins and slot not in table:
            if pages.promise(slot, positions):
                table[slot] = {}
                for position in range(positions):
                    table[slot].update(pages.grow(slot, position))
        elif slot in table:
            pages.release(slot)
            del table[slot]
        held = [page for ring in table.values() for page in ring.values()]
        assert len(held) == len(set(held)) and all(1 <= page <= total for page in held)
        assert pages.free == total - len(held) >= 0
        assert pages.unpromised >= 0


def test_a_ring_that_is_full_grows_no_more() -> None:
    pages = Pages(4, 8, ring=4)
    assert pages.promise(0)
    taken = [index for position in range(500) for index, _ in pages.grow(0, position)]
    assert taken == [0, 1, 2, 3]


def test_a_call_that_could_run_out_is_not_admitted() -> None:
    pages = Pages(6, 8, ring=4)
    assert pages.promise(0)
    assert not pages.promise(1)
    assert pages.promise(1, positions=16)
    assert not pages.promise(2, positions=1)
    pages.release(0)
    assert pages.promise(2, positions=25)


def test_a_call_does_not_outgrow_its_promise() -> None:
    pages = Pages(6, 8, ring=4)
    pages.promise(0, positions=16)
    with pytest.raises(ValueError, match="position"):
        list(pages.grow(0, 16))
