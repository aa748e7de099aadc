"""What a client is told about TLS and SASL."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final
from urllib.parse import urlsplit

from sharegroup.model.errors import ConfigError
from sharegroup.sasl.mechanisms import (
    MECHANISMS,
    OAUTHBEARER,
    PASSWORDS,
)
from sharegroup.tls.stores import KeyStore, TrustStore

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PLAINTEXT: Final = "SASL_PLAINTEXT"
SASL_SSL: Final = "SASL_SSL"
PROTOCOLS: Final = (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)

_TLS_FIELDS: Final = (
    "ca_location",
    "ca_text",
    "certificate_location",
    "certificate_text",
    "key_location",
    "key_text",
    "key_password",
    "keystore",
    "truststore",
    "tls_protocols",
    "ciphers",
)
_SASL_FIELDS: Final = (
    "mechanism",
    "username",
    "password",
    "token",
    "token_provider",
    "token_location",
    "token_endpoint_url",
    "token_endpoint_ca_location",
    "client_id",
    "client_secret",
    "scope",
    "urlencode_client",
    "extensions",
)
_SENT: Final = ("username", "password", "token", "client_id", "client_secret", "scope")
_OAUTH_FIELDS: Final = _SASL_FIELDS[_SASL_FIELDS.index("token") :]

Token = str | tuple[str, float]
"""A token, or a token and when it expires (seconds since 1970)."""
TokenProvider = Callable[[], Token | Awaitable[Token]]
"""Gives a token. It may block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """TLS and SASL of a client; it can be pickled, and its ``repr`` has no secrets.

    Files are read anew when they have changed and a connection is made, so that new certificates
    and tokens take effect without a restart.

    Attributes:
        protocol: ``PLAINTEXT``, ``SSL``, ``SASL_PLAINTEXT`` or ``SASL_SSL``.
        mechanism: ``PLAIN``, ``SCRAM-SHA-256``, ``SCRAM-SHA-512`` or ``OAUTHBEARER``.
        username, password: for PLAIN and SCRAM.
        token: a token that stays the same, for OAUTHBEARER.
        token_provider: a function, or its dotted name (``package.module:function``), that returns a
            token, or a token and when it expires (seconds since 1970). It is called before a
            connection is made, when the last token is about to expire, in a thread of its own: it
            may block. An ``async`` function runs there on an event loop of its own. A client waits
            six seconds for it, or its ``request_timeout_ms`` if that is less.
        token_location: a file with a token, for OAUTHBEARER.
        token_endpoint_url: the URL to ask for a token, with ``client_id``, ``client_secret`` and
            ``scope`` (OAuth 2.0, client credentials).
        urlencode_client: the id and the secret are URL-encoded before they are sent, as RFC 6749
            says. Kafka's clients send them as they are, and so does this one by default.
        token_endpoint_ca_location: the authorities of that URL, if it is https; None: the system's.
        extensions: name → value, sent with the token.
        ca_location, ca_text: certificates of the authorities that the broker's certificate may be
            signed by: a PEM file (or a folder of hashed ones), or PEM text. None: the system's.
        certificate_location, certificate_text, key_location, key_text: this client's certificate
            (with its chain) and private key. A file of the certificate may have the key, too.
        key_password: of an encrypted key.
        keystore, truststore: this client's key and certificate, and the authorities, as stores:
            PKCS#12 files.
        check_host: the broker's certificate must be for the name that the client connects to.
        verify: the broker's certificate must be signed by a known authority. If False, anybody
            between client and broker can pretend to be the broker.
        tls_protocols: ``TLSv1.2``, ``TLSv1.3``; empty: both.
        ciphers: as OpenSSL writes them, for TLS 1.2.

    Raises:
        ConfigError: the settings contradict each other, or one is missing; one sentence.
    """

    protocol: str = PLAINTEXT
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_provider: TokenProvider | str | None = None
    token_location: str | None = None
    token_endpoint_url: str | None = field(default=None, repr=False)
    token_endpoint_ca_location: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    scope: str | None = None
    urlencode_client: bool = False
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    ca_location: str | None = None
    ca_text: str | None = field(default=None, repr=False)
    certificate_location: str | None = None
    certificate_text: str | None = field(default=None, repr=False)
    key_location: str | None = None
    key_text: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    keystore: KeyStore | None = None
    truststore: TrustStore | None = None
    check_host: bool = True
    verify: bool = True
    tls_protocols: tuple[str, ...] = ()
    ciphers: str | None = None

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise ConfigError(
                f"security protocol {self.protocol!r} is none of {', '.join(PROTOCOLS)}"
            )
        self._check_fit()
        self._check_text()
        if self.encrypted:
            self._check_stores()
        if self.authenticated:
            self._check_login()

    @property
    def encrypted(self) -> bool:
        """Connections go through TLS."""
        return self.protocol in (SSL, SASL_SSL)

    @property
    def authenticated(self) -> bool:
        """Connections begin with a login by SASL."""
        return self.protocol in (SASL_PLAINTEXT, SASL_SSL)

    @property
    def trust_store(self) -> TrustStore:
        """The certificates of authorities; an empty store means the system's certificates."""
        return self.truststore or TrustStore(location=self.ca_location, text=self.ca_text)

    @property
    def key_store(self) -> KeyStore:
        """This client's key and certificate; an empty store if it has no certificate."""
        return self.keystore or KeyStore(
            certificate_location=self.certificate_location,
            key_location=self.key_location,
            certificate_text=self.certificate_text,
            key_text=self.key_text,
            key_password=self.key_password,
        )

    def _check_fit(self) -> None:
        """Check that the settings fit the protocol."""
        for names, fits, protocols in (
            (_TLS_FIELDS, self.encrypted, "SSL or SASL_SSL"),
            (_SASL_FIELDS, self.authenticated, "SASL_SSL or SASL_PLAINTEXT"),
        ):
            extra = [name for name in names if getattr(self, name)]
            if extra and not fits:
                raise ConfigError(
                    f"security protocol {self.protocol} does not go with {extra[0]}: set the "
                    f"protocol to {protocols}, or leave {extra[0]} out"
                )

    def _check_text(self) -> None:
        """Check that names and secrets can be sent. From variables and files in another encoding,
        they cannot."""
        for name in _SENT:
            text = getattr(self, name) or ""
            if "\0" in text or any("\ud800" <= one <= "\udfff" for one in text):
                raise ConfigError(f"{name} has a character that cannot be sent: write it in UTF-8")

    def _check_stores(self) -> None:
        for some, more in (
            (("ca_location",), ("ca_text",)),
            (("ca_location", "ca_text"), ("truststore",)),
            (("certificate_location", "key_location"), ("certificate_text", "key_text")),
            (
                (
                    "certificate_location",
                    "key_location",
                    "certificate_text",
                    "key_text",
                    "key_password",
                ),
                ("keystore",),
            ),
        ):
            one, other = self._first_of(some), self._first_of(more)
            if one and other:
                raise ConfigError(f"{one} and {other} are both set: leave one of them out")
        if self._first_of(("key_location", "key_text")) and not self.key_store:
            raise ConfigError("there is a private key without its certificate: set both")
        if (
            self.certificate_text
            and not self.key_text
            and "PRIVATE KEY" not in self.certificate_text
        ):
            raise ConfigError("there is a certificate without its private key: set both")

    def _check_login(self) -> None:
        if self.mechanism is None:
            raise ConfigError(
                f"security protocol {self.protocol} needs a SASL mechanism: one of "
                f"{', '.join(MECHANISMS)}"
            )
        check_mechanism(self.mechanism)
        if self.mechanism in PASSWORDS:
            if self.username is None or self.password is None:
                raise ConfigError(f"SASL mechanism {self.mechanism} needs username and password")
            extra = self._first_of(_OAUTH_FIELDS)
        else:
            self._check_token()
            extra = self._first_of(("username", "password"))
        if extra:
            raise ConfigError(f"SASL mechanism {self.mechanism} does not use {extra}: leave it out")

    def _check_token(self) -> None:
        sources = [
            name
            for name in ("token", "token_provider", "token_location", "token_endpoint_url")
            if getattr(self, name) is not None
        ]
        if not sources:
            raise ConfigError(
                f"SASL mechanism {OAUTHBEARER} needs token_provider, token, token_location or "
                "token_endpoint_url"
            )
        if len(sources) > 1:
            raise ConfigError(f"{' and '.join(sources)} are both set: leave one of them out")
        missing = [one for one in ("client_id", "client_secret") if getattr(self, one) is None]
        if self.token_endpoint_url is not None:
            if missing:
                raise ConfigError(f"token_endpoint_url needs {' and '.join(missing)}")
            if not _is_url(self.token_endpoint_url):
                raise ConfigError("token_endpoint_url is no https URL")
        elif extra := self._first_of(("client_id", "client_secret", "scope", "urlencode_client")):
            raise ConfigError(f"{extra} goes with token_endpoint_url only: leave it out")

    def _first_of(self, names: tuple[str, ...]) -> str | None:
        return next((name for name in names if getattr(self, name)), None)


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return (
            url.scheme in ("https", "http")
            and bool(url.hostname)
            and url.port != 0
            and (text.isprintable() and " " not in text)
        )
    except ValueError:  # the port is no number
        return False


def check_mechanism(mechanism: str) -> None:
    """Raises ConfigError: this client does not speak the mechanism."""
    if mechanism == "GSSAPI":
        raise ConfigError(
            "SASL mechanism GSSAPI (Kerberos) is not available here: use a listener with "
            "SCRAM-SHA-512, OAUTHBEARER or a client certificate"
        )
    if mechanism not in MECHANISMS:
        raise ConfigError(f"SASL mechanism {mechanism!r} is none of {', '.join(MECHANISMS)}")


FIELD_NAMES: Final = tuple(one.name for one in fields(Security))

NO_SECURITY: Final = Security()
"""PLAINTEXT."""
