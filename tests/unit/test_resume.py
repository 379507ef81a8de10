"""Tokens: each leads back to its session once, and no loss on the way takes the last one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.resume import Tokens, call_of, ticket


def test_a_token_names_its_call_and_cannot_be_guessed() -> None:
    mine = ticket("1")
    assert mine.session.startswith("sess1_") and mine.call.startswith("rtc1_")
    call, secret = mine.token.split(".")
    assert call == mine.call == call_of(mine.token)
    assert len(secret) * 6 >= 128
    assert len({ticket().token for _ in range(100)}) == 100


def test_a_live_session_is_called_by_its_own_id() -> None:
    mine = ticket(live=True)
    assert mine.call == mine.session


def test_an_answer_that_was_lost_on_its_way_can_be_asked_for_again() -> None:
    mine = ticket()
    tokens = Tokens(mine)
    lost = tokens.renew(mine.token)
    fresh = tokens.renew(mine.token)
    assert tokens.fits(mine.token) and tokens.fits(fresh) and not tokens.fits(lost)


@given(st.lists(st.sampled_from(["renew", "spend"]), max_size=20))
def test_once_its_connection_works_only_the_newest_token_is_good(steps: list[str]) -> None:
    tokens = Tokens(ticket())
    known = [tokens.newest]
    for step in steps:
        if step == "renew":
            known.append(tokens.renew(known[-1]))
        else:
            tokens.spend(known[-1])
            assert [token for token in known if tokens.fits(token)] == known[-1:]
    assert sum(map(tokens.fits, known)) <= 2


def test_the_connection_before_does_not_spend_a_token_that_is_on_its_way() -> None:
    mine = ticket()
    tokens = Tokens(mine)
    fresh = tokens.renew(mine.token)
    tokens.spend(mine.token)
    assert tokens.fits(mine.token) and tokens.fits(fresh)


@given(st.text())
def test_whatever_else_is_shown_is_no_token(shown: str) -> None:
    mine = ticket()
    assert not Tokens(mine).fits(shown)
    assert not Tokens(mine).fits(mine.token[:-1])
