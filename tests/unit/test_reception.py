"""What a network does to a caller's sound, beside stock aiortc: what the docs' table rests on."""

from __future__ import annotations

from server.bench.reception import Heard, measured

LONGEST_WAIT = 120


def test_delay_stays_what_the_network_makes_it_and_nothing_that_came_is_thrown_away() -> None:
    told = measured()
    for name, row in told.items():
        ours, stock = row["ours"], row["stock"]
        assert ours.unheard <= 0.005, name
        assert ours.p50 < stock.p50 - 60, name
        assert ours.last <= ours.p50 + 5, f"{name}: the delay grows"
        assert ours.p99 <= 80 + LONGEST_WAIT, name
    assert told["clean"]["ours"] == Heard(0, 0, 0, 0)
    assert told["loss 10 %"]["ours"].p99 == 0
