"""Client secrets: short-lived keys that an API key's holder makes for a browser to start with.

Each carries the session that it starts, so the page needs to know nothing. It starts any number of
sessions until it expires; those go on after it. They are kept in memory, as hashes, and end with
the server. Pure; the caller brings the time.

What is looked up is a digest of what was shown: how long that takes tells nothing about the secrets
that there are, because nobody can choose a digest.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

PREFIX = "ek_"
MOST = 1_000
"""Secrets at once, per key that makes them."""
MOST_BYTES = 16 * 1024 * 1024
"""Bytes that their sessions may take together, per key."""


@dataclass(frozen=True, slots=True)
class ClientSecret:
    """A secret, as far as it is kept.

    ``digest``: its own; ``owner``: the key that made it; ``expires_at``: unix seconds;
    ``session``: the session it starts, JSON as the client sent it.
    """

    digest: bytes
    owner: str
    expires_at: int
    session: bytes


class ClientSecrets:
    """All secrets of this server."""

    def __init__(self) -> None:
        self._kept: dict[bytes, ClientSecret] = {}

    def make(self, owner: str, session: bytes, expires_at: int, now: float) -> str | None:
        """A new secret; None while ``owner`` has as many as may be."""
        self._kept = {key: kept for key, kept in self._kept.items() if now < kept.expires_at}
        own = [len(kept.session) for kept in self._kept.values() if kept.owner == owner]
        if len(own) >= MOST or sum(own) + len(session) > MOST_BYTES:
            return None
        secret = PREFIX + secrets.token_urlsafe(32)
        digest = _digest(secret)
        self._kept[digest] = ClientSecret(digest, owner, expires_at, session)
        return secret

    def find(self, secret: str, now: float) -> ClientSecret | None:
        """The secret that was shown, unless it expired."""
        kept = self._kept.get(_digest(secret))
        return kept if kept is not None and now < kept.expires_at else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
