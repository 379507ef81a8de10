"""TLS: a certificate of our own, or the operator's.

Browsers give a page its microphone only over https or on localhost, so a service that is called
from other machines needs a certificate before it has a name. The self-signed one is made once and
kept: browsers remember that it was accepted.
"""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID

from server.state import write_whole

_VALID = datetime.timedelta(days=397)
"""As long as browsers accept."""
_RENEW = datetime.timedelta(days=30)


class CertificateProblem(Exception):
    """An operator's certificate or key cannot be used; the message names the setting and the file,
    and says what was expected.
    """


def operators_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """A server's context with the files of ``tls_cert`` and ``tls_key``.

    OpenSSL says of neither file what is wrong with it, and asks a terminal for a passphrase: both
    are looked at first.

    Raises:
        CertificateProblem: they cannot be used.
    """
    made, private = _certificate(certificate), _private_key(key)
    if made.public_key() != private.public_key():
        raise CertificateProblem(f"tls_key: {key} is not the key of {certificate}")
    try:
        return server_context(certificate, key)
    except OSError as problem:
        raise CertificateProblem(f"tls_cert, tls_key: {problem.strerror}") from None


def _certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read("tls_cert", path))
    except ValueError:
        expected = "expected the server's own, in PEM, then those that vouch for it"
        raise CertificateProblem(f"tls_cert: no certificate in {path}; {expected}") from None


def _private_key(path: Path) -> PrivateKeyTypes:
    data = _read("tls_key", path)
    try:
        return serialization.load_pem_private_key(data, None)
    except TypeError:
        why = f"{path} has a passphrase; expected a key without"
    except (ValueError, UnsupportedAlgorithm):
        why = f"no private key in {path}; expected the certificate's, in PEM"
    raise CertificateProblem(f"tls_key: {why}")


def _read(setting: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as problem:
        raise CertificateProblem(f"{setting}: cannot read {path}: {problem.strerror}") from None


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """A server's context with the chain in ``certificate``.

    Raises:
        OSError: a file cannot be read, or is no PEM of the kind (``ssl.SSLError``).
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


def self_signed(
    folder: Path, names: Iterable[str], now: datetime.datetime | None = None
) -> tuple[Path, Path]:
    """The paths of a certificate for ``names`` (host names and addresses) and of its key.

    One that is in ``folder`` already is used again, unless it lacks a name or ends within a month.
    """
    now = now or datetime.datetime.now(datetime.UTC)
    wanted = frozenset({"localhost", "127.0.0.1", "::1", *names})
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    if not (certificate.exists() and key.exists() and _serves(certificate, wanted, now)):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _make(certificate, key, wanted, now)
    return certificate, key


def _serves(certificate: Path, wanted: frozenset[str], now: datetime.datetime) -> bool:
    made = x509.load_pem_x509_certificate(certificate.read_bytes())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    known = {
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    }
    return wanted <= known and now + _RENEW < made.not_valid_after_utc


def _make(certificate: Path, key: Path, names: frozenset[str], now: datetime.datetime) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "Parley")])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _VALID - datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(map(_general, sorted(names))), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(private, hashes.SHA256())
    )
    secret = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_whole(key, secret, 0o600)
    write_whole(certificate, made.public_bytes(serialization.Encoding.PEM), 0o644)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
