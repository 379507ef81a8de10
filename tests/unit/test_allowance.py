"""What one key, and one address, may use."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.allowance import Allowance, Allowances
from server.caller import TOKEN, Caller
from server.client_secrets import ClientSecret
from server.errors import ServiceError
from server.settings import Limits

SECOND = 1_000_000_000
ANNA = Caller("key_anna", "192.0.2.1")
BERT = Caller("key_bert", "192.0.2.2")


def allowances(**limits: Any) -> Allowances:
    return Allowances(Limits(**limits))


def refused(allowances: Allowances, caller: Caller, now: int = 0) -> ServiceError | None:
    try:
        allowances.start(caller.names, now)
    except ServiceError as error:
        return error
    return None


def test_a_refusal_says_when_to_come_again() -> None:
    counted = allowances(caller_starts=1)
    counted.start(ANNA.names, 0)
    error = refused(counted, ANNA)
    assert error is not None
    assert (error.status, error.code) == (429, "rate_limit_exceeded")
    assert error.headers() == {"Retry-After": "60"}


def test_sessions_at_once_are_counted_until_they_end() -> None:
    counted = allowances(caller_sessions=2)
    first, second = counted.start(ANNA.names, 0), counted.start(ANNA.names, 0)
    error = refused(counted, ANNA)
    assert error is not None
    assert "limits.caller_sessions" in error.message
    assert int(error.headers()["Retry-After"]) >= 1
    assert refused(counted, BERT) is None
    first.end()
    first.end()
    assert refused(counted, ANNA) is None
    assert refused(counted, ANNA)
    second.end()


def test_coming_back_is_a_start_and_needs_no_room_for_another_session() -> None:
    counted = allowances(caller_starts=3, caller_sessions=1, caller_audio=1)
    counted.start(ANNA.names, 0).heard(60.0, 0)
    for _ in range(2):
        counted.again(ANNA.names, 0)
    with pytest.raises(ServiceError, match=r"limits\.caller_starts") as error:
        counted.again(ANNA.names, 0)
    assert (error.value.status, error.value.code) == (429, "rate_limit_exceeded")
    counted.again(BERT.names, 0)


def test_starts_are_counted_whether_or_not_the_session_lasted() -> None:
    counted = allowances(caller_starts=3)
    for _ in range(3):
        counted.start(ANNA.names, 0).end()
    error = refused(counted, ANNA)
    assert error is not None
    assert error.retry_after == 20
    assert refused(counted, ANNA, 20 * SECOND) is None
    assert refused(counted, BERT) is None


def test_sound_beyond_the_limit_is_paid_for_before_more_is_read_or_started() -> None:
    counted = allowances(caller_audio=60)
    running = counted.start(ANNA.names, 0)
    assert running.heard(60, 0) == 0
    assert running.heard(70, 0) == 10
    assert running.heard(70, 4 * SECOND) == 6
    error = refused(counted, ANNA, 4 * SECOND)
    assert error is not None
    assert error.retry_after == 6
    running.end()
    assert refused(counted, ANNA, 9 * SECOND)
    assert refused(counted, ANNA, 10 * SECOND) is None


callers = st.builds(Caller, st.sampled_from(["", "a", "b"]), st.sampled_from(["", "1", "2"]))


@given(st.lists(st.tuples(callers, st.booleans())))
def test_however_sessions_come_and_go_nobody_has_more_than_allowed_at_once(
    coming: list[tuple[Caller, bool]],
) -> None:
    counted = allowances(caller_sessions=2, caller_starts="inf")
    running: list[tuple[Caller, Allowance]] = []
    for caller, leaves in coming:
        if leaves and running:
            running.pop(0)[1].end()
        names = [name for each, _ in running for name in each.names]
        full = any(names.count(name) >= 2 for name in caller.names)
        if full:
            assert refused(counted, caller)
        else:
            running.append((caller, counted.start(caller.names, 0)))
    for _, allowance in running:
        allowance.end()
    assert not any(refused(counted, caller) for caller, _ in coming[:2])


def test_another_key_from_the_same_address_gets_no_more() -> None:
    counted = allowances(caller_sessions=1)
    counted.start(ANNA.names, 0)
    assert refused(counted, Caller("key_bert", ANNA.address))


def test_the_same_key_from_another_address_gets_no_more() -> None:
    counted = allowances(caller_sessions=1)
    counted.start(ANNA.names, 0)
    assert refused(counted, Caller(ANNA.key, "192.0.2.7"))


def test_a_client_secret_is_counted_as_the_key_that_made_it() -> None:
    counted = allowances(caller_sessions=1)
    counted.start(ANNA.names, 0)
    assert refused(counted, Caller(ANNA.key, "192.0.2.7", ClientSecret(b"", ANNA.key, 0, b"{}")))


def test_the_pages_token_is_everybodys_so_only_addresses_count() -> None:
    counted = allowances(caller_sessions=1)
    counted.start(Caller(TOKEN, "192.0.2.1").names, 0)
    assert refused(counted, Caller(TOKEN, "192.0.2.2")) is None
    assert refused(counted, Caller(TOKEN, "192.0.2.1"))


def test_programs_on_this_machine_count_by_their_key_only() -> None:
    counted = allowances(caller_sessions=1, caller_starts=1)
    for _ in range(100):
        assert refused(counted, Caller()) is None
    counted.start(Caller("key_anna").names, 0)
    assert refused(counted, Caller("key_anna"))


def test_a_limit_per_minute_can_be_taken_away() -> None:
    counted = allowances(caller_starts="inf", caller_audio="inf")
    for _ in range(1000):
        running = counted.start(ANNA.names, 0)
        assert running.heard(1e6, 0) == 0
        running.end()
