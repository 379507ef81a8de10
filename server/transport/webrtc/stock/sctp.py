"""How long an event waits that was lost on its way."""

from __future__ import annotations

from typing import Any

from aiortc import rtcsctptransport

RTO = 0.4
"""Seconds after which an event that was not acknowledged is sent again, where RFC 9260 (section
16) has 1, and 3 at first, for the networks of its time. Browsers acknowledge within 0.2 s, and
Chromium's own stack waits as long as this."""

_sctp: Any = rtcsctptransport
_sctp.SCTP_RTO_MIN = _sctp.SCTP_RTO_INITIAL = RTO
