"""How the clients of one listener prove who they are, and the keys and users that were read from
files for it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sharegroup.broker.authentication.cipher_names import openssl_ciphers
from sharegroup.broker.authentication.credentials import Credentials, Scram
from sharegroup.broker.authentication.distinguished_name import subject_of
from sharegroup.broker.authentication.exchange import ClaimingClient, LoginExchange, begin
from sharegroup.broker.authentication.password_checks import PasswordChecks
from sharegroup.broker.authentication.principal_mapping import PrincipalMapping
from sharegroup.broker.authentication.signing_keys import SigningKeys
from sharegroup.broker.authentication.tokens import Expected, Tokens
from sharegroup.broker.configs.broker import BrokerConfig
from sharegroup.broker.configs.listener_settings import ListenerSettings
from sharegroup.broker.configs.listeners import SASL_PROTOCOLS, SSL, TLS_PROTOCOLS
from sharegroup.broker.configs.security import JAAS, REAUTH, USERS_FILE
from sharegroup.broker.event_counters import Counters
from sharegroup.model.environment import Disk, Environment
from sharegroup.model.errors import ConfigError
from sharegroup.sasl.jaas import jaas_users
from sharegroup.sasl.mechanisms import OAUTHBEARER, PLAIN
from sharegroup.sasl.users_file import FileUsers, parse_users
from sharegroup.tls.contexts import NONE, server_context
from sharegroup.tls.key_warnings import key_warnings
from sharegroup.tls.stores import JKS, PEM, PKCS12, KeyStore, TrustStore, check_type

_CLIENT_AUTH: Final = "ssl.client.auth"
_OAUTH: Final = "sasl.oauthbearer."
_JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_SCHEMES: Final = ("file:///", "https://", "http://")


@dataclass(frozen=True, slots=True)
class Material:
    """The keys and users that were read for a listener."""

    context: ssl.SSLContext | None
    mapping: PrincipalMapping
    users: FileUsers = field(repr=False)
    passwords: Mapping[str, str] = field(repr=False)
    warnings: tuple[str, ...] = ()
    """Sentences for the operator."""


class ListenerSecurity:
    """The security of one listener.

    Args:
        config: returns the broker's current settings.
        stored: returns the SCRAM credentials that clients have created.
        secret: false credentials are derived from it.
    """

    def __init__(
        self,
        name: str,
        *,
        config: Callable[[], BrokerConfig],
        stored: Callable[[], Scram],
        environment: Environment,
        secret: bytes,
        checks: PasswordChecks,
        counters: Counters,
    ) -> None:
        """Raises:
        ConfigError: a file cannot be read, or settings contradict each other.
        """
        self.name = name
        self.protocol = config().protocol(name)
        self._config = config
        self._stored = stored
        self._disk = environment.disk
        self.material = self.load(config())
        self._credentials = Credentials(
            stored=stored,
            file=lambda: self.material.users,
            jaas=lambda: self.material.passwords,
            secret=secret,
            entropy=environment.entropy,
            checks=checks,
        )
        self._keys = SigningKeys(
            lambda: self._settings.text(_JWKS_URL),
            lambda: self._settings.integer("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
            environment.clock,
            environment.disk,
            counters,
        )
        self._tokens = Tokens(
            self._keys, lambda: _expected(self._settings), environment.clock.wall_ms
        )

    @property
    def uses_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return self.protocol in SASL_PROTOCOLS

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol in TLS_PROTOCOLS

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The SASL mechanisms that are offered."""
        return self._settings.names("sasl.enabled.mechanisms")

    @property
    def knows_nobody(self) -> bool:
        """Whether no user exists who could log in."""
        if not self.uses_sasl or {PLAIN, OAUTHBEARER} & {*self.mechanisms}:
            return False
        stored = any(user for user, _ in self._stored())
        return not (stored or self.material.users.credentials)

    def begin(self, mechanism: str, client: ClaimingClient) -> LoginExchange:
        """A new exchange of an offered mechanism."""
        return begin(mechanism, self._credentials, self._tokens, client)

    def knows(self, user: str, mechanism: str) -> bool:
        """Whether a user that has logged in by ``mechanism`` could still log in."""
        return self._credentials.knows(user, mechanism)

    def session_ms(self, mechanism: str) -> int:
        """How many milliseconds an authentication holds; 0: for ever."""
        return self._settings.integer(REAUTH, mechanism)

    def principal_of(self, certificate: bytes | None) -> str | None:
        """The principal of a TLS client, by its certificate in DER; None if no rule matches, or if
        the certificate cannot be read."""
        if certificate is None or self.protocol != SSL:
            return None
        try:
            return self.material.mapping.principal(subject_of(certificate))
        except ValueError:  # OpenSSL takes names that cannot be written
            return None

    def load(self, config: BrokerConfig) -> Material:
        """Read settings and files anew. Nothing is in force before :meth:`install`.

        Raises:
            ConfigError: a file cannot be read, or settings contradict each other.
        """
        settings = config.listener(self.name)
        mapping = PrincipalMapping(settings.text("ssl.principal.mapping.rules"))
        context = tls_context(settings, self.protocol) if self.uses_tls else None
        users, passwords = self._users(settings) if self.uses_sasl else (FileUsers(), {})
        warnings = tuple(key_warnings(key_store(settings))) if context else ()
        return Material(context, mapping, users, passwords, warnings)

    def install(self, material: Material) -> None:
        """Put into force, for new connections, the material that :meth:`load` has read."""
        self.material = material
        self._keys.forget()

    def _users(self, settings: ListenerSettings) -> tuple[FileUsers, dict[str, str]]:
        offered = settings.names("sasl.enabled.mechanisms")
        if not offered:
            raise ConfigError(f"listener {self.name}: sasl.enabled.mechanisms is empty")
        users = FileUsers()
        passwords: dict[str, str] = {}
        path = settings.text(USERS_FILE)
        if path:
            users = parse_users(_text(self._disk, USERS_FILE, path), path)
        if PLAIN in offered:
            jaas = settings.text(JAAS, PLAIN)
            if jaas:
                passwords = dict(jaas_users(settings.name_of(JAAS, PLAIN), jaas))
            if not (path or jaas):
                raise ConfigError(
                    f"listener {self.name} offers PLAIN and knows no users: set {USERS_FILE} to a "
                    "file that `sharegroup users create NAME --file FILE` writes"
                )
        url = settings.text(_JWKS_URL)
        if OAUTHBEARER in offered and not url.startswith(_SCHEMES):
            raise ConfigError(
                f"listener {self.name} offers OAUTHBEARER: set {_JWKS_URL} to the https, http or "
                "file URL of the keys that sign tokens"
            )
        return users, passwords

    @property
    def _settings(self) -> ListenerSettings:
        return self._config().listener(self.name)


