"""What a caller of ``parley bench duplex`` makes of the frames that come back."""

from __future__ import annotations

import pytest

from server.bench.crowd import Caller
from server.bench.heard import Heard


@pytest.mark.parametrize(
    ("marks", "wrong", "let_go", "silent"),
    [
        ([(7, 0), (7, 1), (7, 2)], 0, 0, 0),
        ([(7, 65_535), (7, 0)], 0, 0, 0),
        ([(7, 0), (7, 2), (7, 5)], 0, 3, 0),
        ([(7, 0), (7, 40)], 1, 0, 0),
        ([(7, 0), (7, 0)], 1, 0, 0),
        ([(7, 0), (8, 1)], 1, 0, 0),
        ([None, (7, 0), None, (7, 1)], 0, 0, 1),
    ],
)
def test_frames_that_were_let_go_of_are_told_from_wrong_ones(
    marks: list[tuple[int, int] | None], wrong: int, let_go: int, silent: int
) -> None:
    caller, heard = Caller(7, 0.0), Heard(counts=True)
    for mark in marks:
        caller.check(mark, 0.0, heard)
    assert (heard.wrong, heard.let_go, heard.silent) == (wrong, let_go, silent)
