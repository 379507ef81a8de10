"""Packets come out in the order they were sent, once, and nothing waits without need."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from server.transport.webrtc.reorder import LONGEST, MS, Ordered, Reorder
from server.transport.webrtc.rtp import Packet

STEP = 20 * MS
arrivals = st.lists(
    st.tuples(st.booleans(), st.integers(0, 200 * MS), st.booleans()), min_size=1, max_size=80
)
"""Of each packet: whether it is lost, how late it comes, and whether it comes twice."""


def packet(number: int) -> Packet:
    return Packet(number & 0xFFFF, (number * 960) & 0xFFFF_FFFF, b"%d" % number)


def passed(plan: list[tuple[bool, int, bool]], first: int = 0) -> list[tuple[int, Ordered]]:
    """What comes out, with when; the first packet is on time, so that the order has a beginning."""
    events = [
        (number * STEP + (late if number else 0) + again * 7 * MS, number)
        for number, (lost, late, twice) in enumerate(plan)
        for again in range(1 + twice)
        if not lost or number == 0
    ]
    reorder, out = Reorder(), []
    for now, number in sorted(events):
        while (due := reorder.due()) is not None and due <= now:
            out += [(due, each) for each in reorder.poll(due)]
        out += [(now, each) for each in reorder.push(packet(first + number), now)]
    while (due := reorder.due()) is not None:
        out += [(due, each) for each in reorder.poll(due)]
    return out


@given(arrivals, st.sampled_from([0, 0xFFF0]))
def test_they_come_in_order_and_once_and_every_lost_one_is_counted(
    plan: list[tuple[bool, int, bool]], first: int
) -> None:
    numbers, missing = [], 0
    for _, (came, lost) in passed(plan, first):
        numbers.append(int(came.payload) - first)
        missing += lost
    assert numbers[0] == 0
    assert all(later > earlier for earlier, later in pairwise(numbers))
    assert missing == numbers[-1] + 1 - len(numbers)


@given(arrivals)
def test_nothing_waits_longer_than_the_longest_wait(plan: list[tuple[bool, int, bool]]) -> None:
    came = {0: 0} | {n: n * STEP + late for n, (lost, late, _) in enumerate(plan) if n and not lost}
    for now, (each, _) in passed(plan):
        number = int(each.payload)
        behind = max(at for other, at in came.items() if other <= number)
        assert now <= max(came[number], behind) + LONGEST


@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_on_a_link_that_keeps_the_order_nothing_waits(lost: list[bool]) -> None:
    plan = [(each, 0, False) for each in lost]
    assert all(now == int(each.payload) * STEP for now, (each, _) in passed(plan))


def test_a_packet_overtaken_once_is_waited_for_the_next_time_until_calm_returns() -> None:
    late = {5: 50 * MS, 15: 40 * MS, 200: 40 * MS}
    plan = [(False, late.get(number, 0), False) for number in range(205)]
    came = [int(each.payload) for _, (each, _) in passed(plan)]
    assert sorted(set(range(205)) - set(came)) == [5, 200]


def test_a_stream_that_begins_anew_is_followed() -> None:
    reorder = Reorder()
    reorder.push(packet(10), 0)
    (first,) = reorder.push(packet(30_000), STEP)
    assert first == Ordered(packet(30_000), 0)
