"""The certificate that the server makes for itself, and what is said of an operator's."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from server.tls import CertificateProblem, operators_context, self_signed, server_context


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


def test_a_pair_of_the_operators_is_taken(tmp_path: Path) -> None:
    assert isinstance(operators_context(*self_signed(tmp_path, [])), ssl.SSLContext)


def with_passphrase(key: Path) -> bytes:
    private = serialization.load_pem_private_key(key.read_bytes(), None)
    secret = serialization.BestAvailableEncryption(b"canary")
    form = serialization.PrivateFormat.PKCS8
    return private.private_bytes(serialization.Encoding.PEM, form, secret)


def test_of_a_pair_that_cannot_be_used_the_file_at_fault_and_what_was_expected_are_told(
    tmp_path: Path,
) -> None:
    certificate, key = self_signed(tmp_path / "own", [])
    _, other = self_signed(tmp_path / "other", [])
    missing, secret = tmp_path / "missing.pem", tmp_path / "secret.pem"
    secret.write_bytes(with_passphrase(key))
    for given, told in (
        ((missing, key), f"tls_cert: cannot read {missing}: No such file"),
        ((key, key), f"tls_cert: no certificate in {key}; expected "),
        ((certificate, missing), f"tls_key: cannot read {missing}: No such file"),
        ((certificate, certificate), f"tls_key: no private key in {certificate}; expected "),
        ((certificate, secret), f"tls_key: {secret} has a passphrase; expected "),
        ((certificate, other), f"tls_key: {other} is not the key of {certificate}"),
    ):
        with pytest.raises(CertificateProblem) as problem:
            operators_context(*given)
        assert str(problem.value).startswith(told)
