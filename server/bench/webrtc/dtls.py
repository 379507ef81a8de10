"""The keys of a call: a DTLS handshake in memory, and the SRTP that comes of it (RFC 5764)."""

from __future__ import annotations

import datetime
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from OpenSSL import SSL
from pylibsrtp import Policy, Session

_PROFILE = b"SRTP_AES128_CM_SHA1_80"
"""What Chromium and every server agree upon."""
_KEY, _SALT = 16, 14
_DATAGRAM = 1500


class Identity:
    """The certificate of all callers, and the ``fingerprint`` that their offers tell of it."""

    def __init__(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "caller")])
        now = datetime.datetime.now(datetime.UTC)
        day = datetime.timedelta(days=1)
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - day)
            .not_valid_after(now + day)
            .sign(key, hashes.SHA256())
        )
        self.fingerprint = certificate.fingerprint(hashes.SHA256()).hex(":").upper()
        self.context = SSL.Context(SSL.DTLS_METHOD)
        self.context.set_options(SSL.OP_NO_TICKET)
        self.context.set_verify(SSL.VERIFY_PEER, lambda *_: True)
        self.context.use_certificate(certificate)
        self.context.use_privatekey(key)
        self.context.set_cipher_list(b"ECDHE-ECDSA-AES128-GCM-SHA256")
        self.context.set_tlsext_use_srtp(_PROFILE)


@dataclass(frozen=True, slots=True)
class Keys:
    """What protects the packets that leave, and opens those that come."""

    out: Session
    come: Session


class Dtls:
    """One side of a handshake; whoever ``begins`` is the client."""

    def __init__(self, identity: Identity, *, begins: bool) -> None:
        self._connection = SSL.Connection(identity.context)
        self._begins = begins
        if begins:
            self._connection.set_connect_state()
        else:
            self._connection.set_accept_state()
        self.keys: Keys | None = None
        """Once the handshake is over."""

    def take(self, datagram: bytes = b"") -> bytes:
        """Takes what came, and goes on; returns what is to be sent, if anything.

        Raises:
            OpenSSL.SSL.Error: the handshake failed.
        """
        if datagram:
            self._connection.bio_write(datagram)
        if self.keys is None:
            try:
                self._connection.do_handshake()
            except SSL.WantReadError:
                pass
            else:
                self.keys = self._agreed()
        return self._flight()

    def again(self) -> bytes:
        """What is to be sent again, when nothing has come for long."""
        self._connection.DTLSv1_handle_timeout()
        return self._flight()

    def goodbye(self) -> bytes:
        """What tells the other side of the end."""
        self._connection.shutdown()
        return self._flight()

    def _flight(self) -> bytes:
        try:
            return self._connection.bio_read(_DATAGRAM)
        except SSL.WantReadError:
            return b""

    def _agreed(self) -> Keys:
        material = self._connection.export_keying_material(
            b"EXTRACTOR-dtls_srtp", 2 * (_KEY + _SALT)
        )
        salts = material[2 * _KEY :]
        client, server = (
            material[side * _KEY :][:_KEY] + salts[side * _SALT :][:_SALT] for side in (0, 1)
        )
        out, come = (client, server) if self._begins else (server, client)
        return Keys(
            out=Session(Policy(key=out, ssrc_type=Policy.SSRC_ANY_OUTBOUND)),
            come=Session(Policy(key=come, ssrc_type=Policy.SSRC_ANY_INBOUND)),
        )
