"""Who asks: what access found out about a request's sender, and what holds for them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from server.client_secrets import ClientSecret

TOKEN = "token"
"""Stands in ``Caller.key`` for the server's own token, which has no id."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request that was let in.

    Args:
        key: the id of the API key that was shown, or that made the client secret that was;
            :data:`TOKEN` for the server's token; empty where none was needed.
        address: where it came from, as :func:`server.seen.client_address` groups addresses; empty
            for a caller on this machine itself.
        secret: the client secret that was shown, if it was one.
    """

    key: str = ""
    address: str = ""
    secret: ClientSecret | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Under what its use is counted. The token is everybody's who has the page's link, so
        there only the address counts."""
        key = (f"key {self.key}",) if self.key not in ("", TOKEN) else ()
        return (*key, f"address {self.address}") if self.address else key

    def reaches(self, owner: Caller) -> bool:
        """Whether the calls that ``owner`` started are this caller's too: those of the same key,
        and for a client secret only its own."""
        return self.key == owner.key and (self.secret is None or self.secret == owner.secret)

    def asking(self, session: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The session that a request is for: the client secret's, and over it the request's own."""
        if self.secret is None:
            return session
        return _over(msgspec.json.decode(self.secret.session), session or {})


HERE = Caller()
"""A program on this machine itself that showed no key."""


def _over(bound: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(bound)
    for name, value in given.items():
        old = merged.get(name)
        if isinstance(old, dict) and isinstance(value, dict):
            value = _over(old, value)
        merged[name] = value
    return merged
