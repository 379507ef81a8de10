"""Client secrets: how long they hold, and how many there can be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.client_secrets import MOST, MOST_BYTES, PREFIX, ClientSecrets


def test_a_secret_is_found_until_it_expires_however_often() -> None:
    kept = ClientSecrets()
    secret = kept.make("key_a", b"{}", expires_at=110, now=100)
    assert secret is not None
    assert secret.startswith(PREFIX)
    assert len(secret) >= len(PREFIX) + 43
    for now in (100, 105, 109.9):
        found = kept.find(secret, now)
        assert found is not None
        assert (found.owner, found.session) == ("key_a", b"{}")
    assert kept.find(secret, 110) is None
    assert kept.find(secret[:-1], 100) is None


def test_only_hashes_are_kept() -> None:
    kept = ClientSecrets()
    secret = kept.make("key_a", b"{}", 110, 100)
    assert secret is not None
    assert secret.removeprefix(PREFIX) not in repr(vars(kept))


def test_one_key_can_make_a_bounded_number_and_takes_nothing_from_another() -> None:
    kept = ClientSecrets()
    assert all(kept.make("key_a", b"{}", 110, 100) for _ in range(MOST))
    assert kept.make("key_a", b"{}", 110, 100) is None
    assert kept.make("key_b", b"{}", 110, 100)
    assert kept.make("key_a", b"{}", 210, 110)


def test_their_sessions_take_a_bounded_number_of_bytes() -> None:
    kept = ClientSecrets()
    assert kept.make("key_a", b"x" * MOST_BYTES, 110, 100)
    assert kept.make("key_a", b"x", 110, 100) is None
    assert kept.make("key_b", b"x", 110, 100)


@given(st.text())
def test_what_is_no_secret_is_none(shown: str) -> None:
    kept = ClientSecrets()
    kept.make("key_a", b"{}", 110, 100)
    assert kept.find(shown, 100) is None
