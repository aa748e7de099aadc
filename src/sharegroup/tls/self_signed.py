"""Certificates for a try and for tests: an authority of one's own, and certificates it signs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

TRY_OUT = "sharegroup try-out CA"
_DAYS = 365


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def load(cls, certificate_pem: str, key_pem: str) -> Identity:
        """The identity whose :attr:`certificate_pem` and :attr:`key_pem` these are.

        Raises:
            ValueError: the texts are not a certificate and a key as made here.
        """
        try:
            key = serialization.load_pem_private_key(key_pem.encode(), None)
            certificate = x509.load_pem_x509_certificate(certificate_pem.encode())
        except ValueError:  # its text is about the library
            raise ValueError("what should be a certificate and its key is none") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("its key is none of an elliptic curve")
        return cls(certificate, key)

    @property
    def expired(self) -> bool:
        """Whether the certificate is not valid any more."""
        return datetime.now(UTC) >= self.certificate.not_valid_after_utc

    @property
    def for_a_try(self) -> bool:
        """Whether the certificate is, or is signed by, an :func:`authority` without a name."""
        return self.certificate.issuer == _name(TRY_OUT)

    @property
    def certificate_pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        """The key, not encrypted."""
        return self.key_pem_encrypted(None)

    def key_pem_encrypted(self, password: str | None) -> str:
        """The key in PKCS#8."""
        protection = (
            serialization.BestAvailableEncryption(password.encode())
            if password
            else serialization.NoEncryption()
        )
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection
        ).decode()

    def pkcs12(self, password: str, authorities: Iterable[x509.Certificate] = ()) -> bytes:
        """Certificate and key, and the certificates of authorities, as a PKCS#12 store that Java
        reads, too."""
        return pkcs12.serialize_key_and_certificates(
            b"sharegroup",
            self.key,
            self.certificate,
            list(authorities),
            serialization.BestAvailableEncryption(password.encode()),
        )


def authority(name: str = TRY_OUT) -> Identity:
    """A new authority that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    certificate = (
        _builder(subject, subject, key, timedelta(days=_DAYS), timedelta())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(_key_of_issuer(key), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Identity(certificate, key)


def signed(
    by: Identity,
    name: str,
    *,
    hosts: Iterable[str] = (),
    lifetime: timedelta = timedelta(days=_DAYS),
    age: timedelta = timedelta(),
) -> Identity:
    """A new certificate for a broker or a client.

    Args:
        by: the authority.
        name: the common name: a client's is its principal.
        hosts: DNS names and addresses that the certificate is valid for.
        lifetime: how long it is valid, from when it was made.
        age: how long ago it was made; if that is longer than its lifetime, it has expired.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(name), by.certificate.subject, key, lifetime, age)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_usage(signs=False), critical=True)
    builder = builder.add_extension(_key_of_issuer(by.key), critical=False)
    builder = builder.add_extension(
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
        critical=False,
    )
    names = [_host(host) for host in hosts]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Identity(builder.sign(by.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    lifetime: timedelta,
    age: timedelta,
) -> x509.CertificateBuilder:
    begins = datetime.now(UTC) - age - timedelta(minutes=5)  # clocks differ
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_of_issuer(key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    """Without it, a check as strict as that of Python 3.13 refuses the certificate (RFC 5280)."""
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)
