"""``docs/protocol.md`` has a row for everything that is ours and in no protocol."""

from __future__ import annotations

from server.resume import AFTER, GONE, HEADER, QUERY, ResumeToken
from tests.unit import protocol_page as page


def test_every_extension_has_a_row_and_is_shown() -> None:
    table = page.rows("Ours, beside both protocols")
    event = str(ResumeToken.__struct_config__.tag)
    assert set(table) == {HEADER, QUERY, AFTER, event, GONE}
    for row in table.values():
        page.check_shown(row)