def tls_context(settings: ListenerSettings, protocol: str) -> ssl.SSLContext:
    """The TLS context of a listener. A listener that speaks SASL_SSL asks for certificates only if
    a setting of its own says so (KIP-684).

    Raises:
        ConfigError: a file cannot be read, or there is no key.
    """

    def text(name: str) -> str | None:
        return settings.text(name) or None

    asks = protocol == SSL or settings.is_set(_CLIENT_AUTH, here=True)
    trust = TrustStore(
        type=_store_type(settings, "ssl.truststore"),
        location=text("ssl.truststore.location"),
        text=text("ssl.truststore.certificates"),
        password=text("ssl.truststore.password"),
    )
    return server_context(
        key_store(settings),
        trust,
        client_auth=settings.text(_CLIENT_AUTH) if asks else NONE,
        protocols=settings.names("ssl.enabled.protocols"),
        ciphers=openssl_ciphers(settings.names("ssl.cipher.suites")),
    )


def key_store(settings: ListenerSettings) -> KeyStore:
    """The key store of a listener.

    Raises:
        ConfigError: stores of this type cannot be read.
    """

    def text(name: str) -> str | None:
        return settings.text(name) or None

    return KeyStore(
        type=_store_type(settings, "ssl.keystore"),
        location=text("ssl.keystore.location"),
        certificate_text=text("ssl.keystore.certificate.chain"),
        key_text=text("ssl.keystore.key"),
        password=text("ssl.keystore.password"),
        key_password=text("ssl.key.password"),
    )


def _store_type(settings: ListenerSettings, store: str) -> str:
    """The store's type: as it is set, else by the file's name. So a JKS store, Kafka's default, is
    refused with a message that says why."""
    name, location = f"{store}.type", settings.text(f"{store}.location").lower()
    if settings.is_set(name):
        return check_type(name, settings.text(name))
    if location.endswith((".p12", ".pfx")):
        return PKCS12
    return check_type(name, JKS if location.endswith(".jks") else PEM)


def _expected(settings: ListenerSettings) -> Expected:
    return Expected(
        audiences=settings.names(f"{_OAUTH}expected.audience"),
        issuer=settings.text(f"{_OAUTH}expected.issuer"),
        scopes=settings.names(f"{_OAUTH}expected.scope"),
        scope_claim=settings.text(f"{_OAUTH}scope.claim.name"),
        user_claim=settings.text(f"{_OAUTH}sub.claim.name"),
        skew_ms=settings.integer(f"{_OAUTH}clock.skew.seconds") * 1000,
    )


def _text(disk: Disk, setting: str, path: str) -> str:
    try:
        return disk.read_file(path).decode()
    except OSError as error:
        raise ConfigError(f"{setting} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{setting} {path} is no UTF-8") from None
