"""The certificate that the server makes for itself."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from cryptography import x509

from server.tls import self_signed, server_context


def names(certificate: Path) -> set[str]:
    made = x509.load_pem_x509_certificate(certificate.read_bytes())
    listed = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {
        *listed.get_values_for_type(x509.DNSName),
        *map(str, listed.get_values_for_type(x509.IPAddress)),
    }


def test_it_is_for_every_name_and_its_key_is_the_owners(tmp_path: Path) -> None:
    certificate, key = self_signed(tmp_path / "tls", ["voice.example", "192.0.2.7"])
    assert names(certificate) >= {"localhost", "127.0.0.1", "::1", "voice.example", "192.0.2.7"}
    assert key.stat().st_mode & 0o777 == 0o600
    assert isinstance(server_context(certificate, key), ssl.SSLContext)


def test_it_is_kept_until_it_lacks_a_name_or_is_about_to_end(tmp_path: Path) -> None:
    first = self_signed(tmp_path, ["a.example"])[0].read_bytes()
    assert self_signed(tmp_path, ["a.example"])[0].read_bytes() == first
    second = self_signed(tmp_path, ["b.example"])[0].read_bytes()
    assert second != first
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=380)
    assert self_signed(tmp_path, ["b.example"], later)[0].read_bytes() != second
