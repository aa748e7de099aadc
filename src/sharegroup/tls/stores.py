"""Key stores and trust stores, in Kafka's words: PEM files, PEM text, PKCS#12 files.

Kafka's names: ``ssl.keystore.type``, ``ssl.keystore.location``, ``ssl.keystore.password``,
``ssl.keystore.key`` and ``ssl.keystore.certificate.chain`` (PEM text), ``ssl.key.password``,
``ssl.truststore.*``. A PEM file is read by Kafka as one with key and certificates; separate files,
as librdkafka has them, are ``certificate_location`` and ``key_location``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sharegroup.model.errors import ConfigError

PEM: Final = "PEM"
PKCS12: Final = "PKCS12"
JKS: Final = "JKS"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStore:
    """Where a private key and its certificates are. All None: there is no key.

    Attributes:
        location: a file with both: PEM, or PKCS#12.
        certificate_location, key_location: PEM files, one each.
        certificate_text, key_text: PEM text.
        password: of a PKCS#12 file.
        key_password: of an encrypted PEM key.
    """

    type: str = PEM
    location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = None
    certificate_text: str | None = field(default=None, repr=False)
    key_text: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        """Whether there is a key."""
        return bool(self.location or self.certificate_location or self.certificate_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustStore:
    """Where the certificates of trusted authorities are. All None: the system's authorities.

    Attributes:
        location: a file (PEM, or PKCS#12), or a folder of hashed PEM files.
        text: PEM text.
        password: of a PKCS#12 file.
    """

    type: str = PEM
    location: str | None = None
    text: str | None = None
    password: str | None = field(default=None, repr=False)

    def __bool__(self) -> bool:
        """Whether certificates are named."""
        return bool(self.location or self.text)


def check_type(setting: str, store_type: str) -> str:
    """The type of a store, as Kafka writes it.

    Raises:
        ConfigError: a store of this type cannot be read here.
    """
    kind = store_type.upper()
    if kind in (PEM, PKCS12):
        return kind
    if kind == JKS:
        raise ConfigError(
            f"{setting}=JKS cannot be read here. Convert it once: keytool -importkeystore "
            "-srckeystore STORE.jks -destkeystore STORE.p12 -deststoretype PKCS12, and set "
            f"{setting}=PKCS12 (that alone will do if keytool of Java 9 or newer made the store)"
        )
    raise ConfigError(f"{setting}={store_type} is none of PEM, PKCS12")
